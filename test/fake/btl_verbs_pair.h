/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the tests of btl/verbs between two processes: processes made with fork(), addresses
 * passed in shared memory, numbered messages that are checked.  A header, because checks count per
 * file.  Every wait ends if a check of its own process has failed, so that the process ends, and
 * fake_run_ranks() then ends the other. */
#ifndef TEST_FAKE_BTL_VERBS_PAIR_H
#define TEST_FAKE_BTL_VERBS_PAIR_H

#include "btl/verbs/lane.h"
#include "btl/verbs/msg.h"
#include "btl/verbs/ops.h"
#include "btl/verbs/poll.h"
#include "btl/verbs/rma.h"
#include "runtime/base/atomic.h"
#include "runtime/base/err.h"
#include "test/check.h"
#include "test/fake/btl_pair.h"

#include <sys/mman.h>
#include <unistd.h>

static struct board {
    uint32_t len[2]; /* stored last; 0: not published yet */
    uint32_t count;  /* of a barrier */
    uint32_t word;   /* for the test's own use, 0 first */
    char blob[2][1024];
} * board;

static struct {
    struct btl *b;
    struct btl_peer *peer;
    uint32_t received, downs;
    int down_err;
    bool answers; /* each message is answered by a message of the same kind */
} t;

static inline struct verbs *v(void) { return (struct verbs *)t.b; }
static inline struct verbs_peer *p(void) { return (struct verbs_peer *)t.peer; }

static inline bool rings_are_on(void) /* both, so no message by SEND follows */
{
    return p()->tx.state == VERBS_RING_ON && p()->rx.state == VERBS_RING_ON;
}

static inline int send_one(int tag, size_t len)
{
    static uint8_t buf[16384];
    struct btl_hdr h = { 0, tag, 0 };
    memset(buf, tag, len);
    return t.b->ops->send(t.peer, &h, buf, len);
}

static inline void on_recv(void *arg, struct btl_peer *from, const struct btl_hdr *h,
                           const void *data, size_t len)
{
    (void)arg;
    (void)from;
    CHECK_EQ(h->tag, t.received);
    for (size_t i = 0; i < len; i++)
        if (((const uint8_t *)data)[i] != (uint8_t)h->tag) {
            CHECK_MSG(false, "byte %zu of message %d differs", i, h->tag);
            break;
        }
    t.received++;
    if (t.answers)
        CHECK_EQ(send_one(h->tag, len), 0);
}

static inline void on_down(void *arg, struct btl_peer *peer, int err)
{
    (void)arg;
    CHECK(peer == t.peer);
    t.downs++;
    t.down_err = err;
}

static inline void progress(void)
{
    if (t.b->ops->progress(t.b) == 0)
        usleep(50);
}

static inline void until(const uint32_t *counter, uint32_t value)
{
    while (rt_load_acquire(counter) < value && !check_failed_case)
        progress();
}

static inline void barrier(void)
{
    static uint32_t generation;
    rt_fetch_add(&board->count, 1u);
    generation += 2;
    until(&board->count, generation);
}

/* Returns the result of add_peer(). */
static inline int start(int rank)
{
    struct btl_up up = { .recv = on_recv, .down = on_down };
    struct rt_proc other = { 0, (uint32_t)!rank };
    int n = btl_verbs_ops.open(&up, &t.b, 1);
    if (n != 1) {
        printf("# open says %d\n", n);
        fflush(stdout);
        _exit(3);
    }
    int len = t.b->ops->address(t.b, board->blob[rank], sizeof board->blob[rank]);
    rt_store_release(&board->len[rank], (uint32_t)len);
    while (!rt_load_acquire(&board->len[!rank]))
        usleep(100);
    return t.b->ops->add_peer(t.b, &other, board->blob[!rank], board->len[!rank], &t.peer);
}

static inline void send_some(int from, int to, size_t len)
{
    for (int i = from, err; i < to; i++) {
        while ((err = send_one(i, len)) == -RT_EAGAIN && !check_failed_case)
            progress();
        CHECK_EQ(err, 0);
    }
}

static inline void send_all(int n, size_t len) { send_some(0, n, len); }

static inline int end(void)
{
    fake_btl_end(t.b);
    return check_failed_case;
}

static inline void board_make(void)
{
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
}

/* The limit is below that of the rows in the lists of tests, so that the output shows which case
 * did not end. */
static inline void pair(const char *name, int (*fn)(int, void *), void *arg, int expected)
{
    memset(board, 0, sizeof *board);
    CHECK_EQ(fake_run_ranks(name, 2, fn, arg, 45), expected);
}

#endif
