/* What the heap must leave alone: descriptors (also when 0, 1 and 2 are closed), transparent huge pages of other
 * mappings and of the process, signal masks and handlers, the environment, the children to wait for, the name and
 * the number of tasks a program can see while it has not yet used much memory. Prints `name=value` lines into the
 * file that the argument names; the harness compares them with those of a run under plain glibc. */
#include "common.h"
#include <dirent.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>

extern char **environ;
static int out;

static int entries(const char *directory)
{
    int n = 0;
    DIR *d = opendir(directory);
    CHECK(d != NULL);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

/* The VmFlags of the mapping that holds the address, without those that are not the heap's business. */
static void vm_flags(const void *address, char *flags, size_t length)
{
    FILE *file = fopen("/proc/self/smaps", "r");
    CHECK(file != NULL);
    char line[512];
    int inside = 0;
    flags[0] = 0;
    while (fgets(line, sizeof line, file)) {
        unsigned long from, to;
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
            inside = (uintptr_t)address >= from && (uintptr_t)address < to;
        if (inside && strncmp(line, "VmFlags:", 8) == 0)
            snprintf(flags, length, "%s%s", strstr(line, " hg") ? "hugepage " : "", strstr(line, " nh") ? "nohugepage" : "");
    }
    fclose(file);
}

int main(int count, char **arguments)
{
    CHECK(count >= 2);
    /* The lowest descriptors are this program's to get, in order. */
    int first = open(arguments[1], O_RDWR | O_CREAT | O_TRUNC, 0644);
    int second = open("/dev/null", O_RDONLY), third = open("/dev/null", O_RDONLY);
    CHECK(first >= 0);
    out = first;
    say(out, "descriptors=%d %d %d", first, second, third);
    close(second);
    close(third);

    /* Some system calls (unshare, setns) are refused to processes with more than one thread: a program that has
     * used little memory must not have become one. */
    for (int i = 0; i < 10000; i++)
        free(memset(malloc((size_t)i % 1000 + 1), 1, (size_t)i % 1000 + 1));
    free(memset(malloc(MiB), 1, MiB));
    say(out, "tasks_while_small=%d", entries("/proc/self/task"));

    void *blocks[2000];
    for (int i = 0; i < 2000; i++)
        blocks[i] = memset(malloc((size_t)i * 10 + 1), 1, (size_t)i * 10 + 1);
    say(out, "descriptors_open=%d", entries("/proc/self/fd"));
    char *mapping = mmap(NULL, 8 * MiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(mapping != MAP_FAILED);
    mapping[0] = 1;
    char flags[64];
    vm_flags(mapping, flags, sizeof flags);
    say(out, "mapping_flags=%s", flags);
    vm_flags(&mapping, flags, sizeof flags);
    say(out, "stack_flags=%s", flags);
    say(out, "thp_disabled=%d", prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0));

    for (int i = 0; i < 2000; i++)
        free(blocks[i]);
    /* A burst, so that any helper thread exists by now and has done its work once. */
    enum { BURST = 20000 };
    static void *burst[BURST];
    for (int i = 0; i < BURST; i++)
        burst[i] = memset(malloc(2000), 1, 2000);
    for (int i = 0; i < BURST; i++)
        free(burst[i]);
    sleep_ms(1500);
    say(out, "descriptors_open_later=%d", entries("/proc/self/fd"));
    /* Every signal is still at its default, and none is blocked here. */
    sigset_t mask;
    sigprocmask(SIG_BLOCK, NULL, &mask);
    int blocked = 0, handled = 0;
    for (int s = 1; s < 65; s++) {
        struct sigaction action;
        blocked += sigismember(&mask, s) == 1;
        if (sigaction(s, NULL, &action) == 0)
            handled += action.sa_handler != SIG_DFL;
    }
    say(out, "signals_blocked=%d signals_handled=%d", blocked, handled);
    /* No child that this program did not start. */
    errno = 0;
    int waited = (int)waitpid(-1, NULL, WNOHANG);
    say(out, "children=%d/%s", waited, strerrorname_np(errno));
    char name[16] = "";
    prctl(PR_GET_NAME, name);
    say(out, "name=%s", name);
    say(out, "dumpable=%d", prctl(PR_GET_DUMPABLE));
    say(out, "umask=%o", umask(022));
    int variables = 0;
    for (char **e = environ; *e; e++)
        variables += strncmp(*e, "EVENKEEL_", 9) != 0 && strncmp(*e, "LD_PRELOAD=", 11) != 0;
    say(out, "environment=%d", variables);
    /* A signal sent to the process reaches this thread (a helper thread of the heap must have it blocked). */
    sigset_t wanted;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGTERM);
    sigprocmask(SIG_BLOCK, &wanted, NULL);
    kill(getpid(), SIGTERM);
    struct timespec limit = {5, 0};
    say(out, "signal_for_the_process=%d", sigtimedwait(&wanted, NULL, &limit) == SIGTERM);
    say(out, "end=1");
    return 0;
}
