/* mleak: threads come and go (after mimalloc-bench's mleak, which looks whether a heap loses what
 * ended threads held). Wave after wave, four threads allocate some thousand blocks each, free the most
 * of them, leave the others to the next wave, and end. One operation is one block taken. Making and
 * ending threads is part of the work; the peak of memory says what was lost on the way. */
#include "work.h"

enum { THREADS = 4, BLOCKS = 2000, LEFT = 200 };

static void *legacy[THREADS][LEFT];
static uint32_t wave;
static pthread_t ids[THREADS];

static void *worker(void *arg)
{
    uint32_t self = (uint32_t)(uintptr_t)arg;
    rng r = rng_seed(1100 + self + wave * THREADS);
    void *mine[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        mine[i] = take(octave_size(rng_next(&r), 16, 7));
    for (int i = 0; i < LEFT; i++)
        if (legacy[self][i])
            give(legacy[self][i]);
    for (int i = 0; i < BLOCKS; i++) {
        if (i % (BLOCKS / LEFT) == 0)
            legacy[self][i / (BLOCKS / LEFT)] = mine[i];
        else
            give(mine[i]);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    begin();
    uint64_t waves = argument(argc, argv, 1, 6000000) / (THREADS * BLOCKS);
    measure m = measure_begin();
    for (wave = 0; wave < waves; wave++) {
        for (uint32_t t = 0; t < THREADS; t++)
            ids[t] = start_thread(worker, (void *)(uintptr_t)t);
        for (uint32_t t = 0; t < THREADS; t++)
            pthread_join(ids[t], NULL);
    }
    measure_end(&m);
    report("mleak", THREADS, waves * THREADS * BLOCKS, &m, "");
}
