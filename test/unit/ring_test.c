/* SPDX-License-Identifier: BSD-3-Clause */
/* The ring of btl/shm, both ends in one process: every length, the wrap of slots, bytes, counters
 * and laps, a full ring, and messages whose contents the reader must not mistake for another
 * message. */
#include "btl/shm/ring.h"
#include "runtime/mem/segment.h"
#include "test/check.h"

static struct rt_bell bell;
static struct ring_mem mem;
static struct ring_tx tx;
static struct ring_rx rx;
static char out[RING_LEN_MAX];

static void fill(char *buf, size_t len, uint32_t seed)
{
    for (size_t i = 0; i < len; i++)
        buf[i] = (char)(seed * 31 + i * 7 + (i >> 8));
}

static int push(uint32_t seed, size_t len)
{
    fill(out, len, seed);
    return ring_push(&tx, &(struct btl_hdr){ seed, -(int32_t)seed, ~seed }, out, len);
}

/* Takes one message and compares it with what push(seed, len) wrote. */
static bool take(uint32_t seed, size_t len)
{
    static char expected[RING_LEN_MAX];
    uint32_t w;
    struct ring_slot *s = ring_look(&rx, &w);

    if (!s || (w & RING_WORD_LEN) != len || s->hdr.ctx != seed || s->hdr.tag != -(int32_t)seed ||
        s->hdr.src != ~seed)
        return false;
    bool in_bytes = len > RING_INLINE;
    fill(expected, len, seed);
    bool same = memcmp(in_bytes ? ring_bytes_at(&rx, len) : s->data, expected, len) == 0;
    ring_take(&rx, len, in_bytes);
    return same;
}

/* Sets the ring to its state after `slots` slots and `bytes` bytes, with all credits returned. */
static void start_at(uint32_t slots, uint32_t bytes, uint32_t lap)
{
    memset(&mem, 0, sizeof mem);
    ring_tx_init(&tx, &mem, &bell);
    ring_rx_init(&rx, &mem);
    tx.slots_open = tx.bytes_open = true;
    tx.sent = tx.limit = rx.taken = rx.taken_published = slots;
    tx.bytes = tx.bytes_limit = rx.bytes = rx.bytes_published = bytes;
    tx.lap = rx.lap = lap * RING_LAP_ONE;
    mem.credit = slots | (uint64_t)bytes << 32;
    uint32_t before = lap == 1 ? 0 : lap - 1;
    for (uint32_t i = 0; i < RING_SLOTS; i++)
        mem.slots[i].word = (i < slots % RING_SLOTS ? lap : before) * RING_LAP_ONE;
}

static bool empty(void)
{
    uint32_t w;
    return !ring_look(&rx, &w);
}

static void a_slot_is_a_line(void)
{
    CHECK_EQ(sizeof(struct ring_slot), 64);
    CHECK_EQ(offsetof(struct ring_slot, data), 16);
    CHECK_EQ(sizeof(struct ring_tx), 64);
    CHECK_EQ(sizeof(struct ring_rx), 64);
}

static void closed_ring_refuses(void)
{
    memset(&mem, 0, sizeof mem);
    ring_tx_init(&tx, &mem, &bell);
    ring_rx_init(&rx, &mem);
    CHECK_EQ(push(1, 8), -RT_EAGAIN);
    CHECK(empty());
    tx.slots_open = true;
    CHECK_EQ(push(1, 8), 0);
    CHECK_EQ(push(2, 49), -RT_EAGAIN); /* byte ring still closed */
    tx.bytes_open = true;
    CHECK_EQ(push(2, 49), 0);
    CHECK(take(1, 8) && take(2, 49) && empty());
}

static void every_length(void)
{
    bool good = true;

    start_at(0, 0, 1);
    for (size_t len = 0; len <= RING_LEN_MAX; len += len < 300 ? 1 : 61)
        good = good && push((uint32_t)len, len) == 0 && take((uint32_t)len, len) && empty();
    CHECK(good);
    CHECK_EQ(push(9, RING_LEN_MAX), 0);
    CHECK(take(9, RING_LEN_MAX));
}

static void full_slots(void)
{
    start_at(5, 0, 1);
    for (uint32_t i = 0; i < RING_SLOTS; i++)
        CHECK_EQ(push(i, 4), 0);
    struct ring_tx before = tx;
    CHECK_EQ(push(999, 4), -RT_EAGAIN);
    CHECK(memcmp(&before, &tx, sizeof tx) == 0); /* no state has changed */
    for (uint32_t i = 0; i < RING_CREDIT_SLOTS; i++) {
        CHECK_EQ(push(999, 4), -RT_EAGAIN); /* credits are returned in groups */
        CHECK(take(i, 4));
    }
    CHECK_EQ(push(RING_SLOTS, 4), 0);
    for (uint32_t i = RING_CREDIT_SLOTS; i <= RING_SLOTS; i++)
        CHECK(take(i, 4));
    CHECK(empty());
}

static void full_bytes(void)
{
    uint32_t n = 0, taken = 0;

    start_at(0, 0, 1);
    while (push(n, 5000) == 0)
        n++;
    CHECK_EQ(n, RING_BYTES / ring_lines(5000));
    CHECK_EQ(push(77, 48), 0); /* a small message needs no bytes */
    while (push(n + 1, 5000) < 0 && taken < n)
        CHECK(take(taken++, 5000));
    CHECK(taken > 0 && taken <= RING_CREDIT_BYTES / 5000 + 2);
    while (taken < n)
        CHECK(take(taken++, 5000));
    CHECK(take(77, 48) && take(n + 1, 5000) && empty());
}

/* Counters, laps and places wrap at different times; mixed lengths, a varying number in flight. */
static void run_mixed(uint32_t messages)
{
    static uint32_t lens[RING_SLOTS];
    uint32_t pushed = 0, taken = 0, seed = 12345;
    bool good = true;

    while (taken < messages && good) {
        seed = seed * 1664525 + 1013904223;
        uint32_t burst = (seed >> 24) % RING_SLOTS;
        while (burst-- && pushed < messages) {
            seed = seed * 1664525 + 1013904223;
            uint32_t len = (seed >> 28) ? (seed >> 16) % 100 : (seed >> 8) % (RING_LEN_MAX + 1);
            if (push(pushed, len) < 0)
                break;
            lens[pushed++ % RING_SLOTS] = len;
        }
        burst = 1 + (seed >> 20) % RING_SLOTS;
        while (burst-- && taken < pushed && good) {
            good = take(taken, lens[taken % RING_SLOTS]);
            taken++;
        }
        good = good && (taken < pushed || empty());
    }
    CHECK_MSG(good && taken == messages, "message %u of %u differs", taken, messages);
}

static void wraps(void)
{
    start_at(0, 0, 1);
    run_mixed(20000);
    start_at(0xffffff00u, 0xfffff000u & ~63u, 40000); /* the 32-bit counters wrap */
    run_mixed(20000);
}

static void laps_start_again_at_one(void)
{
    start_at(RING_SLOTS - 3, 0, 65534);
    run_mixed(4 * RING_SLOTS);
    CHECK(rx.lap >= RING_LAP_ONE && rx.lap < 10 * RING_LAP_ONE);
    CHECK_EQ(ring_next_lap(65535u * RING_LAP_ONE), RING_LAP_ONE);
    /* The last slot of lap 65535 must not be mistaken for lap 1, nor new memory for any lap. */
    start_at(0, 0, 65535);
    for (uint32_t i = 0; i < RING_SLOTS; i++)
        CHECK(push(i, 8) == 0 && take(i, 8));
    CHECK(empty());
}

int main(void)
{
    RUN(a_slot_is_a_line);
    RUN(closed_ring_refuses);
    RUN(every_length);
    RUN(full_slots);
    RUN(full_bytes);
    RUN(wraps);
    RUN(laps_start_again_at_one);
    return check_end();
}
