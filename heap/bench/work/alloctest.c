/* alloctest: a large table of places, few of them visited often and most of them seldom, as objects
 * of a program are (after the public description of OLogN's alloc-test). A visit frees the block that
 * lies there, or leaves a new one; sizes to 1 KiB, small ones far likelier; a new block is written
 * through. Two threads that never meet. One operation is one visit. */
#include "work.h"

enum { THREADS = 2, PLACES = 1 << 16 };
static uint64_t visits;
static void *(*places)[PLACES];

/* A place near the beginning is likelier, as in Pareto's law: the sixth power of an even throw. */
static uint32_t draw_place(uint32_t bits)
{
    uint64_t u = bits;
    uint64_t cube = (u * u >> 32) * u >> 32;
    return (uint32_t)((cube * cube >> 32) * PLACES >> 32);
}

static size_t draw_size(uint32_t bits)
{
    size_t base = (size_t)16 << __builtin_ctz(bits | 1u << 5);
    return base + ((bits >> 8) & (base - 1));
}

static void work(uint32_t self)
{
    rng r = rng_seed(800 + self);
    void **mine = places[self];
    for (uint64_t i = 0; i < visits; i++) {
        uint64_t bits = rng_next(&r);
        void **place = &mine[draw_place((uint32_t)bits)];
        if (*place) {
            give(*place);
            *place = NULL;
        } else {
            size_t size = draw_size((uint32_t)(bits >> 32));
            void *block = must(malloc(size));
            memset(block, (int)bits, size);
            mark(block, size);
            *place = block;
        }
    }
}

static void tidy(uint32_t self)
{
    for (int i = 0; i < PLACES; i++)
        if (places[self][i])
            give(places[self][i]);
}

int main(int argc, char **argv)
{
    begin();
    visits = argument(argc, argv, 1, 40000000) / THREADS;
    places = own_pages(THREADS * sizeof *places);
    crew c = {.count = THREADS, .work = work, .tidy = tidy};
    measure m = crew_run(&c);
    report("alloctest", THREADS, visits * THREADS, &m, "");
    crew_end(&c);
}
