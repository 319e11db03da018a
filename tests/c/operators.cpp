// All forms of operator new and delete: plain, array, sized, aligned, nothrow; the new-handler; bad_alloc where
// the standard wants it; exceptions that pass through operator new; and the containers of the library on top.
// The argument chooses the part, so that a failure names it.
#include "common.h"
#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <memory_resource>
#include <new>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

// Called through volatile pointers, so that no new-delete pair is optimised away.
static void *(*volatile plain_new)(std::size_t) = ::operator new;
static void *(*volatile array_new)(std::size_t) = ::operator new[];
static void *(*volatile nothrow_new)(std::size_t, const std::nothrow_t &) noexcept = ::operator new;
static void *(*volatile nothrow_array_new)(std::size_t, const std::nothrow_t &) noexcept = ::operator new[];
static void *(*volatile aligned_new)(std::size_t, std::align_val_t) = ::operator new;
static void *(*volatile aligned_array_new)(std::size_t, std::align_val_t) = ::operator new[];
static void *(*volatile aligned_nothrow_new)(std::size_t, std::align_val_t, const std::nothrow_t &) noexcept = ::operator new;
static void *(*volatile aligned_nothrow_array_new)(std::size_t, std::align_val_t,
                                                   const std::nothrow_t &) noexcept = ::operator new[];

static bool aligned_to(const void *p, std::size_t a) { return (reinterpret_cast<uintptr_t>(p) & (a - 1)) == 0; }

static void *use(void *p, std::size_t n, std::size_t a = 16)
{
    CHECK(p != nullptr && aligned_to(p, a), "size %zu alignment %zu", n, a);
    CHECK(malloc_usable_size(p) >= n);
    fill(p, n, n);
    CHECK(holds(p, n, n));
    return p;
}

static void forms()
{
    std::vector<std::size_t> sizes;
    for (std::size_t n = 0; n <= 300; n++)
        sizes.push_back(n);
    for (std::size_t n = 301; n < 20 * MiB; n = n * 5 / 3)
        sizes.push_back(n);
    const std::nothrow_t &nt = std::nothrow;
    for (std::size_t n : sizes) {
        ::operator delete(use(plain_new(n), n));
        ::operator delete(use(plain_new(n), n), n);
        ::operator delete(use(nothrow_new(n, nt), n), nt);
        ::operator delete[](use(array_new(n), n));
        ::operator delete[](use(array_new(n), n), n);
        ::operator delete[](use(nothrow_array_new(n, nt), n), nt);
        for (std::size_t a = 1; a <= 64 * KiB; a *= 4) {
            auto al = std::align_val_t(a);
            ::operator delete(use(aligned_new(n, al), n, a), al);
            ::operator delete(use(aligned_new(n, al), n, a), n, al);
            ::operator delete(use(aligned_nothrow_new(n, al, nt), n, a), al, nt);
            ::operator delete[](use(aligned_array_new(n, al), n, a), al);
            ::operator delete[](use(aligned_array_new(n, al), n, a), n, al);
            ::operator delete[](use(aligned_nothrow_array_new(n, al, nt), n, a), al, nt);
        }
    }
    // What comes from new may be freed with free here, as with glibc and libstdc++, and the other way round.
    free(use(plain_new(100), 100));
    ::operator delete(use(malloc(100), 100));
    ::operator delete(nullptr);
    ::operator delete[](nullptr);
    ::operator delete(nullptr, std::size_t(8));
    ::operator delete(nullptr, std::align_val_t(64));
    // Zero sizes give distinct blocks.
    std::set<void *> zero;
    for (int i = 0; i < 100; i++) {
        CHECK(zero.insert(plain_new(0)).second);
        CHECK(zero.insert(array_new(0)).second);
        CHECK(zero.insert(nothrow_new(0, nt)).second);
        CHECK(zero.insert(aligned_new(0, std::align_val_t(64))).second);
    }
    for (void *p : zero)
        ::operator delete(p);
}

struct alignas(64) Line {
    char bytes[64];
};
struct alignas(4096) Page {
    char bytes[100];
};
static void alignment_of_types()
{
    std::vector<std::unique_ptr<Line>> lines;
    std::vector<std::unique_ptr<Page>> pages;
    std::vector<std::unique_ptr<Line[]>> arrays;
    for (int i = 0; i < 300; i++) {
        lines.emplace_back(new Line);
        pages.emplace_back(new Page);
        arrays.emplace_back(new Line[3]);
        CHECK(aligned_to(lines.back().get(), 64));
        CHECK(aligned_to(pages.back().get(), 4096));
        CHECK(aligned_to(arrays.back().get(), 64));
        memset(pages.back()->bytes, i, 100);
    }
    for (int i = 0; i < 300; i++)
        CHECK(all_bytes(pages[i]->bytes, 100, (unsigned char)i));
    std::vector<Page> many(20);
    CHECK(aligned_to(many.data(), 4096));
    for (std::size_t a = 128; a <= 16 * MiB; a *= 2) {
        void *p = ::operator new(10, std::align_val_t(a));
        CHECK(aligned_to(p, a));
        ::operator delete(p, std::align_val_t(a));
    }
}

static volatile std::size_t impossible[] = {SIZE_MAX / 2 + 1,     SIZE_MAX / 2, std::size_t(1) << 62,
                                            std::size_t(1) << 48, SIZE_MAX,     SIZE_MAX - 15,
                                            SIZE_MAX - 4096};

template <typename F> static bool throws_bad_alloc(F f)
{
    try {
        f();
    } catch (const std::bad_alloc &e) {
        CHECK(e.what() != nullptr && strlen(e.what()) > 0);
        return true;
    }
    return false;
}
static void impossible_sizes()
{
    for (std::size_t n : impossible) {
        CHECK(throws_bad_alloc([=] { plain_new(n); }), "%zx", n);
        CHECK(throws_bad_alloc([=] { array_new(n); }), "%zx", n);
        CHECK(nothrow_new(n, std::nothrow) == nullptr, "%zx", n);
        CHECK(nothrow_array_new(n, std::nothrow) == nullptr, "%zx", n);
        if (n > SIZE_MAX - 4096)
            continue;
        CHECK(throws_bad_alloc([=] { aligned_new(n, std::align_val_t(64)); }), "%zx", n);
        CHECK(throws_bad_alloc([=] { aligned_array_new(n, std::align_val_t(4096)); }), "%zx", n);
        CHECK(aligned_nothrow_new(n, std::align_val_t(64), std::nothrow) == nullptr, "%zx", n);
        CHECK(aligned_nothrow_array_new(n, std::align_val_t(4096), std::nothrow) == nullptr, "%zx", n);
    }
    volatile std::size_t count = SIZE_MAX / 4;
    CHECK(throws_bad_alloc([&] { delete[] new double[count]; }));
    count = SIZE_MAX / 32;
    CHECK(new (std::nothrow) double[count] == nullptr);
    CHECK(throws_bad_alloc([&] { std::vector<char> v(std::size_t(1) << 60); }));
    std::string s = "kept";
    CHECK(throws_bad_alloc([&] { s.reserve(std::size_t(1) << 60); }) && s == "kept");
    // Thrown and caught in a thread other than the first, and many times (no leak, no state left behind).
    std::thread([] {
        for (int i = 0; i < 10000; i++)
            CHECK(throws_bad_alloc([] { plain_new(SIZE_MAX); }));
    }).join();
}

// Sizes that overflow when they are rounded up to the alignment. libstdc++ 12 itself gets these wrong (it returns a
// block of nothing), so this part is only run where the allocator's own operators are in use.
static void aligned_overflow()
{
    for (std::size_t n : {SIZE_MAX, SIZE_MAX - 15, SIZE_MAX - 4094, SIZE_MAX - 4095})
        for (std::size_t a : {16, 64, 4096, 1 << 20}) {
            auto al = std::align_val_t(a);
            CHECK(throws_bad_alloc([=] { aligned_new(n, al); }), "%zx %zx", n, a);
            CHECK(throws_bad_alloc([=] { aligned_array_new(n, al); }), "%zx %zx", n, a);
            CHECK(aligned_nothrow_new(n, al, std::nothrow) == nullptr, "%zx %zx", n, a);
            CHECK(aligned_nothrow_array_new(n, al, std::nothrow) == nullptr, "%zx %zx", n, a);
        }
}

static int handler_calls;
static void gives_up_on_third_call()
{
    if (++handler_calls == 3)
        std::set_new_handler(nullptr);
}
struct Own {
    int value;
};
static void throws_own()
{
    handler_calls++;
    throw Own{42};
}
struct OwnBadAlloc : std::bad_alloc {
    const char *what() const noexcept override { return "own"; }
};
static void throws_own_bad_alloc()
{
    handler_calls++;
    throw OwnBadAlloc{};
}
static int calls_of(std::new_handler handler, const std::function<void()> &body)
{
    handler_calls = 0;
    std::new_handler before = std::set_new_handler(handler);
    body();
    std::set_new_handler(before);
    return handler_calls;
}
static void handlers()
{
    const std::size_t n = impossible[0];
    auto al = std::align_val_t(64);
    const std::nothrow_t &nt = std::nothrow;
    CHECK(std::get_new_handler() == nullptr);
    // The handler is called again and again until there is none; then bad_alloc, or a null pointer.
    CHECK(calls_of(gives_up_on_third_call, [=] { CHECK(throws_bad_alloc([=] { plain_new(n); })); }) == 3);
    CHECK(calls_of(gives_up_on_third_call, [=] { CHECK(throws_bad_alloc([=] { array_new(n); })); }) == 3);
    CHECK(calls_of(gives_up_on_third_call, [=] { CHECK(throws_bad_alloc([=] { aligned_new(n, al); })); }) == 3);
    CHECK(calls_of(gives_up_on_third_call, [=] { CHECK(throws_bad_alloc([=] { aligned_array_new(n, al); })); }) == 3);
    CHECK(calls_of(gives_up_on_third_call, [&] { CHECK(nothrow_new(n, nt) == nullptr); }) == 3);
    CHECK(calls_of(gives_up_on_third_call, [&] { CHECK(nothrow_array_new(n, nt) == nullptr); }) == 3);
    CHECK(calls_of(gives_up_on_third_call, [&] { CHECK(aligned_nothrow_new(n, al, nt) == nullptr); }) == 3);
    CHECK(calls_of(gives_up_on_third_call, [&] { CHECK(aligned_nothrow_array_new(n, al, nt) == nullptr); }) == 3);
    // malloc never calls it.
    CHECK(calls_of(gives_up_on_third_call, [=] { CHECK(malloc(n) == nullptr && errno == ENOMEM); }) == 0);
    // What the handler throws passes through operator new, of whatever type it is.
    for (int i = 0; i < 1000; i++) {
        int caught = 0;
        CHECK(calls_of(throws_own, [&] {
                  try {
                      plain_new(n);
                  } catch (const Own &own) {
                      caught += own.value;
                  }
                  try {
                      array_new(n);
                  } catch (const Own &own) {
                      caught += own.value;
                  }
                  try {
                      aligned_new(n, al);
                  } catch (const Own &own) {
                      caught += own.value;
                  }
              }) == 3);
        CHECK(caught == 3 * 42);
    }
    // The exception really unwinds: destructors between throw and catch run.
    static int destroyed;
    struct Guard {
        ~Guard() { destroyed++; }
    };
    CHECK(calls_of(throws_own, [=] {
              try {
                  Guard a, b;
                  plain_new(n);
              } catch (...) {
              }
          }) == 1);
    CHECK(destroyed == 2);
    CHECK(calls_of(throws_own_bad_alloc, [=] {
              bool own = false;
              try {
                  plain_new(n);
              } catch (const std::bad_alloc &e) {
                  own = strcmp(e.what(), "own") == 0;
              }
              CHECK(own);
          }) == 1);
    // The nothrow forms turn a handler's bad_alloc into a null pointer.
    CHECK(calls_of(throws_own_bad_alloc, [&] { CHECK(nothrow_new(n, nt) == nullptr); }) == 1);
    CHECK(calls_of(throws_own_bad_alloc, [&] { CHECK(nothrow_array_new(n, nt) == nullptr); }) == 1);
    CHECK(calls_of(throws_own_bad_alloc, [&] { CHECK(aligned_nothrow_new(n, al, nt) == nullptr); }) == 1);
    CHECK(calls_of(throws_own_bad_alloc, [&] { CHECK(aligned_nothrow_array_new(n, al, nt) == nullptr); }) == 1);
    CHECK(std::get_new_handler() == nullptr);
}

// A handler that gives back a reserve lets the request be met: run under a limit on the data segment.
static char *reserve;
static void gives_back_the_reserve()
{
    handler_calls++;
    if (reserve) {
        delete[] reserve;
        reserve = nullptr;
        return;
    }
    std::set_new_handler(nullptr);
}
static void handler_frees_reserve()
{
    struct rlimit limit = {256 * MiB, 256 * MiB};
    CHECK(setrlimit(RLIMIT_DATA, &limit) == 0);
    reserve = new char[64 * MiB];
    memset(reserve, 1, 64 * MiB);
    std::set_new_handler(gives_back_the_reserve);
    static char *blocks[64];
    int count = 0;
    try {
        for (; count < 64; count++) {
            blocks[count] = new char[8 * MiB];
            memset(blocks[count], count, 8 * MiB);
        }
    } catch (const std::bad_alloc &) {
    }
    CHECK(count < 40, "256 MiB of RLIMIT_DATA gave %d blocks of 8 MiB", count);
    // One call gave the reserve back, and the request after it was met; the last call gave up.
    CHECK(handler_calls == 2 && reserve == nullptr && count >= 8, "%d calls, %d blocks", handler_calls, count);
    for (int i = 0; i < count; i++) {
        CHECK(all_bytes(blocks[i], 8 * MiB, (unsigned char)i));
        delete[] blocks[i];
    }
    delete[] new char[100 * MiB];
}

struct Throwing {
    char bytes[200];
    explicit Throwing(int i)
    {
        if (i % 3 == 0)
            throw Own{i};
    }
};
static void exceptions()
{
    // A constructor that throws gives its memory back through the matching delete.
    long before = 0;
    for (int i = 0; i < 300000; i++) {
        if (i == 30000)
            before = rss_kib();
        try {
            delete new Throwing(i);
        } catch (const Own &own) {
            CHECK(own.value == i);
        }
    }
    CHECK(rss_kib() - before < 4096);
    // Deep unwinding with live containers.
    std::function<int(int)> deep = [&](int level) -> int {
        std::vector<std::string> v(10, std::string(100 + level, 'x'));
        if (level == 0)
            throw std::runtime_error(std::string(1000, 'e'));
        return deep(level - 1) + (int)v.size();
    };
    for (int i = 0; i < 200; i++) {
        try {
            deep(50);
            CHECK(false);
        } catch (const std::exception &e) {
            CHECK(strlen(e.what()) == 1000);
        }
    }
    // Rethrown in another thread.
    std::exception_ptr carried;
    std::thread([&] {
        try {
            throw std::runtime_error("carried");
        } catch (...) {
            carried = std::current_exception();
        }
    }).join();
    try {
        std::rethrow_exception(carried);
    } catch (const std::exception &e) {
        CHECK(strcmp(e.what(), "carried") == 0);
    }
}

static void containers_once(unsigned seed)
{
    uint64_t random = seed * 7919 + 1;
    std::map<uint64_t, std::string> tree;
    std::unordered_map<std::string, std::vector<int>> table;
    std::list<std::string> list;
    std::deque<std::unique_ptr<int>> deque;
    std::vector<std::shared_ptr<std::string>> shared;
    std::pmr::unsynchronized_pool_resource pool;
    std::pmr::vector<std::pmr::string> pooled(&pool);
    for (int i = 0; i < 20000; i++) {
        uint64_t key = next_random(&random) % 2000;
        tree[key] = std::string(key % 300, (char)('a' + key % 26));
        if (i % 3 == 0)
            tree.erase(next_random(&random) % 2000);
        auto &v = table[std::to_string(key)];
        v.push_back(i);
        if (v.size() > 50)
            table.erase(std::to_string(key));
        list.push_front(std::string(i % 70, 'l'));
        if (list.size() > 500)
            list.pop_back();
        deque.push_back(std::make_unique<int>(i));
        if (deque.size() > 1000) {
            CHECK(*deque.front() == i - 1000);
            deque.pop_front();
        }
        if (i % 100 == 0) {
            shared.push_back(std::make_shared<std::string>(5000, 's'));
            pooled.emplace_back("a string that is too long for the small buffer");
        }
    }
    for (auto &[key, value] : tree)
        CHECK(value.size() == key % 300 && (value.empty() || value.back() == (char)('a' + key % 26)));
    std::ostringstream stream;
    for (auto &s : list)
        stream << s;
    std::string joined = stream.str();
    CHECK(std::all_of(joined.begin(), joined.end(), [](char c) { return c == 'l'; }));
    std::vector<std::string> sorted;
    for (auto &[key, value] : tree)
        sorted.push_back(value);
    std::stable_sort(sorted.begin(), sorted.end());
    CHECK(std::is_sorted(sorted.begin(), sorted.end()));
    std::reverse(sorted.begin(), sorted.end());
}
static void containers()
{
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 6; t++)
        threads.emplace_back([t] {
            for (unsigned round = 0; round < 3; round++)
                containers_once(t * 10 + round);
        });
    for (auto &t : threads)
        t.join();
}

int main(int count, char **arguments)
{
    const std::map<std::string, void (*)()> parts = {{"forms", forms},
                                                     {"alignment_of_types", alignment_of_types},
                                                     {"impossible_sizes", impossible_sizes},
                                                     {"aligned_overflow", aligned_overflow},
                                                     {"handlers", handlers},
                                                     {"handler_frees_reserve", handler_frees_reserve},
                                                     {"exceptions", exceptions},
                                                     {"containers", containers}};
    auto part = count == 2 ? parts.find(arguments[1]) : parts.end();
    if (part == parts.end())
        return 2;
    part->second();
    puts("done");
    return 0;
}
