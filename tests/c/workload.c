/* The general load that the environment checks (limits, masks, sandboxes, valgrind, modes) run: threads that
 * allocate in every way, resize, hand blocks to each other and free them, with every content checked.
 *
 *   threads=4 ops=100000 max=65536 slots=400   size of the load (ops for each thread)
 *   stack=0        stack size of the threads in KiB (0: the default)
 *   null_ok=0      1: a request may fail, but only with NULL and ENOMEM
 *   touch=0        1: print what the mode of the heap is afterwards (evenkeel_stats_json)
 *   masks=0        1: an extra thread changes the CPU masks of all the others all the time
 */
#include "common.h"
#include <dirent.h>
#include <dlfcn.h>
#include <sched.h>
#include <stdatomic.h>

static long slots, ops, largest, null_ok;

struct shared_block {
    uint64_t size, seed;
};
/* Blocks on their way from one thread to another; they carry their size and seed in themselves. */
enum { EXCHANGE = 256 };
static _Atomic(struct shared_block *) exchange[EXCHANGE];
static atomic_long failures, done_ops;

static void check_and_free_shared(struct shared_block *b)
{
    if (!b)
        return;
    CHECK(holds((char *)b + sizeof *b, b->size - sizeof *b, b->seed), "handed-over block of %lu", (unsigned long)b->size);
    free(b);
}

static void *get(uint64_t *random, size_t size)
{
    void *p = NULL;
    errno = 0;
    switch (next_random(random) % 10) {
    case 0:
        p = calloc(1, size);
        CHECK(!p || all_bytes(p, size, 0), "calloc of %zu", size);
        break;
    case 1:
        p = realloc(NULL, size);
        break;
    case 2: {
        size_t a = (size_t)16 << (next_random(random) % 9);
        p = memalign(a, size);
        CHECK(((uintptr_t)p & (a - 1)) == 0, "memalign(%zu, %zu) = %p", a, size, p);
        break;
    }
    case 3:
        errno = posix_memalign(&p, 64, size);
        CHECK(errno == 0 || errno == ENOMEM);
        CHECK(((uintptr_t)p & 63) == 0);
        break;
    default:
        p = malloc(size);
    }
    if (!p) {
        CHECK(null_ok && errno == ENOMEM, "request of %zu bytes", size);
        atomic_fetch_add(&failures, 1);
    } else
        CHECK(((uintptr_t)p & 15) == 0 && malloc_usable_size(p) >= size);
    return p;
}

static void *worker(void *argument)
{
    struct {
        unsigned char *p;
        size_t size;
        uint64_t seed;
    } *table = calloc((size_t)slots, sizeof *table);
    CHECK(table || null_ok);
    if (!table)
        return NULL;
    uint64_t random = (uintptr_t)argument * 0x9E3779B97F4A7C15ull + 1;
    for (long op = 0; op < ops; op++) {
        long i = (long)(next_random(&random) % (uint64_t)slots);
        uint64_t dice = next_random(&random) % 16;
        if (!table[i].p) {
            size_t size = random_size(&random, (size_t)largest);
            table[i].p = get(&random, size);
            table[i].size = size;
            table[i].seed = next_random(&random);
            if (table[i].p)
                fill(table[i].p, size, table[i].seed);
            continue;
        }
        CHECK(holds(table[i].p, table[i].size, table[i].seed), "block of %zu at %p", table[i].size, (void *)table[i].p);
        if (dice < 3) {
            size_t size = random_size(&random, (size_t)largest) + 1;
            errno = 0;
            unsigned char *p = realloc(table[i].p, size);
            if (!p) {
                CHECK(null_ok && errno == ENOMEM);
                continue;
            }
            CHECK(holds_prefix(p, table[i].size, size, table[i].seed), "realloc from %zu to %zu", table[i].size, size);
            table[i].p = p;
            table[i].size = size;
            fill(p, size, table[i].seed);
        } else if (dice < 6 && table[i].size >= sizeof(struct shared_block)) {
            struct shared_block *b = (struct shared_block *)table[i].p;
            b->size = table[i].size;
            b->seed = table[i].seed;
            fill((char *)b + sizeof *b, b->size - sizeof *b, b->seed);
            check_and_free_shared(atomic_exchange(&exchange[next_random(&random) % EXCHANGE], b));
            table[i].p = NULL;
        } else {
            free(table[i].p);
            table[i].p = NULL;
        }
    }
    for (long i = 0; i < slots; i++) {
        if (table[i].p)
            CHECK(holds(table[i].p, table[i].size, table[i].seed));
        free(table[i].p);
    }
    free(table);
    atomic_fetch_add(&done_ops, ops);
    return NULL;
}

static atomic_int masks_stop;
static void *mask_changer(void *unused)
{
    (void)unused;
    cpu_set_t all, now;
    CHECK(sched_getaffinity(0, sizeof all, &all) == 0);
    int list[CPU_SETSIZE], count = 0;
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &all))
            list[count++] = i;
    for (unsigned round = 0; !masks_stop; round++) {
        CPU_ZERO(&now);
        if (round % 3 == 2)
            now = all;
        else
            CPU_SET(list[round / 3 % (unsigned)count], &now);
        DIR *tasks = opendir("/proc/self/task");
        CHECK(tasks != NULL);
        for (struct dirent *entry; (entry = readdir(tasks)) != NULL;)
            if (entry->d_name[0] != '.')
                (void)sched_setaffinity(atoi(entry->d_name), sizeof now, &now); /* the thread may have ended */
        closedir(tasks);
        sleep_ms(2);
    }
    return NULL;
}

int main(int count, char **arguments)
{
    long threads = option(count, arguments, "threads", 4);
    ops = option(count, arguments, "ops", 100000);
    largest = option(count, arguments, "max", 65536);
    slots = option(count, arguments, "slots", 400);
    null_ok = option(count, arguments, "null_ok", 0);
    long stack = option(count, arguments, "stack", 0);
    pthread_t list[256], changer;
    CHECK(threads <= 256);
    if (option(count, arguments, "masks", 0))
        CHECK(pthread_create(&changer, NULL, mask_changer, NULL) == 0);
    if (threads == 0)
        worker((void *)1); /* no thread can be made here: work in the first one */
    for (long t = 0; t < threads; t++) {
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        if (stack)
            CHECK(pthread_attr_setstacksize(&attributes, (size_t)stack * 1024) == 0);
        CHECK(pthread_create(&list[t], &attributes, worker, (void *)(t + 1)) == 0);
        pthread_attr_destroy(&attributes);
    }
    for (long t = 0; t < threads; t++)
        pthread_join(list[t], NULL);
    if (option(count, arguments, "masks", 0)) {
        masks_stop = 1;
        pthread_join(changer, NULL);
    }
    for (int i = 0; i < EXCHANGE; i++)
        check_and_free_shared(atomic_exchange(&exchange[i], NULL));
    if (option(count, arguments, "touch", 0)) {
        size_t (*stats)(char *, size_t) = (size_t(*)(char *, size_t))dlsym(RTLD_DEFAULT, "evenkeel_stats_json");
        static char json[1 << 20];
        if (stats && stats(json, sizeof json) < sizeof json) {
            char *mode = strstr(json, "\"mode\"");
            say(1, "%.20s", mode ? mode : "no mode");
        }
    }
    say(1, "failures=%ld", atomic_load(&failures));
    say(1, "done");
    return 0;
}
