/* The two reports of the C library's face: malloc_info to a stream, malloc_stats to stderr. */
#include "common.h"

int main(int count, char **arguments)
{
    void *kept[100];
    for (size_t i = 0; i < 100; i++)
        kept[i] = malloc(i * i * 10);
    if (count == 2 && strcmp(arguments[1], "info") == 0) {
        CHECK(malloc_info(0, stdout) == 0);
    } else {
        malloc_stats();
        printf("between\n");
        malloc_stats();
    }
    for (size_t i = 0; i < 100; i++)
        free(kept[i]);
    return 0;
}
