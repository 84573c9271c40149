/* SPDX-License-Identifier: BSD-3-Clause */
/* btl/verbs when connections end or break: exit with queued messages, death, queue pairs in the
 * error state, datagrams from outside the job; and the number of work requests per message.
 * Processes made with fork(); addresses are passed in shared memory.  Runs if there is an RDMA
 * device: `make check-rdma` makes one. */
#include "runtime/base/cfg.h"
#include "runtime/base/clock.h"
#include "test/fake/btl_verbs_pair.h"
#include "test/unit/capture.h"

#include <signal.h>

#define BIG (8u << 20)

static struct {
    bool is;
    int err;
} done;

static void on_done(struct btl_op *op, int err)
{
    (void)op;
    done.is = true;
    done.err = err;
}

static void progress_for(double s)
{
    uint64_t end = rt_now_ns() + (uint64_t)(s * 1e9);
    while (rt_now_ns() < end)
        progress();
}

/* Every message that send() accepted arrives, although its sender closes at once and its receiver
 * polls late. */
static int leaves_at_once(int rank, void *arg)
{
    (void)arg;
    uint32_t n = 0;
    CHECK_EQ(start(rank), 0);
    if (rank == 0) {
        send_all(40, 8); /* connects, and starts to use the ring */
        progress_for(1);
        for (n = 40; send_one((int)n, n % 3 ? 100 : 8000) == 0; n++)
            continue;
        board->count = n; /* no barrier needed */
        return end();
    }
    until(&t.received, 40);
    progress_for(0.5);
    sleep(2);
    while (!rt_load_acquire(&board->count))
        usleep(100);
    until(&t.received, board->count);
    progress_for(0.2);
    CHECK_EQ(t.received, board->count);
    CHECK_EQ(t.downs, 0); /* an orderly exit is no error, */
    CHECK_EQ(send_one(0, 8), 0);
    until(&t.downs, 1); /* but nothing can be sent there any more */
    CHECK_EQ(send_one(1, 8), -RT_EPEER);
    return end();
}

/* The device reports that the other side does not answer; operations in progress end. */
static int dies(int rank, void *arg)
{
    bool idle = arg != NULL;
    CHECK_EQ(start(rank), 0);
    send_all(30, 8);
    until(&t.received, 30);
    capture_begin();
    barrier();
    if (rank == 1)
        kill(getpid(), SIGKILL);
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
    return end();
}

/* A put of 8 MiB in progress when the queue pair breaks. */
static int queue_pair_error(int rank, void *arg)
{
    (void)arg;
    CHECK_EQ(start(rank), 0);
    send_all(30, 8);
    until(&t.received, 30);
    char key[BTL_KEY_MAX];
    struct btl_mem *mem;
    char *mine = malloc(BIG);
    memset(mine, 0, BIG);
    CHECK_EQ(t.b->ops->mem_reg(t.b, mine, BIG, NULL, &mem), 0);
    CHECK_EQ(t.b->ops->mem_key(mem, board->blob[rank]), 0);
    capture_begin();
    barrier();
    memcpy(key, board->blob[!rank], sizeof key);
    if (rank == 0) {
        struct btl_rmem *r;
        struct btl_op op = { on_done };
        CHECK_EQ(t.b->ops->attach(t.peer, key, NULL, &r), 0);
        CHECK_EQ(t.b->ops->put(r, 0, NULL, mine, BIG, &op), 0);
        verbs_lanes_stop(p());
        until(&t.downs, 1);
        CHECK(done.is && done.err == -RT_EPEER);
        CHECK(strstr(capture_end(), "error state"));
        t.b->ops->detach(r);
    } else { /* detects it when it next uses the connection, or by itself */
        until(&t.downs, 1);
        capture_end();
    }
    CHECK_EQ(t.down_err, -RT_EPEER);
    CHECK_EQ(send_one(31, 8), -RT_EPEER);
    t.b->ops->mem_dereg(mem);
    fake_btl_end(t.b);
    free(mine);
    return check_failed_case;
}

/* Answers to messages that are found together leave together, in one work request.  Rank 1 polls
 * once, when all messages are there, and not before. */
static int answers_together(int rank, void *arg)
{
    enum { LOOKS_AWAY = 1, ALL_THERE };
    (void)arg;
    CHECK_EQ(start(rank), 0);
    send_all(40, 8);
    until(&t.received, 40);
    while (!rings_are_on() && !check_failed_case)
        progress();
    barrier();
    struct verbs_lane *l = p()->lanes;
    if (rank == 0) {
        until(&board->word, LOOKS_AWAY);
        for (int i = 40; i < 60; i++)
            CHECK_EQ(send_one(i, 8), 0);
        verbs_lane_flush(l);
        while (l->done != l->posted)
            progress();
        rt_store_release(&board->word, ALL_THERE);
        until(&t.received, 60);
    } else {
        rt_store_release(&board->word, LOOKS_AWAY);
        while (rt_load_acquire(&board->word) != ALL_THERE)
            usleep(100);
        uint32_t before = l->posted;
        t.answers = true;
        t.b->ops->progress(t.b);
        t.answers = false;
        CHECK_EQ(t.received, 60);
        CHECK_MSG(l->posted - before <= 2, "20 answers took %u requests", l->posted - before);
    }
    barrier();
    return end();
}

/* Both connect at the same time, repeatedly. */
static int connect_at_once(int rank, void *arg)
{
    (void)arg;
    CHECK_EQ(start(rank), 0);
    barrier();
    send_all(20, 100);
    until(&t.received, 20);
    barrier();
    return end();
}

/* Requests that the device neither completes nor fails: requests of reliable queue pairs. */
static int (*real_post)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);
static int post_nowhere(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    return qp->qp_type == IBV_QPT_RC ? 0 : real_post(qp, wr, bad);
}

/* As long as the peer's process answers, requests may take their time; a frozen process is lost. */
static int stands_still(int rank, void *arg)
{
    (void)arg;
    CHECK_EQ(start(rank), 0);
    send_all(30, 8);
    until(&t.received, 30);
    barrier();
    if (rank == 1) { /* is not calling MPI, and then is frozen */
        memcpy(board->blob[0], &(pid_t){ getpid() }, sizeof(pid_t));
        barrier();
        while (!rt_load_acquire(&board->word))
            usleep(1000);
        raise(SIGSTOP);
    }
    barrier();
    pid_t other;
    memcpy(&other, board->blob[0], sizeof other);
    rt_cfg_set("net_timeout_s", "2", RT_CFG_CMD);
    struct ibv_context_ops *ops = &p()->lanes[0].qp->context->ops;
    real_post = ops->post_send;
    ops->post_send = post_nowhere;
    capture_begin();
    progress_for(7); /* the next check is at most 2 s away */
    CHECK_EQ(t.downs, 0);
    CHECK(p()->live.pongs >= 2);
    rt_store_release(&board->word, 1);
    until(&t.downs, 1);
    const char *log = capture_end();
    CHECK_EQ(t.down_err, -RT_EPEER);
    CHECK_MSG(strstr(log, "has not answered for 2 s"), "log: %s", log);
    CHECK_EQ(send_one(0, 8), -RT_EPEER);
    ops->post_send = real_post;
    kill(other, SIGKILL);
    return end();
}

/* A process without the key of an address gets no connection and no answer. */
static int wrong_key(int rank, void *arg)
{
    (void)arg;
    CHECK_EQ(start(rank), 0);
    if (rank == 0) {
        p()->addr.key[5] ^= 1;
        CHECK_EQ(send_one(0, 8), -RT_EAGAIN);
    }
    progress_for(2);
    CHECK_EQ(p()->state, rank == 0 ? VERBS_ASKING : VERBS_NEW);
    CHECK_EQ(v()->nlanes, rank == 0 ? p()->nlanes : 0);
    barrier();
    if (rank == 0)
        p()->addr.key[5] ^= 1;
    send_all(3, 8);
    until(&t.received, 3);
    barrier();
    return end();
}

/* A process that is not calling MPI for longer than net_timeout_s, on either side, is not a lost
 * peer, and causes no warning. */
static int not_calling_mpi(int rank, void *arg)
{
    bool both = arg != NULL;
    CHECK_EQ(start(rank), 0);
    rt_cfg_set("net_timeout_s", "2", RT_CFG_CMD);
    barrier();
    if (rank == 1) {
        sleep(7);
        send_all(5, 8);
    } else {
        capture_begin();
        CHECK_EQ(send_one(0, 8), -RT_EAGAIN);
        if (both)
            progress_for(1.5); /* asks, and then does not poll for the answer */
        if (both)
            sleep(4);
        send_all(5, 8);
        CHECK(p()->live.pongs >= (both ? 1 : 4));
        CHECK_STR(capture_end(), "");
    }
    until(&t.received, 5);
    CHECK_EQ(t.downs, 0);
    barrier();
    return end();
}

/* An address that the system cannot reach, queue pairs that do not exist (data sent to them are
 * lost), and a process that ended before it was contacted. */
enum nowhere { NO_WAY, NO_PORT, HAS_ENDED };
static int nowhere(int rank, void *arg)
{
    enum nowhere how = *(enum nowhere *)arg;
    rt_cfg_set("net_timeout_s", "2", RT_CFG_CMD);
    CHECK_EQ(start(rank), 0);
    barrier();
    if (rank == 1) {
        if (how != HAS_ENDED)
            progress_for(5);
        CHECK_EQ(p()->state, VERBS_NEW);
        return end();
    }
    if (how == HAS_ENDED)
        sleep(1);
    for (int i = 0; i < p()->addr.nrails; i++) {
        if (how == NO_WAY)
            memset(p()->addr.rails[i].at.gid, 0, sizeof p()->addr.rails[i].at.gid);
        if (how == NO_PORT)
            p()->addr.rails[i].ud_qpn = p()->addr.rails[i].alive_port = 0xfffff0;
    }
    capture_begin();
    uint64_t begin = rt_now_ns();
    CHECK_EQ(send_one(0, 8), -RT_EAGAIN);
    until(&t.downs, 1);
    double s = (double)(rt_now_ns() - begin) * 1e-9;
    const char *log = capture_end();
    CHECK_MSG(s > 1.5 && s < 20, "reported after %.1f s", s);
    CHECK_EQ(t.down_err, -RT_EPEER);
    CHECK_MSG(strstr(log, "connection to rank 1: no sign of life for 2 s"), "log: %s", log);
    CHECK_EQ(send_one(0, 8), -RT_EPEER);
    return end();
}

/* A failure of one side is an error on both, long before net_timeout_s. */
static int refuses(int rank, void *arg)
{
    (void)arg;
    rt_cfg_set("net_timeout_s", "60", RT_CFG_CMD);
    CHECK_EQ(start(rank), 0);
    if (rank == 0)
        p()->addr.qps = 2; /* requests two queue pairs, which its own address excludes */
    v()->addr.qps = rank == 0 ? 2 : 1;
    capture_begin();
    barrier();
    if (rank == 0)
        CHECK_EQ(send_one(0, 8), -RT_EAGAIN);
    until(&t.downs, 1);
    const char *log = capture_end();
    CHECK_EQ(t.down_err, -RT_EPEER);
    CHECK_MSG(strstr(log, rank == 0 ? "it cannot connect" : "queue pairs"), "log: %s", log);
    barrier();
    return end();
}

static void leaving_at_once(void) { pair("verbs-leave", leaves_at_once, NULL, 0); }
static void answering_together(void) { pair("verbs-answers", answers_together, NULL, 0); }
static void key_is_checked(void) { pair("verbs-key", wrong_key, NULL, 0); }
static void peer_dies(void) { pair("verbs-dies", dies, NULL, 128 + SIGKILL); }
static void idle_peer_dies(void) { pair("verbs-idle", dies, board, 128 + SIGKILL); }
static void broken_queue_pair(void) { pair("verbs-qp", queue_pair_error, NULL, 0); }
static void standing_still(void) { pair("verbs-still", stands_still, NULL, 128 + SIGKILL); }
static void peer_not_calling_mpi(void) { pair("verbs-absent", not_calling_mpi, NULL, 0); }
static void neither_calls_mpi(void) { pair("verbs-both", not_calling_mpi, board, 0); }
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
    board_make();
    RUN(leaving_at_once);
    RUN(connecting_at_once);
    RUN(answering_together);
    RUN(key_is_checked);
    RUN(peer_not_calling_mpi);
    RUN(neither_calls_mpi);
    RUN(no_way);
    RUN(wrong_port);
    RUN(ended_peer);
    RUN(refusing_peer);
    RUN(standing_still);
    RUN(peer_dies);
    RUN(idle_peer_dies);
    RUN(broken_queue_pair);
    return check_end();
}
