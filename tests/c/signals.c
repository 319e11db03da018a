/* malloc and free in a signal handler that a 1 kHz timer runs on top of threads which allocate: sizes up to
 * 16 KiB, the part of the heap that never waits. The handler takes blocks the threads left, checks and frees them,
 * and leaves some of its own; every content is checked on both sides.
 *
 *   seconds=3 threads=4 hz=1000
 *   large=0   1: the threads also take and free large blocks, so that the handler runs while they are in the parts of
 *             the heap that do have locks; the handler itself still asks for 16 KiB at most, which never waits
 */
#include "common.h"
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>

struct note {
    uint64_t size, seed;
};
enum { BOARD = 128 };
static _Atomic(struct note *) board[BOARD];
static atomic_long handled, checked;
static atomic_int stop;
static long large;

static struct note *write_note(uint64_t *random, size_t largest)
{
    size_t size = sizeof(struct note) + random_size(random, largest - sizeof(struct note));
    struct note *n = next_random(random) % 8 ? malloc(size) : calloc(1, size);
    CHECK(n != NULL);
    n->size = size;
    n->seed = next_random(random);
    fill(n + 1, size - sizeof *n, n->seed);
    return n;
}
static void read_note(struct note *n)
{
    if (!n)
        return;
    CHECK(n->size <= 16 * KiB && holds(n + 1, n->size - sizeof *n, n->seed), "note of %lu", (unsigned long)n->size);
    atomic_fetch_add(&checked, 1);
    free(n);
}

static void on_timer(int number)
{
    (void)number;
    int errno_before = errno;
    static atomic_ulong calls;
    uint64_t random = atomic_fetch_add(&calls, 1) * 0x9E3779B97F4A7C15ull + 99;
    for (int i = 0; i < 20; i++) {
        struct note *n = write_note(&random, 16 * KiB);
        read_note(atomic_exchange(&board[next_random(&random) % BOARD], n));
    }
    atomic_fetch_add(&handled, 1);
    errno = errno_before;
}

static void *worker(void *argument)
{
    uint64_t random = (uintptr_t)argument * 5 + 1;
    enum { SLOTS = 200 };
    struct note *table[SLOTS] = {0};
    while (!stop) {
        for (int i = 0; i < 1000; i++) {
            int s = (int)(next_random(&random) % SLOTS);
            if (large && i % 20 == 0) {
                static __thread char *blocks[16];
                int b = (int)(next_random(&random) % 16);
                size_t size = 100 * KiB + next_random(&random) % (4 * MiB);
                free(blocks[b]);
                blocks[b] = malloc(size);
                CHECK(blocks[b] != NULL);
                blocks[b][0] = blocks[b][size - 1] = 1;
            }
            if (!table[s])
                table[s] = write_note(&random, 16 * KiB);
            else if (next_random(&random) % 4 == 0) {
                read_note(atomic_exchange(&board[next_random(&random) % BOARD], table[s]));
                table[s] = NULL;
            } else {
                read_note(table[s]);
                table[s] = NULL;
            }
        }
    }
    for (int s = 0; s < SLOTS; s++)
        read_note(table[s]);
    return NULL;
}

int main(int count, char **arguments)
{
    long seconds = option(count, arguments, "seconds", 3), threads = option(count, arguments, "threads", 4);
    large = option(count, arguments, "large", 0);
    long hz = option(count, arguments, "hz", 1000);
    pthread_t list[64];
    struct sigaction action = {.sa_handler = on_timer, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    for (long t = 0; t < threads; t++)
        CHECK(pthread_create(&list[t], NULL, worker, (void *)(t + 1)) == 0);
    struct itimerval timer = {{0, 1000000 / hz}, {0, 1000000 / hz}};
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
    double end = seconds_now() + (double)seconds;
    /* The timer's signals mostly land on the first thread, so the workers get their own as well. */
    for (long i = 0; seconds_now() < end; i++) {
        pthread_kill(list[i % threads], SIGUSR1);
        for (int j = 0; j < 50; j++)
            free(malloc((size_t)(i + j) % 5000));
        struct timespec t = {0, 300000};
        nanosleep(&t, NULL);
    }
    struct itimerval off = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &off, NULL);
    stop = 1;
    for (long t = 0; t < threads; t++)
        pthread_join(list[t], NULL);
    for (int i = 0; i < BOARD; i++)
        read_note(atomic_exchange(&board[i], NULL));
    CHECK(handled > seconds * 100, "only %ld signals", (long)handled);
    say(1, "done: %ld signals, %ld notes", (long)handled, (long)checked);
    return 0;
}
