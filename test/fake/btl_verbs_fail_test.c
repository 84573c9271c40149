/* SPDX-License-Identifier: BSD-3-Clause */
/* btl/verbs when things end or break: leaving with messages queued, dying, queue pairs in the
 * error state, datagrams from outside; and what messages cost. Processes made with fork();
 * addresses pass through shared memory. Runs where there is an RDMA device: `make check-rdma`
 * makes one. */
#include "btl/verbs/verbs.h"
#include "runtime/base/cfg.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "test/check.h"
#include "test/fake/btl_pair.h"
#include "test/unit/capture.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#define TIMEOUT_S 120
#define BIG (8u << 20)

static struct board {
    uint32_t len[2]; /* stored last; 0: not there yet */
    uint32_t count;  /* of a barrier */
    char blob[2][1024];
} * board;

static struct {
    struct btl *b;
    struct btl_peer *peer;
    uint32_t received, downs;
    int down_err, done_err;
    bool done, answers;
} t;

static int send_one(int tag, size_t len);

static void on_recv(void *arg, struct btl_peer *from, const struct btl_hdr *h, const void *data,
                    size_t len)
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

static void on_down(void *arg, struct btl_peer *peer, int err)
{
    (void)arg;
    CHECK(peer == t.peer);
    t.downs++;
    t.down_err = err;
}

static void on_done(struct btl_op *op, int err)
{
    (void)op;
    t.done = true;
    t.done_err = err;
}

static void barrier(void)
{
    static uint32_t generation;
    rt_fetch_add(&board->count, 1u);
    generation += 2;
    while (rt_load_acquire(&board->count) < generation)
        if (t.b->ops->progress(t.b) == 0)
            usleep(100);
}

static void start(int rank)
{
    struct btl_up up = { on_recv, on_down, NULL };
    int n = btl_verbs_ops.open(&up, &t.b, 1);
    if (n != 1) {
        printf("# open says %d\n", n);
        _exit(3);
    }
    int len = t.b->ops->address(t.b, board->blob[rank], sizeof board->blob[rank]);
    rt_store_release(&board->len[rank], (uint32_t)len);
    while (!rt_load_acquire(&board->len[!rank]))
        usleep(100);
    struct rt_proc other = { 0, (uint32_t)!rank };
    CHECK_EQ(t.b->ops->add_peer(t.b, &other, board->blob[!rank], board->len[!rank], &t.peer), 0);
}

static int send_one(int tag, size_t len)
{
    static uint8_t buf[16384];
    struct btl_hdr h = { 0, tag, 0 };
    memset(buf, tag, len);
    return t.b->ops->send(t.peer, &h, buf, len);
}

static void send_all(int n, size_t len)
{
    for (int i = 0, err; i < n; i++) {
        while ((err = send_one(i, len)) == -RT_EAGAIN)
            t.b->ops->progress(t.b);
        CHECK_EQ(err, 0);
    }
}

static void progress_for(double s)
{
    uint64_t end = rt_now_ns() + (uint64_t)(s * 1e9);
    while (rt_now_ns() < end)
        if (t.b->ops->progress(t.b) == 0)
            usleep(50);
}

static void until(const uint32_t *counter, uint32_t value)
{
    while (*counter < value && !check_failed_case)
        if (t.b->ops->progress(t.b) == 0)
            usleep(50);
}

/* Everything that send() took arrives, though its sender closes at once and its receiver looks
 * late. */
static int leaves_at_once(int rank, void *arg)
{
    (void)arg;
    uint32_t n = 0;
    start(rank);
    if (rank == 0) {
        send_all(40, 8); /* connects, and becomes hot */
        progress_for(1);
        for (n = 40; send_one((int)n, n % 3 ? 100 : 8000) == 0; n++)
            continue;
        board->count = n; /* no barrier here */
        t.b->ops->close(t.b);
        return check_failed_case;
    }
    until(&t.received, 40);
    progress_for(0.5);
    sleep(2);
    while (!rt_load_acquire(&board->count))
        usleep(100);
    until(&t.received, board->count);
    progress_for(0.2);
    CHECK_EQ(t.received, board->count);
    CHECK_EQ(t.downs, 0); /* in order is no error, */
    CHECK_EQ(send_one(0, 8), 0);
    until(&t.downs, 1); /* but nothing goes there any more */
    CHECK_EQ(send_one(1, 8), -RT_EPEER);
    t.b->ops->close(t.b);
    return check_failed_case;
}

/* The device says that the other side does not answer; operations under way end. */
static int dies(int rank, void *arg)
{
    bool idle = arg != NULL;
    start(rank);
    send_all(30, 8);
    until(&t.received, 30);
    barrier();
    if (rank == 1)
        kill(getpid(), SIGKILL);
    capture_begin();
    uint64_t begin = rt_now_ns();
    for (int i = 0; !t.downs && rt_now_ns() - begin < 60000000000u; i++) {
        if (!idle && i < 5)
            send_one(30, 8);
        if (t.b->ops->progress(t.b) == 0)
            usleep(1000);
    }
    CHECK_EQ(t.downs, 1);
    CHECK_EQ(t.down_err, -RT_EPEER);
    CHECK(strstr(capture_end(), "connection to rank 1: "));
    CHECK_EQ(send_one(31, 8), -RT_EPEER);
    t.b->ops->close(t.b);
    return check_failed_case;
}

/* A put of 8 MiB under way when the queue pair breaks. */
static int queue_pair_error(int rank, void *arg)
{
    (void)arg;
    start(rank);
    send_all(30, 8);
    until(&t.received, 30);
    char key[BTL_KEY_MAX];
    struct btl_mem *mem;
    char *mine = malloc(BIG);
    memset(mine, 0, BIG);
    CHECK_EQ(t.b->ops->mem_reg(t.b, mine, BIG, NULL, &mem), 0);
    CHECK_EQ(t.b->ops->mem_key(mem, board->blob[rank]), 0);
    barrier();
    memcpy(key, board->blob[!rank], sizeof key);
    capture_begin();
    if (rank == 0) {
        struct btl_rmem *r;
        struct btl_op op = { on_done };
        CHECK_EQ(t.b->ops->attach(t.peer, key, NULL, &r), 0);
        CHECK_EQ(t.b->ops->put(r, 0, NULL, mine, BIG, &op), 0);
        verbs_lanes_stop((struct verbs_peer *)t.peer);
        until(&t.downs, 1);
        CHECK(t.done && t.done_err == -RT_EPEER);
        CHECK(strstr(capture_end(), "error state"));
        t.b->ops->detach(r);
    } else { /* finds it out when it next uses the connection, by itself if it does not */
        until(&t.downs, 1);
        capture_end();
    }
    CHECK_EQ(t.down_err, -RT_EPEER);
    CHECK_EQ(send_one(31, 8), -RT_EPEER);
    t.b->ops->mem_dereg(mem);
    t.b->ops->close(t.b);
    free(mine);
    return check_failed_case;
}

/* Answers to messages that are found together leave together: in one work request. */
static int answers_together(int rank, void *arg)
{
    (void)arg;
    start(rank);
    struct verbs_lane *l;
    send_all(40, 8);
    until(&t.received, 40);
    progress_for(0.5);
    l = ((struct verbs_peer *)t.peer)->lanes;
    CHECK(((struct verbs_peer *)t.peer)->tx.on);
    barrier();
    if (rank == 0) {
        for (int i = 40; i < 60; i++)
            CHECK_EQ(send_one(i, 8), 0);
        verbs_lane_flush(l);
        while (l->done != l->posted)
            t.b->ops->progress(t.b);
        rt_store_release(&board->len[0], 1u);
        until(&t.received, 60);
    } else {
        while (rt_load_acquire(&board->len[0]) != 1)
            usleep(100);
        uint32_t before = l->posted;
        t.answers = true;
        t.b->ops->progress(t.b);
        t.answers = false;
        CHECK_EQ(t.received, 60);
        CHECK_MSG(l->posted - before <= 2, "20 answers took %u requests", l->posted - before);
    }
    barrier();
    t.b->ops->close(t.b);
    return check_failed_case;
}

/* Both begin at the same time, again and again. */
static int connect_at_once(int rank, void *arg)
{
    (void)arg;
    start(rank);
    barrier();
    send_all(20, 100);
    until(&t.received, 20);
    barrier();
    t.b->ops->close(t.b);
    return check_failed_case;
}

/* Who does not know the key of an address gets no connection, and no answer. */
static int wrong_key(int rank, void *arg)
{
    struct verbs *v;
    struct verbs_peer *p = NULL;
    (void)arg;
    start(rank);
    v = (struct verbs *)t.b;
    if (rank == 0) {
        p = (struct verbs_peer *)t.peer;
        p->addr.key[5] ^= 1;
        CHECK_EQ(send_one(0, 8), -RT_EAGAIN);
    } else {
        p = (struct verbs_peer *)t.peer;
    }
    progress_for(2);
    CHECK_EQ(p->state, rank == 0 ? VERBS_ASKING : VERBS_NEW);
    CHECK(!p->has_theirs && !p->has_ours && v->nlanes == (rank == 0 ? (uint32_t)p->nlanes : 0));
    barrier();
    if (rank == 0)
        p->addr.key[5] ^= 1;
    send_all(3, 8);
    until(&t.received, 3);
    barrier();
    t.b->ops->close(t.b);
    return check_failed_case;
}

/* Who computes for longer than net_timeout_s, on the asking or on the asked side, is no lost peer,
 * and hears no warning. */
static int computes(int rank, void *arg)
{
    bool both = arg != NULL;
    start(rank);
    struct verbs_peer *p = (struct verbs_peer *)t.peer;
    rt_cfg_set("net_timeout_s", "2", RT_CFG_CMD);
    barrier();
    if (rank == 1) {
        sleep(7);
        send_all(5, 8);
    } else {
        capture_begin();
        CHECK_EQ(send_one(0, 8), -RT_EAGAIN);
        if (both)
            progress_for(1.5); /* asks, and then does not look for the answer */
        if (both)
            sleep(4);
        send_all(5, 8);
        CHECK(p->pongs >= (both ? 1 : 4));
        CHECK_STR(capture_end(), "");
    }
    until(&t.received, 5);
    CHECK_EQ(t.downs, 0);
    barrier();
    t.b->ops->close(t.b);
    return check_failed_case;
}

/* An address that the system sends nothing to, queue pairs that nobody has (what is sent is lost),
 * and a process that has ended before it was spoken to. */
enum nowhere { NO_WAY, NO_PORT, HAS_ENDED };
static int nowhere(int rank, void *arg)
{
    enum nowhere how = *(enum nowhere *)arg;
    rt_cfg_set("net_timeout_s", "2", RT_CFG_CMD);
    start(rank);
    struct verbs_peer *p = (struct verbs_peer *)t.peer;
    barrier();
    if (rank == 1) {
        if (how != HAS_ENDED)
            progress_for(5);
        CHECK_EQ(p->state, VERBS_NEW);
        t.b->ops->close(t.b);
        return check_failed_case;
    }
    if (how == HAS_ENDED)
        sleep(1);
    for (int i = 0; i < p->addr.nrails; i++) {
        if (how == NO_WAY)
            memset(p->addr.rails[i].at.gid, 0, sizeof p->addr.rails[i].at.gid);
        if (how == NO_PORT)
            p->addr.rails[i].ud_qpn = p->addr.rails[i].alive_port = 0xfffff0;
    }
    capture_begin();
    uint64_t begin = rt_now_ns();
    CHECK_EQ(send_one(0, 8), -RT_EAGAIN);
    until(&t.downs, 1);
    double s = (double)(rt_now_ns() - begin) * 1e-9;
    const char *log = capture_end();
    CHECK_MSG(s > 1.5 && s < 20, "told after %.1f s", s);
    CHECK_EQ(t.down_err, -RT_EPEER);
    CHECK_MSG(strstr(log, "connection to rank 1: no sign of life for 2 s"), "log: %s", log);
    CHECK_EQ(send_one(0, 8), -RT_EPEER);
    t.b->ops->close(t.b);
    return check_failed_case;
}

/* What one side cannot do is an error on both, long before net_timeout_s. */
static int refuses(int rank, void *arg)
{
    (void)arg;
    rt_cfg_set("net_timeout_s", "60", RT_CFG_CMD);
    start(rank);
    struct verbs_peer *p = (struct verbs_peer *)t.peer;
    if (rank == 0)
        p->addr.qps = 2; /* wants two queue pairs, which its own address denies */
    ((struct verbs *)t.b)->addr.qps = rank == 0 ? 2 : 1;
    barrier();
    capture_begin();
    if (rank == 0)
        CHECK_EQ(send_one(0, 8), -RT_EAGAIN);
    until(&t.downs, 1);
    const char *log = capture_end();
    CHECK_EQ(t.down_err, -RT_EPEER);
    CHECK_MSG(strstr(log, rank == 0 ? "it cannot connect" : "queue pairs"), "log: %s", log);
    barrier();
    t.b->ops->close(t.b);
    return check_failed_case;
}

static void pair(const char *name, int (*fn)(int, void *), void *arg, int expected)
{
    memset(board, 0, sizeof *board);
    CHECK_EQ(fake_run_ranks(name, 2, fn, arg, TIMEOUT_S), expected);
}

static void leaving_at_once(void) { pair("verbs-leave", leaves_at_once, NULL, 0); }
static void answering_together(void) { pair("verbs-answers", answers_together, NULL, 0); }
static void strangers(void) { pair("verbs-key", wrong_key, NULL, 0); }
static void peer_dies(void) { pair("verbs-dies", dies, NULL, 128 + SIGKILL); }
static void idle_peer_dies(void) { pair("verbs-idle", dies, board, 128 + SIGKILL); }
static void broken_queue_pair(void) { pair("verbs-qp", queue_pair_error, NULL, 0); }
static void computing_peer(void) { pair("verbs-computes", computes, NULL, 0); }
static void both_compute(void) { pair("verbs-both", computes, board, 0); }
static void no_way(void) { pair("verbs-way", nowhere, &(enum nowhere){ NO_WAY }, 0); }
static void wrong_port(void) { pair("verbs-port", nowhere, &(enum nowhere){ NO_PORT }, 0); }
static void ended_peer(void) { pair("verbs-ended", nowhere, &(enum nowhere){ HAS_ENDED }, 0); }
static void refusing_peer(void) { pair("verbs-refuses", refuses, NULL, 0); }
static void connecting_at_once(void)
{
    for (int i = 0; i < 5 && !check_failed_case; i++)
        pair("verbs-connect", connect_at_once, NULL, 0);
}

int main(void)
{
    rt_cfg_load();
    if (!rt_ib_possible())
        check_skip("no RDMA device here; make check-rdma runs this in a guest");
    rt_cfg_set("net_timeout_s", "6", RT_CFG_CMD);
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    RUN(leaving_at_once);
    RUN(connecting_at_once);
    RUN(answering_together);
    RUN(strangers);
    RUN(computing_peer);
    RUN(both_compute);
    RUN(no_way);
    RUN(wrong_port);
    RUN(ended_peer);
    RUN(refusing_peer);
    RUN(peer_dies);
    RUN(idle_peer_dies);
    RUN(broken_queue_pair);
    return check_end();
}
