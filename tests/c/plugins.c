/* Libraries that come and go while threads allocate: a plugin, many times; and the heap's own library, opened a
 * second time or for the first time (RTLD_LOCAL), used through dlsym, and closed again.
 *
 *   plugins plugin.so rounds      plugins that allocate
 *   plugins self libevenkeel.so   the library itself
 */
#include "common.h"
#include <dlfcn.h>

static volatile int stop;
static void *worker(void *argument)
{
    uint64_t random = (uintptr_t)argument + 77;
    while (!stop) {
        char *blocks[50];
        for (int i = 0; i < 50; i++)
            blocks[i] = memset(malloc(5000), i, (size_t)next_random(&random) % 5000 + 1);
        for (int i = 0; i < 50; i++) {
            CHECK(*blocks[i] == i);
            free(blocks[i]);
        }
    }
    return NULL;
}

static void plugin_rounds(const char *path, int rounds)
{
    char *kept[64] = {0};
    for (int round = 0; round < rounds; round++) {
        void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        CHECK(handle != NULL, "%s", dlerror());
        char *(*make)(size_t) = (char *(*)(size_t))dlsym(handle, "plugin_make");
        CHECK(make != NULL);
        int i = round % 64;
        size_t size = (size_t)(round + 1) % 30000 + 1;
        free(kept[i]);
        kept[i] = make(size);
        CHECK(holds(kept[i], size, size));
        CHECK(dlclose(handle) == 0);
        /* The block lives on without the code that made it. */
        CHECK(holds(kept[i], size, size));
    }
    for (int i = 0; i < 64; i++)
        free(kept[i]);
}

static void itself(const char *path)
{
    for (int round = 0; round < 5; round++) {
        void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        CHECK(handle != NULL, "%s", dlerror());
        void *(*its_malloc)(size_t) = (void *(*)(size_t))dlsym(handle, "malloc");
        void *(*its_realloc)(void *, size_t) = (void *(*)(void *, size_t))dlsym(handle, "realloc");
        void (*its_free)(void *) = (void (*)(void *))dlsym(handle, "free");
        CHECK(its_malloc && its_realloc && its_free);
        for (int i = 0; i < 20000; i++) {
            char *p = its_malloc((size_t)i);
            CHECK(p != NULL);
            memset(p, 1, (size_t)i);
            if (i % 3 == 0)
                p = its_realloc(p, (size_t)i * 2 + 1);
            its_free(p);
        }
        /* A burst, so that there is memory to be returned after the library is closed. */
        static char *blocks[4000];
        for (int i = 0; i < 4000; i++)
            blocks[i] = memset(its_malloc(4000), 1, 4000);
        for (int i = 0; i < 4000; i++)
            its_free(blocks[i]);
        CHECK(dlclose(handle) == 0);
        /* The threads run, are preempted, and the time at which memory would be returned passes. */
        sleep_ms(round == 0 ? 1500 : 50);
    }
}

int main(int count, char **arguments)
{
    CHECK(count == 3);
    pthread_t threads[4];
    for (long t = 0; t < 4; t++)
        CHECK(pthread_create(&threads[t], NULL, worker, (void *)t) == 0);
    if (strcmp(arguments[1], "self") == 0)
        itself(arguments[2]);
    else
        plugin_rounds(arguments[1], atoi(arguments[2]));
    stop = 1;
    for (long t = 0; t < 4; t++)
        pthread_join(threads[t], NULL);
    say(1, "done");
    return 0;
}
