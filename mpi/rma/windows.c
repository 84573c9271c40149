/* SPDX-License-Identifier: BSD-3-Clause */
/* The windows of this process, by the context of their communicators: messages that arrive, and
 * processes that are lost, get to them here.  Also the task of a window, which continues what
 * waits: operations for a target that has not posted or whose lock is not held yet, locks with
 * other holders, messages that found no room.  While a window has any of these, it is one of the
 * domain's tasks, so every call that makes progress advances it; programs without such windows pay
 * nothing. */
#include "mpi/rma/windows.h"
#include "mpi/core/helper.h"
#include "mpi/core/info.h"
#include "mpi/core/life.h"
#include "mpi/p2p/describe.h"
#include "mpi/p2p/engine.h"
#include "mpi/p2p/malformed.h"
#include "mpi/rma/acc.h"
#include "mpi/rma/message.h"
#include "mpi/rma/format.h"
#include "mpi/rma/lock.h"
#include "mpi/rma/op.h"
#include "mpi/rma/origin.h"
#include "mpi/rma/queue.h"
#include "mpi/rma/target.h"
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/mem/deaths.h"
#include <string.h>

#define CTX_BUCKETS 256
static struct wm_rma *by_ctx[CTX_BUCKETS];
static unsigned nwindows;

static struct wm_rma *of_ctx(uint32_t ctx)
{
    struct wm_rma *r = by_ctx[ctx / 2 % CTX_BUCKETS];
    while (r && r->comm->ctx != ctx)
        r = r->next;
    return r;
}

/* The locks that this process holds, for other processes that wait for them. */
static void write_held(struct rt_wait_note *n)
{
    for (int b = 0; nwindows && b < CTX_BUCKETS; b++)
        for (const struct wm_rma *r = by_ctx[b]; r; r = r->next) {
            if (r->shared.all.state == WM_WANT_HELD)
                wm_describe_held(n, r->comm, MPI_ANY_SOURCE);
            bool any = r->epoch.nlocks || r->epoch.nasked;
            for (int i = 0; any && i < WM_RMA_BUCKETS; i++)
                for (const struct wm_rma_target *t = r->targets.bucket[i]; t; t = t->next)
                    if (wm_rma_holds(t))
                        wm_describe_held(n, r->comm, t->rank);
        }
}

/* ---- the task ---- */

static int pump(struct coll_task *k)
{
    struct wm_rma *r = rt_container(k, struct wm_rma, task.pump);
    struct rt_list *l, *tmp;
    rt_list_each_safe (l, tmp, &r->task.wants) {
        struct wm_rma_want *w = rt_container(l, struct wm_rma_want, link);
        if (!wm_rma_want_step(r, w))
            continue;
        rt_list_del(&w->link);
        if (w->granted)
            w->granted(r, w);
    }
    wm_rma_deferred_run(r);
    wm_rma_folds_run(r);
    rt_list_each_safe (l, tmp, &r->targets.busy)
        wm_rma_target_run(r, rt_container(l, struct wm_rma_target, busy));
    if (!rt_list_empty(&r->task.wants) || !rt_list_empty(&r->targets.busy) || r->service.folding ||
        !rt_list_empty(&r->service.folds) || !rt_list_empty(&r->service.deferred))
        return 0;
    r->task.pumping = false;
    return 1;
}

/* ---- messages ---- */

static void on_recv(struct wm_domain *d, struct wm_peer *from, const struct btl_hdr *h,
                    const void *data, size_t len)
{
    struct wm_rma_msg m;
    struct wm_rma *r = of_ctx(h->ctx & WM_CTX_MASK);
    (void)d;
    if (!r || len < sizeof m)
        wm_malformed(&from->proc, "for a window that does not exist");
    memcpy(&m, data, sizeof m);
    size_t head = m.flags & WM_RMA_APART ? WM_RMA_HEAD : sizeof m;
    const char *at = (const char *)data + head;
    if (m.code >= WM_RMA_DATA) {
        wm_rma_on_answer(r, (int)h->src, &m, at);
        return;
    }
    wm_rma_serve(r, from, (int)h->src, &m, at, len - head);
}

/* ---- a process has gone ---- */

static void fail_ops(struct rt_list *list, int err)
{
    struct rt_list *l, *tmp;
    rt_list_each_safe (l, tmp, list) {
        struct wm_rma_op *op = rt_container(l, struct wm_rma_op, link);
        op->answered = true;
        if (op->bulk_req || op->result_req || op->copying || op->flying)
            op->err = err; /* the engine ends the message, the device the copy, the transport the
                            * transfer */
        else
            wm_rma_op_done(op, err);
    }
}

static void origin_gone(struct wm_rma *r, struct wm_rma_origin *o)
{
    if (o->want.state == WM_WANT_HELD)
        wm_rma_release(r, &o->want); /* one that waits is released when it is granted */
}

/* `left`: in MPI_Finalize before, so it has freed its windows: the last barrier of MPI_Win_free may
 * still be on its way from a third process to this one.  The locks of a process of this host are
 * not released: the others of the host know of its death, and their calls fail. */
static void peer_gone(struct wm_rma *r, const struct wm_peer *p, bool left)
{
    int local = p->proc.ns == 0 ? rt_node_attached(p->proc.rank) : -1;
    for (int i = 0; i < WM_RMA_BUCKETS; i++) {
        for (struct wm_rma_target *t = r->targets.bucket[i]; t; t = t->next)
            if (t->msg.peer == p) {
                fail_ops(&t->queue, p->err);
                fail_ops(&t->flight, p->err);
            }
        for (struct wm_rma_origin *o = r->service.bucket[i]; o; o = o->next)
            if (o->peer == p && local < 0)
                origin_gone(r, o);
    }
    if (local >= 0 ? r->shared.ctl && wm_rma_has_left(r, local) : left)
        return;
    if (!r->dead && wm_group_find(r->comm->group, p->proc) >= 0)
        r->dead = (int)p->proc.rank + 1;
}

static void peer_down(struct wm_domain *d, struct wm_peer *p, bool left)
{
    (void)d;
    for (int i = 0; i < CTX_BUCKETS; i++)
        for (struct wm_rma *r = by_ctx[i]; r; r = r->next)
            peer_gone(r, p, left);
}

/* ---- the table ---- */

/* A member may have died since it has sent all its messages of this creation. */
void wm_rma_enlist(struct wm_rma *r)
{
    struct wm_rma **bucket = &by_ctx[r->comm->ctx / 2 % CTX_BUCKETS];
    r->next = *bucket;
    *bucket = r;
    r->task.run = pump;
    r->dom->rma = on_recv;
    r->dom->rma_down = peer_down;
    r->dom->rma_held = write_held;
    nwindows++;
    for (int i = 0; i < r->comm->size; i++) {
        struct wm_peer *p = wm_domain_known(r->dom, wm_group_proc(r->comm->group, i));
        if (p && p->err)
            peer_gone(r, p, false);
    }
}

void wm_rma_delist(struct wm_rma *r)
{
    struct wm_rma **p = &by_ctx[r->comm->ctx / 2 % CTX_BUCKETS];
    while (*p && *p != r)
        p = &(*p)->next;
    if (!*p)
        return;
    *p = r->next;
    if (--nwindows == 0)
        wm_rma_scratch_free();
}

/* ---- the helper ---- */

void wm_rma_join_helper(struct wm_rma *r)
{
    const char *no_locks = wm_info_find(r->hints, "no_locks");
    if (r->shared.nmembers == r->comm->size || !cfg.rma_helper ||
        (no_locks && !strcmp(no_locks, "true")))
        return;
    bool may = wm_life_threads();
    int err = may ? wm_helper_join(WM_CLIENT_WINDOW, &r->service.helped) : 0;
    if (err)
        log_warn(MPI,
                 "window %u: no helper thread: %s; other hosts are served while this process "
                 "calls MPI",
                 r->comm->ctx, strerror(err));
    else if (!may)
        log_info(MPI,
                 "window %u: no helper thread, because threads of the program may be inside "
                 "MPI without locks; other hosts are served while this process calls MPI",
                 r->comm->ctx);
}
