/* One wrong use of free (or realloc, or malloc_usable_size) for each run, chosen by the argument. Prints the
 * pointer and the block's usable size first, so that the harness can look for both in the report; then does it;
 * and, when it lives on (EVENKEEL_ABORT=0), shows that the heap still works and exits with 0. */
#include "common.h"
#include <sched.h>
#include <sys/mman.h>

static void announce(const void *p, size_t usable) { say(1, "pointer=%p size=%zu", p, usable); }

/* A block of n bytes, announced together with the pointer that the case is about to misuse. */
static char *block(size_t n)
{
    char *p = malloc(n);
    CHECK(p != NULL);
    memset(p, 0x11, n);
    return p;
}

static void *volatile kept;
static void free_twice(size_t n)
{
    char *p = block(n);
    announce(p, malloc_usable_size(p));
    free(p);
    free(p);
}
static void free_inside(size_t n, size_t offset)
{
    char *p = block(n);
    announce(p + offset, malloc_usable_size(p));
    kept = p;
    free(p + offset);
}
static void *free_it(void *p)
{
    free(p);
    return NULL;
}

static void double_small(void) { free_twice(100); }
static void double_tiny(void) { free_twice(1); }
static void double_4000(void) { free_twice(4000); }
static void double_20KiB(void) { free_twice(20 * KiB); }
static void double_300KiB(void) { free_twice(300 * KiB); }
static void double_20MiB(void) { free_twice(20 * MiB); }

static void double_with_others_between(void)
{
    enum { COUNT = 20 };
    char *others[COUNT];
    char *p = block(100);
    announce(p, malloc_usable_size(p));
    for (int i = 0; i < COUNT; i++)
        others[i] = block(100);
    free(p);
    for (int i = 0; i < COUNT; i++)
        free(others[i]);
    free(p);
}
/* So many frees in between that the block has left every cache. */
static void double_after_flush(void)
{
    enum { COUNT = 50000 };
    static char *others[COUNT];
    for (int i = 0; i < COUNT; i++)
        others[i] = block(100);
    char *p = others[COUNT / 2];
    announce(p, malloc_usable_size(p));
    for (int i = 0; i < COUNT; i++)
        free(others[i]);
    free(p);
}
/* The same, and the free pages have gone back to the kernel meanwhile. */
static void double_after_purge(void)
{
    enum { COUNT = 50000 };
    static char *others[COUNT];
    for (int i = 0; i < COUNT; i++)
        others[i] = block(100);
    char *p = others[COUNT / 2];
    announce(p, malloc_usable_size(p));
    for (int i = 0; i < COUNT; i++)
        free(others[i]);
    malloc_trim(0);
    free(p);
}
static void double_aligned(void)
{
    char *p = memalign(4096, 100);
    memset(p, 1, 100);
    announce(p, malloc_usable_size(p));
    free(p);
    free(p);
}
static void double_from_another_thread(void)
{
    char *p = block(100);
    announce(p, malloc_usable_size(p));
    free(p);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, free_it, p) == 0);
    pthread_join(thread, NULL);
}
static void double_after_another_thread(void)
{
    char *p = block(100);
    announce(p, malloc_usable_size(p));
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, free_it, p) == 0);
    pthread_join(thread, NULL);
    free(p);
}
/* On different CPUs, so that the block is in another CPU's cache when it is freed again. */
static void on_cpu(int index)
{
    static cpu_set_t allowed;
    if (CPU_COUNT(&allowed) == 0)
        CHECK(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
    for (int cpu = 0, n = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed) && n++ == index % CPU_COUNT(&allowed)) {
            cpu_set_t one;
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
        }
}
static void double_on_another_cpu(void)
{
    on_cpu(0);
    char *p = block(100);
    announce(p, malloc_usable_size(p));
    free(p);
    on_cpu(1);
    free(p);
}
/* The block was given out again in between, and freed again rightly: the second wrong free is the third in all. */
static void double_after_reuse(void)
{
    char *p = block(100);
    announce(p, malloc_usable_size(p));
    free(p);
    char *q = block(100);
    for (int i = 0; q != p && i < 1000; i++)
        q = block(100);
    CHECK(p == q);
    free(q);
    free(p);
}
/* Written to after it was freed: whatever the heap knows of free blocks must not lie in them. */
static void double_after_write(void)
{
    char *p = block(100);
    announce(p, malloc_usable_size(p));
    free(p);
    memset(p, 0x41, 100);
    free(p);
}
/* The block's page has gone back to the kernel, but its span is half in use. */
static void double_after_partial_purge(void)
{
    enum { COUNT = 50000 };
    static char *others[COUNT];
    for (int i = 0; i < COUNT; i++)
        others[i] = block(100);
    char *p = others[25100];
    announce(p, malloc_usable_size(p));
    for (int i = 0; i < COUNT; i++)
        if (i % 200 != 0)
            free(others[i]);
    malloc_trim(0);
    free(p);
}
/* Freed by realloc(p, 0) first. */
static void double_after_realloc_zero(void)
{
    char *p = block(100);
    announce(p, malloc_usable_size(p));
    volatile size_t zero = 0;
    CHECK(realloc(p, zero) == NULL);
    free(p);
}
/* Freed by a realloc that moved the block. */
static void double_after_realloc_moved(void)
{
    char *p = block(100);
    announce(p, malloc_usable_size(p));
    kept = realloc(p, 100000);
    CHECK(kept != p);
    free(p);
}

static void inside_small_1(void) { free_inside(100, 1); }
static void inside_small_8(void) { free_inside(100, 8); }
static void inside_small_16(void) { free_inside(100, 16); }
static void inside_4000_middle(void) { free_inside(4000, 2000); }
static void inside_4000_second_16(void) { free_inside(4000, 16); }
static void inside_20KiB_middle(void) { free_inside(20 * KiB, 10 * KiB); }
static void inside_20KiB_page(void) { free_inside(20 * KiB, 4096); }
static void inside_200KiB_middle(void) { free_inside(200 * KiB, 100 * KiB); }
static void inside_300KiB_16(void) { free_inside(300 * KiB, 16); }
static void inside_300KiB_page(void) { free_inside(300 * KiB, 4096); }
static void inside_20MiB_middle(void) { free_inside(20 * MiB, 10 * MiB); }
static void inside_20MiB_16(void) { free_inside(20 * MiB, 16); }
/* One past the end: the start of a neighbour that was never given out, since this is the only block of its size. */
static void one_past(void)
{
    char *p = block(9000);
    size_t usable = malloc_usable_size(p);
    announce(p + usable, usable);
    free(p + usable);
}

static void of_stack(void)
{
    _Alignas(16) char here[64];
    memset(here, 0, sizeof here);
    char *volatile p = here;
    announce(p, 0);
    free(p);
}
static _Alignas(16) char of_data[256];
static void of_static(void)
{
    char *volatile p = of_data;
    announce(p, 0);
    free(p);
}
static void of_mmap(void)
{
    char *p = mmap(NULL, MiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED);
    announce(p, 0);
    free(p);
}
static void of_mmap_inside(void)
{
    char *p = mmap(NULL, MiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED);
    announce(p + 4112, 0);
    free(p + 4112);
}
/* Not even readable, so a look at the memory in front of it would be fatal. */
static void of_unreadable(void)
{
    char *p = mmap(NULL, MiB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED);
    announce(p + 65536, 0);
    free(p + 65536);
}
static void of_brk(void)
{
    char *p = sbrk(4096);
    CHECK(p != (void *)-1);
    p = (char *)(((uintptr_t)p + 63) & ~(uintptr_t)63);
    announce(p, 0);
    free(p);
}
static void of_code(void)
{
    char *p = (char *)(((uintptr_t)&of_code + 15) & ~(uintptr_t)15);
    announce(p, 0);
    free(p);
}
static void of_libc(void)
{
    char *p = (char *)(((uintptr_t)&printf + 15) & ~(uintptr_t)15);
    announce(p, 0);
    free(p);
}
static void wild(uintptr_t address)
{
    void *volatile p = (void *)address;
    announce(p, 0);
    free(p);
}
static void wild_low(void) { wild(0x10); }
static void wild_page(void) { wild(0x1000); }
static void wild_32bit(void) { wild(0xdeadbee0); }
static void wild_high_user(void) { wild(0x7ffffffff000); }
static void wild_not_canonical(void) { wild(0xdeaddeaddeaddea0); }
static void wild_kernel(void) { wild(0xffffffff81000000); }
static void wild_top(void) { wild(0xfffffffffffffff0); }
static void wild_misaligned(void) { wild(0xdeadbeef); }
/* In the heap's own address space, but far from anything allocated. */
static void wild_near_heap(void)
{
    char *p = block(100);
    wild((uintptr_t)p + 48 * MiB);
}

/* ---- realloc and malloc_usable_size of the same kinds ---------------------------------------------------- */
static void realloc_of_stack(void)
{
    _Alignas(16) char here[64];
    char *volatile p = here;
    announce(p, 0);
    kept = realloc(p, 200);
}
static void realloc_of_freed(void)
{
    char *p = block(100);
    announce(p, malloc_usable_size(p));
    free(p);
    kept = realloc(p, 5000);
}
static void realloc_of_freed_large(void)
{
    char *p = block(5 * MiB);
    announce(p, malloc_usable_size(p));
    free(p);
    kept = realloc(p, 10 * MiB);
}
static void realloc_of_inside(void)
{
    char *p = block(4000);
    announce(p + 512, malloc_usable_size(p));
    kept = realloc(p + 512, 8000);
}
static void realloc_of_wild(void)
{
    char *volatile p = (char *)0xdeadbee0;
    announce(p, 0);
    kept = realloc(p, 200);
}

static void usable_of(void *q, size_t size)
{
    void *volatile p = q;
    announce(p, size);
    size_t n = malloc_usable_size(p);
    say(1, "usable=%zu", n);
}
static void usable_of_stack(void)
{
    _Alignas(16) char here[64];
    usable_of(here, 0);
}
static void usable_of_wild(void) { usable_of((void *)0xdeadbee0, 0); }
static void usable_of_not_canonical(void) { usable_of((void *)0xdeaddeaddeaddea0, 0); }
static void usable_of_inside(void)
{
    char *p = block(4000);
    kept = p;
    usable_of(p + 512, malloc_usable_size(p));
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
#define CASE(name) {#name, name}
    CASE(double_small),
    CASE(double_tiny),
    CASE(double_4000),
    CASE(double_20KiB),
    CASE(double_300KiB),
    CASE(double_20MiB),
    CASE(double_with_others_between),
    CASE(double_after_flush),
    CASE(double_after_purge),
    CASE(double_aligned),
    CASE(double_from_another_thread),
    CASE(double_after_another_thread),
    CASE(double_after_write),
    CASE(double_after_partial_purge),
    CASE(double_on_another_cpu),
    CASE(double_after_reuse),
    CASE(double_after_realloc_zero),
    CASE(double_after_realloc_moved),
    CASE(inside_small_1),
    CASE(inside_small_8),
    CASE(inside_small_16),
    CASE(inside_4000_middle),
    CASE(inside_4000_second_16),
    CASE(inside_20KiB_middle),
    CASE(inside_20KiB_page),
    CASE(inside_200KiB_middle),
    CASE(inside_300KiB_16),
    CASE(inside_300KiB_page),
    CASE(inside_20MiB_middle),
    CASE(inside_20MiB_16),
    CASE(one_past),
    CASE(of_stack),
    CASE(of_static),
    CASE(of_mmap),
    CASE(of_mmap_inside),
    CASE(of_unreadable),
    CASE(of_brk),
    CASE(of_code),
    CASE(of_libc),
    CASE(wild_low),
    CASE(wild_page),
    CASE(wild_32bit),
    CASE(wild_high_user),
    CASE(wild_not_canonical),
    CASE(wild_kernel),
    CASE(wild_top),
    CASE(wild_misaligned),
    CASE(wild_near_heap),
    CASE(realloc_of_stack),
    CASE(realloc_of_freed),
    CASE(realloc_of_freed_large),
    CASE(realloc_of_inside),
    CASE(realloc_of_wild),
    CASE(usable_of_stack),
    CASE(usable_of_wild),
    CASE(usable_of_not_canonical),
    CASE(usable_of_inside),
};

/* After a report that was ignored: no block is handed out twice and contents stay. */
static void goes_on(void)
{
    enum { COUNT = 3000 };
    static struct {
        char *p;
        size_t size;
    } table[COUNT];
    uint64_t seed = 3;
    for (int i = 0; i < COUNT; i++) {
        table[i].size = i % 3 == 0 ? 100 : i % 50 == 5 ? 9000 : i % 100 == 1 ? 20 * KiB : i % 300 == 2 ? 300 * KiB : random_size(&seed, 5000);
        table[i].p = malloc(table[i].size);
        CHECK(table[i].p != NULL);
        fill(table[i].p, table[i].size, (uint64_t)i);
    }
    for (int i = 0; i < COUNT; i++)
        CHECK(holds(table[i].p, table[i].size, (uint64_t)i), "block %d of %zu bytes at %p", i, table[i].size,
              (void *)table[i].p);
    for (int i = 0; i < COUNT; i++)
        free(table[i].p);
}

int main(int count, char **arguments)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (count == 2 && strcmp(arguments[1], cases[i].name) == 0) {
            cases[i].run();
            say(1, "went on");
            goes_on();
            say(1, "done");
            return 0;
        }
    if (count == 1)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            say(1, "%s", cases[i].name);
    return count != 1;
}
