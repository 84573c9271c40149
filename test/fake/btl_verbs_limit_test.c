/* SPDX-License-Identifier: BSD-3-Clause */
/* btl/verbs when resources are full or short: queue pairs and memory that the device refuses,
 * buffers and ring space that are all in use, different settings, more peers than can be asked at
 * once; and exit when the peer takes the last messages late, or not at all.  Processes made with
 * fork().  Runs if there is an RDMA device: `make check-rdma` makes one. */
#include "btl/verbs/dgram.h"
#include "runtime/base/cfg.h"
#include "runtime/base/clock.h"
#include "test/fake/btl_verbs_pair.h"
#include "test/unit/capture.h"

static void set(const char *name, const char *value)
{
    CHECK_EQ(rt_cfg_set(name, value, RT_CFG_CMD), 0);
}

static bool leave(void) { return t.b->ops->leave(t.b) == 0; }

/* ---- resources that the device refuses ---- */

static int ngiven; /* how many more requests are granted */
static struct ibv_qp *(*real_create_qp)(struct ibv_pd *, struct ibv_qp_init_attr *);
static struct ibv_mr *(*real_reg_mr)(struct ibv_pd *, void *, size_t, int);

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *a)
{
    if (a->qp_type != IBV_QPT_RC)
        return real_create_qp(pd, a);
    errno = ENOMEM;
    return NULL;
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *base, size_t len, int access)
{
    if (ngiven-- > 0)
        return real_reg_mr(pd, base, len, access);
    errno = ENOMEM;
    return NULL;
}

static struct rt_ib_api *device(void) { return (struct rt_ib_api *)(uintptr_t)rt_ib; }

/* Both sides are notified, each with its own message. */
static int no_queue_pair(int rank, void *arg)
{
    (void)arg;
    set("net_timeout_s", "60");
    CHECK_EQ(start(rank), 0);
    if (rank == 1) {
        real_create_qp = device()->create_qp;
        device()->create_qp = create_qp;
    }
    capture_begin();
    barrier();
    if (rank == 0)
        CHECK_EQ(send_one(0, 8), -RT_EAGAIN);
    until(&t.downs, 1);
    const char *log = capture_end();
    CHECK_EQ(t.down_err, -RT_EPEER);
    CHECK_MSG(strstr(log, rank ? "no queue pair could be made for it" : "it cannot connect"),
              "log: %s", log);
    barrier();
    return end();
}

static int count(const char *text, const char *what)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, what)); at++)
        n++;
    return n;
}

/* The transport continues with the buffers that it has, logs this once, and has no ring. */
static int no_more_memory(int rank, void *arg)
{
    (void)arg;
    set("verbs_window", "64");
    CHECK_EQ(start(rank), 0);
    capture_begin();
    if (rank == 1) {
        real_reg_mr = device()->reg_mr;
        ngiven = 1; /* enough for the connection */
        device()->reg_mr = reg_mr;
    }
    barrier();
    if (rank == 0)
        send_all(200, 8000);
    else
        until(&t.received, 200);
    barrier();
    if (rank == 1)
        send_all(200, 8000);
    else
        until(&t.received, 200);
    barrier();
    const char *log = capture_end();
    CHECK_EQ(t.downs, 0);
    CHECK_MSG(count(log, "does not register") == rank, "log: %s", log);
    CHECK_EQ(p()->rx.mem != NULL, rank == 0);
    return end();
}

/* The largest permitted number of receive buffers leaves room for sends in the completion queue. */
static int many_buffers(int rank, void *arg)
{
    (void)arg;
    set("verbs_srq", "32768");
    CHECK_EQ(start(rank), 0);
    send_all(40, 100);
    until(&t.received, 40);
    barrier();
    return end();
}

/* ---- settings that differ ---- */

static int windows_differ(int rank, void *arg)
{
    (void)arg;
    set("verbs_hot", "0");
    set("verbs_window", rank ? "200" : "4");
    CHECK_EQ(start(rank), 0);
    send_all(100, 100);
    until(&t.received, 100);
    barrier();
    return end();
}

static int lengths_differ(int rank, void *arg)
{
    (void)arg;
    set("net_timeout_s", "60");
    set("verbs_eager", rank ? "4K" : "8K");
    CHECK_EQ(start(rank), 0);
    capture_begin();
    barrier();
    if (rank == 0)
        CHECK_EQ(send_one(0, 8), -RT_EAGAIN);
    until(&t.downs, 1);
    const char *log = capture_end();
    CHECK_EQ(t.down_err, -RT_EPEER);
    CHECK_MSG(strstr(log, rank ? "its WEFT_VERBS_EAGER is 8192, that of this process 4096"
                               : "it cannot connect"),
              "log: %s", log);
    barrier();
    return end();
}

/* ---- more peers than datagrams at a time ---- */

enum { PEERS = 40, QPN = 0xf00000, LOOK_MS = 300 };
static int nasked[PEERS + 1]; /* by rank: how often it was asked */
static int (*real_post)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);

static int counted_post(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    uint32_t r = qp->qp_type == IBV_QPT_UD ? wr->wr.ud.remote_qpn - QPN : 0;
    if (r >= 1 && r <= PEERS)
        nasked[r]++;
    return real_post(qp, wr, bad);
}

/* No peer answers, and this process polls rarely, so all are due to be asked at the same time: each
 * gets its turn. */
static int many_to_ask(int rank, void *arg)
{
    struct btl_up up = { on_recv, on_down, NULL, 0 };
    struct verbs_addr a;
    (void)arg;
    fake_boot_as("verbs-many", rank, PEERS + 1);
    set("net_timeout_s", "600");
    CHECK_EQ(btl_verbs_ops.open(&up, &t.b, 1), 1);
    CHECK_EQ(t.b->ops->address(t.b, &a, sizeof a), sizeof a);
    struct ibv_context_ops *ops = &v()->rails[0].ib->ctx->ops;
    real_post = ops->post_send;
    ops->post_send = counted_post;
    for (uint32_t r = 1; r <= PEERS; r++) {
        for (int i = 0; i < a.nrails; i++) {
            a.rails[i].ud_qpn = QPN - 1;
            a.rails[i].alive_port = QPN + r;
        }
        CHECK_EQ(t.b->ops->add_peer(t.b, &(struct rt_proc){ 0, r }, &a, sizeof a, &t.peer), 0);
        CHECK_EQ(send_one(0, 0), -RT_EAGAIN);
    }
    for (int i = 0; i < 24; i++) {
        t.b->ops->progress(t.b);
        usleep(LOOK_MS * 1000);
    }
    for (int r = 1; r <= PEERS; r++)
        CHECK_MSG(nasked[r] >= 2, "rank %d has been asked %d times", r, nasked[r]);
    ops->post_send = real_post;
    return end();
}

/* ---- leaving ---- */

/* More messages than the other side has buffers for; that side takes them long after
 * net_timeout_s. */
static int leaves_before_peer_receives(int rank, void *arg)
{
    uint32_t n = 0;
    (void)arg;
    set("net_timeout_s", "2");
    set("verbs_hot", "0");
    set("verbs_srq", "64");
    set("verbs_window", "256");
    CHECK_EQ(start(rank), 0);
    if (rank == 0) {
        send_all(5, 8);
        for (n = 5; send_one((int)n, 100) == 0; n++)
            continue;
        CHECK(n > 100);
        board->word = n;
        capture_begin();
        end();
        CHECK_STR(capture_end(), "");
        return check_failed_case;
    }
    until(&t.received, 5);
    while (!rt_load_acquire(&board->word))
        usleep(1000);
    sleep(7);
    until(&t.received, board->word);
    CHECK_EQ(t.downs, 0);
    return end();
}

/* A goodbye that the peer does not acknowledge is not a lost message; a data message is. */
static int unacknowledged(int rank, void *arg)
{
    enum { ALL_DONE = 1, STOPPED, LEFT };
    bool message = arg != NULL;
    set("verbs_timeout", "12");
    set("verbs_retry", "3");
    CHECK_EQ(start(rank), 0);
    send_all(30, 8);
    until(&t.received, 30);
    while (!rings_are_on() && !check_failed_case) /* no agreement is left to be made */
        progress();
    barrier();
    struct verbs_lane *l = p()->lanes;
    if (rank == 1) {
        until(&board->word, ALL_DONE);
        verbs_lanes_stop(p());
        rt_store_release(&board->word, STOPPED);
        while (rt_load_acquire(&board->word) != LEFT)
            usleep(1000);
        capture_begin();
        end();
        capture_end();
        return check_failed_case;
    }
    verbs_lane_flush(l);
    while (l->done != l->posted)
        progress();
    rt_store_release(&board->word, ALL_DONE);
    while (rt_load_acquire(&board->word) != STOPPED)
        usleep(1000);
    capture_begin();
    if (message)
        CHECK_EQ(send_one(30, 8), 0);
    while (!leave())
        progress();
    const char *log = capture_end();
    rt_store_release(&board->word, LEFT);
    CHECK_EQ(p()->err, -RT_EPEER);
    CHECK_MSG(!*log == !message, "log: %s", log);
    return end();
}

/* The send queue has room for the goodbye, but not for a replacement of it. */
static int leaves_a_full_queue(int rank, void *arg)
{
    (void)arg;
    set("verbs_hot", "0");
    set("net_timeout_s", "3600"); /* keep_alive() requests a completion: now and not again */
    CHECK_EQ(start(rank), 0);
    send_all(5, 8);
    until(&t.received, 5);
    barrier();
    if (rank == 1) {
        until(&board->word, 1);
        return end();
    }
    struct verbs_lane *l = p()->lanes;
    while (!v()->alive_ns)
        progress();
    verbs_lane_flush(l);
    while (l->done != l->posted)
        progress();
    for (int i = 0; verbs_lane_has_room(l, 2) && !check_failed_case; i++) {
        struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE,
                                  .wr.rdma = { p()->home.addr, p()->home.rkey } };
        if (i == 5) /* so no completion that comes anyway is the goodbye's */
            verbs_lane_flush(l);
        else
            CHECK_EQ(verbs_lane_post(l, &wr, NULL), 0);
    }
    while (!leave())
        progress();
    CHECK_EQ(t.downs, 0);
    rt_store_release(&board->word, 1);
    return end();
}

static void refused_queue_pair(void) { pair("verbs-noqp", no_queue_pair, NULL, 0); }
static void refused_memory(void) { pair("verbs-nomem", no_more_memory, NULL, 0); }
static void most_buffers(void) { pair("verbs-srq", many_buffers, NULL, 0); }
static void differing_windows(void) { pair("verbs-window", windows_differ, NULL, 0); }
static void differing_lengths(void) { pair("verbs-eager", lengths_differ, NULL, 0); }
static void leaves_early(void) { pair("verbs-late", leaves_before_peer_receives, NULL, 0); }
static void lost_goodbye(void) { pair("verbs-bye", unacknowledged, NULL, 0); }
static void lost_message(void) { pair("verbs-last", unacknowledged, board, 0); }
static void leaving_a_full_queue(void) { pair("verbs-full", leaves_a_full_queue, NULL, 0); }
static void asking_many(void)
{
    CHECK_EQ(fake_run_ranks("verbs-many", 1, many_to_ask, NULL, 45), 0);
}

int main(void)
{
    rt_cfg_load();
    if (!rt_ib_possible())
        check_skip("no RDMA device here; make check-rdma runs this in a guest");
    board_make();
    RUN(refused_queue_pair);
    RUN(refused_memory);
    RUN(most_buffers);
    RUN(differing_windows);
    RUN(differing_lengths);
    RUN(leaves_early);
    RUN(lost_goodbye);
    RUN(lost_message);
    RUN(leaving_a_full_queue);
    RUN(asking_many);
    return check_end();
}
