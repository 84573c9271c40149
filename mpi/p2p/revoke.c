/* SPDX-License-Identifier: BSD-3-Clause */
/* See revoke.h.  A receive without a message and a send that waits for room end at once.  An
 * announced send is asked back like one that is cancelled (cancel.c): its receiver may be reading
 * the buffer, so the send ends with the receiver's answer, or with its last byte.  Stored messages
 * stay if their sender waits for an answer, until it asks for them; others are dropped. */
#include "mpi/p2p/revoke.h"
#include "mpi/base/comm.h"
#include "mpi/p2p/cancel.h"
#include "mpi/p2p/failed.h"
#include "mpi/p2p/part.h"
#include "mpi/p2p/recv.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/transfer.h"
#include "runtime/base/err.h"
#include "runtime/base/reserve.h"

#include <string.h>

static void fail_receives(struct wm_domain *d, const struct wm_comm *c)
{
    for (uint32_t i = 0; i < d->match.nbuckets; i++) {
        struct rt_list *l, *tmp;
        rt_list_each_safe (l, tmp, &d->match.posted[i]) {
            struct wm_preq *q = rt_container(l, struct wm_preq, posted.link);
            if (q->comm != c)
                continue;
            wm_match_unpost(&d->match, &q->posted);
            q->state = WM_IDLE;
            q->r.status = (struct rt_status){ .src = q->peer_rank, .tag = q->tag };
            wm_preq_finish(q, -RT_EREVOKED);
        }
    }
    struct wm_preq *hot = d->hot;
    if (!hot || hot->comm != c)
        return;
    d->hot = NULL;
    hot->r.status = (struct rt_status){ .src = hot->peer_rank, .tag = hot->tag };
    rt_req_finish(&hot->r, -RT_EREVOKED);
}

/* Eager messages that wait for room. */
static void fail_pending(struct wm_peer *p, const struct wm_comm *c)
{
    struct rt_list *l, *tmp;
    rt_list_each_safe (l, tmp, &p->pending) {
        struct wm_pend *w = rt_container(l, struct wm_pend, link);
        struct wm_preq *q = w->req;
        if (!q || q->comm != c || w->hdr.ctx >> WM_KIND_SHIFT == WM_CTS)
            continue;
        rt_list_del(l);
        rt_reserve_free(w);
        q->pend = NULL;
        wm_preq_finish(q, -RT_EREVOKED);
    }
}

static void fail_transfers(struct wm_peer *p, const struct wm_comm *c)
{
    struct rt_list *l, *tmp;
    rt_list_each_safe (l, tmp, &p->rndv) {
        struct wm_preq *q = rt_container(l, struct wm_preq, link);
        if (q->comm != c || q->fail)
            continue;
        q->fail = -RT_EREVOKED;
        if (q->kind == WM_PREQ_SEND && q->state == WM_ANNOUNCED)
            wm_recall_send(q);
    }
}

static void drop_stored(struct wm_domain *d)
{
    for (uint32_t i = 0; i < d->match.nbuckets; i++) {
        struct rt_list *l, *tmp;
        rt_list_each_safe (l, tmp, &d->match.unex[WM_FORM_EXACT][i]) {
            struct wm_stored *s = rt_container(l, struct wm_stored, unex.link[WM_FORM_EXACT]);
            if (!wm_failed_drops(d, s->kind, s->unex.key.ctx))
                continue;
            wm_match_remove(&d->match, &s->unex);
            wm_stored_free(d, s);
        }
    }
}

void wm_revoke_ctx(struct wm_domain *d, uint32_t ctx)
{
    if (wm_failed_retire(d, ctx))
        drop_stored(d);
}

void wm_revoke_messages(struct wm_comm *c)
{
    struct wm_domain *d = c->dom;
    if (c->ft.revoked)
        return;
    wm_comm_ref(c);
    c->ft.revoked = true;
    memset(c->peers, 0, (size_t)c->remote->size * sizeof(struct wm_peer *));
    fail_receives(d, c);
    wm_part_fail_comm(d, c, -RT_EREVOKED);
    for (int i = 0; i < WM_PEER_BUCKETS; i++)
        for (struct wm_peer *p = d->peers[i]; p; p = p->next) {
            fail_pending(p, c);
            fail_transfers(p, c);
        }
    wm_revoke_ctx(d, c->ctx);
    wm_comm_unref(c);
}
