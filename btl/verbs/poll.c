/* SPDX-License-Identifier: BSD-3-Clause */
/* Completions of a rail: requests that are done or have failed, and messages that have arrived. */
#include "btl/verbs/poll.h"
#include "btl/verbs/msg.h"
#include "btl/verbs/rma.h"
#include "runtime/base/atomic.h"
#include "runtime/base/err.h"

#define POLL_MAX 16 /* completions taken in one call */

/* Reports the failure with a likely cause. */
static void lane_failed(struct verbs_lane *l, const struct ibv_wc *wc)
{
    const char *hint = "";
    if (wc->status == IBV_WC_RETRY_EXC_ERR)
        hint = "; the peer does not answer: it has ended, or the link is down";
    else if (wc->status == IBV_WC_RNR_RETRY_EXC_ERR)
        hint = "; the peer has no receive buffers";
    else if (wc->status == IBV_WC_REM_ACCESS_ERR)
        hint = "; the peer's memory is no longer registered";
    else if (wc->status == IBV_WC_WR_FLUSH_ERR)
        hint = "; the queue pair is in the error state";
    verbs_peer_fail(l->peer, -RT_EPEER, "%s port %d, queue pair %u: %s (vendor code 0x%x)%s",
                    l->rail->ib->dev, l->rail->ib->port, l->qp->qp_num,
                    rt_ib->wc_status_str(wc->status), wc->vendor_err, hint);
}

static void lane_completed(struct verbs_lane *l, uint32_t number, const struct ibv_wc *wc)
{
    bool bad = wc->status != IBV_WC_SUCCESS;
    l->rail->cq_room += (int)(number - l->done);
    l->done = number - bad;
    if (rt_unlikely(bad)) /* depends on the requests that are done */
        lane_failed(l, wc);
    l->done = number;
    while (l->mark_tail != l->mark_head) {
        struct verbs_mark *m = &l->marks[l->mark_tail & (l->depth - 1)];
        if ((int32_t)(m->posted - number) > 0)
            break;
        bool failed = bad && m->posted == number;
        l->mark_tail++;
        if (l->index == 0)
            l->peer->tx.left = m->stage;
        if (m->arms && m->arms == l->peer->sleep.number && l->peer->sleep.state == VERBS_ARMING)
            l->peer->sleep.state = VERBS_ARMED;
        struct verbs_sbuf *sbuf = m->sbuf;
        if (m->xfer)
            verbs_xfer_landed(l, m, failed ? -RT_EPEER : 0);
        if (sbuf) /* a get has taken its data from there */
            verbs_sbuf_give(l->rail, sbuf);
    }
}

static void received(struct verbs_lane *l, struct verbs_rbuf *b, const struct ibv_wc *wc)
{
    if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM)
        verbs_event_in(l);
    else
        verbs_arrived(l, b, wc->byte_len);
}

int verbs_rail_poll(struct verbs_rail *r)
{
    struct ibv_wc wc[POLL_MAX];
    int n = ibv_poll_cq(r->cq, POLL_MAX, wc);
    verbs_hold(r->v);
    for (int i = 0; i < n; i++) {
        if (wc[i].wr_id & VERBS_ID_LANE) {
            uint32_t id = (uint32_t)wc[i].wr_id >> 1;
            lane_completed(r->v->lanes[id], (uint32_t)(wc[i].wr_id >> 32), &wc[i]);
            continue;
        }
        struct verbs_rbuf *b = (struct verbs_rbuf *)(uintptr_t)wc[i].wr_id;
        struct verbs_lane *l = verbs_lane_of(r->v, r, wc[i].qp_num);
        if (rt_likely(l && wc[i].status == IBV_WC_SUCCESS))
            received(l, b, &wc[i]);
        else if (l && wc[i].status != IBV_WC_WR_FLUSH_ERR)
            lane_failed(l, &wc[i]);
        verbs_rbuf_give(r, b);
    }
    verbs_release(r->v);
    if (r->srq_want - r->srq_posted >= POLL_MAX || (n == 0 && r->srq_posted < r->srq_want))
        verbs_srq_fill(r);
    return n > 0 ? n : 0;
}
