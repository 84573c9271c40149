/* SPDX-License-Identifier: BSD-3-Clause */
/* The sending side: eager messages, the messages that waited for room, and the start of a
 * rendezvous.  Called under the domain's lock. */
#include "mpi/p2p/send.h"
#include "mpi/p2p/checks.h"
#include "mpi/p2p/control.h"
#include "mpi/p2p/device.h"
#include "mpi/p2p/flow.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/rndv.h"
#include "mpi/p2p/transfer.h"
#include "runtime/base/err.h"
#include "runtime/base/reserve.h"

int64_t wm_nbytes(int64_t count, const struct rt_layout *l)
{
    int64_t n;
    if (__builtin_mul_overflow(count, l->size, &n))
        return -RT_EINVAL;
    return n;
}

#define PACK_ON_STACK (17u << 10) /* the longest eager message of btl/shm, with room */

/* Packs and sends; `head` bytes go in front. */
static __attribute__((noinline)) int send_packed(struct wm_peer *p, const struct btl_hdr *hdr,
                                                 const void *head, size_t head_len,
                                                 const struct wm_msg *m, size_t nbytes)
{
    char small[PACK_ON_STACK], *tmp = small;
    if (head_len + nbytes > sizeof small && !(tmp = rt_reserve_alloc(head_len + nbytes)))
        return -RT_ENOMEM;
    memcpy(tmp, head, head_len);
    rt_layout_pack(m->layout, m->count, m->buf, 0, tmp + head_len, (int64_t)nbytes);
    int err = p->send(p->eager, hdr, tmp, head_len + nbytes);
    if (tmp != small)
        rt_reserve_free(tmp);
    return err;
}

/* Eager payload of a request: a synchronous send carries the request's handle in front, with
 * WEFT_CHECK also the signature. */
static int send_eager(struct wm_preq *q, const struct btl_hdr *hdr)
{
    struct wm_peer *p = q->peer;
    bool sync = q->mode == WM_SYNCHRONOUS;
    if (q->layout->contig && !sync)
        return p->send(p->eager, hdr, q->buf, (size_t)q->nbytes);
    uint64_t id = q->r.obj.handle;
    if (sync)
        id |= (uint64_t)wm_checked_signature(q) << 32;
    struct wm_msg m = { .buf = q->buf, .count = q->count, .layout = q->layout };
    return send_packed(p, hdr, &id, sync ? sizeof id : 0, &m, (size_t)q->nbytes);
}

/* The transport has taken the message: the buffer is free; a synchronous send still waits for its
 * match. */
static void eager_sent(struct wm_preq *q)
{
    if (q->mode != WM_SYNCHRONOUS) {
        wm_preq_finish(q, 0);
        return;
    }
    wm_rndv_enter(q, WM_ANNOUNCED);
    rt_list_append(&q->peer->rndv, &q->link);
}

/* Whether the entry is not a message, but a put or get of its request. */
static bool is_rma(const struct wm_pend *w)
{
    return w->hdr.ctx >> WM_KIND_SHIFT == WM_CTS && w->req;
}

/* An eager message that waited for room and, by flow control, may no longer be sent as one. */
static bool is_stopped(const struct wm_peer *p, const struct wm_pend *w)
{
    return rt_unlikely(p->stopped) && w->req && !is_rma(w) && !w->req->prompt;
}

/* Announces such a message instead, the first in the queue.  The RTS is sent past the queue; if it
 * finds no room, it goes back to the front. */
static void announce(struct wm_domain *d, struct wm_peer *p, struct wm_pend *w)
{
    struct wm_preq *q = w->req;
    rt_list_del(&w->link);
    rt_reserve_free(w);
    q->pend = NULL;
    wm_stat_add(&d->stats->eager, -(uint64_t)1); /* counts as a rendezvous instead */
    wm_stat_add(&d->stats->sent_bytes, -(uint64_t)q->nbytes);
    struct rt_list *last = p->pending.prev, *rts;
    p->blocked = false;
    int err = wm_rndv_send(q);
    p->blocked = true;
    rts = p->pending.prev;
    if (rts != last) {
        rt_list_del(rts);
        rt_list_append(p->pending.next, rts);
    }
    if (err < 0)
        wm_preq_finish(q, err);
}

static int retry_one(struct wm_domain *d, struct wm_peer *p, struct wm_pend *w)
{
    struct wm_preq *q = w->req;
    if (is_stopped(p, w)) {
        announce(d, p, w);
        return 1;
    }
    int err = is_rma(w) ? wm_rndv_start(q)
              : q       ? send_eager(q, &w->hdr)
                        : p->send(p->eager, &w->hdr, w->data, w->len);
    if (err == -RT_EAGAIN)
        return err;
    bool rma = is_rma(w);
    rt_list_del(&w->link);
    rt_reserve_free(w);
    if (!q) {
        if (err < 0)
            wm_ctl_failed(p, err);
        return 1;
    }
    q->pend = NULL;
    if (rma && err)
        q->op.done(&q->op, err);
    else if (!rma && err)
        wm_preq_finish(q, err);
    else if (!rma)
        eager_sent(q);
    return 1;
}

void wm_pend_drop(struct wm_peer *p, int err)
{
    struct rt_list *l, *tmp;
    rt_list_each_safe (l, tmp, &p->pending) {
        struct wm_pend *w = rt_container(l, struct wm_pend, link);
        struct wm_preq *q = w->req;
        bool rma = is_rma(w);
        rt_list_del(l);
        rt_reserve_free(w);
        if (q)
            q->pend = NULL;
        if (q && rma)
            wm_rndv_end(q, err);
        else if (q)
            wm_preq_finish(q, err);
    }
    rt_list_del(&p->retry);
}

int wm_retry(struct wm_domain *d)
{
    int n = 0;
    struct rt_list *l, *tmp;
    rt_list_each_safe (l, tmp, &d->retry) {
        struct wm_peer *p = rt_container(l, struct wm_peer, retry);
        while (!rt_list_empty(&p->pending)) {
            if (retry_one(d, p, rt_container(p->pending.next, struct wm_pend, link)) < 0)
                break;
            n++;
        }
        if (rt_list_empty(&p->pending)) {
            rt_list_del(&p->retry);
            p->blocked = p->err != 0;
        }
    }
    return n;
}

static int start_eager(struct wm_preq *q, struct btl_hdr hdr)
{
    if (!q->peer->blocked) {
        int err = send_eager(q, &hdr);
        if (err == 0)
            eager_sent(q);
        if (err != -RT_EAGAIN)
            return err;
    }
    return wm_pend(q->dom, q->peer, hdr, NULL, 0, q);
}

static struct wm_preq *send_request(const struct wm_msg *m, enum wm_mode mode, struct wm_peer *p,
                                    int64_t nbytes)
{
    struct wm_preq *q = wm_preq_new(m->comm->dom, WM_PREQ_SEND);
    if (!q)
        return NULL;
    q->mode = (uint8_t)mode;
    q->coll = m->coll;
    q->prompt = m->prompt;
    q->peer = p;
    q->peer_rank = m->peer;
    q->tag = m->tag;
    q->comm = m->comm;
    wm_comm_ref(m->comm);
    q->buf = m->buf;
    q->count = m->count;
    q->layout = m->layout;
    q->nbytes = nbytes;
    q->r.status = (struct rt_status){ .src = MPI_ANY_SOURCE, .tag = MPI_ANY_TAG };
    rt_list_init(&q->link);
    return q;
}

static __attribute__((noinline)) int start_device(const struct wm_msg *m, const struct wm_mem *mem,
                                                  enum wm_mode mode, struct wm_peer *p,
                                                  int64_t nbytes, struct rt_req **out)
{
    struct wm_preq *q = send_request(m, mode, p, nbytes);
    if (!q)
        return -RT_ENOMEM;
    int err = wm_dev_open(q, mem);
    if (err >= 0)
        err = wm_dev_send(q);
    if (err < 0) {
        wm_req_release(&q->r);
        return err;
    }
    *out = &q->r;
    return 0;
}

int wm_p2p_isend(const struct wm_msg *m, enum wm_mode mode, struct rt_req **out)
{
    if (m->peer == MPI_PROC_NULL) {
        *out = wm_req_complete;
        return rt_unlikely(m->comm->ft.revoked) ? -RT_EREVOKED : 0;
    }
    struct wm_comm *c = m->comm;
    struct wm_peer *p;
    int err = wm_comm_peer(c, m->peer, &p);
    if (err < 0)
        return err;
    wm_flow_before_send(c->dom, p, m->coll);
    if (p->err)
        return p->err;
    int64_t nbytes = wm_nbytes(m->count, m->layout);
    if (nbytes < 0)
        return (int)nbytes;
    struct wm_mem found;
    const struct wm_mem *mem = m->mem;
    if (rt_likely(!mem))
        mem = wm_resolve_now(m->buf, m->count, m->layout, nbytes, &found);
    if (rt_unlikely(mem && mem->kind != WM_MEMORY_HOST))
        return start_device(m, mem, mode, p, nbytes, out);
    bool sync = mode == WM_SYNCHRONOUS;
    bool eager = nbytes + (sync ? (int64_t)sizeof(uint64_t) : 0) <= p->eager_max &&
                 (rt_likely(!p->stopped) || m->prompt);
    struct btl_hdr hdr = wm_hdr(sync ? WM_EAGER_SYNC : WM_EAGER, wm_ctx(c, m->coll), m->tag,
                                c->rank);
    if (eager && !sync && !p->blocked) {
        err = rt_likely(m->layout->contig) ? p->send(p->eager, &hdr, m->buf, (size_t)nbytes)
                                           : send_packed(p, &hdr, "", 0, m, (size_t)nbytes);
        if (err == 0) {
            *out = wm_req_complete;
            wm_count_eager(c->dom, nbytes);
            wm_flow_sent(p, nbytes);
        }
        if (err != -RT_EAGAIN)
            return err;
    }
    struct wm_preq *q = send_request(m, mode, p, nbytes);
    if (!q)
        return -RT_ENOMEM;
    err = eager ? start_eager(q, hdr) : wm_rndv_send(q);
    if (err < 0) {
        wm_req_release(&q->r);
        return err;
    }
    if (eager)
        wm_count_eager(c->dom, nbytes);
    *out = &q->r;
    return 0;
}

int wm_p2p_send_poison(const struct wm_msg *m)
{
    struct wm_comm *c = m->comm;
    struct wm_peer *p;
    int err = wm_comm_peer(c, m->peer, &p);
    if (err < 0)
        return err;
    struct btl_hdr hdr = wm_hdr(WM_VOID, wm_ctx(c, m->coll), m->tag, c->rank);
    return wm_try_ctl(c->dom, p, hdr, "", 0);
}

void wm_on_sync_ack(struct wm_domain *d, const struct wm_fin *f)
{
    (void)d;
    struct wm_preq *q = wm_preq_named(f->req);
    if (q && (q->state == WM_ANNOUNCED || q->state == WM_RECALLED)) /* else the peer was lost */
        wm_rndv_step(q, WM_STEP_PEER, 0);
}
