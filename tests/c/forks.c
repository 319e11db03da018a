/* fork from a process whose other threads allocate: the child must be able to allocate (it never waits for a lock
 * whose holder was not copied), find the parent's blocks as they were, and free them.
 *
 *   forks=300 threads=6
 *   inside=0  1: the child also starts threads, forks again and lets the heap return memory
 */
#include "common.h"
#include <signal.h>

static volatile int stop;
static void *worker(void *argument)
{
    uint64_t random = (uintptr_t)argument + 1;
    enum { SLOTS = 64 };
    struct {
        char *p;
        size_t size;
    } table[SLOTS] = {0};
    while (!stop) {
        int i = (int)(next_random(&random) % SLOTS);
        if (table[i].p) {
            CHECK(holds(table[i].p, table[i].size, (uint64_t)(uintptr_t)argument));
            if (random & 1)
                free(table[i].p), table[i].p = NULL;
            else {
                size_t size = random_size(&random, 300 * KiB) + 1;
                char *p = realloc(table[i].p, size);
                CHECK(p && holds_prefix(p, table[i].size, size, (uint64_t)(uintptr_t)argument));
                table[i].p = p;
                table[i].size = size;
                fill(p, size, (uint64_t)(uintptr_t)argument);
            }
        } else {
            table[i].size = random_size(&random, 300 * KiB);
            table[i].p = malloc(table[i].size);
            CHECK(table[i].p != NULL);
            fill(table[i].p, table[i].size, (uint64_t)(uintptr_t)argument);
        }
    }
    for (int i = 0; i < SLOTS; i++)
        free(table[i].p);
    return NULL;
}

enum { KEPT = 500 };
static struct {
    char *p;
    size_t size;
} kept[KEPT];

/* Handlers of a program that allocate around the fork, registered as early as a program can. */
static void *volatile at_fork;
static void before_fork(void) { at_fork = memset(malloc(5000), 1, 5000); }
static void after_fork(void)
{
    free(at_fork);
    free(malloc(200000));
    free(malloc(100));
}
__attribute__((constructor(101))) static void early(void) { pthread_atfork(before_fork, after_fork, after_fork); }

static void in_child(int index, int inside)
{
    uint64_t random = (uint64_t)index * 77 + 5;
    enum { MINE = 300 };
    char *mine[MINE];
    size_t sizes[MINE], total = 0;
    int n = 0;
    while (n < MINE && total < 3 * MiB) {
        sizes[n] = random_size(&random, n % 50 == 49 ? MiB : 100 * KiB);
        mine[n] = malloc(sizes[n]);
        CHECK(mine[n] != NULL);
        fill(mine[n], sizes[n], random);
        total += sizes[n];
        CHECK(holds(mine[n], sizes[n], random));
        n++;
    }
    /* The parent's blocks are here too, unharmed, and are this process's own now. */
    for (int i = index % 3; i < KEPT; i += 3) {
        CHECK(holds(kept[i].p, kept[i].size, (uint64_t)i));
        free(kept[i].p);
    }
    for (int i = 0; i < n; i++)
        free(mine[i]);
    if (!inside)
        return;
    pthread_t threads[2];
    stop = 0;
    for (int t = 0; t < 2; t++)
        CHECK(pthread_create(&threads[t], NULL, worker, (void *)(uintptr_t)(t + 100)) == 0);
    pid_t grandchild = fork();
    CHECK(grandchild >= 0);
    if (grandchild == 0) {
        for (int i = 0; i < 1000; i++)
            free(malloc(random_size(&random, 100 * KiB)));
        _exit(0);
    }
    wait_for_child(grandchild, "grandchild", index);
    sleep_ms(5);
    stop = 1;
    for (int t = 0; t < 2; t++)
        pthread_join(threads[t], NULL);
}

int main(int count, char **arguments)
{
    int forks = (int)option(count, arguments, "forks", 300), inside = (int)option(count, arguments, "inside", 0);
    long threads = option(count, arguments, "threads", 6);
    uint64_t random = 42;
    for (int i = 0; i < KEPT; i++) {
        kept[i].size = random_size(&random, 20 * KiB);
        kept[i].p = malloc(kept[i].size);
        fill(kept[i].p, kept[i].size, (uint64_t)i);
    }
    pthread_t list[64];
    for (long t = 0; t < threads; t++)
        CHECK(pthread_create(&list[t], NULL, worker, (void *)(t + 1)) == 0);
    for (int i = 0; i < forks; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            /* So that a child which hangs while the parent is gone ends on its own. The parent's patience in
             * wait_for_child is shorter, and leaves the child standing for the harness to take its stacks. */
            alarm(120);
            in_child(i, inside);
            _exit(0);
        }
        wait_for_child(child, "fork", i);
    }
    stop = 1;
    for (long t = 0; t < threads; t++)
        pthread_join(list[t], NULL);
    for (int i = 0; i < KEPT; i++) {
        CHECK(holds(kept[i].p, kept[i].size, (uint64_t)i), "the parent's block %d", i);
        free(kept[i].p);
    }
    say(1, "done");
    return 0;
}
