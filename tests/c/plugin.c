/* A plugin that allocates: in its constructor, on request, and frees in its destructor; with a block that outlives
 * it. Loaded and unloaded by plugins.c. */
#include "common.h"

static char *own;
__attribute__((constructor)) static void on_load(void)
{
    own = malloc(3000);
    memset(own, 5, 3000);
}
__attribute__((destructor)) static void on_unload(void)
{
    CHECK(all_bytes(own, 3000, 5));
    free(own);
}
char *plugin_make(size_t n)
{
    char *p = malloc(n);
    fill(p, n, n);
    return p;
}
