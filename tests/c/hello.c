/* The empty program: its memory, as the kernel counts it, after one printf. */
#include "common.h"

int main(void)
{
    printf("hello\n");
    printf("rss_kib=%ld\n", rss_kib());
    printf("vsz_kib=%ld\n", vsz_kib());
    return 0;
}
