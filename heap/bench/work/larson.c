/* larson: a server whose workers are replaced now and then (after Larson and Krishnan, "Memory
 * allocation for long-running server applications", 1998). Every worker owns 1,000 blocks of 8..1,000
 * bytes and replaces random ones; after a while it starts its successor, hands all its blocks over and
 * ends, so that blocks are freed by threads that never allocated them. One operation is one
 * replacement. Making and ending threads is part of the work. */
#include "work.h"

enum { BLOCKS = 1000, LIFE = 250000 };

typedef struct {
    void *blocks[BLOCKS];
    rng random;
    uint64_t left;
} lineage;

static tally finished;

static void *worker(void *arg)
{
    lineage *line = arg;
    uint64_t now = line->left < LIFE ? line->left : LIFE;
    line->left -= now;
    rng r = line->random;
    while (now--) {
        uint64_t bits = rng_next(&r);
        uint32_t at = below((uint32_t)bits, BLOCKS);
        give(line->blocks[at]);
        line->blocks[at] = take(16 + below((uint32_t)(bits >> 32), 985));
    }
    line->random = r;
    if (line->left)
        pthread_detach(start_thread(worker, line));
    else
        tally_arrive(&finished);
    return NULL;
}

int main(int argc, char **argv)
{
    begin();
    uint32_t threads = (uint32_t)argument(argc, argv, 1, 2);
    uint64_t ops = argument(argc, argv, 2, 16000000) / threads * threads;
    lineage *lines = own_pages(threads * sizeof *lines);
    for (uint32_t t = 0; t < threads; t++) {
        lines[t].random = rng_seed(100 + t);
        lines[t].left = ops / threads;
        for (int i = 0; i < BLOCKS; i++)
            lines[t].blocks[i] = take(16 + below((uint32_t)rng_next(&lines[t].random), 985));
    }
    atomic_init(&finished.left, threads);

    measure m = measure_begin();
    for (uint32_t t = 0; t < threads; t++)
        pthread_detach(start_thread(worker, &lines[t]));
    tally_wait(&finished);
    measure_end(&m);
    report("larson", threads, ops, &m, "");
    for (uint32_t t = 0; t < threads; t++)
        for (int i = 0; i < BLOCKS; i++)
            give(lines[t].blocks[i]);
}
