/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages whose buffer is device memory.
 *
 * A device send is always a rendezvous, even a short one: the sender announces the message with the
 * key of its buffer, and the receiver decides.  If both ends are contiguous device memory that can
 * be mapped, the receiver copies from the sender's buffer, or asks the sender to write into the
 * receiver's, depending on length and pages (rt_gpu_side), by the transport for device memory
 * (wm_peer.dev); a message of a process to itself goes by runtime/gpu.  A sender that cannot write
 * reports this, and the receiver copies.  In all other cases the receiver asks for pieces
 * (pieces.c): in device memory if only packing or exporting is missing; in host memory if one end
 * is there or the devices do not reach each other.  An eager message of a host buffer goes through
 * pinned memory into the device buffer.
 *
 * Where device memory moves by the transport of the messages (wm_dev_by_net: RDMA between hosts),
 * either end may be device or host memory, and the transport's rates decide which side moves the
 * data.  Memory that the transport cannot register goes in pieces in host memory.
 *
 * The buffer is resolved once, when the request is made (resolve.h).  Called under the domain's
 * lock. */
#include "mpi/p2p/device.h"
#include <stdio.h>
#include <stdlib.h>
#include "mpi/api/bodies.h"
#include "mpi/p2p/pack_any.h"
#include "mpi/p2p/pieces.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/transfer.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/layout/pack_gpu.h"

/* Back-off: messages to skip after a way between two processes has failed.  An attempt costs them a
 * message in each direction; with 255, less than one percent. */
#define TRY_AGAIN 255

static void count_message(struct wm_preq *q, int64_t nbytes)
{
    wm_stat_add(&q->dom->stats->device, 1);
    wm_stat_add(&q->dom->stats->device_bytes, (uint64_t)nbytes);
}

/* ---- sending ---- */

int wm_dev_send(struct wm_preq *q)
{
    struct wm_rts rts = { .len = q->nbytes, .sender = q->r.obj.handle, .flags = WM_RTS_DEVICE };
    struct btl_peer *by = wm_domain_dev(q->dom, q->peer);
    bool is_self = q->peer->is_self, net = wm_dev_by_net(q->peer);
    if (!q->dev->scattered && (is_self || (by && !net)))
        rts.flags |= WM_RTS_STAGES;
    if (is_self)
        memcpy(rts.key, &q, sizeof q);
    if (q->layout->contig &&
        (is_self || (by && wm_rndv_key(q, by, &q->dev->at, 0, q->nbytes, rts.key) >= 0))) {
        rts.flags |= WM_RTS_KEY | (net ? WM_RTS_NET : 0);
        q->dev->exported = true;
    }
    int err = wm_rndv_announce(q, &rts);
    if (err >= 0 && !wm_is_piece(q))
        count_message(q, q->nbytes);
    return err;
}

/* ---- receiving ---- */

/* Whether the memory of a key can be mapped for q's device: checked before the sender is asked to
 * use it for pieces. */
static bool reaches(struct wm_preq *q, const void *key)
{
    struct btl_rmem *r;
    if (q->peer->is_self)
        return true;
    struct btl_peer *bp = wm_domain_dev(q->dom, q->peer);
    if (!bp || bp->btl->ops->attach(bp, key, &q->dev->at, &r) < 0)
        return false;
    bp->btl->ops->detach(r);
    return true;
}

/* Whether pieces may be in device memory: then the receiver maps the sender's staging memory. */
static bool pieces_on_device(struct wm_preq *q, const struct wm_rts *rts)
{
    if (!q->dev || q->dev->scattered || wm_is_piece(q) || !(rts->flags & WM_RTS_STAGES))
        return false;
    if (q->peer->dev_far) {
        q->peer->dev_far--;
        return false;
    }
    if (!q->peer->is_self && !wm_domain_dev(q->dom, q->peer))
        return false;
    return !(rts->flags & WM_RTS_KEY) || reaches(q, rts->key);
}

static void pulled(struct rt_gpu_op *op, int err)
{
    wm_rndv_got(rt_container(op, struct wm_dev, op)->q, err);
}

/* Copies from the sender's buffer. */
static int pull(struct wm_preq *q, const void *key)
{
    if (!q->peer->is_self)
        return wm_rndv_pull(q, key);
    const struct wm_preq *from; /* exists until it is notified */
    memcpy(&from, key, sizeof from);
    int err = rt_gpu_reach(q->dev->at.g, &from->dev->at);
    if (err < 0)
        return err;
    q->dev->op.done = pulled;
    struct rt_gpu *g = q->dev->at.g;
    bool near = from->dev->at.kind != RT_MEM_MANAGED && rt_gpu_lies_on(g, &q->dev->at);
    (near ? rt_gpu_copy_near : rt_gpu_copy)(g, (void *)(uintptr_t)q->buf, from->buf,
                                            (size_t)q->moved_len, &q->dev->op);
    return 0;
}

/* Asks the sender to write into the buffer.  An error: the sender cannot be asked. */
static int ask_put(struct wm_preq *q)
{
    struct btl_peer *bp = wm_domain_dev(q->dom, q->peer);
    if (q->peer->is_self || !bp || !(bp->btl->caps.flags & BTL_PUT))
        return -RT_ENOTSUP;
    if (q->peer->no_dev_put) {
        q->peer->no_dev_put--;
        return -RT_ENOTSUP;
    }
    wm_rndv_enter(q, WM_FILL);
    return wm_rndv_ask_put(q, 0, q->moved_len, false);
}

/* Both ends are contiguous: by get or, where that is impossible, through the host. */
static void get_or_pieces(struct wm_preq *q, const char *key)
{
    q->get_len = q->moved_len;
    wm_rndv_enter(q, WM_GET);
    int err = q->dev->has_key ? pull(q, key) : -RT_ENOTSUP;
    if (err >= 0)
        return;
    if (err == -RT_EUNREACH && !q->peer->dev_far) {
        q->peer->dev_far = TRY_AGAIN;
        log_debug(MPI, "device memory of rank %u cannot be mapped; it comes through the host",
                  q->peer->proc.rank);
    }
    wm_pieces_ask(q, false);
}

void wm_dev_put_refused(struct wm_preq *q)
{
    q->peer->no_dev_put = TRY_AGAIN;
    get_or_pieces(q, q->dev->key);
}

/* Whether the transport that moves this side's device memory reaches the sender's buffer.  Its key
 * is of that transport; or the sender has made no key, because it is to write. */
static bool is_direct(struct wm_preq *q, const struct wm_rts *rts)
{
    bool device = rts->flags & WM_RTS_DEVICE, net = !device || (rts->flags & WM_RTS_NET);
    if (!q->dev || !q->layout->contig)
        return false;
    if (q->peer->is_self)
        return device && (rts->flags & WM_RTS_KEY);
    if (!wm_domain_dev(q->dom, q->peer) || wm_dev_by_net(q->peer) != net)
        return false;
    return (rts->flags & WM_RTS_KEY) ||
           (!device && !(rts->flags & WM_RTS_PACKS) && wm_rndv_put_wins(q));
}

/* Whether this side reads; else it asks the sender to write. */
static bool reads(const struct wm_preq *q)
{
    if (wm_dev_by_net(q->peer))
        return !wm_rndv_put_wins(q);
    return rt_gpu_side((size_t)q->moved_len, rt_gpu_in_large_pages(&q->dev->at)) ==
           RT_GPU_LINK_PEER;
}

void wm_dev_recv(struct wm_preq *q, const struct wm_rts *rts)
{
    if (q->dev && !wm_is_piece(q))
        count_message(q, q->moved_len);
    if (!is_direct(q, rts)) {
        wm_pieces_ask(q, pieces_on_device(q, rts));
        return;
    }
    q->dev->has_key = rts->flags & WM_RTS_KEY;
    memcpy(q->dev->key, rts->key, sizeof q->dev->key);
    if (reads(q) || ask_put(q) < 0)
        get_or_pieces(q, rts->key);
}

static void delivered(struct rt_gpu_op *op, int err)
{
    struct wm_dev *v = rt_container(op, struct wm_dev, op);
    rt_gpu_stage_give(v->stage);
    v->stage = NULL;
    wm_preq_finish(v->q, err ? err : v->fail);
}

/* Through pinned memory of this process, because the transport's buffer is not pinned.  Without
 * pinned memory, a copy that is complete on return. */
static void copy_in(struct wm_preq *q, const void *data, size_t n)
{
    struct wm_dev *v = q->dev;
    struct rt_gpu *g = v->at.g;
    char *to = (char *)(uintptr_t)q->buf;
    if (v->scattered || rt_gpu_stage_take(g, true, n, &v->stage) < 0) {
        struct wm_packing p = { q->layout,  q->count, to, 0, (char *)(uintptr_t)data,
                                (int64_t)n, false };
        int err = v->scattered ? wm_scattered_copy(&p) : wm_dev_move_now(g, &p);
        wm_preq_finish(q, err ? err : v->fail);
        return;
    }
    memcpy(v->stage->p, data, n);
    v->op.done = delivered;
    if (q->layout->contig)
        rt_gpu_copy(g, to, v->stage->p, n, &v->op);
    else
        rt_layout_gpu_unpack(g, q->layout, q->count, to, 0, v->stage->p, (int64_t)n, &v->op);
}

void wm_dev_deliver(struct wm_preq *q, const struct wm_key *k, const void *data, size_t len)
{
    size_t n = len <= (size_t)q->nbytes ? len : (size_t)q->nbytes;
    wm_count_received(q->dom, (int64_t)n);
    if (!wm_is_piece(q))
        count_message(q, (int64_t)n);
    wm_stat_add(&q->dom->stats->staged_bytes, n);
    q->r.status = (struct rt_status){ .src = k->src, .tag = k->tag, .len = (int64_t)n };
    if (n != len) {
        q->nbytes = (int64_t)len; /* for the message: the room is in the status */
        q->dev->fail = -RT_ETRUNC;
    }
    if (n)
        copy_in(q, data, n);
    else
        wm_preq_finish(q, q->dev->fail);
}

/* ---- the end ---- */

/* MPI_Finalize has left messages unfinished: later messages for them find no device. */
static void forget_devices(struct wm_peer *p)
{
    struct rt_list *l;
    rt_list_each (l, &p->rndv) {
        struct wm_preq *q = rt_container(l, struct wm_preq, link);
        if (q->dev)
            q->dev->at.g = NULL;
    }
}

void wm_dev_rest(struct wm_domain *d)
{
    while (rt_gpu_nactive) /* of requests that were freed; errors of the driver end them, too */
        rt_gpu_progress();
    for (int i = 0; i < WM_PEER_BUCKETS; i++)
        for (struct wm_peer *p = d->peers[i]; p; p = p->next) {
            if (!rt_list_empty(&p->rndv)) { /* `dev` still has registrations to end */
                forget_devices(p);
                continue;
            }
            wm_domain_drop_dev(p);
            p->dev_far = p->no_dev_put = 0;
        }
}
