/* Memory that ends. The harness sets the limit before the program starts; the program allocates until it is told
 * no, which must be NULL with ENOMEM; frees; and goes on, several times over, with blocks of several sizes.
 *
 *   least=MiB  what the program must be able to get under the limit, in blocks of each size
 *   only=SIZE  only blocks of this size, instead of one size after the other
 */
#include "common.h"

/* Linked through their first words, so that the program itself needs no table. */
struct block {
    struct block *next;
    size_t size;
};

static size_t until_null(size_t size, struct block **list, size_t most)
{
    size_t total = 0;
    while (total < most) {
        errno = 0;
        struct block *b = malloc(size);
        if (!b) {
            CHECK(errno == ENOMEM, "size %zu after %zu bytes", size, total);
            return total;
        }
        fill(b + 1, size - sizeof *b, size);
        b->next = *list;
        b->size = size;
        *list = b;
        total += size;
    }
    return total;
}
static void free_list(struct block *list)
{
    while (list) {
        struct block *next = list->next;
        CHECK(holds(list + 1, list->size - sizeof *list, list->size), "block of %zu", list->size);
        free(list);
        list = next;
    }
}

static void *from_a_thread(void *argument)
{
    struct block *list = NULL;
    until_null(200 * KiB, &list, 16 * MiB);
    free_list(list);
    for (int i = 0; i < 10000; i++) {
        char *p = malloc(100);
        if (p)
            *p = 1;
        else
            CHECK(errno == ENOMEM);
        free(p);
    }
    return argument;
}

int main(int count, char **arguments)
{
    size_t least = (size_t)option(count, arguments, "least", 100) * MiB;
    size_t only = (size_t)option(count, arguments, "only", 0);
    static const size_t sizes[] = {MiB, 10 * MiB, 100 * KiB, 5000, 1000, 64, 20 * KiB, 300 * KiB, 32 * MiB};
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            if (only && sizes[i] != only)
                continue;
            struct block *list = NULL;
            size_t got = until_null(sizes[i], &list, 2 * GiB);
            say(1, "size %zu: %zu MiB", sizes[i], got / MiB);
            CHECK(got < 2 * GiB, "there is no limit here");
            CHECK(got >= least, "only %zu MiB in blocks of %zu in round %d", got / MiB, sizes[i], round);
            /* Against the wall, the other calls fail in the same way or succeed, and nothing breaks. */
            errno = 0;
            void *p = realloc(list, 400 * MiB);
            CHECK(p == NULL && errno == ENOMEM);
            errno = 0;
            CHECK(calloc(400, MiB) == NULL && errno == ENOMEM);
            CHECK(posix_memalign(&p, 4096, 400 * MiB) == ENOMEM);
            for (size_t n = 16; n < 100000; n *= 2) {
                errno = 0;
                char *q = malloc(n);
                CHECK(q || errno == ENOMEM);
                if (q)
                    memset(q, 1, n);
                free(q);
            }
            pthread_t thread;
            if (pthread_create(&thread, NULL, from_a_thread, NULL) == 0)
                pthread_join(thread, NULL);
            free_list(list);
        }
    say(1, "done");
    return 0;
}
