/* tail: how long does a single call last when it lasts long? 64 threads do the steps of `cliff`, and
 * every malloc and every free is timed on its own with the processor's time stamp. Times go into a
 * histogram with 32 steps to each doubling; nothing is subtracted. One operation is one call. */
#include "mailbox.h"
#include <x86intrin.h>

enum { BLOCKS = 64, FINE = 5, CELLS = (64 - FINE + 1) << FINE };

static uint32_t threads;
static uint64_t steps;
static mailbox *boxes;
static void *(*kept)[BLOCKS];
static uint64_t (*times)[CELLS];

static inline uint64_t stamp_before(void)
{
    _mm_lfence();
    uint64_t t = __rdtsc();
    _mm_lfence();
    return t;
}

static inline uint64_t stamp_after(void)
{
    unsigned int cpu;
    uint64_t t = __rdtscp(&cpu);
    _mm_lfence();
    return t;
}

static inline uint32_t cell_of(uint64_t cycles)
{
    if (cycles < 1u << FINE)
        return (uint32_t)cycles;
    uint32_t octave = 63 - (uint32_t)__builtin_clzll(cycles);
    uint32_t within = (uint32_t)(cycles >> (octave - FINE)) & ((1u << FINE) - 1);
    return ((octave - FINE + 1) << FINE) + within;
}

/* The largest time that falls into a cell. */
static double most_of(uint32_t cell)
{
    if (cell < 1u << FINE)
        return cell;
    uint32_t shift = (cell >> FINE) - 1;
    return (double)((1u << FINE) + (cell & ((1u << FINE) - 1)) + 1) * (double)(1ull << shift) - 1;
}

static void timed_give(uint64_t *mine, void *block)
{
    check(block);
    uint64_t t = stamp_before();
    free(block);
    t = stamp_after() - t;
    mine[cell_of(t)]++;
}

static void *timed_take(uint64_t *mine, size_t size)
{
    uint64_t t = stamp_before();
    void *block = malloc(size);
    t = stamp_after() - t;
    mine[cell_of(t)]++;
    mark(must(block), size);
    return block;
}

static void fill(uint32_t self)
{
    rng r = rng_seed(1000 + self);
    for (int i = 0; i < BLOCKS; i++)
        kept[self][i] = take(server_size(&r));
    memset(times[self], 0, sizeof times[self]);
}

static void work(uint32_t self)
{
    rng r = rng_seed(1000000 + self);
    void **mine = kept[self];
    uint64_t *seen = times[self];
    for (uint64_t i = 0; i < steps; i++) {
        uint64_t bits = rng_next(&r);
        uint32_t at = bits % BLOCKS;
        if (bits >> 6 & 7) {
            timed_give(seen, mine[at]);
        } else {
            uint32_t other = (self + 1 + below((uint32_t)(bits >> 32), threads - 1)) % threads;
            void *there = mailbox_put(&boxes[other], (uint32_t)(bits >> 9), mine[at]);
            if (there)
                timed_give(seen, there);
        }
        mine[at] = timed_take(seen, server_size(&r));
        for (uint32_t p = 0; p < PLACES; p++) {
            void *come = mailbox_take(&boxes[self], p);
            if (come)
                timed_give(seen, come);
        }
    }
}

static void tidy(uint32_t self)
{
    for (uint32_t p = 0; p < PLACES; p++)
        free(mailbox_take(&boxes[self], p));
    for (int i = 0; i < BLOCKS; i++)
        give(kept[self][i]);
}

/* The time that at most one call in `one_in` exceeds. */
static double slowest(const uint64_t *all, uint64_t calls, uint64_t one_in)
{
    uint64_t above = 0;
    for (uint32_t c = CELLS; c-- > 0;) {
        above += all[c];
        if (above > calls / one_in)
            return most_of(c);
    }
    return 0;
}

int main(int argc, char **argv)
{
    begin();
    threads = (uint32_t)argument(argc, argv, 1, 64);
    steps = argument(argc, argv, 2, 8000000) / threads;
    boxes = own_pages(threads * sizeof *boxes);
    kept = own_pages(threads * sizeof *kept);
    times = own_pages((threads + 1) * sizeof *times);
    crew c = {.count = threads, .prepare = fill, .work = work, .tidy = tidy};
    uint64_t stamp = __rdtsc(), clock = wall_ns();
    measure m = crew_run(&c);
    double ns = (double)(wall_ns() - clock) / (double)(__rdtsc() - stamp);

    uint64_t *all = times[threads], calls = 0;
    for (uint32_t t = 0; t < threads; t++)
        for (uint32_t i = 0; i < CELLS; i++) {
            all[i] += times[t][i];
            calls += times[t][i];
        }
    report("tail", threads, calls, &m, "p50_ns=%.0f p999_ns=%.0f p9999_ns=%.0f max_ns=%.0f",
           slowest(all, calls, 2) * ns, slowest(all, calls, 1000) * ns, slowest(all, calls, 10000) * ns,
           slowest(all, calls, UINT64_MAX) * ns);
    crew_end(&c);
}
