/* The calls that glibc 2.36 does not have: free_sized and free_aligned_sized of C23. */
#include "common.h"
#include <dlfcn.h>

int main(void)
{
    void (*free_sized)(void *, size_t) = (void (*)(void *, size_t))dlsym(RTLD_DEFAULT, "free_sized");
    void (*free_aligned_sized)(void *, size_t, size_t) =
        (void (*)(void *, size_t, size_t))dlsym(RTLD_DEFAULT, "free_aligned_sized");
    CHECK(free_sized && free_aligned_sized);
    long before = 0;
    for (int round = 0; round < 60; round++) {
        for (size_t n = 0; n < 4 * MiB; n = n * 5 / 4 + 1) {
            char *p = malloc(n);
            fill(p, n, n);
            CHECK(holds(p, n, n));
            free_sized(p, n);
            p = calloc(1, n);
            CHECK(all_bytes(p, n, 0));
            free_sized(p, n);
            p = realloc(malloc(10), n + 1);
            free_sized(p, n + 1);
            for (size_t a = 16; a <= 8192; a *= 8) {
                p = aligned_alloc(a, n);
                CHECK(p && ((uintptr_t)p & (a - 1)) == 0);
                fill(p, n, a);
                free_aligned_sized(p, a, n);
            }
        }
        if (round == 20)
            before = rss_kib();
    }
    /* What is freed in these ways is really freed. */
    CHECK(rss_kib() - before < 32 * 1024);
    errno = EDOM;
    free_sized(NULL, 10);
    free_aligned_sized(NULL, 64, 64);
    free_sized(malloc(10), 10);
    CHECK(errno == EDOM);
    say(1, "done");
    return 0;
}
