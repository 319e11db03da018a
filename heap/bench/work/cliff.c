/* cliff: the same total work spread over more and more threads. Every thread keeps 64 blocks. A step
 * replaces a random block of the thread's own; every eighth block that leaves goes into a random other
 * thread's mailbox and is freed from there. One operation is one step. Threads are made, and their
 * blocks allocated, before the clock starts; memory is read while all of the threads are still there. */
#include "mailbox.h"

enum { BLOCKS = 64 };

static uint32_t threads;
static uint64_t steps;
static mailbox *boxes;
static void *(*kept)[BLOCKS];
static _Atomic uint64_t displaced;

static void fill(uint32_t self)
{
    rng r = rng_seed(1000 + self);
    for (int i = 0; i < BLOCKS; i++)
        kept[self][i] = take(server_size(&r));
}

static void empty(mailbox *box)
{
    for (uint32_t i = 0; i < PLACES; i++) {
        void *block = mailbox_take(box, i);
        if (block)
            give(block);
    }
}

static void work(uint32_t self)
{
    rng r = rng_seed(1000000 + self);
    void **mine = kept[self];
    uint64_t found = 0;
    for (uint64_t i = 0; i < steps; i++) {
        uint64_t bits = rng_next(&r);
        uint32_t at = bits % BLOCKS;
        void *old = mine[at];
        if (bits >> 6 & 7) {
            give(old);
        } else {
            check(old);
            uint32_t other = (self + 1 + below((uint32_t)(bits >> 32), threads - 1)) % threads;
            void *there = mailbox_put(&boxes[other], (uint32_t)(bits >> 9), old);
            if (there) {
                found++;
                give(there);
            }
        }
        mine[at] = take(server_size(&r));
        empty(&boxes[self]);
    }
    atomic_fetch_add_explicit(&displaced, found, memory_order_relaxed);
}

static void tidy(uint32_t self)
{
    empty(&boxes[self]);
    for (int i = 0; i < BLOCKS; i++)
        give(kept[self][i]);
}

int main(int argc, char **argv)
{
    begin();
    threads = (uint32_t)argument(argc, argv, 1, 64);
    if (threads < 2)
        fail(EXIT_SETUP, "cliff needs two threads or more");
    steps = argument(argc, argv, 2, 33554432) / threads;
    boxes = own_pages(threads * sizeof *boxes);
    kept = own_pages(threads * sizeof *kept);
    crew c = {.count = threads, .prepare = fill, .work = work, .tidy = tidy};
    measure m = crew_run(&c);
    report("cliff", threads, steps * threads, &m, "displaced=%llu", (unsigned long long)displaced);
    crew_end(&c);
}
