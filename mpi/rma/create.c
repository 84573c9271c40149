/* SPDX-License-Identifier: BSD-3-Clause */
/* Creation and end of windows (MPI-5.0 section 12.2).  All processes of the communicator take part:
 *   1. A hidden duplicate of the communicator is made; its context names the window in messages.
 *   2. The processes of a host exchange the sizes of their memory.  One of them creates the file of
 *      the window, with a control block for each local rank and the memory of windows that allocate
 *      theirs.  The others open the file, and each reserves its own parts (runtime/mem/share.h).
 *   3. All processes agree that none has failed, and on whether sizes and units are equal.
 * A process that has failed takes part to the end, so an error of one process is an error of
 * all. */
#include "mpi/rma/create.h"
#include "mpi/api/bodies.h"
#include "mpi/base/attr.h"
#include "mpi/coll/check.h"
#include "mpi/coll/exch.h"
#include "mpi/core/comm.h"
#include "mpi/core/commnew.h"
#include "mpi/core/ctx.h"
#include "mpi/core/errh.h"
#include "mpi/core/helper.h"
#include "mpi/core/info.h"
#include "mpi/p2p/pack_any.h"
#include "mpi/rma/checked.h"
#include "mpi/rma/epoch.h"
#include "mpi/rma/flush.h"
#include "mpi/rma/format.h"
#include "mpi/rma/info.h"
#include "mpi/rma/map.h"
#include "mpi/rma/net.h"
#include "mpi/rma/origin.h"
#include "mpi/rma/progress.h"
#include "mpi/rma/quick.h"
#include "mpi/rma/sync.h"
#include "mpi/rma/target.h"
#include "mpi/rma/type.h"
#include "mpi/rma/windows.h"
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "runtime/mem/segment.h"
#include <stdlib.h>
#include <string.h>

/* ---- the window's file ---- */

/* The processes of a window of `c` on this host. */
static int find_members(struct wm_rma *r, const struct wm_comm *c, struct wm_rma_host *h)
{
    const struct wm_group *g = c->group;
    r->shared.members = malloc((size_t)rt_node.size * sizeof *r->shared.members);
    h->ranks = malloc((size_t)rt_node.size * sizeof *h->ranks);
    h->share = calloc((size_t)rt_node.size, sizeof *h->share);
    if (!r->shared.members || !h->ranks || !h->share)
        return wm_err(MPI_ERR_NO_MEM, "no memory for a window");
    for (int i = 0; i < g->size; i++) {
        struct rt_proc p = wm_group_proc(g, i);
        int local = p.ns == 0 ? rt_node_local(p.rank) : -1;
        if (local < 0)
            continue;
        if (i == c->rank)
            h->me = r->shared.nmembers;
        h->ranks[r->shared.nmembers] = i;
        r->shared.members[r->shared.nmembers++] = local;
    }
    r->shared.leader = r->shared.members[0];
    return 0;
}

static int64_t round_up(int64_t n, int64_t align) { return (n + align - 1) / align * align; }

/* The offset of this process's memory in the file (*off); returns the length of the file. */
static int64_t place(const struct wm_rma *r, struct wm_rma_host *h, const struct wm_rma_plan *p,
                     int64_t *off)
{
    int64_t at = (int64_t)r->shared.ctl_nbytes * rt_node.size, align = 64;
    for (int i = 0; i < r->shared.nmembers; i++)
        align = h->share[i].align > align ? h->share[i].align : align;
    h->align = align;
    at = round_up(at, 4096);
    for (int i = 0; i < r->shared.nmembers; i++) {
        if (p->contiguous && i == 0)
            at = round_up(at, align);
        else if (!p->contiguous && h->share[i].nbytes)
            at = round_up(at, align > 4096 ? align : 4096);
        if (i == h->me)
            *off = at;
        at += h->share[i].nbytes;
    }
    return round_up(at ? at : 1, 4096);
}

static struct wm_exch members(const struct wm_rma *r, const struct wm_rma_host *h)
{
    return (struct wm_exch){
        .comm = r->comm, .ranks = h->ranks, .n = r->shared.nmembers, .me = h->me, .tag = WM_TAG_COMM
    };
}

static int exchange_sizes(struct wm_rma *r, struct wm_rma_host *h, const struct wm_rma_plan *p)
{
    struct wm_rma_share mine = { p->allocates ? p->nbytes : 0, p->align, r->shared.nnotes };
    struct wm_exch x = members(r, h);
    return wm_exch_allgather(&x, &mine, sizeof mine, h->share);
}

static void worst(void *inout, const void *in)
{
    int32_t *a = inout;
    const int32_t *b = in;
    *a = *b < *a ? *b : *a;
}

/* The creator first; then the others open what it has made.  Sparse memory that a process cannot
 * open is replaced by a file. */
static int open_file(struct wm_rma *r, struct wm_rma_host *h, size_t nbytes)
{
    struct wm_exch x = members(r, h);
    uint32_t ctx = r->comm->ctx;
    size_t align = (size_t)h->align;
    if (r->shared.nmembers == 1)
        return rt_share_alone(&r->shared.file, nbytes, align);
    for (bool sparse = true;; sparse = false) {
        int32_t made = 1, err = 0; /* rt_share_create() has returned `made` */
        if (h->me == 0)
            made = rt_share_create(&r->shared.file, ctx, r->shared.leader, nbytes, align, sparse);
        int e = wm_exch_combine(&x, &made, sizeof made, worst);
        if (e < 0 || made < 0)
            return e < 0 ? e : made;
        if (h->me != 0)
            err = rt_share_open(&r->shared.file, ctx, r->shared.leader, nbytes, align);
        if (made == 0)
            return err;
        e = wm_exch_combine(&x, &err, sizeof err, worst);
        if (e < 0 || err == 0)
            return e;
        rt_share_close(&r->shared.file);
    }
}

int wm_rma_look(const void *base, int64_t nbytes, bool *device)
{
    struct wm_mem mem;
    int err = wm_resolve_bytes(base, nbytes, &mem);
    *device = mem.kind != WM_MEMORY_HOST;
    return err < 0 ? wm_any_error(err) : MPI_SUCCESS;
}

/* Other processes of the host read it to find out whether they have access. */
static const char probe = 1;

/* Fills the own control block. */
static void publish(struct wm_rma *r, const struct wm_rma_plan *p, int64_t off, bool device)
{
    struct wm_rma_ctl *c = wm_rma_ctl_at(r, rt_node.rank);
    uint64_t base = (uint64_t)(uintptr_t)r->memory.base, node = (uint64_t)(uintptr_t)rt_node.base;
    bool in_node = p->nbytes && base >= node && base - node <= rt_node.nbytes - (size_t)p->nbytes;
    r->shared.ctl = c;
    for (int i = 0; i < r->shared.nmembers; i++)
        if (rt_node_fences(r->shared.members[i]))
            c->rule = WM_RMA_BY_STRIPE;
    c->base = base;
    c->nbytes = r->memory.nbytes;
    c->unit = r->memory.unit;
    c->by_messages = wm_rma_by_messages();
    c->on_device = device;
    c->probe = (uint64_t)(uintptr_t)&probe;
    if (p->dynamic) {
        c->where = WM_RMA_DYNAMIC;
    } else if (!p->nbytes) {
        c->where = WM_RMA_NOWHERE;
    } else if (p->allocates) {
        c->where = WM_RMA_IN_FILE;
        c->off = (uint64_t)off;
    } else if (in_node && rt_node.size > 1) {
        c->where = WM_RMA_IN_NODE;
        c->off = base - node;
    } else {
        c->where = WM_RMA_PRIVATE;
    }
}

/* Other processes of the host reach the memory by process_vm_readv, if the system permits that and
 * the memory is not device memory. */
static bool is_private(const struct wm_rma *r)
{
    return r->shared.ctl->where == WM_RMA_PRIVATE || r->shared.ctl->where == WM_RMA_DYNAMIC;
}

/* 0 or -RT_E... */
static int share(struct wm_rma *r, const struct wm_rma_plan *p, struct wm_rma_host *h, bool device)
{
    int64_t off = 0;
    int err = exchange_sizes(r, h, p);
    if (err < 0)
        return err;
    for (int i = 0; i < r->shared.nmembers; i++)
        if (h->share[i].nnotes < r->shared.nnotes)
            r->shared.nnotes = (int)h->share[i].nnotes;
    r->shared.ctl_nbytes = wm_rma_ctl_nbytes(rt_node.size, r->shared.nnotes);
    int64_t nbytes = place(r, h, p, &off);
    err = open_file(r, h, (size_t)nbytes);
    if (!err)
        err = rt_share_reserve(&r->shared.file, (size_t)rt_node.rank * r->shared.ctl_nbytes,
                               r->shared.ctl_nbytes);
    if (!err && p->allocates)
        err = rt_share_reserve(&r->shared.file, (size_t)off, (size_t)p->nbytes);
    if (err < 0)
        return err;
    if (p->allocates)
        r->memory.base = r->shared.file.base + off;
    publish(r, p, off, device);
    if (device && cfg.rma_path == WM_RMA_FORCE_NONE)
        wm_rma_map_offer(r, h->ranks);
    return 0;
}

/* Allocates the window's memory on the device of the thread's current context.  If the thread has
 * none, the memory will be in the window's file.  MPI_SUCCESS or an error class. */
static int take_device(struct wm_rma *r, struct wm_rma_plan *p)
{
    void *base;
    int err = p->nbytes ? rt_gpu_take((size_t)p->nbytes, &base) : -RT_ENOTSUP;
    if (err == -RT_ENOTSUP)
        return MPI_SUCCESS;
    if (err == -RT_ENOMEM)
        return wm_err(MPI_ERR_NO_MEM, "the device has no room for %lld bytes",
                      (long long)p->nbytes);
    if (err < 0)
        return wm_err_rt(err, "allocating device memory for a window");
    r->memory.base = p->base = r->device.taken = base;
    p->allocates = false;
    return MPI_SUCCESS;
}

/* ---- agreement ---- */

struct vote {
    int32_t err;    /* error class; 0: none */
    int32_t forced; /* the setting rma_path of a process is not auto */
    int64_t min_nbytes, max_nbytes, min_unit, max_unit, min_nnotes;
};

static void merge(void *inout, const void *in)
{
    struct vote *a = inout;
    const struct vote *b = in;
    a->err = a->err > b->err ? a->err : b->err;
    a->forced |= b->forced;
    a->min_nbytes = a->min_nbytes < b->min_nbytes ? a->min_nbytes : b->min_nbytes;
    a->max_nbytes = a->max_nbytes > b->max_nbytes ? a->max_nbytes : b->max_nbytes;
    a->min_unit = a->min_unit < b->min_unit ? a->min_unit : b->min_unit;
    a->max_unit = a->max_unit > b->max_unit ? a->max_unit : b->max_unit;
    a->min_nnotes = a->min_nnotes < b->min_nnotes ? a->min_nnotes : b->min_nnotes;
}

static int agree(struct wm_rma *r, int failed)
{
    struct vote v = { .err = failed,
                      .forced = cfg.rma_path != WM_RMA_FORCE_NONE,
                      .min_nbytes = (int64_t)r->memory.nbytes,
                      .max_nbytes = (int64_t)r->memory.nbytes,
                      .min_unit = r->memory.unit,
                      .max_unit = r->memory.unit,
                      .min_nnotes = r->shared.nnotes };
    struct wm_exch x = wm_exch_all(r->comm);
    int err = wm_exch_combine(&x, &v, sizeof v, merge);
    if (err < 0)
        return failed ? failed : wm_err_rt(err, "creating a window");
    if (failed || v.err)
        return failed
                   ? failed
                   : wm_err(v.err, "another process failed in this call; its own message says why");
    r->service.serves = r->shared.nmembers < r->comm->size ||
                        (is_private(r) && r->comm->size > 1) || v.forced;
    if (r->comm->size == 2 && r->shared.nmembers == 2 && !v.forced)
        r->shared.pair = r->shared.members[r->shared.members[0] == rt_node.rank];
    r->memory.same_nbytes = v.min_nbytes == v.max_nbytes ? v.min_nbytes : -1;
    r->memory.same_unit = v.min_unit == v.max_unit ? v.min_unit : -1;
    r->shared.nnotes = (int)v.min_nnotes;
    return MPI_SUCCESS;
}

/* ---- creation ---- */

static int shared_error(int err, const struct wm_rma_plan *p)
{
    if (err == -RT_ENOSPC || err == -RT_ENOMEM)
        return wm_err(MPI_ERR_NO_MEM,
                      "no room for %lld bytes of shared memory; enlarge the file system of "
                      "WEFT_SHM_DIR or name another directory",
                      (long long)p->nbytes);
    return wm_err_rt(err, "creating the shared memory of the window");
}

static struct wm_rma *rma_new(struct wm_win *w, const struct wm_rma_plan *p)
{
    struct wm_rma *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->win = w;
    r->memory.base = p->base;
    r->memory.nbytes = (uint64_t)p->nbytes;
    r->memory.unit = p->unit;
    r->shared.nnotes = wm_rma_notes_wanted(p->info);
    r->shared.file.fd = -1;
    r->shared.pair = -1;
    rt_list_init(&r->task.wants);
    rt_list_init(&r->targets.busy);
    rt_list_init(&r->targets.active);
    rt_list_init(&r->service.folds);
    rt_list_init(&r->service.deferred);
    rt_list_init(&r->shared.all.link);
    w->rma = r;
    return r;
}

static void host_free(struct wm_rma_host *h)
{
    free(h->ranks);
    free(h->share);
}

static void targets_free(struct wm_rma *r)
{
    wm_rma_quick_forget(r);
    for (int i = 0; i < WM_RMA_BUCKETS; i++)
        for (struct wm_rma_target *t = r->targets.bucket[i], *next; t; t = next) {
            next = t->next;
            wm_rma_types_free(t);
            wm_rma_maps_free(t);
            wm_rma_net_detach(t);
            free(t);
        }
    r->targets.last = NULL;
}

static void rma_free(struct wm_rma *r)
{
    targets_free(r);
    wm_rma_origins_free(r);
    wm_rma_map_withdraw(r);
    wm_rma_net_close(r);
    if (r->device.taken)
        rt_gpu_give(r->device.taken);
    rt_share_close(&r->shared.file);
    wm_info_destroy(r->hints);
    free(r->memory.region);
    free(r->shared.members);
    if (r->epoch.started != r->epoch.few)
        free(r->epoch.started);
    free(r);
}

/* Allocates what this process needs in the agreements. */
static int prepare(const struct wm_comm *comm, const struct wm_rma_plan *p, struct wm_win **w,
                   struct wm_rma_host *h)
{
    int err = wm_win_create(w);
    if (err)
        return err;
    struct wm_rma *r = rma_new(*w, p);
    return r ? find_members(r, comm, h) : wm_err(MPI_ERR_NO_MEM, "no memory for a window");
}

/* The part of creation under the domain's lock; `c` is the hidden communicator. */
static int build(struct wm_win *w, struct wm_comm *c, const struct wm_rma_plan *plan,
                 struct wm_rma_host *h)
{
    struct wm_rma_plan p = *plan;
    struct wm_rma *r = w->rma;
    r->comm = w->comm = c;
    r->dom = c->dom;
    bool device = false;
    int failed = p.device ? take_device(r, &p) : 0;
    if (!failed && !p.allocates)
        failed = wm_rma_look(p.base, p.nbytes, &device);
    int err = share(r, &p, h, device);
    if (err < 0 && !failed)
        failed = shared_error(err, &p);
    if (!failed)
        failed = wm_rma_set_hints(r, p.info);
    wm_rma_enlist(r);
    err = agree(r, failed);
    rt_share_unlink(&r->shared.file);
    rt_share_seal(&r->shared.file);
    return err;
}

static void dispose(struct wm_win *w)
{
    struct wm_comm *c = w->comm;
    struct wm_rma *r = w->rma;
    wm_helper_leave(WM_CLIENT_WINDOW, &r->service.helped);
    rt_lock(&c->dom->lock);
    wm_rma_delist(r);
    rma_free(r);
    wm_comm_unref(c);
    rt_unlock(&c->dom->lock);
    w->comm = NULL;
    w->rma = NULL;
    if (w->stream)
        wm_comm_free(w->stream);
    w->stream = NULL;
}

int wm_rma_create(struct wm_comm *comm, const struct wm_rma_plan *p, int failed,
                  struct wm_win **out)
{
    struct wm_comm *hidden;
    struct wm_win *w = NULL;
    struct wm_rma_host h = { 0 };
    if (!failed)
        failed = prepare(comm, p, &w, &h);
    /* An error of one process becomes an error of all. */
    int err = wm_comm_create_from(comm, comm->group, failed, &hidden);
    if (err) {
        if (w && w->rma)
            rma_free(w->rma);
        if (w)
            wm_win_destroy(w);
        host_free(&h);
        return err;
    }
    hidden->no_handle = true;
    w->flavor = p->flavor;
    w->model = MPI_WIN_UNIFIED;
    w->nbytes = p->nbytes;
    w->disp_unit = (int)p->unit;
    rt_lock(&hidden->dom->lock);
    err = build(w, hidden, p, &h);
    rt_unlock(&hidden->dom->lock);
    host_free(&h);
    if (!err && comm->stream)
        err = comm->stream_window(w, comm);
    if (err) {
        dispose(w);
        wm_win_destroy(w);
        return err;
    }
    wm_rma_join_helper(w->rma);
    w->base = w->rma->memory.base;
    *out = w;
    return MPI_SUCCESS;
}

/* Nothing uses the window any more.  After the barrier the origins have their data, but the engine
 * may still use layouts of the window, and the window may still be a task of the domain, if its
 * last operation was sent when an answer came. */
static bool has_served(const struct wm_rma *r, const struct wm_rma_target *t)
{
    (void)t;
    return !r->service.nserving && !r->task.pumping;
}

static bool stream_is_idle(void *win)
{
    struct wm_win *w = win;
    return w->stream_idle(w);
}

int wm_api_win_free(struct wm_win *win)
{
    struct wm_rma *r = win->rma;
    rt_lock(&r->dom->lock);
    int err = wm_rma_may(r, WM_MOVE_FREE);
    if (rt_unlikely(cfg.check) && !err) {
        wm_rma_checked_end(r, NULL);
        if (win->flavor == MPI_WIN_FLAVOR_CREATE && !r->shared.ctl->on_device)
            wm_rma_checked_memory(win, win->base, (size_t)win->nbytes);
    }
    rt_unlock(&r->dom->lock);
    if (rt_unlikely(cfg.check)) /* allocates memory, so not before the look at the window's own */
        wm_check_object(win->comm, "window", win->name, "MPI_Win_free");
    if (!err)
        err = wm_attrs_delete_all(&win->attrs, wm_win_handle(win));
    if (err)
        return err;
    rt_lock(&r->dom->lock);
    err = wm_rma_flush(r, NULL, WM_UNTIL_TARGET);
    if (win->stream && !err)
        err = wm_rma_until(r, stream_is_idle, win);
    int e = wm_rma_barrier(r);
    if (!e)
        rt_store_release(&r->shared.ctl->left, 1u);
    err = err ? err : e;
    if (!err)
        err = wm_rma_wait(r, NULL, has_served);
    rt_unlock(&r->dom->lock);
    if (err)
        return err;
    dispose(win);
    wm_win_destroy(win);
    return MPI_SUCCESS;
}
