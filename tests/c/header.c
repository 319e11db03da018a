/* The header on its own, before anything else is included, as C99 and as C++: compiled with every warning an error,
 * linked to the library instead of preloaded with it, and run. */
#include "evenkeel.h"
#include "evenkeel.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void)
{
    static char text[100000];
    struct evenkeel_option row;
    size_t i;
    char *p = (char *)malloc(1000);
    if (!p || evenkeel_stats_json(text, sizeof text) >= sizeof text || text[0] != '{')
        return 1;
    free(p);
    for (i = 0; evenkeel_option_row(i, &row) == 0; i++)
        if (evenkeel_option_get(row.name, text, sizeof text) < 0)
            return 2;
    if (i == 0 || evenkeel_option_set("no_such_option", "1") == 0)
        return 3;
    (void)evenkeel_purge();
    printf("%s\n", evenkeel_version());
    return strlen(evenkeel_version()) < 5;
}
