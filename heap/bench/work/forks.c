/* forks: a process forks again and again while six of its threads allocate. Each child allocates up to
 * 3 MiB, frees it and ends; one that is not through within 20 seconds hangs, because a lock of the heap
 * was held by a thread that the child does not have. One operation is one fork. */
#include "work.h"
#include <sys/wait.h>

enum { THREADS = 6, BLOCKS = 500, ENOUGH_HANGS = 5, PATIENCE = 20 };
static _Atomic int over;

static void *worker(void *arg)
{
    rng r = rng_seed(1200 + (uintptr_t)arg);
    void *mine[BLOCKS] = {0};
    while (!atomic_load_explicit(&over, memory_order_relaxed)) {
        uint64_t bits = rng_next(&r);
        uint32_t at = bits % BLOCKS;
        if (mine[at])
            give(mine[at]);
        mine[at] = take(bits >> 58 ? octave_size(bits, 16, 7) : octave_size(bits, 16 * 1024, 5));
    }
    for (int i = 0; i < BLOCKS; i++)
        if (mine[i])
            give(mine[i]);
    return NULL;
}

/* Nothing but the heap and _exit: what else a child of such a process may call is another story. */
__attribute__((noreturn)) static void child(uint64_t number)
{
    alarm(PATIENCE);
    rng r = rng_seed(1300 + number);
    void *mine[200];
    size_t bytes = 0;
    int n = 0;
    while (n < 200 && bytes < 3u << 20) {
        size_t size = n == 100 ? 1u << 20 : octave_size(rng_next(&r), 16, 12);
        mine[n++] = take(size);
        bytes += size;
    }
    while (n > 0)
        give(mine[--n]);
    _exit(0);
}

int main(int argc, char **argv)
{
    begin();
    uint64_t forks = argument(argc, argv, 1, 3000), done = 0;
    int hangs = 0, crashes = 0;
    pthread_t ids[THREADS];
    for (uintptr_t t = 0; t < THREADS; t++)
        ids[t] = start_thread(worker, (void *)t);
    measure m = measure_begin();
    for (; done < forks && hangs < ENOUGH_HANGS; done++) {
        pid_t pid = fork();
        if (pid == 0)
            child(done);
        int status = 0;
        if (pid < 0 || waitpid(pid, &status, 0) != pid)
            fail(EXIT_SETUP, "fork: %s", strerror(errno));
        if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
            hangs++;
        else if (status != 0)
            crashes++;
    }
    measure_end(&m);
    atomic_store(&over, 1);
    for (int t = 0; t < THREADS; t++)
        pthread_join(ids[t], NULL);
    report("forks", THREADS, done, &m, "hangs=%d crashes=%d", hangs, crashes);
}
