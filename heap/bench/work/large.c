/* large: sort buffers, tables in memory, packet buffers: blocks of 16 KiB..8 MiB, every doubling as
 * likely as the next. Each of two threads keeps 12 of them and replaces random ones; a new block is
 * touched once in each of its pages. One operation is one replacement. */
#include "work.h"

enum { THREADS = 2, BLOCKS = 12, PAGE = 4096 };
static uint64_t steps;

static void *take_large(rng *r)
{
    size_t size = octave_size(rng_next(r), 16 * 1024, 9);
    char *block = must(malloc(size));
    for (size_t at = 0; at < size; at += PAGE)
        ((volatile char *)block)[at] = (char)at;
    mark(block, size);
    return block;
}

static void work(uint32_t self)
{
    rng r = rng_seed(900 + self);
    void *mine[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        mine[i] = take_large(&r);
    for (uint64_t i = 0; i < steps; i++) {
        uint32_t at = below((uint32_t)rng_next(&r), BLOCKS);
        give(mine[at]);
        mine[at] = take_large(&r);
    }
    for (int i = 0; i < BLOCKS; i++)
        give(mine[i]);
}

int main(int argc, char **argv)
{
    begin();
    steps = argument(argc, argv, 1, 60000) / THREADS;
    crew c = {.count = THREADS, .work = work};
    measure m = crew_run(&c);
    report("large", THREADS, steps * THREADS, &m, "");
    crew_end(&c);
}
