/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs connected by rdma_cm: on rails that need it (iWARP), or if verbs_connect selects it.
 *
 * HELLOs (handshake.c) agree on the connection over UDP.  When each side has the other's HELLO, the
 * lower rank connects each lane to the port in the peer's address; the peer accepts inside MPI.  A
 * request names its sender and its lane and carries an HMAC over both nonces, so a recorded request
 * is useless, and only agreed lanes are accepted.  A request without an answer is repeated as long
 * as the peer answers pings (alive.c).  If a connection is closed without a goodbye, the peer is
 * lost. */
#include "btl/verbs/cm.h"
#include "btl/verbs/dgram.h"
#include "btl/verbs/handshake.h"
#include "btl/verbs/msg.h"
#include "btl/verbs/poll.h"
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "runtime/base/hmac.h"
#include "runtime/base/log.h"
#include "runtime/ib/cm.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define BACKLOG 1024
#define RESOLVE_MS 2000 /* limit of rdma_resolve_addr; failed attempts are repeated */
#define TRIES 10        /* attempts that end with an error, not by a timeout */
/* A peer that has answered HELLOs for this time would have received a request. */
#define ENOUGH_MS 1500u
/* Reasons of a rejection in the InfiniBand specification, table "REJ reason". */
#define REJ_NOBODY 8 /* no listener */
#define REJ_STALE 10 /* left from an earlier connection */

/* Private data of a request; InfiniBand has room for 56 bytes. */
struct request {
    uint32_t magic;
    uint8_t version, lane, own_key, pad; /* own_key: the HMAC uses the sender's key */
    uint32_t from, to;
    uint8_t mac[RT_SHA256_LEN]; /* over the fields before it and both nonces */
};
_Static_assert(sizeof(struct request) <= 56, "a request fits into private data");

struct refusal { /* private data of a rejection */
    uint32_t magic;
    uint8_t why; /* enum why */
    uint8_t pad[3];
};
enum why { WHY_UNKNOWN, WHY_STRANGER, WHY_NOT_AGREED, WHY_FAILED };
static const char *const why_text[] = {
    [WHY_UNKNOWN] = "without a reason",
    [WHY_STRANGER] = "the request was not of this job",
    [WHY_NOT_AGREED] = "no connection was agreed",
    [WHY_FAILED] = "the connection had failed before",
};

struct verbs_cm {
    struct rdma_event_channel *chan;
    struct rdma_cm_id *listen[VERBS_RAILS];
};

struct news { /* copy of an event, which has been acknowledged */
    struct rdma_cm_id *id, *listen_id;
    enum rdma_cm_event_type event;
    int status;
    size_t len;
    char data[256]; /* private */
};

/* ---- opening and closing ---- */

static int listen_on(struct verbs *v, struct verbs_rail *r)
{
    struct sockaddr_storage at;
    struct verbs_addr_rail *mine = &v->addr.rails[r->index];
    struct rdma_cm_id **id = &v->cm->listen[r->index];
    rt_ib_addr(r->ib, &mine->at);
    verbs_sockaddr(r->ib, &mine->at, 0, &at);
    if (rt_cm->create_id(v->cm->chan, id, r, RDMA_PS_TCP))
        goto err;
    if (rt_cm->bind_addr(*id, (struct sockaddr *)&at))
        goto err;
    if (!(*id)->verbs || strcmp(rt_ib->get_device_name((*id)->verbs->device), r->ib->dev) != 0) {
        log_error(BTL,
                  "rdma_cm takes the address of %s for another device; name one in WEFT_IB_HCA",
                  r->ib->dev);
        return -RT_ESYS;
    }
    if (rt_cm->listen(*id, BACKLOG))
        goto err;
    mine->cm_port = ntohs(rt_cm->get_src_port(*id));
    return 0;
err:
    log_error(BTL, "rdma_cm does not listen on %s port %d: %m", r->ib->dev, r->ib->port);
    return -RT_ESYS;
}

bool verbs_cm_wanted(const struct rt_ib_rail *ib)
{
    return ib->iwarp || (ib->roce && cfg.verbs_connect == RT_CM_ALWAYS);
}

int verbs_cm_open(struct verbs *v)
{
    bool any = false;
    for (int i = 0; i < v->nrails; i++)
        any = any || v->rails[i].cm;
    if (!any)
        return 0;
    if (rt_cm_load()) {
        log_error(BTL, "connecting by rdma_cm is not possible: %s", rt_cm_why_not());
        return -RT_ENOTSUP;
    }
    v->cm = calloc(1, sizeof *v->cm);
    if (!v->cm)
        return -RT_ENOMEM;
    v->cm->chan = rt_cm->create_event_channel();
    if (!v->cm->chan || fcntl(v->cm->chan->fd, F_SETFL, O_NONBLOCK) < 0) {
        log_error(BTL, "rdma_cm cannot create an event channel: %m");
        return -RT_ESYS;
    }
    int err = 0;
    for (int i = 0; i < v->nrails && !err; i++)
        if (v->rails[i].cm)
            err = listen_on(v, &v->rails[i]);
    return err;
}

void verbs_cm_close(struct verbs *v)
{
    if (!v->cm)
        return;
    for (int i = 0; i < VERBS_RAILS; i++)
        if (v->cm->listen[i])
            rt_cm->destroy_id(v->cm->listen[i]);
    if (v->cm->chan)
        rt_cm->destroy_event_channel(v->cm->chan);
    free(v->cm);
    v->cm = NULL;
}

int verbs_cm_fd(const struct verbs *v) { return v->cm ? v->cm->chan->fd : -1; }

static void lane_close(struct verbs_lane *l)
{
    if (l->cm)
        rt_cm->destroy_id(l->cm);
    l->cm = NULL;
}

void verbs_cm_lanes_close(struct verbs_peer *p)
{
    for (int i = 0; i < p->nlanes; i++)
        lane_close(&p->lanes[i]);
}

/* ---- a lane ---- */

static bool active(const struct verbs_peer *p)
{
    return (uint32_t)rt_boot.rank < p->base.proc.rank;
}

static void request_mac(const struct request *r, const uint8_t *key, const uint8_t nonce[16],
                        const uint8_t answer[16], uint8_t out[RT_SHA256_LEN])
{
    uint8_t all[offsetof(struct request, mac) + 32];
    memcpy(all, r, offsetof(struct request, mac));
    memcpy(all + offsetof(struct request, mac), nonce, 16);
    memcpy(all + offsetof(struct request, mac) + 16, answer, 16);
    rt_hmac(key, VERBS_KEY, all, sizeof all, out);
}

static struct rdma_conn_param params_of(const struct verbs_lane *l)
{
    uint8_t mine = l->rail->v->addr.rd_atomic, theirs = l->peer->addr.rd_atomic;
    return (struct rdma_conn_param){ .responder_resources = mine < theirs ? mine : theirs,
                                     .initiator_depth = mine < theirs ? mine : theirs,
                                     .flow_control = 1,
                                     .retry_count = (uint8_t)cfg.verbs_retry,
                                     .rnr_retry_count = 7, /* without limit */
                                     .srq = 1,
                                     .qp_num = l->qp->qp_num };
}

static int to_state(struct verbs_lane *l, enum ibv_qp_state state)
{
    struct ibv_qp_attr a = { .qp_state = state };
    int mask;
    if (rt_cm->init_qp_attr(l->cm, &a, &mask))
        return -1;
    if (state == IBV_QPS_RTR) {
        enum ibv_mtu most = rt_ib_mtu(l->rail->ib, &l->peer->addr.rails[l->remote_rail].at);
        a.path_mtu = a.path_mtu < most ? a.path_mtu : most;
        a.min_rnr_timer = (uint8_t)cfg.verbs_rnr;
        a.ah_attr.sl = (uint8_t)cfg.verbs_sl;
        a.ah_attr.grh.traffic_class = (uint8_t)cfg.verbs_tclass;
    } else {
        a.timeout = (uint8_t)cfg.verbs_timeout;
        a.retry_cnt = (uint8_t)cfg.verbs_retry;
        a.rnr_retry = 7;
    }
    return rt_ib->modify_qp(l->qp, &a, mask);
}

/* iWARP devices change the state themselves. */
static int make_ready(struct verbs_lane *l)
{
    if (l->rail->ib->iwarp)
        return 0;
    return to_state(l, IBV_QPS_RTR) || to_state(l, IBV_QPS_RTS) ? -1 : 0;
}

static void cannot(struct verbs_lane *l, const char *what)
{
    verbs_peer_fail(l->peer, -RT_EPEER, "rdma_cm on %s port %d: %s: %s", l->rail->ib->dev,
                    l->rail->ib->port, what, strerror(errno));
}

/* Returns the lane to its state before the first attempt. */
static void take_back(struct verbs_lane *l)
{
    lane_close(l);
    if (verbs_lane_reset(l) < 0)
        cannot(l, "the queue pair cannot be used again");
}

static void lane_up(struct verbs_lane *l)
{
    if (l->up)
        return;
    l->up = true;
    l->peer->lanes_up++;
    verbs_handshake_lane_up(l->peer);
}

/* ---- the active side ---- */

static void no_way(struct verbs_lane *l, const char *what)
{
    verbs_peer_fail(l->peer, -RT_EPEER,
                    "rdma_cm on %s port %d: %s, though datagrams arrive; see the firewall",
                    l->rail->ib->dev, l->rail->ib->port, what);
}

static void start_lane(struct verbs *v, struct verbs_lane *l)
{
    const struct verbs_addr_rail *theirs = &l->peer->addr.rails[l->remote_rail];
    struct sockaddr_storage from, to;
    verbs_sockaddr(l->rail->ib, &v->addr.rails[l->rail->index].at, 0, &from);
    verbs_sockaddr(l->rail->ib, &theirs->at, theirs->cm_port, &to);
    l->peer->setup.answers_ms = 0;
    if (rt_cm->create_id(v->cm->chan, &l->cm, l, RDMA_PS_TCP) ||
        rt_cm->resolve_addr(l->cm, (struct sockaddr *)&from, (struct sockaddr *)&to, RESOLVE_MS))
        cannot(l, "its address is not resolved");
}

/* Starts each missing lane that has not been started. */
static void start_lanes(struct verbs_peer *p)
{
    p->setup.connect_due = false;
    for (int i = 0; i < p->nlanes && active(p) && !p->err; i++) {
        struct verbs_lane *l = &p->lanes[i];
        if (l->rail->cm && !l->cm)
            start_lane(verbs_of(p), l);
        else if (!l->up && l->cm && p->setup.answers_ms >= (uint32_t)cfg.net_timeout_s * 1000)
            no_way(l, "no answer");
    }
}

static void ask(struct verbs *v, struct verbs_lane *l)
{
    const struct verbs_peer *p = l->peer;
    struct request r = { .magic = VERBS_MAGIC,
                         .version = VERBS_VERSION,
                         .lane = l->index,
                         .own_key = !p->has_addr,
                         .from = (uint32_t)rt_boot.rank,
                         .to = p->base.proc.rank };
    struct rdma_conn_param param = params_of(l);
    request_mac(&r, p->has_addr ? p->addr.key : v->addr.key, p->setup.nonce, p->setup.their_nonce,
                r.mac);
    param.private_data = &r;
    param.private_data_len = sizeof r;
    if (rt_cm->connect(l->cm, &param))
        cannot(l, "rdma_connect");
}

static void answered(struct verbs_lane *l)
{
    if (make_ready(l) < 0)
        cannot(l, "the queue pair does not connect");
    else if (rt_cm->establish(l->cm))
        cannot(l, "rdma_establish");
    else
        lane_up(l);
}

/* Makes another attempt possible, at the next HELLO, unless further attempts are useless. */
static void failed(struct verbs_lane *l, const struct news *e, bool silent)
{
    struct verbs_peer *p = l->peer;
    bool hopeless = silent ? p->setup.answers_ms >= ENOUGH_MS : ++p->setup.cm_failures >= TRIES;
    log_debug(BTL, "rdma_cm to rank %u: %s, status %d", p->base.proc.rank,
              rt_cm->event_str(e->event), e->status);
    if (hopeless && active(p))
        no_way(l, rt_cm->event_str(e->event));
    else
        take_back(l);
}

static void rejected(struct verbs_lane *l, const struct news *e)
{
    struct refusal r = { 0 };
    memcpy(&r, e->data, e->len < sizeof r ? e->len : sizeof r);
    const char *why = why_text[WHY_UNKNOWN];
    bool explained = r.magic == VERBS_MAGIC && r.why < sizeof why_text / sizeof *why_text;
    if (!active(l->peer) || (!explained && e->status == REJ_STALE)) {
        failed(l, e, false);
        return;
    }
    if (explained)
        why = why_text[r.why];
    else if (e->status == REJ_NOBODY || e->status == -ECONNREFUSED) /* -ECONNREFUSED: iWARP */
        why = "no process listens there";
    verbs_peer_fail(l->peer, -RT_EPEER, "rdma_cm on %s port %d: it refuses the connection: %s",
                    l->rail->ib->dev, l->rail->ib->port, why);
}

/* ---- the passive side ---- */

/* The lane that a request names; NULL: the request is refused, see *why. */
static struct verbs_lane *lane_asked(struct verbs *v, const struct verbs_rail *rail,
                                     const struct news *e, enum why *why)
{
    struct verbs_peer *p;
    struct request r = { 0 };
    uint8_t mac[RT_SHA256_LEN];
    memcpy(&r, e->data, e->len < sizeof r ? e->len : sizeof r);
    struct rt_proc proc = { 0, r.from };
    *why = WHY_STRANGER;
    if (e->len < sizeof r || r.magic != VERBS_MAGIC || r.version != VERBS_VERSION ||
        r.to != (uint32_t)rt_boot.rank || verbs_peer_get(v, proc, false, &p) < 0 ||
        (r.own_key && !p->has_addr))
        return NULL;
    request_mac(&r, r.own_key ? p->addr.key : v->addr.key, p->setup.their_nonce, p->setup.nonce,
                mac);
    if (p->state < VERBS_HALF || !rt_hmac_equal(mac, r.mac))
        return NULL;
    *why = p->err ? WHY_FAILED : WHY_NOT_AGREED;
    if (!verbs_is_connecting(p) || active(p) || r.lane >= p->nlanes ||
        p->lanes[r.lane].rail != rail || p->lanes[r.lane].up)
        return NULL;
    return &p->lanes[r.lane];
}

static void asked(struct verbs *v, const struct news *e)
{
    struct refusal no = { .magic = VERBS_MAGIC };
    const struct verbs_rail *rail = e->listen_id->context;
    enum why why;
    struct verbs_lane *l = lane_asked(v, rail, e, &why);
    if (!l) {
        no.why = (uint8_t)why;
        log_debug(BTL, "a connection by rdma_cm to %s port %d is refused: %s", rail->ib->dev,
                  rail->ib->port, why_text[why]);
        rt_cm->reject(e->id, &no, sizeof no);
        rt_cm->destroy_id(e->id);
        return;
    }
    if (l->cm) /* the peer has given up the earlier request */
        take_back(l);
    struct rdma_conn_param param = params_of(l);
    l->cm = e->id;
    l->cm->context = l;
    if (make_ready(l) < 0 || rt_cm->accept(l->cm, &param)) {
        log_debug(BTL, "rdma_accept for rank %u: %m", l->peer->base.proc.rank);
        take_back(l); /* the peer gave up while this process was not calling MPI; it will ask
                       * again */
    }
}

/* ---- events ---- */

/* Handles all data that arrived before the close.  A peer that has sent its goodbye may close. */
static void closed(struct verbs *v, struct verbs_lane *l)
{
    struct verbs_peer *p = l->peer;
    for (int i = 0; i < p->nlanes; i++)
        while (verbs_rail_poll(p->lanes[i].rail) > 0)
            continue;
    while (p->rx.state == VERBS_RING_ON && verbs_ring_drain(p, 1 << 10) > 0)
        continue;
    if (!p->bye.theirs_ns && !p->err && !v->closing)
        verbs_peer_fail(p, -RT_EPEER, "%s port %d: the other side has closed it", l->rail->ib->dev,
                        l->rail->ib->port);
}

static void handle(struct verbs *v, const struct news *e)
{
    if (e->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
        asked(v, e);
        return;
    }
    struct verbs_lane *l = e->id->context;
    if (l->cm != e->id || l->peer->err)
        return;
    switch (e->event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        if (rt_cm->resolve_route(e->id, RESOLVE_MS))
            cannot(l, "its route is not resolved");
        break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        ask(v, l);
        break;
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
        answered(l);
        break;
    case RDMA_CM_EVENT_ESTABLISHED:
        lane_up(l);
        break;
    case RDMA_CM_EVENT_REJECTED:
        rejected(l, e);
        break;
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
        failed(l, e, false);
        break;
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
        failed(l, e, true);
        break;
    case RDMA_CM_EVENT_DISCONNECTED:
        closed(v, l);
        break;
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
        verbs_peer_fail(l->peer, -RT_EPEER, "%s has been removed", l->rail->ib->dev);
        break;
    default:
        break; /* no action needed */
    }
}

int verbs_cm_progress(struct verbs *v)
{
    struct rdma_cm_event *e;
    struct rt_list *pos, *tmp;
    int n = 0;
    rt_list_each_safe (pos, tmp, &v->asking) {
        struct verbs_peer *p = rt_container(pos, struct verbs_peer, setup.link);
        if (p->setup.connect_due)
            start_lanes(p);
    }
    for (; v->cm && rt_cm->get_cm_event(v->cm->chan, &e) == 0; n++) {
        struct news news = { e->id, e->listen_id, e->event, e->status, 0, { 0 } };
        if (e->event == RDMA_CM_EVENT_CONNECT_REQUEST || e->event == RDMA_CM_EVENT_REJECTED) {
            news.len = e->param.conn.private_data ? e->param.conn.private_data_len : 0;
            if (news.len)
                memcpy(news.data, e->param.conn.private_data, news.len);
        }
        rt_cm->ack_cm_event(e); /* an id cannot be destroyed before */
        handle(v, &news);
    }
    return n;
}
