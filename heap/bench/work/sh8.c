/* sh8: as sh6, but four threads hand half of what they allocate to their neighbour, who frees it in
 * the reverse order (after the public description of MicroQuill's sh8bench; its source may not be
 * passed on and was not looked at). A neighbour whose inbox is full is passed over. One operation is
 * one block, taken and freed. */
#include "work.h"

enum { THREADS = 4, BATCH = 512, HALF = BATCH / 2, DEPTH = 8 };

typedef struct {
    _Alignas(LINE) pthread_mutex_t lock;
    uint32_t held;
    void *batch[DEPTH][HALF];
} inbox;

static inbox boxes[THREADS];
static uint64_t rounds;

static int send(inbox *to, void *const *blocks)
{
    pthread_mutex_lock(&to->lock);
    int room = to->held < DEPTH;
    if (room)
        memcpy(to->batch[to->held++], blocks, sizeof to->batch[0]);
    pthread_mutex_unlock(&to->lock);
    return room;
}

static int receive(inbox *from, void **blocks)
{
    pthread_mutex_lock(&from->lock);
    int any = from->held > 0;
    if (any)
        memcpy(blocks, from->batch[--from->held], sizeof from->batch[0]);
    pthread_mutex_unlock(&from->lock);
    return any;
}

static void free_in_reverse(void *const *blocks)
{
    for (int i = HALF; i-- > 0;)
        give(blocks[i]);
}

static void work(uint32_t self)
{
    void *mine[HALF], *theirs[HALF], *come[HALF];
    rng r = rng_seed(400 + self);
    for (uint64_t round = 0; round < rounds; round++) {
        for (int i = 0; i < HALF; i++) {
            uint64_t bits = rng_next(&r);
            mine[i] = take(octave_size(bits, 16, 5));
            theirs[i] = take(16 + (bits >> 40) % 240);
        }
        if (!send(&boxes[(self + 1) % THREADS], theirs))
            free_in_reverse(theirs);
        for (int i = 0; i < HALF; i++)
            give(mine[i]);
        while (receive(&boxes[self], come))
            free_in_reverse(come);
    }
}

static void tidy(uint32_t self)
{
    void *come[HALF];
    while (receive(&boxes[self], come))
        free_in_reverse(come);
}

int main(int argc, char **argv)
{
    begin();
    rounds = argument(argc, argv, 1, 24000000) / (THREADS * BATCH);
    for (int i = 0; i < THREADS; i++)
        pthread_mutex_init(&boxes[i].lock, NULL);
    crew c = {.count = THREADS, .work = work, .tidy = tidy};
    measure m = crew_run(&c);
    report("sh8", THREADS, rounds * THREADS * BATCH, &m, "");
    crew_end(&c);
}
