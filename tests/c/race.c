/* Two threads free the same block at the same time, again and again, under EVENKEEL_ABORT=0: one of them is right,
 * the other is reported, and the block is never given out twice.
 *
 *   rounds=100000 size=100
 */
#include "common.h"
#include <sched.h>
#include <stdatomic.h>

static atomic_long turn, arrived;
static char *volatile block;
static long rounds;

/* Both leave at the same moment, as nearly as spinning brings it about. */
static void free_together(long round)
{
    atomic_fetch_add(&arrived, 1);
    for (long spins = 0; atomic_load(&arrived) < 2 * round; spins++)
        if (spins > 2000)
            sched_yield(); /* there may be only one CPU */
    free(block);
}
static void *other(void *argument)
{
    for (long round = 1; round <= rounds; round++) {
        while (atomic_load(&turn) < round)
            sched_yield();
        free_together(round);
        atomic_fetch_add(&turn, 1000000000);
        while (atomic_load(&turn) >= 1000000000)
            sched_yield();
    }
    return argument;
}

int main(int count, char **arguments)
{
    rounds = option(count, arguments, "rounds", 100000);
    size_t size = (size_t)option(count, arguments, "size", 100);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, other, NULL) == 0);
    long twice = 0;
    for (long round = 1; round <= rounds; round++) {
        block = malloc(size);
        CHECK(block != NULL);
        atomic_fetch_add(&turn, 1);
        free_together(round);
        while (atomic_load(&turn) < 1000000000)
            sched_yield();
        char *p[4];
        for (int i = 0; i < 4; i++) {
            p[i] = malloc(size);
            for (int j = 0; j < i; j++)
                twice += p[i] == p[j];
        }
        for (int i = 0; i < 4; i++) {
            int again = 0;
            for (int j = 0; j < i; j++)
                again |= p[i] == p[j];
            if (!again)
                free(p[i]);
        }
        atomic_fetch_sub(&turn, 1000000000);
    }
    pthread_join(thread, NULL);
    say(1, "rounds=%ld", rounds);
    say(1, "twice=%ld", twice);
    return 0;
}
