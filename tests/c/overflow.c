/* Writes past the end of blocks, and into blocks that were freed: only user data may suffer. Afterwards everything
 * is freed and the heap is used hard, with every content checked; nothing may be lost or given twice. */
#include "common.h"

enum { COUNT = 4000 };
static struct {
    unsigned char *p;
    size_t size;
} table[COUNT];

static void work_with_checks(uint64_t seed)
{
    for (int step = 0; step < 200000; step++) {
        int i = (int)(next_random(&seed) % COUNT);
        if (table[i].p) {
            CHECK(holds(table[i].p, table[i].size, (uint64_t)(uintptr_t)table[i].p), "step %d", step);
            free(table[i].p);
            table[i].p = NULL;
        } else {
            table[i].size = random_size(&seed, 40 * KiB);
            table[i].p = malloc(table[i].size);
            CHECK(table[i].p != NULL);
            fill(table[i].p, table[i].size, (uint64_t)(uintptr_t)table[i].p);
        }
    }
    for (int i = 0; i < COUNT; i++) {
        CHECK(!table[i].p || holds(table[i].p, table[i].size, (uint64_t)(uintptr_t)table[i].p));
        free(table[i].p);
        table[i].p = NULL;
    }
}

static int by_address(const void *a, const void *b)
{
    uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
    return x < y ? -1 : x > y;
}

/* Overruns only where a block of this program follows directly, so that no other part of the process (stdio,
 * the loader) is written to: their data lies on the same heap. */
static void overrun(size_t n, size_t past, int neighbour_freed)
{
    static uintptr_t place[COUNT];
    static unsigned char *block[COUNT];
    for (int i = 0; i < COUNT; i++) {
        block[i] = malloc(n);
        CHECK(block[i] != NULL);
        memset(block[i], 1, n);
        place[i] = (uintptr_t)block[i];
    }
    size_t usable = malloc_usable_size(block[0]);
    qsort(place, COUNT, sizeof *place, by_address);
    int overruns = 0;
    for (int i = 0; i + 1 < COUNT; i++) {
        if (place[i + 1] != place[i] + usable)
            continue;
        if (neighbour_freed && i % 2 == 0) {
            free((void *)place[i + 1]);
            memset((void *)(place[i] + n), 0xFF, usable - n + past);
            place[i + 1] = 0;
            i++;
        } else if (!neighbour_freed)
            memset((void *)(place[i] + n), 0xFF, usable - n + past);
        overruns++;
    }
    CHECK(overruns > 0, "only %d of the blocks of %zu have a neighbour", overruns, n);
    for (int i = 0; i < COUNT; i++)
        free((void *)place[i]);
}

/* Everything that the program still has a pointer to after free is written over. */
static void use_after_free(size_t n)
{
    static unsigned char *block[COUNT];
    for (int i = 0; i < COUNT; i++) {
        block[i] = malloc(n);
        CHECK(block[i] != NULL);
    }
    for (int i = 0; i < COUNT; i++) {
        size_t usable = malloc_usable_size(block[i]);
        free(block[i]);
        memset(block[i], 0xFF, usable);
    }
}

int main(void)
{
    static const size_t sizes[] = {16, 48, 100, 500, 1000, 4000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t past = 1; past <= sizes[i]; past *= 4) {
            overrun(sizes[i], past, 0);
            overrun(sizes[i], past, 1);
        }
    work_with_checks(1);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        use_after_free(sizes[i]);
        work_with_checks(i + 2);
    }
    say(1, "done");
    return 0;
}
