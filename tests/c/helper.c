/* A heap that keeps a helper thread must not be noticed by it: each part first makes the heap start one (a burst
 * that leaves memory to be returned), and then does what a process with a thread too many would do differently.
 *
 *   what=last_thread         main ends with pthread_exit, the last other thread returns: the process ends, with 0,
 *                            and runs its exit handlers
 *   what=last_thread_forked  the same in a fork child made by a thread that is not the first
 *   what=setuid              setgid and setuid reach every thread, and come back
 *   what=cancel              cancelled threads and pthread_exit from deep inside leave the heap usable
 *   what=kill                the process dies of a signal as usual, and not later
 */
#include "common.h"
#include <dirent.h>
#include <signal.h>

static void burst(void)
{
    enum { COUNT = 20000 };
    static void *blocks[COUNT];
    for (int i = 0; i < COUNT; i++)
        blocks[i] = memset(malloc(3000), 1, 3000);
    for (int i = 0; i < COUNT; i++)
        free(blocks[i]);
    sleep_ms(50);
    for (int i = 0; i < 1000; i++)
        free(malloc((size_t)i * 100));
}

static void at_exit(void) { say(1, "atexit"); }

static void *short_thread(void *argument)
{
    sleep_ms(300);
    free(malloc(1000));
    return argument;
}

static void *forking_thread(void *argument)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        /* This thread is the child's only one. It makes another, and ends before it. */
        burst();
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, short_thread, NULL) == 0);
        return NULL;
    }
    wait_for_child(child, "the child whose threads have all ended", 0);
    return argument;
}

static int threads_with_other_ids(unsigned wanted)
{
    int others = 0;
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks != NULL);
    for (struct dirent *entry; (entry = readdir(tasks)) != NULL;) {
        if (entry->d_name[0] == '.')
            continue;
        char path[300], text[4096] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
        int fd = open(path, O_RDONLY);
        if (fd < 0)
            continue;
        CHECK(read(fd, text, sizeof text - 1) > 0);
        close(fd);
        unsigned real = 0, effective = 0;
        char *line = strstr(text, "\nUid:");
        CHECK(line && sscanf(line, "\nUid: %u %u", &real, &effective) == 2);
        others += real != wanted || effective != wanted;
    }
    closedir(tasks);
    return others;
}

static void *cancelled(void *argument)
{
    (void)argument;
    for (int i = 0;; i++) {
        void *volatile p = malloc((size_t)i % 3000);
        free(p);
        if (i % 100 == 0)
            pthread_testcancel();
    }
}
static void *exits_deep(void *argument)
{
    free(malloc(500));
    pthread_exit(argument);
}

int main(int count, char **arguments)
{
    const char *what = count > 1 ? arguments[1] : "";
    pthread_t thread;
    atexit(at_exit);
    burst();
    if (strcmp(what, "what=last_thread") == 0) {
        CHECK(pthread_create(&thread, NULL, short_thread, NULL) == 0);
        pthread_exit(NULL);
    }
    if (strcmp(what, "what=last_thread_forked") == 0) {
        CHECK(pthread_create(&thread, NULL, forking_thread, NULL) == 0);
        pthread_join(thread, NULL);
    } else if (strcmp(what, "what=setuid") == 0) {
        unsigned user = geteuid() == 0 ? 65534 : getuid(), group = geteuid() == 0 ? 65534 : getgid();
        CHECK(pthread_create(&thread, NULL, short_thread, NULL) == 0);
        CHECK(setgid(group) == 0);
        CHECK(setuid(user) == 0);
        CHECK(threads_with_other_ids(user) == 0);
        pthread_join(thread, NULL);
        burst();
        CHECK(threads_with_other_ids(user) == 0);
    } else if (strcmp(what, "what=cancel") == 0) {
        for (int i = 0; i < 300; i++) {
            pthread_t one, two;
            CHECK(pthread_create(&one, NULL, cancelled, NULL) == 0);
            CHECK(pthread_create(&two, NULL, exits_deep, &thread) == 0);
            void *result;
            pthread_join(two, &result);
            CHECK(result == &thread);
            CHECK(pthread_cancel(one) == 0);
            pthread_join(one, &result);
            CHECK(result == PTHREAD_CANCELED);
        }
    } else if (strcmp(what, "what=kill") == 0) {
        for (int i = 0; i < 20; i++) {
            pid_t child = fork();
            CHECK(child >= 0);
            if (child == 0) {
                burst();
                if (i % 2)
                    kill(getpid(), SIGTERM);
                else
                    raise(SIGTERM);
                for (;;)
                    pause();
            }
            int status;
            CHECK(waitpid(child, &status, 0) == child);
            CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
        }
    }
    say(1, "done");
    return 0;
}
