/* The statistics and options from inside a program: what the argument asks for is printed, the harness judges it.
 *
 *   live      four statistics as JSON, each on one line behind a name: before, after allocating known blocks from
 *             several threads, after freeing some, after freeing all. `expect SIZE COUNT` lines say what lived.
 *   snprintf  that evenkeel_stats_json is to its buffer as snprintf is
 *   options   the table: one line for each row
 *   set       evenkeel_option_get and _set: their results
 *   purge     evenkeel_purge: resident memory before and after
 */
#include "common.h"
#include <dlfcn.h>
#include <evenkeel.h>

static __typeof__(&evenkeel_version) version;
static __typeof__(&evenkeel_stats_json) stats_json;
static __typeof__(&evenkeel_purge) purge;
static __typeof__(&evenkeel_option_get) option_get;
static __typeof__(&evenkeel_option_set) option_set;
static __typeof__(&evenkeel_option_row) option_row;

static char json[1 << 20];
static void print_json(const char *name)
{
    size_t length = stats_json(json, sizeof json);
    CHECK(length < sizeof json && strlen(json) == length);
    /* Written directly: stdio's own buffer would be a live block. */
    for (size_t i = 0; i < length; i++)
        if (json[i] == '\n')
            json[i] = ' ';
    CHECK(write(1, name, strlen(name)) > 0 && write(1, " ", 1) == 1);
    for (size_t done = 0; done < length;) {
        ssize_t n = write(1, json + done, length - done);
        CHECK(n > 0);
        done += (size_t)n;
    }
    CHECK(write(1, "\n", 1) == 1);
}

/* Blocks of each size by each of four threads; every second one is freed by another thread than made it. */
static const size_t sizes[] = {0,    1,     16,    17,    100,    256,    257,    1000,   1024,   3000,    4096,    5000,
                               8192, 16384, 16385, 20000, 100000, 200000, 262144, 300000, 600000, 1 << 20, 5 << 20};
enum { SIZES = sizeof sizes / sizeof *sizes, THREADS = 4, MOST = 3000 };
static void *blocks[THREADS][SIZES][MOST];
static int count_of(int s) { return sizes[s] <= 1024 ? MOST - s * 10 : sizes[s] <= 20000 ? 200 + s : sizes[s] <= 262144 ? 20 + s : 3; }
static pthread_barrier_t phase;
static void *holder(void *argument)
{
    int me = (int)(intptr_t)argument;
    for (int round = 0; round < 2; round++) {
        /* The first round brings whatever the loader and libc allocate once out of the way. */
        pthread_barrier_wait(&phase);
        for (int s = 0; s < SIZES; s++)
            for (int i = 0; i < count_of(s); i++)
                blocks[me][s][i] = malloc(sizes[s]);
        pthread_barrier_wait(&phase);
        pthread_barrier_wait(&phase);
        for (int s = 0; s < SIZES; s++)
            for (int i = 0; i < count_of(s); i += 2)
                free(blocks[(me + 1) % THREADS][s][i]);
        pthread_barrier_wait(&phase);
        pthread_barrier_wait(&phase);
        for (int s = 0; s < SIZES; s++)
            for (int i = 1; i < count_of(s); i += 2)
                free(blocks[me][s][i]);
        pthread_barrier_wait(&phase);
    }
    return NULL;
}
static void expect(const char *when, int every)
{
    for (int s = 0; s < SIZES; s++) {
        int n = every ? count_of(s) : count_of(s) / 2;
        say(1, "expect %s %zu %d", when, malloc_usable_size(blocks[0][s][1]), n * THREADS);
    }
}
static void live(void)
{
    pthread_t threads[THREADS];
    pthread_barrier_init(&phase, NULL, THREADS + 1);
    for (int t = 0; t < THREADS; t++)
        CHECK(pthread_create(&threads[t], NULL, holder, (void *)(intptr_t)t) == 0);
    for (int round = 0; round < 2; round++) {
        if (round == 1)
            print_json("before");
        pthread_barrier_wait(&phase);
        pthread_barrier_wait(&phase);
        if (round == 1) {
            expect("all", 1);
            print_json("all");
        }
        pthread_barrier_wait(&phase);
        pthread_barrier_wait(&phase);
        if (round == 1) {
            expect("half", 0);
            print_json("half");
        }
        pthread_barrier_wait(&phase);
        pthread_barrier_wait(&phase);
    }
    print_json("after");
    purge();
    print_json("purged");
    for (int t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
}

static void like_snprintf(void)
{
    size_t whole = stats_json(NULL, 0);
    CHECK(whole > 100 && whole < sizeof json);
    memset(json, '#', sizeof json);
    CHECK(stats_json(json, 0) > 100 && json[0] == '#');
    CHECK(stats_json(json, 1) > 100 && json[0] == 0 && json[1] == '#');
    CHECK(stats_json(json, 11) > 100 && strlen(json) == 10 && json[0] == '{' && json[11] == '#');
    memset(json, '#', sizeof json);
    whole = stats_json(json, sizeof json);
    CHECK(strlen(json) == whole && json[whole + 1] == '#');
    /* A buffer that is just long enough, and one byte short. Asking changes nothing, so the text stays the same. */
    size_t again = stats_json(json, whole + 1);
    CHECK(again == whole && strlen(json) == whole);
    again = stats_json(json, whole);
    CHECK(again == whole && strlen(json) == whole - 1);
    CHECK(strlen(version()) >= 5 && strchr(version(), '.') != NULL);
    say(1, "version=%s", version());
}

static void options(void)
{
    struct evenkeel_option row;
    for (size_t i = 0; option_row(i, &row) == 0; i++) {
        char value[100] = "";
        int length = option_get(row.name, value, sizeof value);
        CHECK(length > 0 && (size_t)length == strlen(value), "%s", row.name);
        CHECK(strtoull(value, NULL, 10) == row.value, "%s is %s and %zu", row.name, value, row.value);
        say(1, "%s|%zu|%zu|%zu|%d|%s", row.name, row.value, row.default_value, row.most, row.fixed, row.meaning);
    }
}

static void set(void)
{
    char text[100];
    CHECK(option_get("no_such_option", text, sizeof text) == -1);
    CHECK(option_set("no_such_option", "1") == ENOENT);
    CHECK(option_set("", "1") == ENOENT);
    struct evenkeel_option row;
    int settable = 0, fixed = 0;
    for (size_t i = 0; option_row(i, &row) == 0; i++) {
        snprintf(text, sizeof text, "%zu", row.value);
        char before[100];
        strcpy(before, text);
        if (row.fixed) {
            fixed++;
            CHECK(option_set(row.name, text) == EPERM, "%s", row.name);
            continue;
        }
        settable++;
        static const char *const bad[] = {"", "x", "-1", "1.5", " 1", "1 ", "99999999999999999999999", "banana"};
        for (size_t b = 0; b < sizeof bad / sizeof *bad; b++)
            CHECK(option_set(row.name, bad[b]) == EINVAL, "%s=%s", row.name, bad[b]);
        CHECK(option_get(row.name, text, sizeof text) > 0 && strcmp(text, before) == 0, "%s changed by a bad value", row.name);
        CHECK(option_set(row.name, "0") == 0 || option_set(row.name, "1") == 0, "%s", row.name);
        CHECK(option_set(row.name, before) == 0);
        CHECK(option_get(row.name, text, sizeof text) > 0 && strcmp(text, before) == 0);
        /* A short buffer is filled as snprintf would. */
        char small[2] = "##";
        CHECK(option_get(row.name, small, 1) == (int)strlen(before) && small[0] == 0 && small[1] == '#');
        CHECK(option_get(row.name, NULL, 0) == (int)strlen(before));
    }
    CHECK(settable > 0 && fixed > 0);
    /* A setting that matters: wrong frees are ignored from here on. */
    CHECK(option_set("abort", "0") == 0);
    static char not_ours[64];
    free(not_ours + 16);
    CHECK(option_get("abort", text, sizeof text) == 1 && strcmp(text, "0") == 0);
}

static void purge_now(void)
{
    enum { COUNT = 20000 };
    static void *p[COUNT];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < COUNT; i++)
            p[i] = memset(malloc(4000), 1, 4000);
        for (int i = 0; i < COUNT; i++)
            free(p[i]);
        long before = rss_kib();
        size_t gone = purge();
        long after = rss_kib();
        say(1, "before=%ld", before);
        say(1, "returned=%zu", gone / 1024);
        say(1, "after=%ld", after);
        CHECK(before - after > 60000 && after < 16000);
        CHECK(gone > 60000ul * 1024);
    }
    CHECK(purge() < MiB); /* nothing is left to give */
}

int main(int count, char **arguments)
{
#define FIND(name)                                                                                             \
    name = (__typeof__(name))dlsym(RTLD_DEFAULT, "evenkeel_" #name);                                           \
    CHECK(name != NULL)
    FIND(version);
    FIND(stats_json);
    FIND(purge);
    FIND(option_get);
    FIND(option_set);
    FIND(option_row);
    const char *what = count == 2 ? arguments[1] : "";
    if (strcmp(what, "live") == 0)
        live();
    else if (strcmp(what, "snprintf") == 0)
        like_snprintf();
    else if (strcmp(what, "options") == 0)
        options();
    else if (strcmp(what, "set") == 0)
        set();
    else if (strcmp(what, "purge") == 0)
        purge_now();
    else
        return 2;
    return 0;
}
