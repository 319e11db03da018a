/* mstress: phases of a server (after the description of mimalloc-bench's mstress). In each phase eight
 * threads with unequal loads allocate blocks whose sizes are powers of two, keep some, free some, and
 * trade others through a table that all share. Then all threads end, new ones begin, and what lies in
 * the table lives on. One operation is one block taken. Making and ending threads is part of the work. */
#include "work.h"

enum { THREADS = 8, PHASES = 40, SHARED = 1024, KEPT = 2048 };

static _Atomic(void *) shared[SHARED];
static uint64_t load; /* operations of a thread with the least load */
static _Atomic uint64_t taken;
static uint32_t phase;
static pthread_t ids[THREADS];

/* 16 bytes half of the time, each doubling half as often, to 32 KiB. */
static size_t size_of(uint64_t bits)
{
    return (size_t)16 << __builtin_ctzll(bits | 1u << 11);
}

static void *worker(void *arg)
{
    uint32_t self = (uint32_t)(uintptr_t)arg;
    rng r = rng_seed(500 + self + 64 * phase);
    void *kept[KEPT];
    uint32_t held = 0;
    uint64_t ops = load * (1 + self % 3);
    for (uint64_t i = 0; i < ops; i++) {
        uint64_t bits = rng_next(&r);
        void *block = take(size_of(bits));
        switch (bits >> 60 & 3) {
        case 0: /* trade: what comes back was put there by anyone, perhaps in an earlier phase */
            block = atomic_exchange(&shared[bits >> 32 & (SHARED - 1)], block);
            if (block)
                give(block);
            break;
        case 1: /* gone at once */
            give(block);
            break;
        default: /* kept; when there is no room, in the place of a random one */
            if (held < KEPT) {
                kept[held++] = block;
            } else {
                uint32_t at = bits >> 32 & (KEPT - 1);
                give(kept[at]);
                kept[at] = block;
            }
        }
    }
    while (held)
        give(kept[--held]);
    atomic_fetch_add(&taken, ops);
    return NULL;
}

int main(int argc, char **argv)
{
    begin();
    load = argument(argc, argv, 1, 12000000) / (PHASES * 15);
    measure m = measure_begin();
    for (phase = 0; phase < PHASES; phase++) {
        for (uint32_t t = 0; t < THREADS; t++)
            ids[t] = start_thread(worker, (void *)(uintptr_t)t);
        for (uint32_t t = 0; t < THREADS; t++)
            pthread_join(ids[t], NULL);
    }
    measure_end(&m);
    report("mstress", THREADS, taken, &m, "");
    for (int i = 0; i < SHARED; i++)
        if (shared[i])
            give(shared[i]);
}
