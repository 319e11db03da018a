// The end of a process: static destructors, atexit and on_exit handlers, destructors of thread_local objects and of
// shared libraries all still free, allocate and print, in whatever order the end comes.
#include "common.h"
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

static void note(const char *what) { say(1, "%s", what); }

struct Holder {
    std::map<int, std::string> map;
    std::vector<std::unique_ptr<std::string>> vector;
    const char *name;
    explicit Holder(const char *n) : name(n)
    {
        for (int i = 0; i < 1000; i++) {
            map[i] = std::string(i, 'm');
            vector.push_back(std::make_unique<std::string>(1000, 'v'));
        }
    }
    ~Holder()
    {
        for (auto &[key, value] : map)
            CHECK(value.size() == (size_t)key);
        map.clear();
        vector.clear();
        std::string after(5000, 'a');
        free(malloc(100000));
        note(name);
    }
};
static Holder global("static");
static char *kept;

__attribute__((constructor(101))) static void very_early()
{
    kept = (char *)malloc(300);
    memset(kept, 9, 300);
}
__attribute__((destructor(101))) static void very_late()
{
    CHECK(all_bytes(kept, 300, 9));
    free(kept);
    char *p = (char *)calloc(1, 3000);
    CHECK(all_bytes(p, 3000, 0));
    note("destructor");
    free(p);
}
static void at_exit()
{
    std::vector<std::string> v(100, std::string(200, 'x'));
    note("atexit");
}
static void at_on_exit(int, void *p)
{
    free(p);
    note("on_exit");
}

int main(int count, char **)
{
    static Holder local("function static");
    atexit(at_exit);
    on_exit(at_on_exit, malloc(700));
    std::thread([] {
        thread_local Holder of_thread("thread_local");
        of_thread.map[1] = "x";
    }).join();
    thread_local Holder of_main("thread_local of main");
    of_main.map[1] = "x";
    // Threads that still allocate while the process ends.
    for (int t = 0; t < 3; t++)
        std::thread([t] {
            for (unsigned i = 0;; i++) {
                std::string s(i % 3000 + (unsigned)t, 's');
                std::vector<std::string> v(3, s);
            }
        }).detach();
    sleep_ms(20);
    if (count > 1)
        quick_exit(0);
    return 0;
}
