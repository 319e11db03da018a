/* A storm of wrong frees under EVENKEEL_ABORT=0: among ordinary work, blocks that are free already, the inside of
 * live blocks, blocks never given out, and addresses of elsewhere are freed. Each must be reported (the statistics count them) and change
 * nothing: a block that is live stays whole and is never given out a second time.
 *
 *   ops=200000 seed=1
 */
#include "common.h"
#include <dlfcn.h>

enum { SLOTS = 1500, RING = 512 };
static struct {
    unsigned char *p;
    size_t size;
} table[SLOTS];
static unsigned char *freed[RING];

static int is_live(const unsigned char *p)
{
    for (int i = 0; i < SLOTS; i++)
        if (table[i].p == p)
            return 1;
    return 0;
}
static int in_live(const unsigned char *p)
{
    for (int i = 0; i < SLOTS; i++)
        if (table[i].p && p >= table[i].p && p < table[i].p + malloc_usable_size(table[i].p))
            return 1;
    return 0;
}

int main(int count, char **arguments)
{
    long ops = option(count, arguments, "ops", 200000);
    uint64_t random = (uint64_t)option(count, arguments, "seed", 1) * 2654435761u + 1;
    static unsigned char elsewhere[4096];
    long wrong = 0, reused = 0;
    for (long op = 0; op < ops; op++) {
        int i = (int)(next_random(&random) % SLOTS);
        if (table[i].p) {
            CHECK(holds(table[i].p, table[i].size, (uint64_t)(uintptr_t)table[i].p), "op %ld: block of %zu at %p", op,
                  table[i].size, (void *)table[i].p);
            freed[next_random(&random) % RING] = table[i].p;
            free(table[i].p);
            table[i].p = NULL;
        } else {
            /* Few sizes, so that what was freed is soon in use again; now and then a medium or a large block. */
            static const size_t sizes[] = {16, 48, 112, 500, 1000, 5000, 9000, 40000};
            size_t size = op % 500 == 0 ? 300 * KiB + next_random(&random) % MiB : sizes[next_random(&random) % 8];
            unsigned char *p = malloc(size);
            CHECK(p != NULL);
            CHECK(!is_live(p), "op %ld: %p is given out twice", op, (void *)p);
            table[i].p = p;
            table[i].size = size;
            fill(p, size, (uint64_t)(uintptr_t)p);
        }
        if (op % 37 != 0)
            continue;
        unsigned char *bad = NULL;
        switch (next_random(&random) % 5) {
        case 0:
        case 1:
            /* Freed before, and not given out again since; perhaps inside of something else by now. */
            bad = freed[next_random(&random) % RING];
            if (!bad || is_live(bad)) {
                reused += bad != NULL;
                continue;
            }
            break;
        case 2:
            if (!table[i].p)
                continue;
            bad = table[i].p + 1 + next_random(&random) % (malloc_usable_size(table[i].p) - 1);
            CHECK(in_live(bad));
            break;
        case 3:
            /* The next block, which may never have been given out at all. Sizes that only this program uses. */
            if (!table[i].p || table[i].size < 5000 || table[i].size > 40000)
                continue;
            bad = table[i].p + malloc_usable_size(table[i].p);
            if (is_live(bad))
                continue;
            break;
        default:
            bad = elsewhere + 16 * (next_random(&random) % 256);
        }
        free(bad);
        wrong++;
    }
    for (int i = 0; i < SLOTS; i++) {
        if (table[i].p)
            CHECK(holds(table[i].p, table[i].size, (uint64_t)(uintptr_t)table[i].p));
        free(table[i].p);
    }
    size_t (*stats)(char *, size_t) = (size_t(*)(char *, size_t))dlsym(RTLD_DEFAULT, "evenkeel_stats_json");
    static char json[1 << 20];
    CHECK(stats && stats(json, sizeof json) < sizeof json);
    char *counted = strstr(json, "\"wrong_frees\":");
    say(1, "reused=%ld", reused);
    say(1, "counted=%ld", counted ? atol(counted + 14) : -1);
    say(1, "wrong=%ld", wrong);
    say(1, "done");
    return 0;
}
