/* hop: how far are the CPUs from each other just now? Two threads on the first two CPUs that may be used pass a
 * word to and fro; the figure is the time of one such round trip. On a virtual machine the host moves
 * CPUs about, and when they come to lie on different dies this time, and with it the price of everything that
 * threads share, becomes several times as large for seconds or minutes. */
#include "work.h"
#include <sched.h>

enum { TRIPS = 500 };
static const uint64_t LONGEST = 20000000;

static _Alignas(LINE) _Atomic uint32_t turn;
static _Atomic int over;
static int cpus[2];

static void stay_on(int cpu)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
}

static void *partner(void *arg)
{
    (void)arg;
    stay_on(cpus[1]);
    while (!atomic_load_explicit(&over, memory_order_relaxed)) {
        uint32_t now = atomic_load_explicit(&turn, memory_order_acquire);
        if (now & 1)
            atomic_store_explicit(&turn, now + 1, memory_order_release);
    }
    return NULL;
}

int main(void)
{
    begin();
    cpu_set_t allowed;
    int found = 0;
    sched_getaffinity(0, sizeof allowed, &allowed);
    for (int cpu = 0; cpu < CPU_SETSIZE && found < 2; cpu++)
        if (CPU_ISSET(cpu, &allowed))
            cpus[found++] = cpu;
    if (found < 2)
        return 0;
    pthread_t id = start_thread(partner, NULL);
    stay_on(cpus[0]);
    uint64_t least = UINT64_MAX, began = wall_ns(), last = began;
    uint32_t word = 0;
    /* The best of many short stretches: what came between the others does not count. */
    for (int stretch = 0; stretch < 40 && last - began < LONGEST; stretch++) {
        uint64_t from = wall_ns();
        for (int i = 0; i < TRIPS; i++) {
            atomic_store_explicit(&turn, ++word, memory_order_release);
            ++word;
            while (atomic_load_explicit(&turn, memory_order_acquire) != word)
                if ((last = wall_ns()) - began > LONGEST)
                    goto out;
        }
        last = wall_ns();
        if (last - from < least)
            least = last - from;
    }
out:
    atomic_store(&over, 1);
    pthread_join(id, NULL);
    if (least != UINT64_MAX)
        dprintf(STDOUT_FILENO, "work=hop hop_ns=%.0f\n", (double)least / TRIPS);
}
