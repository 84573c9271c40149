/* SPDX-License-Identifier: BSD-3-Clause */
/* btl/verbs connecting by rdma_cm, when that does not go as planned: garbage and strangers at its
 * port, nobody at it, requests that nobody takes, a process that computes before it takes one,
 * settings that differ.  The rest of the transport is tested by btl_verbs_test and
 * btl_verbs_fail_test with WEFT_VERBS_CONNECT=cm.  Processes made with fork(). */
#include "btl/verbs/dgram.h"
#include "runtime/base/cfg.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/ib/cm.h"
#include "test/check.h"
#include "test/fake/btl_pair.h"
#include "test/unit/capture.h"

#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <sys/mman.h>
#include <unistd.h>

#define TIMEOUT_S 60

static struct board {
    uint32_t len[2]; /* stored last; 0: not there yet */
    uint32_t count;  /* of a barrier */
    char blob[2][1024];
} * board;

static struct {
    struct btl *b;
    struct btl_peer *peer;
    uint32_t received, downs;
    int down_err;
} t;

static void on_recv(void *arg, struct btl_peer *from, const struct btl_hdr *h, const void *data,
                    size_t len)
{
    (void)arg;
    (void)from;
    (void)data;
    (void)len;
    CHECK_EQ(h->tag, t.received);
    t.received++;
}

static void on_down(void *arg, struct btl_peer *peer, int err)
{
    (void)arg;
    CHECK(peer == t.peer);
    t.downs++;
    t.down_err = err;
}

static struct verbs *v(void) { return (struct verbs *)t.b; }
static struct verbs_peer *p(void) { return (struct verbs_peer *)t.peer; }

static void barrier(void)
{
    static uint32_t generation;
    rt_fetch_add(&board->count, 1u);
    generation += 2;
    while (rt_load_acquire(&board->count) < generation)
        if (t.b->ops->progress(t.b) == 0)
            usleep(100);
}

static int start(int rank)
{
    struct btl_up up = { on_recv, on_down, NULL };
    rt_cfg_set("net_timeout_s", "3", RT_CFG_CMD);
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
    return t.b->ops->add_peer(t.b, &other, board->blob[!rank], board->len[!rank], &t.peer);
}

static int send_one(int tag)
{
    struct btl_hdr h = { 0, tag, 0 };
    return t.b->ops->send(t.peer, &h, &tag, sizeof tag);
}

static void until(const uint32_t *counter, uint32_t value)
{
    while (*counter < value && !check_failed_case)
        if (t.b->ops->progress(t.b) == 0)
            usleep(50);
}

static void talk(void)
{
    for (int i = 0, err; i < 5; i++) {
        while ((err = send_one(i)) == -RT_EAGAIN)
            t.b->ops->progress(t.b);
        CHECK_EQ(err, 0);
    }
    until(&t.received, 5);
    CHECK_EQ(t.downs, 0);
    barrier();
}

static int end(void)
{
    t.b->ops->close(t.b);
    return check_failed_case;
}

/* ---- strangers ---- */

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

struct forged { /* as the transport's own */
    uint32_t magic;
    uint8_t version, lane, own_key, pad;
    uint32_t from, to;
    uint8_t mac[32];
};

/* A request with these private data is refused. */
static void stranger(const void *data, uint8_t len)
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

/* Whatever comes, it is refused, and the two that belong together connect. */
static int strangers(int rank, void *arg)
{
    (void)arg;
    CHECK_EQ(start(rank), 0);
    if (rank == 0) {
        uint8_t all[56];
        struct forged r = { VERBS_MAGIC, VERBS_VERSION, 0, 0, 0, 0, 1, { 0 } };
        memset(all, 0xff, sizeof all);
        stranger(NULL, 0);
        stranger(all, 1);
        stranger(all, sizeof all);
        stranger(&r, sizeof r); /* rank 1 has not heard of rank 0 */
        r.own_key = 1;
        stranger(&r, sizeof r);
        r.from = 7;
        stranger(&r, sizeof r);
        r.from = r.to = 1; /* itself */
        stranger(&r, sizeof r);
        r.lane = 200;
        r.from = 0;
        stranger(&r, sizeof r);
    }
    barrier();
    CHECK_EQ(v()->nlanes, 0);
    talk();
    if (rank == 0) {
        struct forged r = { VERBS_MAGIC, VERBS_VERSION, 0, 0, 0, 0, 1, { 0 } };
        stranger(&r, sizeof r);
    }
    barrier();
    t.received = 0;
    talk(); /* nothing has changed */
    return end();
}

/* ---- what fails ---- */

static void lost(const char *expected)
{
    capture_begin();
    uint64_t begin = rt_now_ns();
    until(&t.downs, 1);
    double s = (double)(rt_now_ns() - begin) * 1e-9;
    const char *log = capture_end();
    CHECK_MSG(strstr(log, expected), "log: %s", log);
    CHECK_MSG(s < 30, "told after %.1f s", s);
    CHECK_EQ(t.down_err, -RT_EPEER);
    CHECK_EQ(send_one(0), -RT_EPEER);
}

/* Both are told when nobody listens at the port. */
static int nobody(int rank, void *arg)
{
    (void)arg;
    CHECK_EQ(start(rank), 0);
    barrier();
    if (rank == 0) {
        p()->addr.rails[0].cm_port ^= 1;
        CHECK_EQ(send_one(0), -RT_EAGAIN);
    }
    lost(rank == 0 ? "refuses the connection: nobody listens there" : "it cannot connect");
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
    barrier();
    if (rank == 0)
        CHECK_EQ(send_one(0), -RT_EAGAIN);
    lost(rank == 0 ? "though datagrams arrive" : "it cannot connect");
    v()->cm = cm;
    barrier();
    return end();
}

/* Who computes between the agreement and the request for longer than net_timeout_s connects after
 * that; whoever began. */
static int computes(int rank, void *arg)
{
    CHECK_EQ(start(rank), 0);
    barrier();
    if (rank == (arg != NULL))
        CHECK_EQ(send_one(0), -RT_EAGAIN);
    if (rank == 1) {
        while (!p()->has_theirs)
            t.b->ops->progress(t.b);
        sleep(8);
    } else {
        capture_begin();
    }
    while (p()->state != VERBS_UP && !p()->err)
        if (t.b->ops->progress(t.b) == 0)
            usleep(50);
    if (rank == 0)
        CHECK_STR(capture_end(), "");
    talk();
    return end();
}

/* One by rdma_cm, one without: not by RDMA, and said. */
static int differ(int rank, void *arg)
{
    (void)arg;
    if (rank == 1)
        rt_cfg_set("verbs_connect", "ud", RT_CFG_CMD);
    capture_begin();
    CHECK_EQ(start(rank), -RT_EUNREACH);
    CHECK(strstr(capture_end(), "WEFT_VERBS_CONNECT differs"));
    t.b->ops->close(t.b);
    return check_failed_case;
}

static void pair(const char *name, int (*fn)(int, void *), void *arg)
{
    memset(board, 0, sizeof *board);
    CHECK_EQ(fake_run_ranks(name, 2, fn, arg, TIMEOUT_S), 0);
}

static void garbage(void) { pair("cm-strangers", strangers, NULL); }
static void nobody_listens(void) { pair("cm-nobody", nobody, NULL); }
static void unanswered_request(void) { pair("cm-unanswered", unanswered, NULL); }
static void computing_peer(void) { pair("cm-computes", computes, NULL); }
static void computing_beginner(void) { pair("cm-begins", computes, board); }
static void settings_differ(void) { pair("cm-differ", differ, NULL); }

int main(void)
{
    rt_cfg_load();
    if (!rt_ib_possible())
        check_skip("no RDMA device here; make check-rdma runs this in a guest");
    if (rt_cm_load())
        check_skip("librdmacm is not here, or not in this build");
    rt_cfg_set("verbs_connect", "cm", RT_CFG_CMD);
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    RUN(garbage);
    RUN(nobody_listens);
    RUN(unanswered_request);
    RUN(computing_peer);
    RUN(computing_beginner);
    RUN(settings_differ);
    return check_end();
}
