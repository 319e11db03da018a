/* sh6: batches of small blocks, of which some are freed last-come first-gone, some in the order they
 * came, and some only after the next batch (after the public description of MicroQuill's sh6bench; its
 * source may not be passed on and was not looked at). Two threads that never meet. One operation is one
 * block, taken and freed. */
#include "work.h"

enum { THREADS = 2, BATCH = 3000, THIRD = BATCH / 3 };
static uint64_t rounds;

/* Sizes rise through a batch from 16 to about 500 bytes, each size used a few times in a row. */
static size_t size_at(int i, uint64_t bits)
{
    return 16 + (size_t)(i / 50) * 8 + (bits & 7);
}

static void work(uint32_t self)
{
    static _Thread_local void *now[BATCH], *before[THIRD];
    rng r = rng_seed(300 + self);
    for (uint64_t round = 0; round < rounds; round++) {
        uint64_t bits = rng_next(&r);
        for (int i = 0; i < BATCH; i++)
            now[i] = take(size_at(i, bits >> (i & 31)));
        for (int i = BATCH - 1; i > 0; i -= 3)
            give(now[i]);
        for (int i = 0; i < BATCH; i += 3)
            give(now[i]);
        for (int i = 0; i < THIRD; i++) {
            if (before[i])
                give(before[i]);
            before[i] = now[3 * i + 1];
        }
    }
    for (int i = 0; i < THIRD; i++)
        if (before[i])
            give(before[i]);
}

int main(int argc, char **argv)
{
    begin();
    rounds = argument(argc, argv, 1, 30000000) / (THREADS * BATCH);
    crew c = {.count = THREADS, .work = work};
    measure m = crew_run(&c);
    report("sh6", THREADS, rounds * THREADS * BATCH, &m, "");
    crew_end(&c);
}
