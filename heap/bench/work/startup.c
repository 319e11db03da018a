/* startup: how much longer does a program take from its start to its end under a heap than under the
 * C library's? Starts `hello` by turns with and without the library that BENCH_HEAP names, and
 * compares the medians. This program itself runs under the C library's heap. */
#include "work.h"
#include <libgen.h>
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;
enum { MOST = 2000, WORDS = 500 };
static char *plain[WORDS], *preloaded[WORDS];
static char preload[PATH_MAX + 16], program[PATH_MAX];
static uint64_t times[2][MOST];

static uint64_t one_life(char **env)
{
    char *args[] = {program, "quiet", NULL};
    posix_spawn_file_actions_t quiet;
    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    pid_t child;
    int status;
    uint64_t began = wall_ns();
    int error = posix_spawn(&child, program, &quiet, NULL, args, env);
    if (error)
        fail(EXIT_SETUP, "%s: %s", program, strerror(error));
    if (waitpid(child, &status, 0) != child || status != 0)
        fail(EXIT_SETUP, "hello ended with status %d", status);
    uint64_t lasted = wall_ns() - began;
    posix_spawn_file_actions_destroy(&quiet);
    return lasted;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static double median_us(uint64_t *all, uint64_t n)
{
    qsort(all, n, sizeof *all, by_value);
    return (double)all[n / 2] / 1000;
}

int main(int argc, char **argv)
{
    begin();
    uint64_t times_each = argument(argc, argv, 1, 300);
    if (times_each > MOST || times_each == 0)
        fail(EXIT_SETUP, "1 to %d times", MOST);
    const char *heap = getenv("BENCH_HEAP");
    snprintf(program, sizeof program, "%.*s/hello", PATH_MAX - 8, dirname(strdup(argv[0])));
    snprintf(preload, sizeof preload, "LD_PRELOAD=%s", heap ? heap : "");
    int n = 0;
    for (char **var = environ; *var && n < WORDS - 2; var++)
        if (strncmp(*var, "LD_PRELOAD=", 11) != 0)
            plain[n] = preloaded[n] = *var, n++;
    if (heap && *heap)
        preloaded[n] = preload;

    one_life(plain);
    one_life(preloaded);
    measure m = measure_begin();
    for (uint64_t i = 0; i < times_each; i++) {
        times[0][i] = one_life(plain);
        times[1][i] = one_life(preloaded);
    }
    measure_end(&m);
    double glibc = median_us(times[0], times_each), ours = median_us(times[1], times_each);
    report("startup", 1, times_each, &m, "start_us=%.1f glibc_us=%.1f delta_us=%.1f", ours, glibc, ours - glibc);
}
