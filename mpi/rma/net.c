/* SPDX-License-Identifier: BSD-3-Clause */
/* Puts and gets by a transport that accesses the target's memory without the target (BTL_WINDOW).
 * The first one asks for the key of that memory, and goes by messages, as all do until the key has
 * arrived, and all do for good if the target refuses.  Operations of other kinds, data with gaps,
 * device memory and puts with a notification always go by messages.
 *
 * The transport borrows the operation until it calls done(), also after the target has gone. */
#include "mpi/rma/net.h"
#include "mpi/p2p/control.h"
#include "mpi/p2p/engine.h"
#include "mpi/rma/format.h"
#include "mpi/rma/message.h"
#include "mpi/rma/op.h"
#include "mpi/rma/target.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include <string.h>

/* Operations of a target in the transport; more wait in the target's queue.  A send queue of
 * btl/verbs has room for as many. */
#define FLYING_MAX 128

enum net_state { NET_NEW, NET_ASKED, NET_OPEN, NET_REFUSED };

/* ---- the target ---- */

struct key_message {
    struct wm_rma_msg m;
    char key[WM_RMA_KEY];
};

/* Registers the window's memory, once.  0, or -RT_E...: no process accesses it in this way. */
static int share(struct wm_rma *r, struct btl *b)
{
    struct wm_rma_registered *own = &r->registered;
    if (own->ops || own->err)
        return own->err ? own->err : own->btl == b ? 0 : -RT_EUNREACH;
    bool fixed = r->memory.nbytes && r->win->flavor != MPI_WIN_FLAVOR_DYNAMIC &&
                 !r->shared.ctl->on_device;
    own->err = fixed && (b->caps.flags & BTL_WINDOW)
                   ? b->ops->window_reg(b, r->memory.base, (size_t)r->memory.nbytes, &own->mem)
                   : -RT_ENOTSUP;
    if (own->err)
        return own->err;
    own->btl = b;
    own->ops = b->ops;
    return 0;
}

void wm_rma_net_on_ask(struct wm_rma *r, struct wm_peer *p)
{
    struct key_message k = { .m = { .code = WM_RMA_KEY_GIVEN,
                                    .value = share(r, p->eager->btl),
                                    .count = (int64_t)r->memory.nbytes,
                                    .pos = r->memory.unit } };
    if (!k.m.value)
        k.m.value = r->registered.ops->mem_key(r->registered.mem, k.key);
    wm_send_ctl(r->dom, p, wm_rma_hdr(r), &k, sizeof k);
}

void wm_rma_net_close(struct wm_rma *r)
{
    if (r->registered.ops)
        r->registered.ops->mem_dereg(r->registered.mem);
    r->registered = (struct wm_rma_registered){ 0 };
}

/* ---- the origin ---- */

void wm_rma_net_on_key(struct wm_rma *r, struct wm_rma_target *t, const struct wm_rma_msg *m,
                       const char *key)
{
    struct wm_rma_net *n = &t->net;
    int err = (int)m->value;
    if (!err)
        err = t->msg.peer->eager->btl->ops->attach(t->msg.peer->eager, key, NULL, &n->rmem);
    n->state = err ? NET_REFUSED : NET_OPEN;
    n->nbytes = (uint64_t)m->count;
    n->unit = m->pos;
    log_debug(MPI, "window %u: rank %d %s: %s", r->comm->ctx, t->rank,
              err ? "by messages instead" : "has registered its memory",
              err ? rt_err_text(err) : t->msg.peer->eager->btl->ops->name);
}

void wm_rma_net_detach(struct wm_rma_target *t)
{
    if (t->net.rmem)
        t->msg.peer->eager->btl->ops->detach(t->net.rmem);
    t->net.rmem = NULL;
}

static bool suits(const struct wm_rma_args *a)
{
    return a->nbytes && !a->note && !a->on_device && a->origin.type->layout.contig &&
           a->target.type->layout.contig;
}

static void done(struct btl_op *b, int err)
{
    struct wm_rma_op *op = rt_container(b, struct wm_rma_op, net);
    op->t->net.nflying--;
    op->flying = false;
    wm_rma_op_done(op, err);
}

/* The offset of the data in the target's memory; false: they are not in it. */
static bool find(const struct wm_rma_net *n, const struct wm_rma_args *a, size_t *off)
{
    int64_t at;
    if (__builtin_mul_overflow(a->disp, n->unit, &at) || at < 0 || (uint64_t)at > n->nbytes ||
        (uint64_t)a->nbytes > n->nbytes - (uint64_t)at)
        return false;
    *off = (size_t)at;
    return true;
}

static int begin(struct wm_rma_op *op)
{
    struct wm_rma_net *n = &op->t->net;
    const struct wm_rma_args *a = &op->a;
    const struct btl_ops *ops = op->t->msg.peer->eager->btl->ops;
    size_t off, len = (size_t)a->nbytes;
    if (!find(n, a, &off))
        return -RT_ENOTSUP; /* the target's answer becomes the error */
    if (n->nflying >= FLYING_MAX)
        return -RT_EAGAIN;
    op->net.done = done;
    int err = a->what == WM_RMA_DO_PUT ? ops->put(n->rmem, off, NULL, a->origin.buf, len, &op->net)
                                       : ops->get(n->rmem, off, NULL, a->origin.buf, len, &op->net);
    if (err == -RT_EAGAIN || err == -RT_EPEER)
        return err;
    if (err < 0)
        return -RT_ENOTSUP; /* the origin's buffer cannot be registered, for example */
    n->nflying++;
    op->flying = true;
    wm_rma_activate(op->rma, op->t);
    rt_list_del(&op->link);
    rt_list_append(&op->t->flight, &op->link);
    return 0;
}

int wm_rma_net_start(struct wm_rma_op *op)
{
    struct wm_rma_net *n = &op->t->net;
    if (!suits(&op->a))
        return -RT_ENOTSUP;
    if (n->state == NET_OPEN)
        return begin(op);
    if (n->state == NET_NEW) {
        n->state = NET_ASKED;
        wm_rma_send(op->rma, op->t->msg.peer, WM_RMA_KEY_ASKED, 0, 0);
    }
    return -RT_ENOTSUP;
}
