/* cache-scratch and cache-thrash: does the heap put small blocks of two threads into one cache line
 * (after the descriptions in Berger et al., "Hoard", 2000)? Each thread takes a block of 8 bytes,
 * writes to it many times, and frees it. In `thrash` all blocks are the thread's own. In `scratch` the
 * main thread first allocates one block after another and gives one to each thread, which frees it
 * and may then be given a part of that shared line again. One operation is one block. */
#include "work.h"

enum { THREADS = 2, SIZE = 8, WRITES = 40 };
static uint64_t blocks;
static int scratch;
static char *given[THREADS];

static void prepare(uint32_t self)
{
    if (scratch)
        free(given[self]);
}

static void work(uint32_t self)
{
    (void)self;
    for (uint64_t i = 0; i < blocks; i++) {
        volatile char *block = must(malloc(SIZE));
        for (int b = 0; b < SIZE; b++)
            block[b] = (char)b;
        for (int n = 0; n < WRITES; n++)
            for (int b = 0; b < SIZE; b++)
                block[b]++;
        for (int b = 0; b < SIZE; b++)
            if (block[b] != (char)(b + WRITES))
                fail(EXIT_CORRUPT, "block %p was written to by somebody else", (void *)block);
        free((void *)block);
    }
}

int main(int argc, char **argv)
{
    begin();
    scratch = argc > 1 && strcmp(argv[1], "scratch") == 0;
    blocks = argument(argc, argv, 2, 4000000) / THREADS;
    for (int t = 0; scratch && t < THREADS; t++)
        *(volatile char *)(given[t] = must(malloc(SIZE))) = 1;
    crew c = {.count = THREADS, .prepare = prepare, .work = work};
    measure m = crew_run(&c);
    report(scratch ? "cache-scratch" : "cache-thrash", THREADS, blocks * THREADS, &m, "");
    crew_end(&c);
}
