/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs of btl/verbs: their states, posting, completions.
 *
 * Most requests are posted without a completion.  A completion shows that all requests before it
 * are done, because a queue pair completes in order.  After an error every request gets a
 * completion, so each carries its number in the lane.  A rail's completion queue can never
 * overflow, because posting counts every possible completion. */
#include "btl/verbs/lane.h"
#include "runtime/base/atomic.h"
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "runtime/base/hmac.h"
#include "runtime/base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Requests.  A completion costs the device and the host as much as a message, so on every device
 * completions add a 16th. */
#define SIGNAL_EVERY 16

static uint32_t qpn_hash(uint32_t qpn) { return (qpn ^ qpn >> 8) % VERBS_BUCKETS; }

struct verbs_lane *verbs_lane_of(struct verbs *v, const struct verbs_rail *r, uint32_t qpn)
{
    for (uint32_t i = v->by_qpn[qpn_hash(qpn)]; i; i = v->lanes[i - 1]->next_qpn) {
        struct verbs_lane *l = v->lanes[i - 1];
        if (l->qp->qp_num == qpn && l->rail == r)
            return l;
    }
    return NULL;
}

static int lane_number(struct verbs *v, struct verbs_lane *l)
{
    struct verbs_lane **more = realloc(v->lanes, (v->nlanes + 1) * sizeof(struct verbs_lane *));
    if (!more)
        return -RT_ENOMEM;
    uint32_t *first = &v->by_qpn[qpn_hash(l->qp->qp_num)];
    v->lanes = more;
    l->id = v->nlanes++;
    v->lanes[l->id] = l;
    l->next_qpn = *first;
    *first = l->id + 1;
    return 0;
}

static int to_init(struct verbs_lane *l)
{
    struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT,
                             .port_num = l->rail->ib->port,
                             .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                                                IBV_ACCESS_LOCAL_WRITE };
    int mask = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS;
    if (!l->rail->ib->iwarp)
        mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT;
    return rt_ib->modify_qp(l->qp, &a, mask);
}

int verbs_lane_reset(struct verbs_lane *l)
{
    struct ibv_qp_attr a = { .qp_state = IBV_QPS_RESET };
    if (l->rail->ib->iwarp) /* the state has not changed */
        return 0;
    return rt_ib->modify_qp(l->qp, &a, IBV_QP_STATE) || to_init(l) ? -RT_ESYS : 0;
}

static int lane_make(struct verbs_lane *l)
{
    struct verbs_rail *r = l->rail;
    int depth = cfg.verbs_depth < r->ib->attr.max_qp_wr ? cfg.verbs_depth : r->ib->attr.max_qp_wr;
    struct ibv_qp_init_attr a = { .send_cq = r->cq,
                                  .recv_cq = r->cq,
                                  .srq = r->srq,
                                  .qp_type = IBV_QPT_RC,
                                  .cap = { .max_send_wr = (uint32_t)depth,
                                           .max_send_sge = 1,
                                           .max_inline_data = (uint32_t)cfg.verbs_inline } };
    l->qp = rt_ib->create_qp(r->ib->pd, &a);
    if (!l->qp && errno == EINVAL) { /* the device does not offer this much inline data */
        a.cap.max_inline_data = 0;
        l->qp = rt_ib->create_qp(r->ib->pd, &a);
    }
    if (!l->qp) {
        log_error(BTL, "%s cannot create a queue pair for rank %u: %m", r->ib->dev,
                  l->peer->base.proc.rank);
        return -RT_ESYS;
    }
    for (l->depth = 1; l->depth * 2 <= (uint32_t)depth; l->depth *= 2)
        continue; /* a power of two, for the ring of marks */
    l->max_inline = a.cap.max_inline_data;
    l->marks = calloc(l->depth, sizeof *l->marks);
    int err = l->marks ? rt_random(&l->psn, sizeof l->psn) : -RT_ENOMEM;
    l->psn &= 0xffffff;
    if (!err && to_init(l)) {
        log_error(BTL, "queue pair on %s port %d: %m", r->ib->dev, r->ib->port);
        err = -RT_ESYS;
    }
    return err ? err : lane_number(r->v, l);
}

/* How similar two GIDs are: ports of one subnet share a prefix. */
static int likeness(const struct verbs_addr_rail *a, const struct verbs_addr_rail *b)
{
    int n = 0;
    if (a->at.roce != b->at.roce || !a->cm_port != !b->cm_port)
        return -1; /* another kind of network, or of connection setup */
    if (!a->at.roce && memcmp(a->at.gid, b->at.gid, 8) != 0)
        return -1; /* another InfiniBand subnet */
    while (n < 128 && !((a->at.gid[n / 8] ^ b->at.gid[n / 8]) & (0x80 >> n % 8)))
        n++;
    return n;
}

/* Pairs rails, most similar first.  Both sides get the same result, because `a` is the lower
 * process on both.  Returns the number of pairs. */
static int pair_rails(const struct verbs_addr *a, const struct verbs_addr *b, uint8_t *pa,
                      uint8_t *pb)
{
    uint32_t used_a = 0, used_b = 0;
    int n = 0;
    for (;; n++) {
        int best = -1;
        for (uint8_t i = 0; i < a->nrails; i++)
            for (uint8_t k = 0; k < b->nrails; k++) {
                int like = likeness(&a->rails[i], &b->rails[k]);
                if (used_a >> i & 1 || used_b >> k & 1 || like <= best)
                    continue;
                best = like;
                pa[n] = i;
                pb[n] = k;
            }
        if (best < 0)
            return n;
        used_a |= 1u << pa[n];
        used_b |= 1u << pb[n];
    }
}

bool verbs_rails_reach(const struct verbs_addr *a, const struct verbs_addr *b)
{
    for (int i = 0; i < a->nrails; i++)
        for (int k = 0; k < b->nrails; k++)
            if (likeness(&a->rails[i], &b->rails[k]) >= 0)
                return true;
    return false;
}

int verbs_lanes_make(struct verbs_peer *p)
{
    struct verbs *v = verbs_of(p);
    uint8_t pair[2][VERBS_RAILS];
    bool lower = (uint32_t)rt_boot.rank < p->base.proc.rank;
    int n = lower ? pair_rails(&v->addr, &p->addr, pair[0], pair[1])
                  : pair_rails(&p->addr, &v->addr, pair[1], pair[0]);
    int qps = v->addr.qps < p->addr.qps ? v->addr.qps : p->addr.qps;
    if (!n)
        return -RT_EUNREACH;
    int nlanes = n * qps < VERBS_LANES ? n * qps : VERBS_LANES;
    p->lanes = calloc((size_t)nlanes, sizeof *p->lanes);
    if (!p->lanes)
        return -RT_ENOMEM;
    for (int i = 0; i < nlanes; i++) {
        struct verbs_lane *l = &p->lanes[i];
        l->peer = p;
        l->index = (uint8_t)i;
        l->rail = &v->rails[pair[0][i % n]];
        l->remote_rail = pair[1][i % n];
        p->nlanes = i + 1;
        int err = lane_make(l);
        if (err)
            return err;
    }
    p->home.own = verbs_home_take(p->lanes[0].rail, &p->home.own_rkey);
    return p->home.own ? 0 : -RT_ENOMEM;
}

static int to_rtr(struct verbs_lane *l, const struct verbs_qp_info *theirs)
{
    const struct rt_ib_addr *to = &l->peer->addr.rails[l->remote_rail].at;
    struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTR,
                             .path_mtu = rt_ib_mtu(l->rail->ib, to),
                             .dest_qp_num = theirs->qpn,
                             .rq_psn = theirs->psn,
                             .max_dest_rd_atomic = l->rail->v->addr.rd_atomic,
                             .min_rnr_timer = (uint8_t)cfg.verbs_rnr };
    rt_ib_ah_attr(l->rail->ib, to, (uint8_t)cfg.verbs_sl, (uint8_t)cfg.verbs_tclass, &a.ah_attr);
    return rt_ib->modify_qp(l->qp, &a,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static int to_rts(struct verbs_lane *l)
{
    uint8_t mine = l->rail->v->addr.rd_atomic, theirs = l->peer->addr.rd_atomic;
    struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTS,
                             .timeout = (uint8_t)cfg.verbs_timeout,
                             .retry_cnt = (uint8_t)cfg.verbs_retry,
                             /* without limit: the peer is not calling MPI, but it is not lost */
                             .rnr_retry = 7,
                             .sq_psn = l->psn,
                             .max_rd_atomic = mine < theirs ? mine : theirs };
    return rt_ib->modify_qp(l->qp, &a,
                            IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

int verbs_lanes_connect(struct verbs_peer *p, const struct verbs_qp_info *theirs)
{
    for (int i = 0; i < p->nlanes; i++) {
        struct verbs_lane *l = &p->lanes[i];
        if (l->rail->cm)
            continue;
        int bad = to_rtr(l, &theirs[i]);
        if (!bad)
            bad = to_rts(l);
        if (bad) {
            verbs_peer_fail(p, -RT_EPEER, "queue pair on %s port %d: %s", l->rail->ib->dev,
                            l->rail->ib->port, strerror(bad > 0 ? bad : errno));
            return -RT_EPEER;
        }
        l->up = true;
        p->lanes_up++;
    }
    struct verbs_rail *r = p->lanes[0].rail;
    r->srq_want += cfg.verbs_window;
    if (r->srq_want > r->srq_max)
        r->srq_want = r->srq_max;
    verbs_srq_fill(r);
    return 0;
}

void verbs_lanes_stop(struct verbs_peer *p)
{
    struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };
    for (int i = 0; i < p->nlanes; i++)
        if (p->lanes[i].qp)
            rt_ib->modify_qp(p->lanes[i].qp, &a, IBV_QP_STATE);
}

void verbs_lanes_free(struct verbs_peer *p)
{
    for (int i = 0; i < p->nlanes; i++) {
        if (p->lanes[i].qp)
            rt_ib->destroy_qp(p->lanes[i].qp);
        free(p->lanes[i].marks);
    }
    free(p->lanes);
    p->lanes = NULL;
    p->nlanes = 0;
}

bool verbs_lane_has_room(const struct verbs_lane *l, uint32_t n)
{
    return l->depth - (l->posted - l->done) >= n && l->rail->cq_room >= (int)n;
}

int verbs_lane_post(struct verbs_lane *l, struct ibv_send_wr *wr, const struct verbs_mark *mark)
{
    struct ibv_send_wr *bad;
    if (rt_unlikely(!verbs_lane_has_room(l, 1)))
        return -RT_EAGAIN;
    uint32_t number = l->posted + 1;
    bool signal = mark || number - l->signalled >= SIGNAL_EVERY;
    wr->wr_id = (uint64_t)number << 32 | l->id << 1 | VERBS_ID_LANE;
    wr->send_flags |= signal ? IBV_SEND_SIGNALED : 0;
    if (rt_unlikely(l->rail->ib->iwarp) && wr->opcode != IBV_WR_RDMA_READ)
        /* otherwise it could complete before earlier reads */
        wr->send_flags |= IBV_SEND_FENCE;
    int err = ibv_post_send(l->qp, wr, &bad);
    if (rt_unlikely(err)) {
        if (err == ENOMEM)
            return -RT_EAGAIN;
        verbs_peer_fail(l->peer, -RT_EPEER, "%s port %d refuses a request: %s", l->rail->ib->dev,
                        l->rail->ib->port, strerror(err));
        return -RT_EPEER;
    }
    l->posted = number;
    l->rail->cq_room--;
    if (signal) {
        struct verbs_mark *m = &l->marks[l->mark_head++ & (l->depth - 1)];
        *m = mark ? *mark : (struct verbs_mark){ 0 };
        m->posted = number;
        m->stage = l->peer->tx.posted;
        l->signalled = number;
    }
    return 0;
}

void verbs_lane_flush(struct verbs_lane *l)
{
    static const struct verbs_mark mark;
    struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE,
                              .wr.rdma = { l->peer->home.addr, l->peer->home.rkey } };
    verbs_lane_post(l, &wr, &mark);
}
