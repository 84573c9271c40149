/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI_Cancel of a send (MPI-5.0 section 3.8.4).  A message that has not been sent is taken back.  A
 * message that has been sent and waits only for its match (a rendezvous, a synchronous message) is
 * asked back.  If the target still has the message unmatched, the target removes it and answers;
 * otherwise there is no answer, and the send completes like any other.  Messages of both sides
 * arrive in order.  So the target has received the message before the question, and if the match
 * was first, this process is notified of the match first.
 *
 * A target in MPI_Finalize posts no more receives, but may not answer either: after a while the
 * send is cancelled without an answer.  Called under the domain's lock. */
#include "mpi/p2p/cancel.h"
#include "mpi/p2p/control.h"
#include "mpi/p2p/progress.h"
#include "mpi/p2p/recv.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/transfer.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/reserve.h"

/* How long to wait for matches from a target that posts no more receives; at most, they wait for
 * room in the transport.  Far longer than such a wait on any machine; a longer value only delays
 * MPI_Wait of the cancelled send. */
#define LAST_NS 1000000000u

/* The target has given the message back, or does not answer. */
static void end_recalled(struct wm_preq *q)
{
    q->r.status.cancelled = true;
    wm_rndv_step(q, WM_STEP_BACK, 0);
}

/* Takes back an eager message that waits for room.  A CTS in the queue stands for a put or get,
 * whose message is matched already. */
static bool take_back(struct wm_preq *q)
{
    struct wm_pend *w = q->pend;
    if (!w || w->hdr.ctx >> WM_KIND_SHIFT == WM_CTS)
        return false;
    rt_list_del(&w->link);
    rt_reserve_free(w);
    q->pend = NULL;
    q->r.status.cancelled = true;
    wm_preq_finish(q, 0);
    return true;
}

/* Whether sends to this peer have been asked back; with `now`, cancels them. */
static bool end_those_of(struct wm_peer *p, bool now)
{
    struct rt_list *l, *tmp;
    bool found = false;
    rt_list_each_safe (l, tmp, &p->rndv) {
        struct wm_preq *q = rt_container(l, struct wm_preq, link);
        if (q->state != WM_RECALLED)
            continue;
        found = true;
        if (now)
            end_recalled(q);
    }
    return found;
}

/* Cancels sends whose target is in MPI_Finalize and does not answer. */
static void look(struct wm_domain *d)
{
    uint64_t now = rt_now_ns();
    bool over = d->cancel_ns && now - d->cancel_ns > LAST_NS, any = false, last = false;
    for (int i = 0; i < WM_PEER_BUCKETS; i++)
        for (struct wm_peer *p = d->peers[i]; p; p = p->next) {
            if (!end_those_of(p, false))
                continue;
            any = true;
            if (!wm_peer_is_last(p))
                continue;
            last = true;
            if (over)
                end_those_of(p, true);
        }
    d->look_cancelled = any ? look : NULL;
    if (!last || over)
        d->cancel_ns = 0;
    else if (!d->cancel_ns)
        d->cancel_ns = now;
}

static bool is_open(const struct wm_preq *q, uint32_t handle)
{
    return rt_slab_get(&wm_request_slab, handle) == q && !rt_req_done(&q->r) &&
           q->state == WM_RECALLED;
}

/* Question and answer of a message to this process itself are both delivered here, so that a
 * program that calls MPI_Test once already gets the result. */
static void settle_self(struct wm_preq *q, uint32_t handle)
{
    while (is_open(q, handle) && wm_progress(q->dom) > 0)
        ;
}

static int ask_back(struct wm_preq *q)
{
    struct wm_fin f = { .req = q->r.obj.handle };
    return wm_try_ctl(q->dom, q->peer,
                      wm_hdr(WM_CANCEL, wm_ctx(q->comm, q->coll), q->tag, q->comm->rank), &f,
                      sizeof f);
}

void wm_recall_send(struct wm_preq *q)
{
    wm_rndv_enter(q, WM_RECALLED);
    q->dom->look_cancelled = look;
    if (ask_back(q) == -RT_ENOMEM)
        rt_boot_abort(1, "out of memory for the recall of a message");
}

/* Makes progress before it asks: a target that has left may have published this before its
 * connection ended, and then the send ends without a question. */
int wm_cancel_send(struct wm_preq *q)
{
    struct wm_domain *d = q->dom;
    uint32_t handle = q->r.obj.handle;
    if (rt_req_done(&q->r)) {
        wm_req_forgive(q, q->peer);
        return 0;
    }
    if (take_back(q) || q->state != WM_ANNOUNCED)
        return 0;
    wm_rndv_enter(q, WM_RECALLED);
    d->look_cancelled = look;
    wm_progress(d);
    if (!is_open(q, handle))
        return 0;
    int err = ask_back(q);
    if (err == 0 && q->peer->is_self)
        settle_self(q, handle);
    if (err == 0 || err == -RT_EPEER) /* of a lost peer it ends with that error */
        return 0;
    wm_rndv_enter(q, WM_ANNOUNCED);
    return err;
}

struct sent {
    const struct wm_peer *from;
    uint32_t req;
};

static bool is_sent(const struct wm_unex *u, const void *arg)
{
    const struct wm_stored *s = rt_container(u, struct wm_stored, unex);
    const struct sent *is = arg;
    uint64_t id;
    if (s->from != is->from || s->kind == WM_EAGER)
        return false;
    if (s->kind == WM_RTS)
        return ((const struct wm_rts *)(const void *)s->data)->sender == is->req;
    memcpy(&id, s->data, sizeof id);
    return (uint32_t)id == is->req;
}

void wm_on_cancel(struct wm_domain *d, struct wm_peer *from, const struct wm_key *k,
                  const void *data, size_t len)
{
    struct wm_fin f = { 0 };
    memcpy(&f, data, len < sizeof f ? len : sizeof f);
    struct wm_unex *u = wm_match_find_that(&d->match, k, is_sent, &(struct sent){ from, f.req });
    if (!u)
        return;
    wm_match_remove(&d->match, u);
    wm_stored_free(d, rt_container(u, struct wm_stored, unex));
    wm_send_ctl(d, from, wm_hdr(WM_CANCELLED, 0, 0, 0), &f, sizeof f);
}

void wm_on_cancelled(const struct wm_fin *f)
{
    struct wm_preq *q = wm_preq_named(f->req);
    if (q && q->state == WM_RECALLED) /* else the peer was declared lost in between */
        end_recalled(q);
}

void wm_cancel_left(struct wm_peer *p) { end_those_of(p, true); }
