/* Prints what the allocator does, one `name=value` line for each behaviour. The harness runs it under plain
 * glibc and under Evenkeel and compares the lines; names that begin with `bound.` carry a figure that may
 * differ and are held to bounds instead. The argument chooses the section.
 *
 * Sizes go through a volatile variable so that the compiler neither warns about nor folds the odd ones. */
#include "common.h"
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* mallinfo is old, but still called */

static void show(const char *name, const char *value) { printf("%s=%s\n", name, value); }
static void show_yes(const char *name, int yes) { show(name, yes ? "yes" : "no"); }

static volatile size_t opaque_size;
static size_t opaque(size_t n)
{
    opaque_size = n;
    return opaque_size;
}

/* "ptr", or "NULL/ENOMEM"; frees the block. `errno` must have been set to 0 before the call. */
static const char *outcome(void *p)
{
    static char text[64];
    int e = errno;
    snprintf(text, sizeof text, "%s/%s", p ? "ptr" : "NULL", e ? strerrorname_np(e) : "0");
    free(p);
    return text;
}
#define SHOW_CALL(name, call)                                                                                  \
    do {                                                                                                       \
        errno = 0;                                                                                             \
        void *result_ = (call);                                                                                \
        show(name, outcome(result_));                                                                          \
    } while (0)

static int aligned(const void *p, size_t to) { return ((uintptr_t)p & (to - 1)) == 0; }

/* ---- alignment ------------------------------------------------------------------------------------------ */
static void alignment_of(const char *name, void *(*get)(size_t))
{
    long first_bad = -1;
    for (size_t n = 0; n <= 1024; n++) {
        void *blocks[8];
        for (int i = 0; i < 8; i++) {
            blocks[i] = get(n);
            if (!blocks[i] || !aligned(blocks[i], 16))
                first_bad = first_bad < 0 ? (long)n : first_bad;
        }
        for (int i = 0; i < 8; i++)
            free(blocks[i]);
    }
    for (size_t n = 1025; n < 64 * MiB; n += n / 7 + 1) {
        void *p = get(n);
        if (!p || !aligned(p, 16))
            first_bad = first_bad < 0 ? (long)n : first_bad;
        free(p);
    }
    char text[32];
    snprintf(text, sizeof text, "%ld", first_bad);
    show(name, first_bad < 0 ? "all sizes" : text);
}
static void *by_calloc(size_t n) { return calloc(1, n); }
static void *by_calloc_many(size_t n) { return calloc(n, 1); }
static void *by_realloc(size_t n) { return realloc(NULL, n); }
static void *by_realloc_grown(size_t n) { return realloc(malloc(1), n ? n : 1); }
static void *by_reallocarray(size_t n) { return reallocarray(NULL, n, 1); }
static void *by_memalign8(size_t n) { return memalign(8, n); }
static void *by_posix8(size_t n)
{
    void *p = NULL;
    return posix_memalign(&p, 8, n) == 0 ? p : NULL;
}
static void section_alignment(void)
{
    alignment_of("align16.malloc", malloc);
    alignment_of("align16.calloc", by_calloc);
    alignment_of("align16.calloc_many", by_calloc_many);
    alignment_of("align16.realloc", by_realloc);
    alignment_of("align16.realloc_grown", by_realloc_grown);
    alignment_of("align16.reallocarray", by_reallocarray);
    alignment_of("align16.memalign8", by_memalign8);
    alignment_of("align16.posix_memalign8", by_posix8);
}

/* ---- zero sizes ----------------------------------------------------------------------------------------- */
static void distinct(const char *name, void *(*get)(size_t))
{
    void *blocks[256];
    int good = 1;
    for (int i = 0; i < 256; i++) {
        blocks[i] = get(0);
        good = good && blocks[i] != NULL && aligned(blocks[i], 16);
        for (int j = 0; j < i; j++)
            good = good && blocks[i] != blocks[j];
    }
    for (int i = 0; i < 256; i++)
        free(blocks[i]);
    show_yes(name, good);
}
static void *calloc_0_8(size_t n) { return calloc(n, 8); }
static void *calloc_8_0(size_t n) { return calloc(8, n); }
static void *reallocarray_0(size_t n) { return reallocarray(NULL, n, 8); }
static void *memalign_64(size_t n) { return memalign(64, n); }
static void *aligned_alloc_64(size_t n) { return aligned_alloc(64, n); }
static void *posix_64(size_t n)
{
    void *p = NULL;
    return posix_memalign(&p, 64, n) == 0 ? p : NULL;
}
static void section_zero(void)
{
    distinct("zero.malloc", malloc);
    distinct("zero.calloc_0_8", calloc_0_8);
    distinct("zero.calloc_8_0", calloc_8_0);
    distinct("zero.realloc_null", by_realloc);
    distinct("zero.reallocarray_null", reallocarray_0);
    distinct("zero.memalign64", memalign_64);
    distinct("zero.aligned_alloc64", aligned_alloc_64);
    distinct("zero.posix_memalign64", posix_64);
    distinct("zero.valloc", valloc);
    distinct("zero.pvalloc", pvalloc);
    size_t sizes[] = {0, 1, 100, 5000, 20 * KiB, 300 * KiB, 20 * MiB};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char name[64];
        snprintf(name, sizeof name, "zero.realloc_of_%zu", sizes[i]);
        SHOW_CALL(name, realloc(malloc(sizes[i]), opaque(0)));
        snprintf(name, sizeof name, "zero.reallocarray_0_8_of_%zu", sizes[i]);
        SHOW_CALL(name, reallocarray(malloc(sizes[i]), opaque(0), 8));
        snprintf(name, sizeof name, "zero.reallocarray_8_0_of_%zu", sizes[i]);
        SHOW_CALL(name, reallocarray(malloc(sizes[i]), 8, opaque(0)));
    }
    errno = EDOM;
    void *p = realloc(malloc(10), opaque(0));
    show_yes("zero.realloc_keeps_errno", p == NULL && errno == EDOM);
    /* That realloc(p, 0) really frees: a gigabyte would be gone otherwise. */
    long before = rss_kib();
    for (int i = 0; i < 1000000; i++) {
        char *q = malloc(1000);
        *q = 1;
        if (realloc(q, opaque(0)) != NULL)
            break;
    }
    show_yes("zero.realloc_frees", rss_kib() - before < 32 * 1024);
    errno = EDOM;
    free(NULL);
    show_yes("zero.free_null_keeps_errno", errno == EDOM);
}

/* ---- sizes that cannot be ------------------------------------------------------------------------------- */
static void section_huge(void)
{
    static const struct {
        const char *name;
        size_t size;
    } huge[] = {
        {"PTRDIFF_MAX", PTRDIFF_MAX},
        {"PTRDIFF_MAX-1", PTRDIFF_MAX - 1},
        {"PTRDIFF_MAX-4096", (size_t)PTRDIFF_MAX - 4096},
        {"PTRDIFF_MAX+1", (size_t)PTRDIFF_MAX + 1},
        {"PTRDIFF_MAX+4096", (size_t)PTRDIFF_MAX + 4096},
        {"SIZE_MAX", SIZE_MAX},
        {"SIZE_MAX-1", SIZE_MAX - 1},
        {"SIZE_MAX-7", SIZE_MAX - 7},
        {"SIZE_MAX-15", SIZE_MAX - 15},
        {"SIZE_MAX-16", SIZE_MAX - 16},
        {"SIZE_MAX-31", SIZE_MAX - 31},
        {"SIZE_MAX-63", SIZE_MAX - 63},
        {"SIZE_MAX-4094", SIZE_MAX - 4094},
        {"SIZE_MAX-4095", SIZE_MAX - 4095},
        {"SIZE_MAX-4096", SIZE_MAX - 4096},
        {"SIZE_MAX-8191", SIZE_MAX - 8191},
        {"SIZE_MAX-65535", SIZE_MAX - 65535},
        {"SIZE_MAX-2097151", SIZE_MAX - 2097151},
        {"SIZE_MAX/2", SIZE_MAX / 2},
        {"2^62", (size_t)1 << 62},
        {"2^60", (size_t)1 << 60},
        {"2^56", (size_t)1 << 56},
        {"2^52", (size_t)1 << 52},
        {"2^48", (size_t)1 << 48},
        {"2^48-1", ((size_t)1 << 48) - 1},
        {"2^47", (size_t)1 << 47},
        {"2^47-4096", ((size_t)1 << 47) - 4096},
        /* These fit the address space but no machine: the kernel's overcommit heuristic refuses them to glibc. */
        {"2^46", (size_t)1 << 46},
        {"2^44", (size_t)1 << 44},
    };
    for (size_t i = 0; i < sizeof huge / sizeof *huge; i++) {
        size_t n = opaque(huge[i].size);
        char name[96];
#define NAMED(function) (snprintf(name, sizeof name, "huge.%s.%s", function, huge[i].name), name)
        SHOW_CALL(NAMED("malloc"), malloc(n));
        SHOW_CALL(NAMED("calloc_1_n"), calloc(1, n));
        SHOW_CALL(NAMED("calloc_n_1"), calloc(n, 1));
        SHOW_CALL(NAMED("realloc_null"), realloc(NULL, n));
        SHOW_CALL(NAMED("reallocarray_1_n"), reallocarray(NULL, 1, n));
        SHOW_CALL(NAMED("memalign_16"), memalign(16, n));
        SHOW_CALL(NAMED("memalign_64"), memalign(64, n));
        SHOW_CALL(NAMED("memalign_1MiB"), memalign(MiB, n));
        SHOW_CALL(NAMED("aligned_alloc_64"), aligned_alloc(64, n));
        SHOW_CALL(NAMED("aligned_alloc_4096"), aligned_alloc(4096, n));
        SHOW_CALL(NAMED("valloc"), valloc(n));
        SHOW_CALL(NAMED("pvalloc"), pvalloc(n));
        void *untouched = name;
        errno = EDOM;
        int r = posix_memalign(&untouched, 64, n);
        /* glibc leaves ENOMEM in errno as well, POSIX does not speak of it: either will do. */
        int e = errno;
        char text[96];
        snprintf(text, sizeof text, "%s, errno %s, pointer %s", r ? strerrorname_np(r) : "0",
                 e == EDOM || (e == ENOMEM && r == ENOMEM) ? "fine" : "changed",
                 untouched == (void *)name ? "kept" : "changed");
        show(NAMED("posix_memalign_64"), text);
        /* A failed realloc leaves the block as it was. */
        size_t sizes[] = {24, 5000, 40 * KiB, 3 * MiB};
        int kept = 1;
        for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++) {
            char *p = malloc(sizes[j]);
            fill(p, sizes[j], i + j);
            errno = 0;
            kept = kept && realloc(p, n) == NULL && errno == ENOMEM && holds(p, sizes[j], i + j);
            errno = 0;
            kept = kept && reallocarray(p, n, 1) == NULL && errno == ENOMEM && holds(p, sizes[j], i + j);
            free(p);
        }
        show_yes(NAMED("realloc_fails_and_keeps"), kept);
    }
}

/* ---- products ------------------------------------------------------------------------------------------- */
static void section_overflow(void)
{
    static const size_t pairs[][2] = {
        {SIZE_MAX / 2, 4},
        {SIZE_MAX / 2 + 1, 2},
        {SIZE_MAX / 2 + 2, 2},
        {SIZE_MAX, 2},
        {SIZE_MAX, SIZE_MAX},
        {(size_t)1 << 32, (size_t)1 << 32},
        {((size_t)1 << 32) + 1, ((size_t)1 << 32) + 1},
        {SIZE_MAX / 16 + 1, 16},
        {SIZE_MAX / 16 + 2, 16},
        {16, SIZE_MAX / 16 + 2},
        {SIZE_MAX / 8, 7},
        {(size_t)1 << 40, (size_t)1 << 22},
        {3, SIZE_MAX / 3 + 1},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        size_t a = opaque(pairs[i][0]), b = opaque(pairs[i][1]);
        char name[96];
#define PAIR(function) (snprintf(name, sizeof name, "overflow.%s.%zx_x_%zx", function, a, b), name)
        SHOW_CALL(PAIR("calloc"), calloc(a, b));
        SHOW_CALL(PAIR("reallocarray_null"), reallocarray(NULL, a, b));
        char *p = malloc(100);
        fill(p, 100, i);
        errno = 0;
        void *q = reallocarray(p, a, b);
        show_yes(PAIR("reallocarray_keeps"), q == NULL && errno == ENOMEM && holds(p, 100, i));
        free(p);
    }
    SHOW_CALL("overflow.calloc_fits", calloc(opaque(1000), 1000));
    SHOW_CALL("overflow.reallocarray_fits", reallocarray(NULL, opaque(1000), 1000));
}

/* ---- calloc gives zeroes, whatever was in the block before --------------------------------------------- */
static int zero_after_dirty(size_t n, int count)
{
    void *blocks[64];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < count; i++) {
            blocks[i] = malloc(n);
            if (!blocks[i])
                return 0;
            memset(blocks[i], 0xA5, malloc_usable_size(blocks[i]));
        }
        for (int i = 0; i < count; i++)
            free(blocks[i]);
        int good = 1;
        for (int i = 0; i < count; i++) {
            blocks[i] = round == 1 ? calloc(n, 1) : calloc(1, n);
            good = good && blocks[i] && all_bytes(blocks[i], n, 0);
            if (blocks[i])
                memset(blocks[i], 0x5A, n);
        }
        for (int i = 0; i < count; i++)
            free(blocks[i]);
        if (!good)
            return 0;
    }
    return 1;
}
static void section_calloc(void)
{
    long bad = -1;
    for (size_t n = 1; n <= 2048 && bad < 0; n++)
        if (!zero_after_dirty(n, 16))
            bad = (long)n;
    for (size_t n = 2049; n <= 256 * KiB && bad < 0; n += n / 9)
        if (!zero_after_dirty(n, 8))
            bad = (long)n;
    for (size_t n = 256 * KiB; n <= 8 * MiB && bad < 0; n += n / 5)
        if (!zero_after_dirty(n, 3))
            bad = (long)n;
    if (bad < 0 && !zero_after_dirty(8 * MiB, 3))
        bad = 8 * MiB;
    char text[32];
    snprintf(text, sizeof text, "%ld", bad);
    show("calloc.zero_after_dirty_reuse", bad < 0 ? "all sizes" : text);
    /* A block that was realloc'ed smaller, or given back in half, must not leak its past either. */
    int good = 1;
    for (size_t n = 100; n < 4 * MiB; n = n * 3 / 2) {
        char *p = malloc(n);
        memset(p, 0xEE, n);
        p = realloc(p, n / 3);
        free(p);
        char *q = calloc(n, 1);
        char *r = calloc(n / 3, 1);
        good = good && q && r && all_bytes(q, n, 0) && all_bytes(r, n / 3, 0);
        free(q);
        free(r);
    }
    show_yes("calloc.zero_after_shrink", good);
}

/* ---- alignments asked for ------------------------------------------------------------------------------- */
static size_t power_of_two_from(size_t n)
{
    size_t p = 16;
    while (p < n)
        p *= 2;
    return p;
}
/* ptr and whether it is aligned to the power of two above, which is what glibc 2.36 rounds odd ones to. */
static void show_aligned(const char *name, void *p, size_t alignment, size_t size)
{
    char text[96];
    int e = errno;
    if (p) {
        memset(p, 0x77, size);
        snprintf(text, sizeof text, "%s, errno %s, usable %s",
                 aligned(p, power_of_two_from(alignment)) ? "aligned" : "NOT ALIGNED", e ? strerrorname_np(e) : "0",
                 malloc_usable_size(p) >= size ? "enough" : "TOO SMALL");
    } else
        snprintf(text, sizeof text, "NULL, errno %s", e ? strerrorname_np(e) : "0");
    show(name, text);
    free(p);
}
static void section_aligned(void)
{
    static const size_t alignments[] = {0,    1,    2,    3,    4,    5,    6,    7,    8,    9,    12,   15,
                                        16,   17,   20,   24,   31,   32,   33,   40,   48,   63,   64,   65,
                                        96,   100,  127,  128,  192,  255,  256,  257,  500,  512,  1000, 1023,
                                        1024, 1025, 3000, 4095, 4096, 4097, 5000, 8192, 12288, 65536, 100000};
    static const size_t sizes[] = {0, 1, 16, 24, 50, 96, 100, 1000, 4096, 5000, 100000};
    for (size_t i = 0; i < sizeof alignments / sizeof *alignments; i++) {
        size_t a = opaque(alignments[i]);
        for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++) {
            size_t n = opaque(sizes[j]);
            char name[96];
            snprintf(name, sizeof name, "aligned_alloc.%zu.%zu", a, n);
            errno = 0;
            void *p = aligned_alloc(a, n);
            show_aligned(name, p, a, n);
            snprintf(name, sizeof name, "memalign.%zu.%zu", a, n);
            errno = 0;
            p = memalign(a, n);
            show_aligned(name, p, a, n);
            snprintf(name, sizeof name, "posix_memalign.%zu.%zu", a, n);
            void *got = (void *)alignments;
            errno = EDOM;
            int r = posix_memalign(&got, a, n);
            char text[96];
            if (r == 0) {
                memset(got, 1, n);
                snprintf(text, sizeof text, "0, errno %s, %s", errno == EDOM ? "kept" : "changed",
                         got && aligned(got, power_of_two_from(a)) ? "aligned" : "NOT ALIGNED");
                free(got);
            } else
                snprintf(text, sizeof text, "%s, errno %s, pointer %s", strerrorname_np(r),
                         errno == EDOM ? "kept" : "changed", got == (void *)alignments ? "kept" : "changed");
            show(name, text);
        }
    }
    static const size_t absurd[] = {(size_t)1 << 62,       ((size_t)1 << 63) - 1, (size_t)1 << 63,
                                    ((size_t)1 << 63) + 1, SIZE_MAX - 1,          SIZE_MAX,
                                    (size_t)1 << 48,       (size_t)1 << 47,       ((size_t)1 << 47) + 1};
    for (size_t i = 0; i < sizeof absurd / sizeof *absurd; i++) {
        size_t a = opaque(absurd[i]);
        char name[96];
        snprintf(name, sizeof name, "aligned_alloc.%zx.8", a);
        SHOW_CALL(name, aligned_alloc(a, 8));
        snprintf(name, sizeof name, "memalign.%zx.8", a);
        SHOW_CALL(name, memalign(a, 8));
        snprintf(name, sizeof name, "memalign.%zx.0", a);
        SHOW_CALL(name, memalign(a, 0));
        snprintf(name, sizeof name, "memalign.%zx.2^62", a);
        SHOW_CALL(name, memalign(a, (size_t)1 << 62));
        void *got = (void *)absurd;
        errno = EDOM;
        int r = posix_memalign(&got, a, 8);
        int e = errno;
        char text[96];
        snprintf(text, sizeof text, "%s, errno %s, pointer %s", r ? strerrorname_np(r) : "0",
                 e == EDOM || (e == ENOMEM && r == ENOMEM) ? "fine" : "changed",
                 got == (void *)absurd ? "kept" : "changed");
        snprintf(name, sizeof name, "posix_memalign.%zx.8", a);
        show(name, text);
    }
    /* The research table's own lines. */
    SHOW_CALL("table.aligned_alloc(48,96)", aligned_alloc(opaque(48), opaque(96)));
    SHOW_CALL("table.memalign(64MiB)", memalign(opaque(64 * MiB), opaque(100)));
    /* 32 bytes to 1 GiB: several at once, written, freed in another order, and taken again. */
    for (size_t a = 32; a <= GiB; a *= 2) {
        static const size_t some[] = {1, 100, 5000, 70000};
        int good = 1;
        for (int round = 0; round < 2; round++) {
            char *blocks[8];
            int count = a >= 256 * MiB ? 2 : 8;
            for (int i = 0; i < count; i++) {
                size_t n = some[i % 4];
                void *p = NULL;
                if (i % 3 == 0)
                    p = memalign(a, n);
                else if (i % 3 == 1)
                    p = aligned_alloc(a, n);
                else if (posix_memalign(&p, a, n) != 0)
                    p = NULL;
                blocks[i] = p;
                good = good && p && aligned(p, a);
                if (p)
                    fill(p, n, a + (size_t)i);
            }
            for (int i = 0; i < count; i++)
                good = good && blocks[i] && holds(blocks[i], some[i % 4], a + (size_t)i);
            for (int i = 0; i < count; i++)
                free(blocks[(i * 5 + 1) % count]);
        }
        char name[64];
        snprintf(name, sizeof name, "alignment.%zu", a);
        show_yes(name, good);
    }
    int good = 1;
    for (size_t n = 0; n < 100000; n = n * 2 + 1) {
        void *p = valloc(n), *q = pvalloc(n);
        good = good && p && q && aligned(p, 4096) && aligned(q, 4096);
        good = good && malloc_usable_size(p) >= n && malloc_usable_size(q) >= (n + 4095) / 4096 * 4096;
        memset(p, 1, n);
        memset(q, 2, (n + 4095) / 4096 * 4096);
        free(p);
        free(q);
    }
    show_yes("valloc_and_pvalloc", good);
    /* An aligned block through realloc: content kept, still a legal block. */
    good = 1;
    for (size_t a = 32; a <= MiB; a *= 2) {
        char *p = memalign(a, 1000);
        fill(p, 1000, a);
        p = realloc(p, 100000);
        good = good && p && aligned(p, 16) && holds(p, 1000, a);
        p = realloc(p, 10);
        good = good && p && aligned(p, 16) && holds_prefix(p, 1000, 10, a);
        free(p);
    }
    show_yes("realloc_of_aligned", good);
}

/* ---- usable size ---------------------------------------------------------------------------------------- */
static void section_usable(void)
{
    show_yes("usable.null_is_0", malloc_usable_size(NULL) == 0);
    int good = 1, stable = 1;
    uint64_t seed = 7;
    enum { COUNT = 2000 };
    static unsigned char *blocks[COUNT];
    static size_t usable[COUNT];
    for (int i = 0; i < COUNT; i++) {
        size_t n = i < 1100 ? (size_t)i : random_size(&seed, 600 * KiB);
        blocks[i] = i % 5 == 4 ? calloc(1, n) : i % 5 == 3 ? memalign(64, n) : malloc(n);
        usable[i] = malloc_usable_size(blocks[i]);
        good = good && blocks[i] && usable[i] >= n;
        memset(blocks[i], i & 255, usable[i]);
    }
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < COUNT; i++) {
            stable = stable && malloc_usable_size(blocks[i]) == usable[i];
            good = good && all_bytes(blocks[i], usable[i], (unsigned char)i);
            free(malloc(random_size(&seed, 100 * KiB)));
        }
    show_yes("usable.enough_and_writable_whole", good);
    show_yes("usable.stable", stable);
    /* What was told to be usable may be asked for: the block stays where it is. */
    int same = 1;
    for (int i = 0; i < COUNT; i++) {
        unsigned char *p = usable[i] ? realloc(blocks[i], usable[i]) : blocks[i];
        /* glibc moves what it mapped, so only blocks of its heap are compared. */
        same = same && (p == blocks[i] || usable[i] > 100 * KiB || i % 5 == 3);
        good = good && all_bytes(p, usable[i], (unsigned char)i);
        free(p);
    }
    show_yes("usable.realloc_to_it_keeps_the_place", same);
    static const size_t sizes[] = {0,     1,     15,    16,    17,     24,     25,      100,     257,    513,    1025,
                                   2049,  4097,  5000,  8193,  16384,  16385,  20000,   33000,   65536,  70000,  100000,
                                   131073, 200000, 262144, 262145, 300000, 524289, 1048576, 1100000, 4194305, 20000000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        void *p = malloc(sizes[i]);
        printf("bound.usable.%zu=%zu\n", sizes[i], malloc_usable_size(p));
        free(p);
    }
}

/* ---- errno ---------------------------------------------------------------------------------------------- */
static void section_errno(void)
{
    int kept = 1, free_kept = 1;
    for (size_t n = 0; n < 64 * MiB; n = n * 3 / 2 + 1) {
        errno = EDOM;
        char *p = malloc(n);
        char *q = calloc(1, n);
        void *r = NULL;
        kept = kept && posix_memalign(&r, 64, n) == 0;
        void *s = memalign(256, n);
        p = realloc(p, n * 2 + 1);
        p = realloc(p, n / 2 + 1);
        (void)malloc_usable_size(p);
        kept = kept && p && q && r && s && errno == EDOM;
        errno = ERANGE;
        free(p);
        free(q);
        free(r);
        free(s);
        free_kept = free_kept && errno == ERANGE;
    }
    show_yes("errno.kept_by_success", kept);
    show_yes("errno.kept_by_free", free_kept);
    errno = EDOM;
    (void)malloc_trim(0);
    (void)mallinfo2();
    show_yes("errno.kept_by_questions", errno == EDOM);
}

/* ---- realloc -------------------------------------------------------------------------------------------- */
static void section_realloc(void)
{
    enum { COUNT = 200 };
    struct {
        unsigned char *p;
        size_t size;
        uint64_t seed;
    } table[COUNT] = {0};
    uint64_t seed = 99;
    int good = 1;
    for (int step = 0; step < 60000; step++) {
        int i = (int)(next_random(&seed) % COUNT);
        size_t n = random_size(&seed, step % 100 == 0 ? 4 * MiB : 100 * KiB) + 1;
        unsigned char *p = step % 7 == 0 ? reallocarray(table[i].p, 1, n) : realloc(table[i].p, n);
        if (!p || !aligned(p, 16)) {
            good = 0;
            break;
        }
        if (table[i].p)
            good = good && holds_prefix(p, table[i].size, n, table[i].seed);
        table[i].p = p;
        table[i].size = n;
        table[i].seed = next_random(&seed);
        fill(p, n, table[i].seed);
    }
    for (int i = 0; i < COUNT; i++) {
        good = good && (!table[i].p || holds(table[i].p, table[i].size, table[i].seed));
        free(table[i].p);
    }
    show_yes("realloc.random_walk", good);
    /* One block grown and shrunk byte by byte and by doubling, from 1 to 64 MiB. */
    good = 1;
    unsigned char *p = malloc(1);
    *p = 1;
    for (size_t n = 2; n <= 5000; n++) {
        p = realloc(p, n);
        p[n - 1] = (unsigned char)n;
    }
    for (size_t n = 1; n <= 5000; n++)
        good = good && p[n - 1] == (unsigned char)n;
    for (size_t n = 4999; n >= 1; n--) {
        p = realloc(p, n);
        good = good && p[n - 1] == (unsigned char)n && p[0] == 1;
    }
    free(p);
    show_yes("realloc.byte_by_byte", good);
    good = 1;
    size_t n = MiB;
    p = malloc(n);
    fill(p, n, 5);
    for (size_t m = 2 * MiB; m <= 64 * MiB; m += 3 * MiB + 4321) {
        p = realloc(p, m);
        good = good && p && aligned(p, 16) && holds_prefix(p, n, n, 5);
        memset(p + n, 0x33, m - n);
        good = good && holds_prefix(p, n, n, 5);
    }
    for (size_t m = 60 * MiB; m > 6 * MiB; m -= 5 * MiB + 17) {
        p = realloc(p, m);
        good = good && p && holds_prefix(p, n, m, 5);
    }
    p = realloc(p, 10);
    good = good && p && holds_prefix(p, n, 10, 5);
    free(p);
    show_yes("realloc.large", good);
    /* Large blocks grown while others stand in the way. */
    good = 1;
    unsigned char *others[16];
    for (int i = 0; i < 16; i++) {
        others[i] = malloc((size_t)(i + 1) * 300 * KiB);
        fill(others[i], (size_t)(i + 1) * 300 * KiB, (uint64_t)i);
    }
    for (int i = 0; i < 16; i++) {
        others[i] = realloc(others[i], (size_t)(i + 1) * 450 * KiB);
        good = good && others[i] && holds_prefix(others[i], (size_t)(i + 1) * 300 * KiB, (size_t)(i + 1) * 300 * KiB, (uint64_t)i);
    }
    for (int i = 0; i < 16; i++)
        free(others[(i * 7) % 16]);
    show_yes("realloc.large_among_others", good);
    /* realloc(NULL, n) is malloc. */
    SHOW_CALL("realloc.null_100", realloc(NULL, opaque(100)));
    SHOW_CALL("realloc.null_100MiB", realloc(NULL, opaque(100 * MiB)));
}

/* ---- blocks that libc hands to its callers to free ------------------------------------------------------ */
static void section_libc(void)
{
    int good = 1;
    char *a = strdup("on an even keel"), *b = strndup("on an even keel", 5), *c = NULL, *d = NULL;
    good = good && asprintf(&c, "%s %d", a, 42) == 18 && strcmp(b, "on an") == 0;
    FILE *memory = open_memstream(&d, &(size_t){0});
    good = good && memory && fprintf(memory, "%0*d", 5000, 7) == 5000;
    fclose(memory);
    good = good && strlen(d) == 5000;
    char *line = NULL;
    size_t size = 0;
    FILE *file = fopen("/proc/self/maps", "r");
    while (file && getline(&line, &size, file) > 0)
        good = good && size > 0;
    if (file)
        fclose(file);
    char *path = realpath("/proc/self/exe", NULL), *here = getcwd(NULL, 0);
    good = good && path && here;
    free(a), free(b), free(c), free(d), free(line), free(path), free(here);
    setenv("CHECKS_SOME_NAME", "some value", 1);
    good = good && strcmp(getenv("CHECKS_SOME_NAME"), "some value") == 0;
    unsetenv("CHECKS_SOME_NAME");
    show_yes("libc.blocks_to_free", good);
}

/* ---- settings and questions ----------------------------------------------------------------------------- */
static void section_settings(void)
{
    static const struct {
        const char *name;
        int parameter, value;
    } calls[] = {
        {"M_MMAP_THRESHOLD,131072", M_MMAP_THRESHOLD, 131072},
        {"M_MMAP_THRESHOLD,0", M_MMAP_THRESHOLD, 0},
        {"M_MMAP_THRESHOLD,32MiB", M_MMAP_THRESHOLD, 32 << 20},
        {"M_MMAP_THRESHOLD,32MiB+1", M_MMAP_THRESHOLD, (32 << 20) + 1},
        {"M_MMAP_THRESHOLD,1GiB", M_MMAP_THRESHOLD, 1 << 30},
        {"M_TRIM_THRESHOLD,131072", M_TRIM_THRESHOLD, 131072},
        {"M_TRIM_THRESHOLD,-1", M_TRIM_THRESHOLD, -1},
        {"M_TOP_PAD,65536", M_TOP_PAD, 65536},
        {"M_MMAP_MAX,65536", M_MMAP_MAX, 65536},
        {"M_MMAP_MAX,0", M_MMAP_MAX, 0},
        {"M_MXFAST,0", M_MXFAST, 0},
        {"M_MXFAST,64", M_MXFAST, 64},
        {"M_MXFAST,160", M_MXFAST, 160},
        {"M_MXFAST,161", M_MXFAST, 161},
        {"M_MXFAST,-1", M_MXFAST, -1},
        {"M_CHECK_ACTION,3", M_CHECK_ACTION, 3},
        {"M_PERTURB,0", M_PERTURB, 0},
        {"M_ARENA_TEST,1", M_ARENA_TEST, 1},
        {"M_ARENA_TEST,0", M_ARENA_TEST, 0},
        {"M_ARENA_MAX,2", M_ARENA_MAX, 2},
        {"M_ARENA_MAX,0", M_ARENA_MAX, 0},
        {"M_NLBLKS,1", M_NLBLKS, 1},
        {"M_GRAIN,1", M_GRAIN, 1},
        {"M_KEEP,1", M_KEEP, 1},
        {"unknown 12345,1", 12345, 1},
        {"unknown -100,1", -100, 1},
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        printf("mallopt(%s)=%d\n", calls[i].name, mallopt(calls[i].parameter, calls[i].value));
        free(malloc(1000));
        free(malloc(MiB));
    }
    char *keep[64];
    for (int i = 0; i < 64; i++)
        keep[i] = malloc(100000);
    for (int i = 0; i < 63; i++)
        free(keep[i]);
    int trimmed = malloc_trim(0);
    printf("bound.trim.first=%d\n", trimmed);
    printf("bound.trim.again=%d\n", malloc_trim(0));
    printf("bound.trim.padded=%d\n", malloc_trim(MiB));
    free(keep[63]);

    enum { COUNT = 4000, EACH = 1000 };
    static void *blocks[COUNT];
    struct mallinfo2 before = mallinfo2();
    struct mallinfo old_before = mallinfo();
    for (int i = 0; i < COUNT; i++)
        blocks[i] = malloc(EACH);
    struct mallinfo2 during = mallinfo2();
    struct mallinfo old_during = mallinfo();
    void *large = malloc(20 * MiB);
    struct mallinfo2 larger = mallinfo2();
    free(large);
    for (int i = 0; i < COUNT; i++)
        free(blocks[i]);
    struct mallinfo2 after = mallinfo2();
    printf("bound.mallinfo2.small=%zd\n", (ssize_t)(during.uordblks - before.uordblks));
    printf("bound.mallinfo.small=%d\n", old_during.uordblks - old_before.uordblks);
    /* glibc books a large block as mapped (hblkhd), so either field counts. */
    printf("bound.mallinfo2.large=%zd\n",
           (ssize_t)(larger.uordblks + larger.hblkhd - during.uordblks - during.hblkhd));
    printf("bound.mallinfo2.left=%zd\n", (ssize_t)(after.uordblks - before.uordblks));
    show_yes("mallinfo2.arena_covers_used", during.arena + during.hblkhd >= during.uordblks);
    show_yes("mallinfo2.sum", during.arena >= during.uordblks && during.arena - during.uordblks <= during.fordblks);

    char *text = NULL;
    size_t length = 0;
    FILE *file = open_memstream(&text, &length);
    errno = 0;
    int r = malloc_info(0, file);
    fclose(file);
    printf("malloc_info(0)=%d\n", r);
    show_yes("malloc_info.is_xml", length > 20 && strncmp(text, "<malloc", 7) == 0 && text[length - 1] == '\n');
    free(text);
    text = NULL;
    file = open_memstream(&text, &length);
    r = malloc_info(1, file);
    fclose(file);
    printf("malloc_info(1)=%d, %zu bytes\n", r, length);
    free(text);
    r = malloc_info(-1, stdout);
    printf("malloc_info(-1)=%d\n", r);
}

int main(int count, char **arguments)
{
    static char buffer[1 << 16];
    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    static const struct {
        const char *name;
        void (*run)(void);
    } sections[] = {
        {"alignment", section_alignment}, {"zero", section_zero},         {"huge", section_huge},
        {"overflow", section_overflow},   {"calloc", section_calloc},     {"aligned", section_aligned},
        {"usable", section_usable},       {"errno", section_errno},       {"realloc", section_realloc},
        {"libc", section_libc},           {"settings", section_settings},
    };
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
        if (count == 2 && strcmp(arguments[1], sections[i].name) == 0) {
            sections[i].run();
            printf("end=%s\n", sections[i].name);
            return fflush(stdout) != 0;
        }
    fprintf(stderr, "usage: compare SECTION\n");
    return 2;
}
