/* rptest: many blocks alive, sizes of 16..16,000 bytes that grow rarer in proportion, and a part of
 * them freed by another thread (after the description of rpmalloc's benchmark). In a loop a thread
 * frees every other block that it holds, fills up again, and every second time leaves a parcel of
 * blocks on its neighbour's doorstep. One operation is one block, taken and freed. */
#include "work.h"

enum { HELD = 3000, CROSS = 400 };

typedef struct {
    void *blocks[CROSS];
} parcel;

typedef struct {
    _Alignas(LINE) _Atomic(parcel *) parcel;
} doorstep;

static uint32_t threads;
static uint64_t loops;
static doorstep *doors;
static void *(*held)[HELD];
static _Atomic uint64_t taken;

/* The smaller of two throws: its likelihood falls in a straight line over the range. */
static size_t draw_size(rng *r)
{
    uint64_t bits = rng_next(r);
    uint32_t a = below((uint32_t)bits, 15985), b = below((uint32_t)(bits >> 32), 15985);
    return 16 + (a < b ? a : b);
}

static parcel *pack(rng *r)
{
    parcel *p = must(malloc(sizeof *p));
    for (int i = 0; i < CROSS; i++)
        p->blocks[i] = take(draw_size(r));
    return p;
}

static void unpack(parcel *p)
{
    if (!p)
        return;
    for (int i = 0; i < CROSS; i++)
        give(p->blocks[i]);
    free(p);
}

static void fill(uint32_t self)
{
    rng r = rng_seed(600 + self);
    for (int i = 0; i < HELD; i++)
        held[self][i] = take(draw_size(&r));
}

static void work(uint32_t self)
{
    rng r = rng_seed(700 + self);
    void **mine = held[self];
    uint64_t count = 0;
    for (uint64_t loop = 0; loop < loops; loop++) {
        for (uint32_t i = loop & 1; i < HELD; i += 2)
            give(mine[i]);
        for (uint32_t i = loop & 1; i < HELD; i += 2)
            mine[i] = take(draw_size(&r));
        count += HELD / 2;
        if (loop & 1)
            continue;
        /* One that the neighbour has not fetched comes back, and is unpacked here: nobody waits. */
        unpack(atomic_exchange(&doors[(self + 1) % threads].parcel, pack(&r)));
        unpack(atomic_exchange(&doors[self].parcel, NULL));
        count += CROSS + 1;
    }
    atomic_fetch_add(&taken, count);
}

static void tidy(uint32_t self)
{
    unpack(atomic_exchange(&doors[self].parcel, NULL));
    for (int i = 0; i < HELD; i++)
        give(held[self][i]);
}

int main(int argc, char **argv)
{
    begin();
    threads = (uint32_t)argument(argc, argv, 1, 8);
    uint64_t ops = argument(argc, argv, 2, 10000000);
    loops = ops / threads / (HELD / 2 + CROSS / 2);
    doors = own_pages(threads * sizeof *doors);
    held = own_pages(threads * sizeof *held);
    crew c = {.count = threads, .prepare = fill, .work = work, .tidy = tidy};
    measure m = crew_run(&c);
    report("rptest", threads, taken, &m, "");
    crew_end(&c);
}
