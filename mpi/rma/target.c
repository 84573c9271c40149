/* SPDX-License-Identifier: BSD-3-Clause */
/* What an origin knows of its targets.  The state of a target is made when its rank is first named,
 * in a hash table, so a window over many processes costs only for the targets that are used.  The
 * path to a target is chosen then, by path.c. */
#include "mpi/rma/target.h"
#include "mpi/p2p/engine.h"
#include "mpi/p2p/send.h"
#include "mpi/rma/format.h"
#include "runtime/base/cfg.h"
#include "runtime/base/log.h"
#include "runtime/mem/peer.h"
#include "runtime/mem/segment.h"
#include <stdlib.h>

bool wm_rma_by_messages(void) { return cfg.rma_path == WM_RMA_FORCE_AM; }

/* Where the memory of a target begins, as its path addresses it. */
static char *memory_of(const struct wm_rma *r, const struct wm_rma_target *t, bool self)
{
    const struct wm_rma_ctl *c = t->ctl;
    if (wm_rma_sends(t))
        return NULL;
    if (self)
        return r->memory.base;
    if (t->path == WM_PATH_CMA)
        return (char *)(uintptr_t)(c->where == WM_RMA_DYNAMIC ? 0 : c->base);
    return c->where == WM_RMA_IN_FILE   ? r->shared.file.base + c->off
           : c->where == WM_RMA_IN_NODE ? rt_node_at(c->off)
                                        : NULL;
}

static bool has_device(const struct wm_rma_target *t)
{
    return t->ctl && rt_load_acquire(&t->ctl->on_device);
}

static bool offers_rdma(const struct wm_peer *p)
{
    const struct btl_caps *c = &p->eager->btl->caps;
    return (c->flags & BTL_WINDOW) && (c->rma_mem & RT_MEM_BIT(RT_MEM_HOST));
}

/* Whether the transport to the target may access its memory.  Asked only where that decides,
 * because it sets up the peer. */
static bool has_rdma(struct wm_rma *r, struct wm_rma_target *t)
{
    bool asked = !t->ctl || cfg.rma_path == WM_RMA_FORCE_RDMA;
    return asked && r->win->flavor != MPI_WIN_FLAVOR_DYNAMIC && t->rank != r->comm->rank &&
           wm_rma_target_peer(r, t) == 0 && offers_rdma(t->msg.peer);
}

static void reach(struct wm_rma *r, struct wm_rma_target *t)
{
    char probe;
    struct wm_rma_facts f = { .force = (uint8_t)cfg.rma_path,
                              .same_host = t->ctl != NULL,
                              .self = t->rank == r->comm->rank,
                              .rdma = has_rdma(r, t) };
    if (f.same_host) {
        f.where = (uint8_t)t->ctl->where;
        f.device = has_device(t);
        f.mapped = t->ctl->has_key;
        f.readable = !f.self &&
                     rt_peer_read(&rt_node.bells[t->local], &probe, t->ctl->probe, 1) == 0;
    }
    struct wm_rma_choice c = wm_rma_choose(&f);
    t->path = (uint8_t)c.path;
    t->ptr = memory_of(r, t, f.self);
    log_debug(MPI, "window %u: rank %d by path %s: %s", r->comm->ctx, t->rank,
              wm_rma_path_names[t->path], c.reason);
}

/* Operations that have been carried out by the former path are complete; those in the queue go by
 * messages, too. */
int wm_rma_reach_again(struct wm_rma *r, struct wm_rma_target *t)
{
    if (wm_rma_sends(t) || !has_device(t))
        return 0;
    reach(r, t);
    return wm_rma_target_peer(r, t);
}

static struct wm_rma_target *make(struct wm_rma *r, int rank)
{
    struct wm_rma_target *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    struct rt_proc proc = wm_group_proc(r->comm->group, rank);
    t->rank = rank;
    t->local = proc.ns == 0 ? rt_node_local(proc.rank) : -1;
    t->ctl = t->local >= 0 ? wm_rma_ctl_at(r, t->local) : NULL;
    t->by_ctl = t->ctl && !wm_rma_by_messages();
    t->unit = t->ctl ? t->ctl->unit : r->memory.same_unit > 0 ? r->memory.same_unit : 0;
    t->nbytes = t->ctl                       ? t->ctl->nbytes
                : r->memory.same_nbytes >= 0 ? (uint64_t)r->memory.same_nbytes
                                             : UINT64_MAX;
    if (r->win->flavor == MPI_WIN_FLAVOR_DYNAMIC)
        t->nbytes = UINT64_MAX;
    rt_list_init(&t->queue);
    rt_list_init(&t->flight);
    rt_list_init(&t->busy);
    rt_list_init(&t->active);
    rt_list_init(&t->epoch.want.link);
    reach(r, t);
    return t;
}

struct wm_rma_target *wm_rma_target_make(struct wm_rma *r, int rank)
{
    struct wm_rma_target **bucket = &r->targets.bucket[rank % WM_RMA_BUCKETS], *t = *bucket;
    while (t && t->rank != rank)
        t = t->next;
    if (!t) {
        t = make(r, rank);
        if (!t)
            return NULL;
        t->next = *bucket;
        *bucket = t;
    }
    r->targets.last = t;
    return t;
}

int wm_rma_named(struct wm_rma *r, int rank, struct wm_rma_target **out)
{
    *out = wm_rma_target(r, rank);
    return rt_likely(*out != NULL)
               ? MPI_SUCCESS
               : wm_err(MPI_ERR_NO_MEM, "no memory for the state of rank %d", rank);
}

int wm_rma_target_peer(struct wm_rma *r, struct wm_rma_target *t)
{
    if (t->msg.peer)
        return t->msg.peer->err;
    int err = wm_comm_peer(r->comm, t->rank, &t->msg.peer);
    return err < 0 ? err : t->msg.peer->err;
}

void wm_rma_activate(struct wm_rma *r, struct wm_rma_target *t)
{
    if (rt_list_empty(&t->active))
        rt_list_append(&r->targets.active, &t->active);
}

void wm_rma_note(struct wm_rma_target *t, int rt_err)
{
    if (!t->err)
        t->err = rt_err;
}
