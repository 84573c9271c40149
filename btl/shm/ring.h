/* SPDX-License-Identifier: BSD-3-Clause */
/* Message ring with one writer and one reader, in memory shared by two processes that is zero at
 * first.
 *
 * A slot is one cache line and starts with a word and a header.  The lap number in the word marks
 * the slot as filled and is stored last.  Payload of more than RING_INLINE bytes lies contiguously
 * in the byte ring beside the slots; both sides compute its place by the same rule, so the slot
 * does not carry it.  Until a slot is refilled it holds the lap before the expected one, so 16 bits
 * of lap are enough and the sender clears nothing.  The reader returns credits lazily, on a cache
 * line of its own.
 *
 * Inline, unlike the rest of the library: send and poll together may take 10 ns, and the callers
 * are in three files.  No locks; the engine serialises each side. */
#ifndef BTL_SHM_RING_H
#define BTL_SHM_RING_H

#include <stddef.h>
#include <stdint.h>
#include "btl/btl.h"
#include "runtime/base/atomic.h"
#include "runtime/base/copy.h"
#include "runtime/base/err.h"

/* 128 slots are 8 KiB, a quarter of L1d: a burst of 128 small messages needs no credit, and both
 * ends stay in cache.  With a smaller L1d the ring is in L2: some nanoseconds a message. */
#define RING_SLOTS 128u
/* 128 KiB hold 16 chunks of a streamed put, enough to keep two copying cores busy (measured: flat
 * from 8 chunks on).  Cores that drift apart more, or chunks of another length, need more of it. */
#define RING_BYTES (128u << 10)
#define RING_INLINE 48u
/* 16 KiB, one message or chunk; the word has 15 bits for the length. */
#define RING_LEN_MAX 0x4000u
/* Slots and bytes after which credits are returned: rarely, because each costs both sides a cache
 * miss, and early enough that the writer never runs out.  Both are parts of the ring, not of a
 * machine's speed. */
#define RING_CREDIT_SLOTS (RING_SLOTS / 4)
#define RING_CREDIT_BYTES (16u << 10)

/* Slots ahead of which the writer asks for a line that the reader has had, and the reader, in a row
 * of messages, for one that the writer may have filled.  8 B between two cores of a mesh Xeon, M
 * messages/s: 12.7, by the writer alone 13.7, by the reader alone 13.9 (2 ahead) and 14.5 (6), by
 * both 17.1; two near cores (Zen 5) 44 with and without.  A line that is not filled yet is fetched
 * twice: with each message, a ping-pong of 8 B between far cores took 0.250 us instead of 0.237. */
#define RING_AHEAD 4u

#define RING_WORD_LEN 0x7fffu
#define RING_WORD_CHUNK 0x8000u /* a chunk of a put, not a message */
/* Laps 1..65535 are in the upper half; 0 is an empty slot of new memory. */
#define RING_LAP_ONE 0x10000u

struct ring_slot {
    _Alignas(RT_CACHE_LINE) uint32_t word;
    struct btl_hdr hdr;
    char data[RING_INLINE];
};

struct ring_mem { /* in the segment */
    /* Written by the reader: slots taken | bytes taken << 32, both modulo 2^32. */
    _Alignas(2 * RT_CACHE_LINE) uint64_t credit;
    _Alignas(2 * RT_CACHE_LINE) struct ring_slot slots[RING_SLOTS]; /* written by the writer */
    /* Written by the writer; reserved when the first longer payload is sent. */
    _Alignas(4096) char bytes[RING_BYTES];
};

struct ring_tx { /* writer's private state, one cache line */
    _Alignas(RT_CACHE_LINE) struct ring_mem *mem;
    struct rt_bell *bell; /* the reader's doorbell */
    uint32_t sent, limit; /* slots filled so far; limit of `sent` until credits are read again */
    uint32_t bytes, bytes_limit; /* the same for the byte ring, including skipped tails */
    uint32_t lap;                /* of the next slot, in the upper half */
    bool slots_open, bytes_open; /* the memory is reserved; until then the limits are 0 */
};

struct ring_rx { /* reader's private state, one cache line */
    _Alignas(RT_CACHE_LINE) struct ring_mem *mem;
    uint32_t taken, bytes;
    uint32_t taken_published, bytes_published; /* values in the last credit */
    uint32_t lap;
};

static inline uint32_t ring_next_lap(uint32_t lap)
{
    lap += RING_LAP_ONE;
    return lap ? lap : RING_LAP_ONE;
}

/* Unused tail of the byte ring before a payload that would cross the end. */
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

/* Reads the credits.  A part that is not open keeps a limit of 0. */
void btl_shm_ring_refill(struct ring_tx *t);

/* Whether nslots slots and a payload of len bytes fit, and leave `leave` bytes. */
static inline bool ring_fits(const struct ring_tx *t, uint32_t nslots, uint32_t len, uint32_t leave)
{
    uint32_t need = ring_lines(len);
    need += ring_skip(t->bytes, need) + leave;
    return t->limit - t->sent >= nslots && t->bytes_limit - t->bytes >= need;
}

/* Takes room for a payload of `len` in the byte ring; NULL: no room. */
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

/* The next slot; the caller writes it before ring_slot_fill(). */
static inline struct ring_slot *ring_slot_next(struct ring_tx *t)
{
    return &t->mem->slots[t->sent % RING_SLOTS];
}

/* Passes the slot to the reader.  low: length and kind. */
static inline void ring_slot_fill(struct ring_tx *t, struct ring_slot *s, uint32_t low)
{
    rt_prefetch_write(&t->mem->slots[(t->sent + RING_AHEAD) % RING_SLOTS]);
    rt_store_release(&s->word, t->lap | low); /* stored after header and payload */
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

/* The next filled slot and its word, or NULL.  The reader owns the slot until ring_take(). */
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

static inline void ring_look_ahead(const struct ring_rx *r)
{
    __builtin_prefetch(&r->mem->slots[(r->taken + RING_AHEAD) % RING_SLOTS]);
}

/* Returns the slot to the writer, and its payload's room in the byte ring if in_bytes. */
static inline void ring_take(struct ring_rx *r, size_t len, bool in_bytes)
{
    if (in_bytes) {
        uint32_t need = ring_lines(len);
        r->bytes += ring_skip(r->bytes, need) + need;
    }
    if (++r->taken % RING_SLOTS == 0)
        r->lap = ring_next_lap(r->lap);
    if (r->taken - r->taken_published >= RING_CREDIT_SLOTS ||
        r->bytes - r->bytes_published >= RING_CREDIT_BYTES) {
        r->taken_published = r->taken;
        r->bytes_published = r->bytes;
        rt_store_release(&r->mem->credit,
                         r->taken | (uint64_t)r->bytes << 32); /* after all reads of the slots */
    }
}

#endif
