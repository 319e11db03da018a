/* What the program holds when it holds nothing any more. Each part fills memory, frees it, and then only sleeps:
 * no call into the heap, so that whatever comes down comes down by itself. Prints the Rss at each step in KiB, and
 * ends early once it is under `low` (KiB); the harness judges the last figure.
 *
 *   what=burst      threads=8 mib=16, all freed; the threads stay and sleep
 *   what=survivors  the same, but 5 % of the blocks, chosen at random, stay
 *   what=large      blocks of 20 KiB .. 8 MiB
 *   what=forked     the burst happens in a fork child, which has lost all threads but its own
 *   what=handover   threads=4096: each allocates, hands blocks to another, and exits
 *   what=churn      threads come and go one after the other, each allocating a little
 *   what=mlocked    mlockall first: memory that is locked cannot be given back, and must not be touched whole
 */
#include "common.h"
#include <stdatomic.h>
#include <sys/mman.h>

static long low, patience_ms = 10000, rss_at_peak;

static long settle(void)
{
    long rss = rss_kib();
    for (long waited = 0; waited < patience_ms && rss > low; waited += 100) {
        sleep_ms(100);
        rss = rss_kib();
    }
    return rss;
}

static pthread_barrier_t filled, freed, finished;
static long each_mib, keep_percent, large_blocks;

static void *burster(void *argument)
{
    uint64_t random = (uintptr_t)argument * 101 + 7;
    size_t budget = (size_t)each_mib * MiB, used = 0, count = 0;
    size_t room = budget / 1024 + 1000;
    char **table = mmap(NULL, room * sizeof *table, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(table != MAP_FAILED);
    while (used < budget && count < room) {
        size_t size = large_blocks ? 20 * KiB + next_random(&random) % (next_random(&random) % 8 ? 300 * KiB : 8 * MiB)
                                   : 16 + next_random(&random) % 4081;
        table[count] = malloc(size);
        CHECK(table[count] != NULL);
        memset(table[count], 1, size);
        used += size;
        count++;
    }
    pthread_barrier_wait(&filled);
    pthread_barrier_wait(&filled); /* the first thread reads the peak in between */
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if ((long)(next_random(&random) % 100) < keep_percent)
            table[kept++] = table[i];
        else
            free(table[i]);
    }
    munmap((char *)table + (kept * sizeof *table + 4095) / 4096 * 4096,
           room * sizeof *table / 4096 * 4096 - (kept * sizeof *table + 4095) / 4096 * 4096);
    pthread_barrier_wait(&freed);
    pthread_barrier_wait(&finished); /* asleep while the first thread watches */
    for (size_t i = 0; i < kept; i++) {
        CHECK(*table[i] == 1);
        free(table[i]);
    }
    return NULL;
}
static long burst(long threads)
{
    pthread_t list[64];
    CHECK(threads <= 64);
    pthread_barrier_init(&filled, NULL, (unsigned)threads + 1);
    pthread_barrier_init(&freed, NULL, (unsigned)threads + 1);
    pthread_barrier_init(&finished, NULL, (unsigned)threads + 1);
    for (long t = 0; t < threads; t++)
        CHECK(pthread_create(&list[t], NULL, burster, (void *)(t + 1)) == 0);
    pthread_barrier_wait(&filled);
    rss_at_peak = rss_kib();
    pthread_barrier_wait(&filled);
    pthread_barrier_wait(&freed);
    long rss = settle();
    pthread_barrier_wait(&finished);
    for (long t = 0; t < threads; t++)
        pthread_join(list[t], NULL);
    return rss;
}

/* ---- 4,096 threads ---- */
struct parcel {
    struct parcel *next;
    size_t size;
};
static _Atomic(struct parcel *) mailbox[4096];
static long threads_made;
static void post(long to, struct parcel *p)
{
    p->next = atomic_load(&mailbox[to]);
    while (!atomic_compare_exchange_weak(&mailbox[to], &p->next, p)) {
    }
}
static void empty_mailbox(long of)
{
    struct parcel *p = atomic_exchange(&mailbox[of], NULL);
    while (p) {
        struct parcel *next = p->next;
        CHECK(holds(p + 1, p->size - sizeof *p, p->size));
        free(p);
        p = next;
    }
}
static void *handover_thread(void *argument)
{
    long me = (long)(intptr_t)argument;
    uint64_t random = (uint64_t)me * 71 + 5;
    struct parcel *mine[64];
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 64; i++) {
            size_t size = sizeof(struct parcel) + (i == 63 && me % 8 == 0 ? 16 * KiB + next_random(&random) % (100 * KiB)
                                                                         : next_random(&random) % 1000);
            mine[i] = malloc(size);
            CHECK(mine[i] != NULL);
            mine[i]->size = size;
            fill(mine[i] + 1, size - sizeof **mine, size);
        }
        for (int i = 0; i < 64; i++) {
            CHECK(holds(mine[i] + 1, mine[i]->size - sizeof **mine, mine[i]->size));
            if (i % 8 == 0)
                post((long)(next_random(&random) % (uint64_t)threads_made), mine[i]);
            else
                free(mine[i]);
        }
        empty_mailbox(me);
    }
    return NULL;
}
static long handover(long threads)
{
    static pthread_t list[4096];
    CHECK(threads <= 4096);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 * 1024);
    threads_made = threads;
    long made = 0;
    for (; made < threads; made++) {
        int r = pthread_create(&list[made], &attributes, handover_thread, (void *)(intptr_t)made);
        /* A container may allow fewer; the parcels for those that are missing are freed below. */
        if (r == EAGAIN && made >= 64)
            break;
        CHECK(r == 0, "thread %ld: error %d", made, r);
    }
    rss_at_peak = rss_kib();
    for (long t = 0; t < made; t++)
        pthread_join(list[t], NULL);
    for (long t = 0; t < threads; t++)
        empty_mailbox(t);
    say(1, "threads=%ld", made);
    return settle();
}

static void *short_life(void *argument)
{
    char *p = malloc(100), *q = malloc(5000), *r = calloc(1, 40000);
    CHECK(p && q && r);
    memset(p, 1, 100);
    memset(q, 2, 5000);
    memset(r, 3, 40000);
    free(p);
    free(r);
    (void)argument;
    return q;
}
static long churn(long threads)
{
    for (long t = 0; t < threads; t++) {
        pthread_t list[4];
        for (int i = 0; i < 4; i++)
            CHECK(pthread_create(&list[i], NULL, short_life, NULL) == 0);
        for (int i = 0; i < 4; i++) {
            void *block;
            pthread_join(list[i], &block);
            CHECK(all_bytes(block, 5000, 2));
            free(block);
        }
        if (t == threads / 10) {
            rss_at_peak = rss_kib();
            say(1, "vsz_early=%ld", vsz_kib());
        }
    }
    say(1, "vsz_late=%ld", vsz_kib());
    return settle();
}

int main(int count, char **arguments)
{
    const char *what = count > 1 ? arguments[1] : "";
    long threads = option(count, arguments, "threads", 8);
    each_mib = option(count, arguments, "mib", 16);
    low = option(count, arguments, "low", 0);
    free(malloc(1));
    say(1, "start=%ld", rss_kib());
    long rss = -1;
    if (strcmp(what, "what=burst") == 0)
        rss = burst(threads);
    else if (strcmp(what, "what=survivors") == 0) {
        keep_percent = 5;
        rss = burst(threads);
    } else if (strcmp(what, "what=large") == 0) {
        large_blocks = 1;
        rss = burst(threads);
    } else if (strcmp(what, "what=forked") == 0) {
        /* Once in the parent, so that whatever thread the heap keeps for this exists before the fork. */
        burst(threads);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            rss = burst(threads);
            say(1, "peak=%ld", rss_at_peak);
            say(1, "rss=%ld", rss);
            _exit(0);
        }
        wait_for_child(child, "burst in a child", 0);
        say(1, "done");
        return 0;
    } else if (strcmp(what, "what=handover") == 0)
        rss = handover(threads);
    else if (strcmp(what, "what=churn") == 0)
        rss = churn(threads);
    else if (strcmp(what, "what=mlocked") == 0) {
        if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) {
            say(1, "cannot lock");
            return 0;
        }
        say(1, "locked=%ld", rss_kib());
        patience_ms = 2500; /* long enough for a return of memory to have been tried */
        rss = burst(threads);
    } else
        return 2;
    say(1, "peak=%ld", rss_at_peak);
    say(1, "rss=%ld", rss);
    say(1, "done");
    return 0;
}
