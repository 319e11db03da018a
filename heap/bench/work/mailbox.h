/* Mailboxes through which threads hand blocks to each other. One has four places and never makes
 * anybody wait: the owner empties it as it goes, and a sender that finds its place taken frees the
 * block that lay there. So what is in flight stays bounded even when an owner does not run, and
 * a block handed over is freed by another thread than the one that gave it away. */
#ifndef MAILBOX_H
#define MAILBOX_H
#include "work.h"

enum { PLACES = 4 };

typedef struct {
    _Alignas(LINE) _Atomic(void *) place[PLACES];
} mailbox;

/* The block to free in its stead, or NULL. */
static inline void *mailbox_put(mailbox *box, uint32_t place, void *block)
{
    return atomic_exchange_explicit(&box->place[place % PLACES], block, memory_order_acq_rel);
}

/* The block that lies there, or NULL; looks before it takes, since most often there is none. */
static inline void *mailbox_take(mailbox *box, uint32_t place)
{
    if (!atomic_load_explicit(&box->place[place], memory_order_relaxed))
        return NULL;
    return atomic_exchange_explicit(&box->place[place], NULL, memory_order_acq_rel);
}

/* The blocks that cliff and tail ask for: mostly 16..1,023 bytes with small ones likelier, one in 64
 * of 16..256 KiB. */
static inline size_t server_size(rng *r)
{
    uint64_t bits = rng_next(r);
    if (bits >> 58 == 0)
        return octave_size(bits, 16 * 1024, 4);
    return octave_size(bits, 16, 6);
}

#endif
