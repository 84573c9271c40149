/* SPDX-License-Identifier: BSD-3-Clause */
/* btl/verbs connection setup by rdma_cm when it does not go as planned: garbage and unauthenticated
 * requests at its port, no listener at it, requests that are not accepted, a process that is not
 * calling MPI before it accepts a request, different settings.  The rest of the transport is tested
 * by btl_verbs_test and btl_verbs_fail_test with WEFT_VERBS_CONNECT=cm.  Processes made with
 * fork(). */
#include "btl/verbs/dgram.h"
#include "runtime/base/cfg.h"
#include "runtime/base/clock.h"
#include "runtime/ib/cm.h"
#include "test/fake/btl_verbs_pair.h"
#include "test/unit/capture.h"

#include <netinet/in.h>
#include <rdma/rdma_cma.h>

static void talk(void)
{
    send_all(5, 8);
    until(&t.received, 5);
    CHECK_EQ(t.downs, 0);
    barrier();
}

/* ---- unauthenticated requests ---- */

static struct rdma_cm_event *next(struct rdma_event_channel *ch, int expected)
{
    struct rdma_cm_event *e;
    if (rt_cm->get_cm_event(ch, &e)) {
        CHECK_MSG(false, "rdma_get_cm_event: %m");
        _exit(1);
    }
    CHECK_MSG((int)e->event == expected, "%s, expected %s", rt_cm->event_str(e->event),
              rt_cm->event_str(expected));
    return e;
}

struct forged { /* the transport's format */
    uint32_t magic;
    uint8_t version, lane, own_key, pad;
    uint32_t from, to;
    uint8_t mac[32];
};

/* A request with these private data is refused. */
static void send_forged(const void *data, uint8_t len)
{
    struct rdma_event_channel *ch = rt_cm->create_event_channel();
    struct sockaddr_storage to;
    struct rdma_cm_id *id;
    struct verbs_addr_rail *a = &p()->addr.rails[0];
    verbs_sockaddr(v()->rails[0].ib, &a->at, a->cm_port, &to);
    CHECK_EQ(rt_cm->create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
    CHECK_EQ(rt_cm->resolve_addr(id, NULL, (struct sockaddr *)&to, 2000), 0);
    rt_cm->ack_cm_event(next(ch, RDMA_CM_EVENT_ADDR_RESOLVED));
    CHECK_EQ(rt_cm->resolve_route(id, 2000), 0);
    rt_cm->ack_cm_event(next(ch, RDMA_CM_EVENT_ROUTE_RESOLVED));
    struct rdma_conn_param param = { .private_data = data, .private_data_len = len, .qp_num = 77 };
    CHECK_EQ(rt_cm->connect(id, &param), 0);
    rt_cm->ack_cm_event(next(ch, RDMA_CM_EVENT_REJECTED));
    rt_cm->destroy_id(id);
    rt_cm->destroy_event_channel(ch);
}

/* All such requests are refused, and the two processes of the job connect. */
static int forged_requests(int rank, void *arg)
{
    (void)arg;
    CHECK_EQ(start(rank), 0);
    if (rank == 0) {
        uint8_t all[56];
        struct forged r = { VERBS_MAGIC, VERBS_VERSION, 0, 0, 0, 0, 1, { 0 } };
        memset(all, 0xff, sizeof all);
        send_forged(NULL, 0);
        send_forged(all, 1);
        send_forged(all, sizeof all);
        send_forged(&r, sizeof r); /* rank 1 has not had a request of rank 0 */
        r.own_key = 1;
        send_forged(&r, sizeof r);
        r.from = 7;
        send_forged(&r, sizeof r);
        r.from = r.to = 1; /* its own rank */
        send_forged(&r, sizeof r);
        r.lane = 200;
        r.from = 0;
        send_forged(&r, sizeof r);
    }
    barrier();
    CHECK_EQ(v()->nlanes, 0);
    talk();
    if (rank == 0) {
        struct forged r = { VERBS_MAGIC, VERBS_VERSION, 0, 0, 0, 0, 1, { 0 } };
        send_forged(&r, sizeof r);
    }
    barrier();
    t.received = 0;
    talk(); /* the connection still works */
    return end();
}

/* ---- failures ---- */

static void lost(const char *expected) /* its log starts with capture_begin() */
{
    uint64_t begin = rt_now_ns();
    until(&t.downs, 1);
    double s = (double)(rt_now_ns() - begin) * 1e-9;
    const char *log = capture_end();
    CHECK_MSG(strstr(log, expected), "log: %s", log);
    CHECK_MSG(s < 30, "reported after %.1f s", s);
    CHECK_EQ(t.down_err, -RT_EPEER);
    CHECK_EQ(send_one(0, 8), -RT_EPEER);
}

/* Both are notified if no process listens at the port. */
static int nobody(int rank, void *arg)
{
    (void)arg;
    CHECK_EQ(start(rank), 0);
    capture_begin();
    barrier();
    if (rank == 0) {
        p()->addr.rails[0].cm_port ^= 1;
        CHECK_EQ(send_one(0, 8), -RT_EAGAIN);
    }
    lost(rank == 0 ? "refuses the connection: no process listens there" : "it cannot connect");
    barrier();
    return end();
}

/* Datagrams are answered, requests are not: the requester gives up. */
static int unanswered(int rank, void *arg)
{
    (void)arg;
    CHECK_EQ(start(rank), 0);
    struct verbs_cm *cm = v()->cm;
    if (rank == 1)
        v()->cm = NULL;
    capture_begin();
    barrier();
    if (rank == 0)
        CHECK_EQ(send_one(0, 8), -RT_EAGAIN);
    lost(rank == 0 ? "though datagrams arrive" : "it cannot connect");
    v()->cm = cm;
    barrier();
    return end();
}

/* A process that does not call MPI between the agreement and the request, for longer than
 * net_timeout_s, connects afterwards, whichever side started. */
static int not_calling_mpi(int rank, void *arg)
{
    CHECK_EQ(start(rank), 0);
    barrier();
    if (rank == (arg != NULL))
        CHECK_EQ(send_one(0, 8), -RT_EAGAIN);
    if (rank == 1) {
        while (p()->state < VERBS_HALF)
            t.b->ops->progress(t.b);
        sleep(8);
    } else {
        capture_begin();
    }
    while (p()->state != VERBS_UP && !p()->err)
        progress();
    if (rank == 0)
        CHECK_STR(capture_end(), "");
    talk();
    return end();
}

/* A process that receives messages before the event that it is connected handles them as usual:
 * their sender, whose window they fill, can continue. */
static int early(int rank, void *arg)
{
    (void)arg;
    rt_cfg_set("verbs_window", "4", RT_CFG_CMD);
    CHECK_EQ(start(rank), 0);
    if (rank == 0) {
        send_some(0, 4, 8);
        struct verbs_lane *l = p()->lanes;
        verbs_lane_flush(l);
        while (l->done != l->posted && !check_failed_case)
            progress();
        rt_store_release(&board->word, 1u);
        send_some(4, 40, 8);
    } else {
        while (!(p()->nlanes && p()->lanes[0].cm))
            t.b->ops->progress(t.b);
        while (!rt_load_acquire(&board->word)) /* its progress would receive both, in any order */
            usleep(100);
        until(&t.received, 40);
    }
    barrier();
    return end();
}

/* One with rdma_cm, one without: RDMA is not used, and this is logged. */
static int differ(int rank, void *arg)
{
    (void)arg;
    if (rank == 1)
        rt_cfg_set("verbs_connect", "ud", RT_CFG_CMD);
    capture_begin();
    CHECK_EQ(start(rank), -RT_EUNREACH);
    CHECK(strstr(capture_end(), "WEFT_VERBS_CONNECT differs"));
    return end();
}

static void garbage(void) { pair("cm-forged", forged_requests, NULL, 0); }
static void nobody_listens(void) { pair("cm-nobody", nobody, NULL, 0); }
static void unanswered_request(void) { pair("cm-unanswered", unanswered, NULL, 0); }
static void peer_not_calling_mpi(void) { pair("cm-absent", not_calling_mpi, NULL, 0); }
static void connector_not_calling_mpi(void) { pair("cm-begins", not_calling_mpi, board, 0); }
static void early_messages(void) { pair("cm-early", early, NULL, 0); }
static void settings_differ(void) { pair("cm-differ", differ, NULL, 0); }

int main(void)
{
    rt_cfg_load();
    if (!rt_ib_possible())
        check_skip("no RDMA device here; make check-rdma runs this in a guest");
    if (rt_cm_load())
        check_skip("librdmacm is not here, or not in this build");
    rt_cfg_set("verbs_connect", "cm", RT_CFG_CMD);
    rt_cfg_set("net_timeout_s", "3", RT_CFG_CMD);
    board_make();
    RUN(garbage);
    RUN(nobody_listens);
    RUN(unanswered_request);
    RUN(peer_not_calling_mpi);
    RUN(connector_not_calling_mpi);
    RUN(early_messages);
    RUN(settings_differ);
    return check_end();
}
