/* What every workload shares: a seeded generator, marks in blocks, clocks, gates for threads, and the
 * one line a workload prints at its end. Nothing in here calls the heap, so that the measured part
 * holds only the calls that the workload means to make. */
#ifndef WORK_H
#define WORK_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LINE 64 /* bytes of a cache line */

/* ---- ends: the runner tells these apart by the exit status ---- */
enum { EXIT_CORRUPT = 3, EXIT_NO_MEMORY = 4, EXIT_SETUP = 5 };

__attribute__((noreturn, format(printf, 2, 3))) static void fail(int status, const char *why, ...)
{
    va_list args;
    va_start(args, why);
    vdprintf(STDERR_FILENO, why, args);
    va_end(args);
    if (write(STDERR_FILENO, "\n", 1) < 0)
        _exit(EXIT_SETUP);
    _exit(status);
}

/* ---- random numbers: the same seed gives the same work under every heap ---- */
typedef struct {
    uint64_t state;
} rng;

static inline rng rng_seed(uint64_t seed)
{
    return (rng){(seed + 1) * 0x9e3779b97f4a7c15u};
}

/* SplitMix64's step: no multiplication chain between two draws, so a draw costs about a nanosecond. */
static inline uint64_t rng_next(rng *r)
{
    uint64_t z = (r->state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* A number below `n`, from 32 of the 64 bits. */
static inline uint32_t below(uint32_t bits, uint32_t n)
{
    return (uint32_t)(((uint64_t)bits * n) >> 32);
}

/* A size in [low, low << octaves), every octave as likely as the next. */
static inline size_t octave_size(uint64_t bits, size_t low, uint32_t octaves)
{
    size_t base = low << below((uint32_t)bits, octaves);
    return base + below((uint32_t)(bits >> 32), (uint32_t)base);
}

/* ---- blocks: their first bytes are written when they come and looked at when they go ---- */
static inline void *must(void *block)
{
    if (__builtin_expect(block == NULL, 0))
        fail(EXIT_NO_MEMORY, "the heap gave NULL");
    return block;
}

/* A block of at least 16 bytes carries its own address: one handed out twice, or overlapped, shows. */
static inline void mark(void *block, size_t size)
{
    uint64_t *words = block;
    words[0] = (uint64_t)(uintptr_t)block ^ 0x5bd1e995a5a5a5a5u;
    words[1] = size;
}

static inline size_t check(const void *block)
{
    const uint64_t *words = block;
    if (__builtin_expect(words[0] != ((uint64_t)(uintptr_t)block ^ 0x5bd1e995a5a5a5a5u), 0))
        fail(EXIT_CORRUPT, "block %p does not hold what was written to it", block);
    return words[1];
}

static inline void *take(size_t size)
{
    void *block = must(malloc(size));
    mark(block, size);
    return block;
}

static inline void give(void *block)
{
    check(block);
    free(block);
}

/* Keeps the compiler from seeing that a block is not used. */
static inline void keep(void *block)
{
    __asm__ volatile("" : : "r"(block) : "memory");
}

/* The workload's own arrays come from the kernel, not from the heap under test. */
static void *own_pages(size_t bytes)
{
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED)
        fail(EXIT_SETUP, "mmap of %zu bytes for the workload itself failed", bytes);
    return pages;
}

/* ---- clocks and memory ---- */
static inline uint64_t wall_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* User and system time of the process, threads that have ended included. */
static uint64_t cpu_ns(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return ((uint64_t)use.ru_utime.tv_sec + (uint64_t)use.ru_stime.tv_sec) * 1000000000u +
           ((uint64_t)use.ru_utime.tv_usec + (uint64_t)use.ru_stime.tv_usec) * 1000u;
}

/* The kB figure after `key` in a file of /proc, read without the heap; -1 when it is not there. */
static long proc_kib(const char *path, const char *key)
{
    char text[8192];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    size_t have = 0;
    for (ssize_t n; have < sizeof text - 1 && (n = read(fd, text + have, sizeof text - 1 - have)) > 0;)
        have += (size_t)n;
    close(fd);
    text[have] = 0;
    const char *at = strstr(text, key);
    if (!at)
        return -1;
    at += strlen(key);
    while (*at == ' ' || *at == ':' || *at == '\t')
        at++;
    long kib = 0;
    for (; *at >= '0' && *at <= '9'; at++)
        kib = kib * 10 + (*at - '0');
    return kib;
}

/* smaps_rollup walks the page tables and is exact; the counters in statm lag behind by CPU. */
static long rss_kib(void)
{
    return proc_kib("/proc/self/smaps_rollup", "\nRss");
}

static long lazy_free_kib(void)
{
    return proc_kib("/proc/self/smaps_rollup", "\nLazyFree");
}

static long peak_kib(void)
{
    return proc_kib("/proc/self/status", "VmHWM");
}

/* ---- threads: a gate opens once, a tally says when all have come to a point ---- */
static inline long futex(_Atomic uint32_t *word, int op, uint32_t value)
{
    return syscall(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

typedef struct {
    _Atomic uint32_t open;
} gate;

static inline void gate_wait(gate *g)
{
    while (!atomic_load_explicit(&g->open, memory_order_acquire))
        futex(&g->open, FUTEX_WAIT, 0);
}

static inline void gate_open(gate *g)
{
    atomic_store_explicit(&g->open, 1, memory_order_release);
    futex(&g->open, FUTEX_WAKE, INT_MAX);
}

typedef struct {
    _Atomic uint32_t left;
} tally;

static inline void tally_arrive(tally *t)
{
    if (atomic_fetch_sub_explicit(&t->left, 1, memory_order_acq_rel) == 1)
        futex(&t->left, FUTEX_WAKE, INT_MAX);
}

static inline void tally_wait(tally *t)
{
    for (uint32_t left; (left = atomic_load_explicit(&t->left, memory_order_acquire)) != 0;)
        futex(&t->left, FUTEX_WAIT, left);
}

static pthread_t start_thread(void *(*body)(void *), void *arg)
{
    pthread_t id;
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 128 * 1024);
    int error = pthread_create(&id, &attr, body, arg);
    pthread_attr_destroy(&attr);
    if (error)
        fail(EXIT_SETUP, "pthread_create: %s", strerror(error));
    return id;
}

/* ---- the measured part, and the line that tells of it ---- */
typedef struct {
    uint64_t cpu, wall;
    long rss, peak;
} measure;

static inline measure measure_begin(void)
{
    return (measure){.cpu = cpu_ns(), .wall = wall_ns()};
}

/* Time first: reading the memory of 4,096 threads is work of its own. */
static inline void measure_end(measure *m)
{
    m->wall = wall_ns() - m->wall;
    m->cpu = cpu_ns() - m->cpu;
    m->rss = rss_kib();
    m->peak = peak_kib();
}

/* Says what was measured. What a workload still does then, it does for the checks: freeing what is left, ending threads,
 * the heap's own work at exit. A heap that hangs there is ended by the alarm, and its figures still count. `more`
 * is a printf format for further "key=value" words, or "". */
__attribute__((format(printf, 5, 6))) static void report(const char *name, uint32_t threads, uint64_t ops,
                                                         const measure *m, const char *more, ...)
{
    char extra[512];
    va_list args;
    va_start(args, more);
    vsnprintf(extra, sizeof extra, more, args);
    va_end(args);
    dprintf(STDOUT_FILENO,
            "work=%s threads=%u ops=%llu cpu_ns_per_op=%.4f wall_s=%.4f rss_kib=%ld peak_kib=%ld%s%s\n", name, threads,
            (unsigned long long)ops, ops ? (double)m->cpu / (double)ops : 0.0, (double)m->wall / 1e9, m->rss, m->peak,
            *extra ? " " : "", extra);
    alarm(10);
}

/* A number from the command line, or its default. */
static uint64_t argument(int argc, char **argv, int at, uint64_t otherwise)
{
    return argc > at ? strtoull(argv[at], NULL, 10) : otherwise;
}

/* A workload must not outlive the runner, and is the first to go when memory runs out. */
static void begin(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t said = write(fd, "1000", 4);
        (void)said;
        close(fd);
    }
}

/* The usual shape: threads are made and set up, wait at a gate, work, and stay until all is measured. */
typedef struct crew {
    uint32_t count;
    void (*prepare)(uint32_t self); /* before the gate; may be NULL */
    void (*work)(uint32_t self);    /* measured */
    void (*tidy)(uint32_t self);    /* after the measurement; may be NULL */
    gate start, leave;
    tally ready, done;
    struct crew_member {
        struct crew *of;
        uint32_t self;
        pthread_t id;
    } *members;
} crew;

static void *crew_body(void *arg)
{
    crew *c = ((struct crew_member *)arg)->of;
    uint32_t self = ((struct crew_member *)arg)->self;
    if (c->prepare)
        c->prepare(self);
    tally_arrive(&c->ready);
    gate_wait(&c->start);
    c->work(self);
    tally_arrive(&c->done);
    gate_wait(&c->leave);
    if (c->tidy)
        c->tidy(self);
    return NULL;
}

static void crew_assemble(crew *c)
{
    c->members = own_pages(c->count * sizeof *c->members);
    atomic_init(&c->ready.left, c->count);
    atomic_init(&c->done.left, c->count);
    for (uint32_t i = 0; i < c->count; i++) {
        c->members[i].of = c;
        c->members[i].self = i;
        c->members[i].id = start_thread(crew_body, &c->members[i]);
    }
    tally_wait(&c->ready);
}

/* All threads are still there when this returns. */
static measure crew_run(crew *c)
{
    crew_assemble(c);
    measure m = measure_begin();
    gate_open(&c->start);
    tally_wait(&c->done);
    measure_end(&m);
    return m;
}

static void crew_end(crew *c)
{
    gate_open(&c->leave);
    for (uint32_t i = 0; i < c->count; i++)
        pthread_join(c->members[i].id, NULL);
}

#endif
