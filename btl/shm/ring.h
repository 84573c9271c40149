/* SPDX-License-Identifier: BSD-3-Clause */
/* One-writer, one-reader message ring in memory shared by two processes, zero at first.
 *
 * A slot is one cache line and always starts with a word and a header; the word's lap number says
 * "filled" and is stored last.  Payload beyond RING_INLINE bytes lies contiguously in the byte ring
 * beside the slots; both sides compute its place by the same rule, so the slot does not carry it.
 * A slot holds the lap before the expected one until it is refilled, so 16 bits of lap are plenty
 * and the sender clears nothing.  The reader returns credits lazily on a line of its own.
 *
 * Inline, against the habit of the house: send and poll have 10 ns together, and the callers are in
 * three files. No locks; each side is serialised by its engine. */
#ifndef BTL_SHM_RING_H
#define BTL_SHM_RING_H

#include <stddef.h>
#include <stdint.h>
#include "btl/btl.h"
#include "runtime/base/atomic.h"
#include "runtime/base/copy.h"
#include "runtime/base/err.h"

/* 128 slots are 8 KiB, a quarter of L1d: a burst of 128 small messages needs no answer, and both
 * ends stay in cache. */
#define RING_SLOTS 128u
/* 128 KiB hold 16 chunks of a streamed put, enough to keep two copying cores busy (measured: flat
 * from 8 chunks on). */
#define RING_BYTES (128u << 10)
#define RING_INLINE 48u
#define RING_LEN_MAX 0x4000u /* 16 KiB, one message or chunk; the word has 15 bits for it */
/* Credits are returned after this much: rare enough to cost nothing, early enough that the writer
 * never runs dry. */
#define RING_CREDIT_SLOTS (RING_SLOTS / 4)
#define RING_CREDIT_BYTES (16u << 10)

#define RING_WORD_LEN 0x7fffu
#define RING_WORD_CHUNK 0x8000u /* a piece of a put, not a message */
#define RING_LAP_ONE \
    0x10000u /* laps 1..65535 in the upper half; 0 is the empty slot of new memory */

struct ring_slot {
    _Alignas(RT_CACHE_LINE) uint32_t word;
    struct btl_hdr hdr;
    char data[RING_INLINE];
};

struct ring_mem { /* in the segment */
    _Alignas(2 * RT_CACHE_LINE)
        uint64_t credit; /* reader's: slots taken | bytes taken << 32, both modulo 2^32 */
    _Alignas(2 * RT_CACHE_LINE) struct ring_slot slots[RING_SLOTS]; /* writer's */
    _Alignas(
        4096) char bytes[RING_BYTES]; /* writer's; reserved when the first longer payload is sent */
};

struct ring_tx { /* writer's private state, one cache line */
    _Alignas(RT_CACHE_LINE) struct ring_mem *mem;
    struct rt_bell *bell; /* of the reader */
    uint32_t sent, limit; /* slots filled so far; may become as many as `limit` before credits are
                             read again */
    uint32_t bytes, bytes_limit; /* the same for the byte ring, skipped tails included */
    uint32_t lap;                /* of the next slot, in the upper half */
    bool slots_open, bytes_open; /* memory is reserved; before that both limits are 0 */
};

struct ring_rx { /* reader's private state, one cache line */
    _Alignas(RT_CACHE_LINE) struct ring_mem *mem;
    uint32_t taken, bytes;
    uint32_t taken_told, bytes_told; /* what the writer knows */
    uint32_t lap;
};

static inline uint32_t ring_next_lap(uint32_t lap)
{
    lap += RING_LAP_ONE;
    return lap ? lap : RING_LAP_ONE;
}

/* Bytes of the ring that a payload of this length takes at `at`: the unused tail when it would
 * wrap, then whole lines. */
static inline uint32_t ring_skip(uint32_t at, uint32_t need)
{
    uint32_t pos = at % RING_BYTES;
    return pos + need > RING_BYTES ? RING_BYTES - pos : 0;
}

static inline uint32_t ring_lines(size_t len)
{
    return ((uint32_t)len + RT_CACHE_LINE - 1) & ~(RT_CACHE_LINE - 1u);
}

static inline void ring_tx_init(struct ring_tx *t, struct ring_mem *mem, struct rt_bell *bell)
{
    *t = (struct ring_tx){ .mem = mem, .bell = bell, .lap = RING_LAP_ONE };
}

static inline void ring_rx_init(struct ring_rx *r, struct ring_mem *mem)
{
    *r = (struct ring_rx){ .mem = mem, .lap = RING_LAP_ONE };
}

/* Reads the credits; what is not open keeps a limit of 0. */
void btl_shm_ring_refill(struct ring_tx *t);

/* True when nslots slots and a payload of len bytes fit, with `leave` bytes to spare. */
static inline bool ring_fits(const struct ring_tx *t, uint32_t nslots, uint32_t len, uint32_t leave)
{
    uint32_t need = ring_lines(len);
    need += ring_skip(t->bytes, need) + leave;
    return t->limit - t->sent >= nslots && t->bytes_limit - t->bytes >= need;
}

/* Room for a payload of `len` in the byte ring, or NULL. */
static inline char *ring_bytes_take(struct ring_tx *t, size_t len)
{
    uint32_t need = ring_lines(len), skip = ring_skip(t->bytes, need);

    if (rt_unlikely(t->bytes_limit - t->bytes < skip + need)) {
        btl_shm_ring_refill(t);
        if (t->bytes_limit - t->bytes < skip + need)
            return NULL;
    }
    char *p = t->mem->bytes + (t->bytes + skip) % RING_BYTES;
    t->bytes += skip + need;
    return p;
}

/* The next slot, to be written by the caller before ring_slot_fill(). */
static inline struct ring_slot *ring_slot_next(struct ring_tx *t)
{
    return &t->mem->slots[t->sent % RING_SLOTS];
}

/* Hands the slot to the reader; low: length and kind. */
static inline void ring_slot_fill(struct ring_tx *t, struct ring_slot *s, uint32_t low)
{
    rt_store_release(&s->word, t->lap | low); /* header and payload before the lap */
    if (++t->sent % RING_SLOTS == 0)
        t->lap = ring_next_lap(t->lap);
}

/* Copies a message into the ring.  -RT_EAGAIN: no room, or not open yet.  len <= RING_LEN_MAX. */
static inline int ring_push(struct ring_tx *t, const struct btl_hdr *h, const void *buf, size_t len)
{
    if (rt_unlikely(t->sent == t->limit)) {
        btl_shm_ring_refill(t);
        if (t->sent == t->limit)
            return -RT_EAGAIN;
    }
    struct ring_slot *s = ring_slot_next(t);
    if (rt_likely(len <= RING_INLINE)) {
        rt_copy_small(s->data, buf, len);
    } else {
        char *p = ring_bytes_take(t, len);
        if (!p)
            return -RT_EAGAIN;
        memcpy(p, buf, len);
    }
    s->hdr = *h;
    ring_slot_fill(t, s, (uint32_t)len);
    return 0;
}

/* The next filled slot and its word, or NULL.  It stays the reader's until ring_take(). */
static inline struct ring_slot *ring_look(const struct ring_rx *r, uint32_t *word_p)
{
    struct ring_slot *s = &r->mem->slots[r->taken % RING_SLOTS];
    uint32_t w = rt_load_acquire(&s->word); /* pairs with the release of the writer */

    *word_p = w;
    return (w ^ r->lap) < RING_LAP_ONE ? s : NULL;
}

static inline const char *ring_bytes_at(const struct ring_rx *r, size_t len)
{
    return r->mem->bytes + (r->bytes + ring_skip(r->bytes, ring_lines(len))) % RING_BYTES;
}

/* Gives the slot and nbytes (lines) of the byte ring back. */
static inline void ring_take(struct ring_rx *r, size_t len, bool in_bytes)
{
    if (in_bytes) {
        uint32_t need = ring_lines(len);
        r->bytes += ring_skip(r->bytes, need) + need;
    }
    if (++r->taken % RING_SLOTS == 0)
        r->lap = ring_next_lap(r->lap);
    if (r->taken - r->taken_told >= RING_CREDIT_SLOTS ||
        r->bytes - r->bytes_told >= RING_CREDIT_BYTES) {
        r->taken_told = r->taken;
        r->bytes_told = r->bytes;
        rt_store_release(&r->mem->credit,
                         r->taken | (uint64_t)r->bytes << 32); /* after all reads of the slots */
    }
}

#endif
