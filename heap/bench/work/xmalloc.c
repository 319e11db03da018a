/* xmalloc: one side only allocates, the other only frees (after Lever and Boreham, "malloc()
 * performance in a multithreaded Linux environment", 2000). Two threads fill batches with blocks, two
 * take batches from a bounded queue and free what is in them. One operation is one block, allocated
 * here and freed there. */
#include "work.h"

enum { PAIRS = 2, BATCH = 1024, QUEUE = 16 };

typedef struct {
    void *blocks[BATCH];
} batch;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t room, goods;
    batch *ring[QUEUE];
    uint32_t first, held;
} queues[2]; /* [0]: full batches on their way to the freeing side; [1]: empty ones on their way back */

static void put(int q, batch *b)
{
    pthread_mutex_lock(&queues[q].lock);
    while (queues[q].held == QUEUE)
        pthread_cond_wait(&queues[q].room, &queues[q].lock);
    queues[q].ring[(queues[q].first + queues[q].held++) % QUEUE] = b;
    pthread_cond_signal(&queues[q].goods);
    pthread_mutex_unlock(&queues[q].lock);
}

static batch *get(int q)
{
    pthread_mutex_lock(&queues[q].lock);
    while (queues[q].held == 0)
        pthread_cond_wait(&queues[q].goods, &queues[q].lock);
    batch *b = queues[q].ring[queues[q].first];
    queues[q].first = (queues[q].first + 1) % QUEUE;
    queues[q].held--;
    pthread_cond_signal(&queues[q].room);
    pthread_mutex_unlock(&queues[q].lock);
    return b;
}

static uint64_t rounds;

static void work(uint32_t self)
{
    rng r = rng_seed(50 + self);
    for (uint64_t i = 0; i < rounds; i++) {
        if (self % 2 == 0) {
            batch *b = get(1);
            for (int n = 0; n < BATCH; n++)
                b->blocks[n] = take(octave_size(rng_next(&r), 16, 5));
            put(0, b);
        } else {
            batch *b = get(0);
            for (int n = 0; n < BATCH; n++)
                give(b->blocks[n]);
            put(1, b);
        }
    }
}

int main(int argc, char **argv)
{
    begin();
    uint64_t ops = argument(argc, argv, 1, 10000000);
    rounds = ops / (BATCH * PAIRS);
    batch *batches = own_pages(QUEUE * sizeof *batches);
    for (int q = 0; q < 2; q++) {
        pthread_mutex_init(&queues[q].lock, NULL);
        pthread_cond_init(&queues[q].room, NULL);
        pthread_cond_init(&queues[q].goods, NULL);
    }
    for (int i = 0; i < QUEUE; i++)
        put(1, &batches[i]);
    crew c = {.count = 2 * PAIRS, .work = work};
    measure m = crew_run(&c);
    report("xmalloc", 2 * PAIRS, rounds * BATCH * PAIRS, &m, "");
    crew_end(&c);
}
