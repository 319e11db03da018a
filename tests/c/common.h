/* What the check programs share: a CHECK that says where and stops, a small random generator, content
 * patterns for blocks, and the memory of this process as the kernel counts it. Nothing in here allocates,
 * so it may be used in signal handlers, after fork, and while a program only watches its own memory. */
#ifndef CHECKS_COMMON_H
#define CHECKS_COMMON_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define UNUSED __attribute__((unused))
#define KiB 1024ul
#define MiB (1024ul * 1024ul)
#define GiB (1024ul * 1024ul * 1024ul)

/* Writes one line to a descriptor without stdio, so without any allocation. */
UNUSED __attribute__((format(printf, 2, 3))) static void say(int fd, const char *format, ...)
{
    char line[512];
    va_list list;
    va_start(list, format);
    int length = vsnprintf(line, sizeof line - 1, format, list);
    va_end(list);
    if (length < 0)
        return;
    if ((size_t)length > sizeof line - 2)
        length = sizeof line - 2;
    line[length++] = '\n';
    for (int done = 0; done < length;) {
        ssize_t n = write(fd, line + done, (size_t)(length - done));
        if (n <= 0)
            return;
        done += (int)n;
    }
}

/* _exit, not exit: after a broken promise the heap is not asked for anything more. */
#define CHECK(condition, ...)                                                                                  \
    do {                                                                                                       \
        if (!(condition)) {                                                                                    \
            int errno_then = errno;                                                                            \
            say(2, "FAILED %s:%d: %s (errno %d)", __FILE__, __LINE__, #condition, errno_then);                 \
            say(2, " " __VA_ARGS__);                                                                           \
            _exit(1);                                                                                          \
        }                                                                                                      \
    } while (0)

UNUSED static inline uint64_t next_random(uint64_t *state)
{
    uint64_t x = *state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return x * 0x2545F4914F6CDD1Dull;
}

/* Mostly small, sometimes medium, rarely up to `max`: the shape of a server's requests. */
UNUSED static inline size_t random_size(uint64_t *state, size_t max)
{
    uint64_t r = next_random(state);
    size_t top = (r & 63) == 0 ? max : (r & 7) == 0 ? 8 * KiB : 512;
    if (top > max)
        top = max;
    return (size_t)((r >> 8) % (top + 1));
}

/* Writes or checks a pattern that depends on the seed and the position. Big blocks are sampled (one word in
 * 64, and both ends), which still touches every page. */
UNUSED static inline unsigned char pattern_at(uint64_t seed, size_t i)
{
    return (unsigned char)((seed + i * 0x9E3779B97F4A7C15ull) >> 24);
}
UNUSED static inline size_t pattern_step(size_t size, size_t i)
{
    return size <= 2048 || i < 64 || i + 128 > size ? 1 : 61;
}
UNUSED static void fill(void *block, size_t size, uint64_t seed)
{
    unsigned char *p = (unsigned char *)block;
    for (size_t i = 0; i < size; i += pattern_step(size, i))
        p[i] = pattern_at(seed, i);
}
/* The first `prefix` bytes of a block that was filled as `size` bytes long: the positions must match. */
UNUSED static int holds_prefix(const void *block, size_t size, size_t prefix, uint64_t seed)
{
    const unsigned char *p = (const unsigned char *)block;
    for (size_t i = 0; i < size && i < prefix; i += pattern_step(size, i))
        if (p[i] != pattern_at(seed, i))
            return 0;
    return 1;
}
UNUSED static int holds(const void *block, size_t size, uint64_t seed)
{
    return holds_prefix(block, size, size, seed);
}
UNUSED static int all_bytes(const void *block, size_t size, unsigned char value)
{
    const unsigned char *p = (const unsigned char *)block;
    for (size_t i = 0; i < size; i++)
        if (p[i] != value)
            return 0;
    return 1;
}

/* One figure of a /proc file in KiB ("Rss:" of smaps_rollup is exact; statm lags behind on new kernels). */
UNUSED static long proc_kib(const char *file, const char *key)
{
    char text[8192];
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    size_t length = 0;
    for (;;) {
        ssize_t n = read(fd, text + length, sizeof text - 1 - length);
        if (n <= 0)
            break;
        length += (size_t)n;
    }
    close(fd);
    text[length] = 0;
    char *found = strstr(text, key);
    return found ? atol(found + strlen(key)) : -1;
}
UNUSED static long rss_kib(void) { return proc_kib("/proc/self/smaps_rollup", "\nRss:"); }
UNUSED static long vsz_kib(void) { return proc_kib("/proc/self/status", "\nVmSize:"); }

UNUSED static void sleep_ms(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&t, &t) != 0 && errno == EINTR) {
    }
}
UNUSED static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* "key=value" of the command line as a number, or what is given instead. */
UNUSED static long option(int count, char **arguments, const char *key, long otherwise)
{
    size_t length = strlen(key);
    for (int i = 1; i < count; i++)
        if (strncmp(arguments[i], key, length) == 0 && arguments[i][length] == '=')
            return atol(arguments[i] + length + 1);
    return otherwise;
}

/* Waits for a child without ever waiting for ever: says so and lets the harness, which has its own limit and
 * takes stacks of the whole process group when that is reached, find it standing still. */
UNUSED static void wait_for_child(pid_t child, const char *what, int index)
{
    double begin = seconds_now();
    for (;;) {
        int status = 0;
        pid_t got = waitpid(child, &status, WNOHANG);
        CHECK(got >= 0 || errno == EINTR);
        if (got == child) {
            CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s %d: child status 0x%x", what, index,
                  (unsigned)status);
            return;
        }
        if (seconds_now() - begin > 20) {
            say(2, "HUNG: %s %d: child %d did not end in 20 s", what, index, (int)child);
            for (;;)
                pause();
        }
        struct timespec t = {0, 200000};
        nanosleep(&t, NULL);
    }
}
#endif
