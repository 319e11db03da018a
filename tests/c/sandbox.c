/* Runs a program in a seccomp sandbox in which some system calls fail: sandbox ERRNO call[,call...] program args...
 * The heap must take each refusal as an answer, not as a reason to stop. LD_PRELOAD for the program is taken from
 * SANDBOX_PRELOAD, so that this program itself runs without it. */
#include "common.h"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#ifndef __NR_rseq
#define __NR_rseq 334
#endif
static const struct {
    const char *name;
    int number;
} known[] = {
    {"rseq", __NR_rseq},
    {"membarrier", __NR_membarrier},
    {"madvise", __NR_madvise},
    {"clone", __NR_clone},
    {"clone3", __NR_clone3},
    {"mremap", __NR_mremap},
    {"getcpu", __NR_getcpu},
    {"getrandom", __NR_getrandom},
    {"prctl", __NR_prctl},
    {"sched_getaffinity", __NR_sched_getaffinity},
    {"sysinfo", __NR_sysinfo},
    {"prlimit64", __NR_prlimit64},
    {"munmap", __NR_munmap},
    {"sched_yield", __NR_sched_yield},
    {"timer", __NR_clock_nanosleep},
};

int main(int count, char **arguments)
{
    if (count < 4)
        return 2;
    int error = strcmp(arguments[1], "EPERM") == 0 ? EPERM : strcmp(arguments[1], "ENOSYS") == 0 ? ENOSYS : ENOMEM;
    struct sock_filter filter[128];
    unsigned short n = 0;
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (char *name = strtok(arguments[2], ","); name; name = strtok(NULL, ",")) {
        int number = -1;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            if (strcmp(name, known[i].name) == 0)
                number = known[i].number;
        CHECK(number >= 0, "unknown system call %s", name);
        filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1);
        filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error);
    }
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {n, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        say(1, "no seccomp here");
        return 77;
    }
    if (getenv("SANDBOX_PRELOAD"))
        setenv("LD_PRELOAD", getenv("SANDBOX_PRELOAD"), 1);
    unsetenv("SANDBOX_PRELOAD");
    execv(arguments[3], arguments + 3);
    return 3;
}
