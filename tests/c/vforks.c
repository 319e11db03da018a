/* vfork: the child runs in the parent's memory while the parent's other threads go on. What it allocates and frees
 * must not harm the parent's heap, although the kernel does not keep its restartable sequences.
 *
 *   what=work     the child allocates and frees a lot, then _exits
 *   what=exec     the child allocates a little and execs /bin/true; from several threads at once
 *   what=spawn    posix_spawn, system and popen from several threads at once
 *   rounds=200
 */
#include "common.h"
#include <spawn.h>
#include <stdatomic.h>

extern char **environ;
static atomic_int stop;
static long rounds;

enum { SLOTS = 300 };
struct table {
    struct {
        unsigned char *p;
        size_t size;
        uint64_t seed;
    } entry[SLOTS];
    uint64_t random;
};
static void steps(struct table *t, int n, size_t largest)
{
    for (int step = 0; step < n; step++) {
        int i = (int)(next_random(&t->random) % SLOTS);
        if (t->entry[i].p) {
            CHECK(holds(t->entry[i].p, t->entry[i].size, t->entry[i].seed), "block of %zu", t->entry[i].size);
            free(t->entry[i].p);
            t->entry[i].p = NULL;
        } else {
            t->entry[i].size = random_size(&t->random, largest);
            t->entry[i].seed = next_random(&t->random);
            t->entry[i].p = malloc(t->entry[i].size);
            CHECK(t->entry[i].p != NULL);
            fill(t->entry[i].p, t->entry[i].size, t->entry[i].seed);
        }
    }
}
static void clear(struct table *t)
{
    for (int i = 0; i < SLOTS; i++) {
        CHECK(!t->entry[i].p || holds(t->entry[i].p, t->entry[i].size, t->entry[i].seed));
        free(t->entry[i].p);
        t->entry[i].p = NULL;
    }
}

static void *worker(void *argument)
{
    struct table *t = calloc(1, sizeof *t);
    t->random = (uintptr_t)argument * 31 + 7;
    while (!stop)
        steps(t, 100, 60 * KiB);
    clear(t);
    free(t);
    return NULL;
}

/* Not inlined: after vfork returns a second time the parent's registers must not depend on the child's work. */
__attribute__((noinline)) static void child_work(struct table *t)
{
    steps(t, 3000, 100 * KiB);
}
__attribute__((noinline)) static void one_vfork(struct table *t, int exec)
{
    pid_t child = vfork();
    if (child == 0) {
        if (exec) {
            steps(t, 20, 2 * KiB);
            char *const command[] = {"/bin/true", NULL};
            char *const environment[] = {NULL};
            execve("/bin/true", command, environment);
            _exit(3);
        }
        child_work(t);
        _exit(0);
    }
    CHECK(child > 0);
    int status = 0;
    while (waitpid(child, &status, 0) < 0)
        CHECK(errno == EINTR);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "child status 0x%x", (unsigned)status);
}

static int exec_wanted;
static void *vforker(void *argument)
{
    struct table *t = calloc(1, sizeof *t);
    t->random = (uintptr_t)argument * 13 + 3;
    for (long i = 0; i < rounds; i++) {
        one_vfork(t, exec_wanted);
        steps(t, 200, 60 * KiB);
    }
    clear(t);
    free(t);
    return NULL;
}

static void *spawner(void *argument)
{
    struct table *t = calloc(1, sizeof *t);
    t->random = (uintptr_t)argument * 17 + 3;
    for (long i = 0; i < rounds; i++) {
        steps(t, 200, 60 * KiB);
        int status = 0;
        if (i % 10 == 3)
            status = system("exit 0");
        else if (i % 10 == 7) {
            char line[64] = "";
            FILE *pipe = popen("echo level", "r");
            CHECK(pipe && fgets(line, sizeof line, pipe) && strcmp(line, "level\n") == 0);
            status = pclose(pipe);
        } else {
            pid_t child;
            char *const command[] = {"true", NULL};
            posix_spawn_file_actions_t actions;
            CHECK(posix_spawn_file_actions_init(&actions) == 0);
            CHECK(posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0) == 0);
            CHECK(posix_spawnp(&child, "true", &actions, NULL, command, environ) == 0);
            posix_spawn_file_actions_destroy(&actions);
            while (waitpid(child, &status, 0) < 0)
                CHECK(errno == EINTR);
        }
        CHECK(status == 0, "status 0x%x", (unsigned)status);
    }
    clear(t);
    free(t);
    return NULL;
}

int main(int count, char **arguments)
{
    rounds = option(count, arguments, "rounds", 200);
    const char *what = count > 1 ? arguments[1] : "";
    pthread_t workers[3], forkers[3];
    for (long t = 0; t < 3; t++)
        CHECK(pthread_create(&workers[t], NULL, worker, (void *)(t + 1)) == 0);
    int number = 1;
    if (strcmp(what, "what=work") == 0)
        vforker((void *)9);
    else if (strcmp(what, "what=exec") == 0 || strcmp(what, "what=spawn") == 0) {
        exec_wanted = 1;
        number = 3;
        for (long t = 0; t < number; t++)
            CHECK(pthread_create(&forkers[t], NULL, what[5] == 'e' ? vforker : spawner, (void *)(t + 10)) == 0);
        for (long t = 0; t < number; t++)
            pthread_join(forkers[t], NULL);
    } else
        return 2;
    stop = 1;
    for (long t = 0; t < 3; t++)
        pthread_join(workers[t], NULL);
    say(1, "done");
    return 0;
}
