/* SPDX-License-Identifier: BSD-3-Clause */
/* The receiving side: posting, unexpected messages, delivery.  Called under the domain's lock. */
#include "mpi/p2p/recv.h"
#include <stdlib.h>
#include "mpi/base/event.h"
#include "mpi/p2p/checks.h"
#include "mpi/p2p/control.h"
#include "mpi/p2p/device.h"
#include "mpi/p2p/failed.h"
#include "mpi/p2p/flow.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/rndv.h"
#include "mpi/p2p/send.h"
#include "runtime/base/err.h"
#include "runtime/base/reserve.h"

#define STORED_SMALL 64 /* payload bytes of a spare node: most unexpected messages are short */

static struct wm_stored *stored_new(struct wm_domain *d, size_t len)
{
    struct wm_stored *s = d->spare.stored;
    if (len <= STORED_SMALL && s) {
        d->spare.stored = s->next_free;
        return s;
    }
    size_t room = len <= STORED_SMALL ? STORED_SMALL : len;
    size_t nbytes = (sizeof *s + room + 15) & ~(size_t)15;
    s = aligned_alloc(16, nbytes);
    if (!s)
        s = rt_reserve_take(nbytes);
    if (s)
        s->room = (uint32_t)room;
    return s;
}

void wm_stored_free(struct wm_domain *d, struct wm_stored *s)
{
    wm_flow_freed(d, s->from, s->len);
    if (s->room > STORED_SMALL) {
        rt_reserve_free(s);
        return;
    }
    s->next_free = d->spare.stored;
    d->spare.stored = s;
}

/* Out of memory ends the job: the message would be lost, because the sender's buffer may be in use
 * again. */
static void store(struct wm_domain *d, struct wm_peer *from, uint32_t kind, const struct wm_key *k,
                  const void *data, size_t len)
{
    struct wm_stored *s = stored_new(d, len);
    if (!s)
        rt_boot_abort(
            1, "out of memory for an unexpected message; post receives earlier or send less ahead");
    s->unex.key = *k;
    s->from = from;
    s->kind = kind;
    s->len = len;
    if (len <= 64)
        rt_copy_small(s->data, data, len);
    else
        memcpy(s->data, data, len);
    if (kind == WM_RTS)
        /* the early bytes will have been dropped */
        ((struct wm_rts *)(void *)s->data)->flags &= ~WM_RTS_EARLY;
    wm_match_store(&d->match, &s->unex);
    wm_flow_stored(d, from, len);
    wm_stat_add(&d->stats->unexpected, 1);
    if (d->match.nunex > rt_load_relaxed(&d->stats->unexpected_peak))
        rt_store_relaxed(&d->stats->unexpected_peak, (uint64_t)d->match.nunex);
    if (rt_unlikely(wm_event_wanted(WM_EVENT_UNEXPECTED)))
        wm_event_raise(
            WM_EVENT_UNEXPECTED,
            &(struct wm_event_data){ { k->src, k->tag, (int)k->ctx }, wm_stored_len(s) });
}

static void copy_out(struct wm_preq *q, const void *data, size_t n)
{
    if (rt_unlikely(!q->layout->contig))
        rt_layout_unpack(q->layout, q->count, (void *)(uintptr_t)q->buf, 0, data, (int64_t)n);
    else if (n <= 64)
        rt_copy_small((void *)(uintptr_t)q->buf, data, n);
    else
        memcpy((void *)(uintptr_t)q->buf, data, n);
}

static inline void deliver_eager(struct wm_preq *q, const struct wm_key *k, const void *data,
                                 size_t len)
{
    if (rt_unlikely(q->r.flags & RT_REQ_DEVICE)) {
        wm_dev_deliver(q, k, data, len);
        return;
    }
    size_t n = rt_likely(len <= (size_t)q->nbytes) ? len : (size_t)q->nbytes;
    copy_out(q, data, n);
    wm_count_received(q->dom, (int64_t)n);
    q->r.status = (struct rt_status){ .src = k->src, .tag = k->tag, .len = (int64_t)n };
    if (rt_unlikely(n != len))
        q->nbytes = (int64_t)len; /* the message's length; the buffer's room is in the status */
    wm_preq_finish(q, rt_likely(n == len) ? 0 : -RT_ETRUNC);
}

static void moved_done(struct rt_req *r, void *arg)
{
    struct wm_preq *on_stack = arg;
    on_stack->r.status = r->status;
    on_stack->nbytes = ((const struct wm_preq *)r)->nbytes;
    int err = r->err;
    wm_req_release(r);
    rt_req_finish(&on_stack->r, err);
}

/* A rendezvous names the receive by its handle.  A request in its caller's frame has no handle, so
 * the request moves to the slab. */
static struct wm_preq *move_to_slab(struct wm_preq *q)
{
    struct wm_preq *n = wm_preq_new(q->dom, WM_PREQ_RECV);
    if (!n)
        rt_boot_abort(1, "out of memory for a receive request");
    n->coll = q->coll;
    n->peer_rank = q->peer_rank;
    n->tag = q->tag;
    n->comm = q->comm;
    wm_comm_ref(q->comm);
    n->buf = q->buf;
    n->count = q->count;
    n->layout = q->layout;
    n->nbytes = q->nbytes;
    n->r.notify = moved_done;
    n->r.arg = q;
    return n;
}

void wm_deliver(struct wm_preq *q, struct wm_peer *from, uint32_t kind, const struct wm_key *k,
                const void *data, size_t len)
{
    if (kind == WM_RTS) {
        if (q->kind == WM_PREQ_ON_STACK)
            q = move_to_slab(q);
        q->peer = from;
        q->r.status = (struct rt_status){ .src = k->src, .tag = k->tag };
        struct wm_rts rts;
        memcpy(&rts, data, sizeof rts);
        wm_checked_match(q, k, rts.flags >> WM_RTS_SIG_SHIFT, rts.len);
        wm_rndv_recv(q, &rts);
        return;
    }
    if (rt_unlikely(kind == WM_VOID)) {
        q->r.status = (struct rt_status){ .src = k->src, .tag = k->tag };
        wm_preq_finish(q, -RT_EREMOTE);
        return;
    }
    if (kind == WM_EAGER_SYNC) {
        uint64_t id;
        memcpy(&id, data, sizeof id);
        struct wm_fin ack = { .req = (uint32_t)id };
        wm_send_ctl(q->dom, from, wm_hdr(WM_SYNC_ACK, 0, 0, 0), &ack, sizeof ack);
        data = (const char *)data + sizeof id;
        len -= sizeof id;
        wm_checked_match(q, k, (uint32_t)(id >> 32), (int64_t)len);
    }
    deliver_eager(q, k, data, len);
}

/* Posted receives first, in order; the blocking receive was posted last. */
static struct wm_preq *match_arriving(struct wm_domain *d, const struct wm_key *k)
{
    if (d->match.nposted_all) {
        struct wm_posted *p = wm_match_arrive(&d->match, k);
        if (p) {
            struct wm_preq *q = rt_container(p, struct wm_preq, posted);
            q->state = WM_IDLE;
            return q;
        }
    }
    struct wm_preq *hot = d->hot;
    if (!hot || !wm_key_matches(&hot->posted.key, k))
        return NULL;
    d->hot = NULL;
    return hot;
}

struct wm_peer *wm_sender(struct wm_domain *d, struct btl_peer *bp)
{
    struct wm_peer *p = bp->up;
    if (rt_likely(p))
        return p;
    if (wm_domain_adopt(d, bp, &p) < 0)
        rt_boot_abort(1, "out of memory for the first message of a rank");
    return p;
}

void wm_on_message(struct wm_domain *d, struct btl_peer *from, const struct btl_hdr *h,
                   const void *data, size_t len)
{
    uint32_t kind = h->ctx >> WM_KIND_SHIFT;
    struct wm_key k = { .ctx = h->ctx & WM_CTX_MASK, .src = (int32_t)h->src, .tag = h->tag };
    struct wm_preq *q = match_arriving(d, &k);
    if (q && rt_likely(kind == WM_EAGER)) {
        deliver_eager(q, &k, data, len);
        return;
    }
    if (rt_unlikely(d->failed.nretired) && wm_failed_drops(d, kind, k.ctx))
        return;
    struct wm_peer *p = wm_sender(d, from);
    p->early = NULL;
    if (q)
        wm_deliver(q, p, kind, &k, data, len);
    else
        store(d, p, kind, &k, data, len);
}

int wm_p2p_irecv(const struct wm_msg *m, struct rt_req **out)
{
    if (m->peer == MPI_PROC_NULL) {
        *out = wm_req_proc_null;
        return rt_unlikely(m->comm->ft.revoked) ? -RT_EREVOKED : 0;
    }
    struct wm_comm *c = m->comm;
    struct wm_domain *d = c->dom;
    int64_t nbytes = wm_nbytes(m->count, m->layout);
    if (nbytes < 0)
        return (int)nbytes;
    struct wm_key key = { .ctx = wm_ctx(c, m->coll),
                          .src = m->peer,
                          .tag = m->tag == MPI_ANY_TAG ? WM_MATCH_ANY : m->tag };
    if (m->peer >= 0) { /* connects; of a lost peer, only what has arrived can be received */
        struct wm_peer *p;
        int err = wm_comm_peer(c, m->peer, &p);
        if (err >= 0 && p->err && !wm_match_find(&d->match, &key))
            err = p->err;
        if (err < 0)
            return err;
    } else if (rt_unlikely(c->ft.revoked)) {
        return -RT_EREVOKED;
    }
    struct wm_preq *q = wm_preq_new(d, WM_PREQ_RECV);
    if (!q)
        return -RT_ENOMEM;
    q->coll = m->coll;
    q->peer_rank = m->peer;
    q->tag = m->tag;
    q->comm = c;
    wm_comm_ref(c);
    q->buf = m->buf;
    q->count = m->count;
    q->layout = m->layout;
    q->nbytes = nbytes;
    q->posted.key = key;
    int err = wm_dev_resolve(q, m->mem);
    if (rt_unlikely(err < 0)) {
        wm_preq_release(&q->r);
        return err;
    }
    *out = &q->r;
    struct wm_unex *u = wm_match_find(&d->match, &q->posted.key);
    if (!u) {
        q->state = WM_POSTED;
        wm_match_post(&d->match, &q->posted);
        return 0;
    }
    struct wm_stored *s = rt_container(u, struct wm_stored, unex);
    wm_match_remove(&d->match, u);
    wm_deliver(q, s->from, s->kind, &u->key, s->data, s->len);
    wm_stored_free(d, s);
    return 0;
}

static bool waits_for(const struct wm_preq *q, const struct wm_peer *p)
{
    return q->peer_rank >= 0 && q->comm->peers[q->peer_rank] == p;
}

bool wm_recv_names_peer(const struct wm_domain *d, const struct wm_peer *p)
{
    const struct rt_list *l;
    for (uint32_t i = 0; i < d->match.nbuckets; i++)
        rt_list_each (l, &d->match.posted[i])
            if (waits_for(rt_container(l, struct wm_preq, posted.link), p))
                return true;
    return d->hot && waits_for(d->hot, p);
}

/* The user has freed the request before its message has come. */
static bool is_freed(const struct wm_preq *q)
{
    const struct rt_req *held = q->r.flags & RT_REQ_INNER ? q->r.arg : &q->r;
    return !q->coll && held->flags & RT_REQ_DETACHED;
}

/* The process that is to send to a receive: of any source, one that still may. */
static struct wm_peer *sender_of(const struct wm_preq *q)
{
    struct wm_peer *p, *found = NULL;
    int first = q->peer_rank >= 0 ? q->peer_rank : 0;
    int end = q->peer_rank >= 0 ? first + 1 : q->comm->remote->size;
    for (int i = first; i < end && !(found && !wm_peer_is_last(found)); i++)
        if (wm_comm_peer(q->comm, i, &p) >= 0 && !p->is_self && !p->err)
            found = p;
    return found;
}

struct wm_peer *wm_recv_freed(const struct wm_domain *d)
{
    struct wm_peer *found = NULL;
    for (uint32_t i = 0; d->match.nposted_all && i < d->match.nbuckets; i++) {
        const struct rt_list *l;
        rt_list_each (l, &d->match.posted[i]) {
            const struct wm_preq *q = rt_container(l, struct wm_preq, posted.link);
            struct wm_peer *p = is_freed(q) ? sender_of(q) : NULL;
            found = p ? p : found;
            if (p && !wm_peer_is_last(p))
                return p;
        }
    }
    return found;
}

void wm_recv_fail_peer(struct wm_domain *d, const struct wm_peer *p, int err, bool all)
{
    for (uint32_t i = 0; i < d->match.nbuckets; i++) {
        struct rt_list *l, *tmp;
        rt_list_each_safe (l, tmp, &d->match.posted[i]) {
            struct wm_preq *q = rt_container(l, struct wm_preq, posted.link);
            if (!waits_for(q, p) || (q->coll && !all))
                continue;
            wm_match_unpost(&d->match, &q->posted);
            q->state = WM_IDLE;
            q->r.status = (struct rt_status){ .src = q->peer_rank, .tag = q->tag };
            wm_preq_finish(q, err);
        }
    }
    struct wm_preq *hot = d->hot;
    if (!hot || !waits_for(hot, p))
        return;
    d->hot = NULL;
    hot->r.status = (struct rt_status){ .src = hot->peer_rank, .tag = hot->tag };
    rt_req_finish(&hot->r, err);
}
