/* fill: eight threads fill 64 MiB each with blocks of 16 B..4 KiB, free all of them (or all but a
 * random 5 %), and sleep. How much memory does the process still hold, with nobody calling the heap?
 * LazyFree pages count as given back: the kernel takes them when it wants them. One operation is one
 * block, taken and freed. */
#include "work.h"

enum { THREADS = 8, MOST = 48000 };
static const size_t WHOLE = 64u << 20;

static uint32_t survivors; /* in a hundred */
static void *(*blocks)[MOST];
static _Atomic uint64_t count;
static gate empty_now;
static tally filled;

static void work(uint32_t self)
{
    rng r = rng_seed(7 + self);
    size_t bytes = 0;
    uint32_t n = 0;
    while (bytes < WHOLE && n < MOST) {
        size_t size = 16 + below((uint32_t)rng_next(&r), 4081);
        void *block = must(malloc(size));
        memset(block, (int)(n | 1), size);
        mark(block, size);
        blocks[self][n++] = block;
        bytes += size;
    }
    atomic_fetch_add(&count, n);
    tally_arrive(&filled);
    gate_wait(&empty_now);
    for (uint32_t i = 0; i < n; i++) {
        if (below((uint32_t)rng_next(&r), 100) < survivors)
            continue;
        give(blocks[self][i]);
        blocks[self][i] = NULL;
    }
}

static void tidy(uint32_t self)
{
    for (uint32_t i = 0; i < MOST; i++)
        if (blocks[self][i])
            give(blocks[self][i]);
}

static long held(void)
{
    return rss_kib() - lazy_free_kib();
}

static void nap(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&t, &t) && errno == EINTR)
        ;
}

/* As crew_run, but with looks at the memory on the way. */
int main(int argc, char **argv)
{
    begin();
    survivors = (uint32_t)argument(argc, argv, 1, 0);
    blocks = own_pages(THREADS * sizeof *blocks);
    atomic_init(&filled.left, THREADS);
    crew c = {.count = THREADS, .work = work, .tidy = tidy};
    crew_assemble(&c);
    measure m = measure_begin();
    gate_open(&c.start);
    tally_wait(&filled);
    long full = held();
    gate_open(&empty_now);
    tally_wait(&c.done);
    measure_end(&m);
    nap(100);
    long soon = held();
    nap(1900);
    m.rss = held();
    report("fill", THREADS, count, &m, "full_kib=%ld soon_kib=%ld late_kib=%ld", full, soon, m.rss);
    crew_end(&c);
}
