/* pair: one thread takes a block of 16..512 bytes and gives it back at once, over and over. What is
 * left is the price of the two calls alone. One operation is one pair. */
#include "work.h"

enum { SIZES = 4096 };
static uint32_t sizes[SIZES];

int main(int argc, char **argv)
{
    begin();
    uint64_t ops = argument(argc, argv, 1, 60000000);
    rng r = rng_seed(1);
    for (int i = 0; i < SIZES; i++)
        sizes[i] = 16 + below((uint32_t)rng_next(&r), 497);
    for (int i = 0; i < SIZES; i++)
        give(take(sizes[i]));

    measure m = measure_begin();
    for (uint64_t i = 0; i < ops; i++) {
        char *block = malloc(sizes[i % SIZES]);
        *(volatile char *)block = 1;
        free(block);
    }
    measure_end(&m);
    report("pair", 1, ops, &m, "");
}
