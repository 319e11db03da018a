/* probe: says from which file each function of the heap comes, so that no figure is credited to a
 * library that was not bound. */
#include "work.h"
#include <dlfcn.h>

int main(void)
{
    static const char *const names[] = {"malloc", "free", "calloc", "realloc", "posix_memalign", "aligned_alloc"};
    void *block = take(100);
    give(block);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        Dl_info info;
        void *at = dlsym(RTLD_DEFAULT, names[i]);
        const char *file = at && dladdr(at, &info) && info.dli_fname ? info.dli_fname : "?";
        dprintf(STDOUT_FILENO, "%s %s\n", names[i], file);
    }
}
