/* hello: what does a program hold that does next to nothing? A few blocks, one line printed. With an
 * argument it only does that; without one it also says how much memory it holds. */
#include "work.h"

int main(int argc, char **argv)
{
    (void)argv;
    begin();
    measure m = measure_begin();
    void *blocks[10];
    for (int i = 0; i < 10; i++)
        blocks[i] = take((size_t)16 << i);
    printf("hello\n");
    fflush(stdout);
    for (int i = 0; i < 10; i++)
        give(blocks[i]);
    measure_end(&m);
    if (argc == 1)
        report("hello", 1, 10, &m, "");
}
