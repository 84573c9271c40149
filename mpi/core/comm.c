/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators as objects: MPI_COMM_WORLD and MPI_COMM_SELF, creation and release, and the calls
 * that only read a communicator (MPI-5.0 section 7.4.1).  References and team change under the
 * domain's lock; rank, size, group and context never change. */
#include "mpi/core/comm.h"
#include "mpi/api/bodies.h"
#include "mpi/base/attr.h"
#include "mpi/coll/check.h"
#include "mpi/coll/team.h"
#include "mpi/core/ctx.h"
#include "mpi/core/errh.h"
#include "mpi/core/group.h"
#include "mpi/core/info.h"
#include "mpi/core/lanes.h"
#include "mpi/core/session.h"
#include "mpi/p2p/domain.h"
#include "mpi/p2p/failed.h"
#include "mpi/p2p/p2p.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/revoke.h"
#include "mpi/p2p/wait.h"
#include "runtime/mem/activity.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct wm_comm world, self;

static bool comm_predefined(const struct wm_comm *c) { return c->obj.handle < WM_PREDEFINED_MAX; }

/* Releases everything that comm_fill and later calls attached; tolerates a half-built
 * communicator. */
static void comm_empty(struct wm_comm *c)
{
    wm_check_drop(c);
    wm_coll_team_fini(c);
    wm_errh_unref(c->errh);
    wm_info_destroy(c->info);
    if (c->topo)
        c->topo_ops->free(c->topo);
    wm_session_unref(c->session);
    wm_group_unref(c->group);
    if (c->remote != c->group)
        wm_group_unref(c->remote);
    free(c->peers);
    if (c->local)
        wm_comm_unref(c->local);
}

static void comm_destroy(struct wm_comm *c)
{
    if (comm_predefined(c))
        RT_BUG("the last reference to %s, a predefined communicator, was dropped", c->name);
    uint32_t ctx = c->ctx; /* 0: a failed MPI_Comm_idup */
    if (rt_unlikely(c->ft.published))
        rt_activity_freed(ctx);
    bool tainted = wm_failed_taints(c);
    if (tainted && c->local)
        c->local->team.failed = true;
    if (ctx && !tainted)
        wm_comm_release_ctx(ctx);
    else if (ctx)
        wm_revoke_ctx(c->dom, ctx);
    comm_empty(c);
    rt_slab_free(&wm_comm_slab, c);
}

/* Sets all fields but the handle. */
static int comm_fill(struct wm_comm *c, struct wm_group *group, struct wm_group *remote,
                     uint32_t ctx, struct wm_domain *dom)
{
    c->peers = calloc((size_t)remote->size, sizeof *c->peers);
    if (!c->peers)
        return wm_err(MPI_ERR_NO_MEM, "no memory for a communicator of %d processes", remote->size);
    wm_group_ref(group);
    if (remote != group)
        wm_group_ref(remote);
    c->rank = group->rank;
    c->size = group->size;
    c->ctx = ctx;
    c->group = group;
    c->remote = remote;
    c->dom = dom;
    c->destroy = comm_destroy;
    c->errh = wm_errh_predefined[(uintptr_t)MPI_ERRORS_ARE_FATAL & 7];
    wm_session_ref(group->session);
    c->session = group->session;
    return MPI_SUCCESS;
}

/* Makes an empty object valid for those that look at all communicators. */
static void comm_blank(struct wm_comm *c, struct wm_domain *dom)
{
    c->group = c->remote = &wm_group_empty;
    c->dom = dom;
    c->destroy = comm_destroy;
    c->errh = wm_errh_predefined[(uintptr_t)MPI_ERRORS_ARE_FATAL & 7];
}

struct wm_comm *wm_comm_reserve(struct wm_domain *dom)
{
    struct wm_comm *c = rt_slab_alloc(&wm_comm_slab);
    if (c)
        comm_blank(c, dom);
    return c;
}

void wm_comm_clear(struct wm_comm *c)
{
    struct rt_obj obj = c->obj;
    struct wm_domain *dom = c->dom;
    comm_empty(c);
    memset(c, 0, sizeof *c);
    c->obj = obj;
    comm_blank(c, dom);
}

/* In the object *out; NULL: in a new one. */
static int comm_create(struct wm_group *group, struct wm_group *remote, uint32_t ctx,
                       struct wm_domain *dom, struct wm_comm **out)
{
    struct wm_comm *c = *out ? *out : rt_slab_alloc(&wm_comm_slab);
    if (!c)
        return wm_err(MPI_ERR_NO_MEM, "no memory for another communicator");
    int err = comm_fill(c, group, remote, ctx, dom);
    if (!err)
        *out = c;
    else if (c != *out)
        rt_slab_free(&wm_comm_slab, c);
    return err;
}

int wm_comm_create_local(struct wm_group *group, uint32_t ctx, struct wm_domain *dom,
                         struct wm_comm **out)
{
    *out = NULL;
    return wm_comm_fill_local(group, ctx, dom, out);
}

int wm_comm_fill_local(struct wm_group *group, uint32_t ctx, struct wm_domain *dom,
                       struct wm_comm **out)
{
    return comm_create(group, group, ctx, dom, out);
}

/* ---- parts on other lanes: mpi/p2p/lane.h ---- */

static struct wm_comm *dropped; /* parts without references, linked by `lane` */

/* The last reference has gone, under the lock of its lane.  What the part refers to changes under
 * the lock of lane 0. */
static void part_drop(struct wm_comm *part)
{
    struct wm_comm *first = rt_load_relaxed(&dropped);
    do
        part->lane = first;
    while (!rt_cas(&dropped, &first, part));
}

void wm_comm_sweep_lanes(void)
{
    struct wm_comm *next;
    if (rt_likely(!rt_load_relaxed(&dropped)))
        return;
    for (struct wm_comm *p = rt_exchange(&dropped, (struct wm_comm *)NULL); p; p = next) {
        struct wm_comm *whole = p->whole;
        next = p->lane;
        comm_empty(p);
        rt_slab_free(&wm_comm_slab, p);
        wm_comm_unref(whole);
    }
}

void wm_comm_enter_lane(struct wm_comm *c, struct wm_domain *d)
{
    wm_comm_sweep_lanes();
    if (!d)
        return;
    if (wm_comm_create_local(c->group, c->ctx, d, &c->lane))
        rt_boot_abort(1, "out of memory for a communicator on which other processes may send "
                         "already");
    c->lane->no_handle = true;
    c->lane->destroy = part_drop;
    c->lane->whole = c;
    wm_comm_ref(c);
}

/* The user frees `c`: pending operations keep its part. */
static void leave_lane(struct wm_comm *c)
{
    if (!c->lane)
        return;
    struct wm_domain *d = c->lane->dom;
    rt_lock(&d->lock);
    wm_comm_unref(c->lane);
    rt_unlock(&d->lock);
}

int wm_comm_create_inter(struct wm_group *group, struct wm_group *remote, uint32_t ctx,
                         struct wm_comm *local, struct wm_domain *dom, struct wm_comm **out)
{
    int err = comm_create(group, remote, ctx, dom, out);
    if (err)
        return err;
    (*out)->inter = true;
    (*out)->local = local;
    local->no_handle = true;
    wm_coll_team_plain(*out);
    return MPI_SUCCESS;
}

static int predefined_create(struct wm_comm *c, MPI_Comm handle, const char *name, int n,
                             uint32_t first, uint32_t ctx, struct wm_domain *dom)
{
    struct wm_group *g;
    int err = wm_group_create_run((struct rt_proc){ 0, first }, n, &g);
    if (err)
        return err;
    memset(c, 0, sizeof *c);
    c->obj = (struct rt_obj){ (uint32_t)(uintptr_t)handle, 1 };
    snprintf(c->name, sizeof c->name, "%s", name);
    err = comm_fill(c, g, g, ctx, dom);
    wm_group_unref(g); /* the communicator has its own reference */
    if (!err)
        c->errh = wm_errh_initial();
    if (!err)
        err = wm_coll_team_own(c);
    if (err)
        comm_empty(c);
    return err;
}

int wm_comm_init(struct wm_domain *dom)
{
    int err = predefined_create(&world, MPI_COMM_WORLD, "MPI_COMM_WORLD", rt_boot.size, 0,
                                WM_CTX_WORLD, dom);
    if (err)
        return err;
    err = predefined_create(&self, MPI_COMM_SELF, "MPI_COMM_SELF", 1, (uint32_t)rt_boot.rank,
                            WM_CTX_SELF, dom);
    if (err) {
        comm_empty(&world);
        return err;
    }
    wm_comm_world = wm_comm_predefined[(uintptr_t)MPI_COMM_WORLD & 7] = &world;
    wm_comm_self = wm_comm_predefined[(uintptr_t)MPI_COMM_SELF & 7] = &self;
    return MPI_SUCCESS;
}

/* Freed requests of the user may still be running and need MPI_COMM_WORLD or MPI_COMM_SELF; such a
 * communicator is emptied after they complete. */
static bool kept_self, kept_world;

void wm_comm_fini(void)
{
    wm_comm_world = wm_comm_self = NULL;
    memset(wm_comm_predefined, 0, sizeof wm_comm_predefined);
    kept_self = self.obj.refs > 1;
    kept_world = world.obj.refs > 1;
    if (!kept_self)
        comm_empty(&self);
    if (!kept_world)
        comm_empty(&world);
}

void wm_comm_rest(void)
{
    if (kept_self)
        comm_empty(&self);
    if (kept_world)
        comm_empty(&world);
    kept_self = kept_world = false;
}

int wm_api_comm_rank(struct wm_comm *comm, int *rank)
{
    *rank = comm->rank;
    return MPI_SUCCESS;
}

int wm_api_comm_size(struct wm_comm *comm, int *size)
{
    *size = comm->size;
    return MPI_SUCCESS;
}

int wm_api_comm_test_inter(struct wm_comm *comm, int *flag)
{
    *flag = comm->inter;
    return MPI_SUCCESS;
}

static int not_inter(void)
{
    return wm_err(MPI_ERR_COMM, "the communicator is an intracommunicator: it has no remote group");
}

int wm_api_comm_remote_size(struct wm_comm *comm, int *size)
{
    if (!comm->inter)
        return not_inter();
    *size = comm->remote->size;
    return MPI_SUCCESS;
}

int wm_api_comm_remote_group(struct wm_comm *comm, struct wm_group **group)
{
    if (!comm->inter)
        return not_inter();
    wm_group_ref(comm->remote);
    *group = comm->remote;
    return MPI_SUCCESS;
}

int wm_api_comm_group(struct wm_comm *comm, struct wm_group **group)
{
    wm_group_ref(comm->group);
    *group = comm->group;
    return MPI_SUCCESS;
}

int wm_api_comm_compare(struct wm_comm *comm1, struct wm_comm *comm2, int *result)
{
    if (comm1 == comm2) {
        *result = MPI_IDENT;
        return MPI_SUCCESS;
    }
    int err, remote;
    *result = MPI_UNEQUAL;
    if (comm1->inter != comm2->inter)
        return MPI_SUCCESS;
    err = wm_group_compare(comm1->group, comm2->group, result);
    if (!err && comm1->inter && *result != MPI_UNEQUAL) {
        err = wm_group_compare(comm1->remote, comm2->remote, &remote);
        if (!err && remote != MPI_IDENT)
            *result = remote;
    }
    if (!err && *result == MPI_IDENT)
        *result = MPI_CONGRUENT; /* same processes, different context */
    return err;
}

int wm_api_comm_set_name(struct wm_comm *comm, const char *name)
{
    /* Cut to the standard's length (MPI-5.0 section 7.8). */
    snprintf(comm->name, sizeof comm->name, "%s", name);
    return MPI_SUCCESS;
}

int wm_api_comm_get_name(struct wm_comm *comm, char *name, int *resultlen)
{
    /* MPI_COMM_NULL has a name too (MPI-5.0 section 7.8). */
    *resultlen = (int)strlen(strcpy(name, comm ? comm->name : "MPI_COMM_NULL"));
    return MPI_SUCCESS;
}

int wm_api_comm_get_info(struct wm_comm *comm, struct wm_info **info_used)
{
    struct wm_info *i = NULL;
    int err = comm->info ? wm_info_dup(comm->info, &i) : wm_info_create(&i);
    if (!err)
        err = wm_info_put(i, "mpi_memory_alloc_kinds", wm_session_kinds(comm->session));
    if (err)
        wm_info_destroy(i);
    else
        *info_used = i;
    return err;
}

/* The assertions of MPI-5.0 section 7.4.4, which Weft stores so that MPI_Comm_get_info returns
 * them, and the hint that mpi/core/lanes.c reads. */
static const char *const hints[] = { "mpi_assert_no_any_tag",
                                     "mpi_assert_no_any_source",
                                     "mpi_assert_exact_length",
                                     "mpi_assert_allow_overtaking",
                                     "mpi_assert_strict_persistent_collective_ordering",
                                     "mpi_assert_memory_alloc_kinds",
                                     WM_LANE_HINT };

/* The value of a hint; NULL if it is absent or ignored.  An assertion about memory kinds that names
 * an unsupported kind is ignored as a whole (MPI-5.0 section 11.4.3). */
static const char *hint_value(const struct wm_info *info, size_t i)
{
    const char *v = wm_info_find(info, hints[i]);
    bool memory = !strcmp(hints[i], "mpi_assert_memory_alloc_kinds");
    return v && memory && !wm_memory_kinds_known(v) ? NULL : v;
}

int wm_comm_set_info(struct wm_comm *comm, const struct wm_info *info)
{
    int err = MPI_SUCCESS;
    for (size_t i = 0; info && i < sizeof hints / sizeof hints[0] && !err; i++) {
        const char *v = hint_value(info, i);
        if (v && !comm->info)
            err = wm_info_create(&comm->info);
        if (v && !err)
            err = wm_info_put(comm->info, hints[i], v);
    }
    return err;
}

int wm_api_comm_set_info(struct wm_comm *comm, struct wm_info *info)
{
    return wm_comm_set_info(comm, info);
}

int wm_comm_copy_topo(const struct wm_comm *from, struct wm_comm *to)
{
    to->topo_ops = from->topo_ops;
    return from->topo ? from->topo_ops->copy(from->topo, &to->topo) : MPI_SUCCESS;
}

void wm_comm_detach_buffer(struct wm_comm *comm)
{
    void *addr;
    MPI_Count size;
    if (comm->bbuf)
        wm_api_comm_detach_buffer(comm, &addr, &size);
}

/* Drops the handle's reference; pending operations keep the communicator until they complete. */
int wm_comm_free(struct wm_comm *comm)
{
    if (comm_predefined(comm))
        return wm_err(MPI_ERR_COMM, "%s cannot be freed", comm->name);
    int err = wm_attrs_delete_all(&comm->attrs, wm_comm_handle(comm));
    if (err)
        return err;
    wm_comm_detach_buffer(comm);
    if (comm->stream)
        comm->stream_left(comm);
    struct wm_domain *dom = comm->dom;
    leave_lane(comm);
    rt_lock(&dom->lock);
    if (rt_unlikely(cfg.check))
        wm_check_freed(comm);
    comm->no_handle = true;
    wm_comm_sweep_lanes();
    wm_comm_unref(comm);
    rt_unlock(&dom->lock);
    return MPI_SUCCESS;
}

int wm_api_comm_free(struct wm_comm *comm) { return wm_comm_free(comm); }

struct quiet_requests {
    const struct wm_comm *comm;
    int n;
};

static void count_quiet(void *obj, void *arg)
{
    const struct rt_req *r = obj;
    struct quiet_requests *k = arg;
    bool idle = (r->flags & (RT_REQ_PERSISTENT | RT_REQ_ACTIVE)) == RT_REQ_PERSISTENT;
    const struct rt_req_ops *ops = r->ops; /* requests of other lanes may change meanwhile */
    k->n += (idle || rt_req_done(r)) && ops && ops->owner && ops->owner(r) == k->comm;
}

/* Whether no operation is pending.  References are held by the handle, by pending operations, by
 * complete or inactive requests that the user may free later, and by the part on another lane. */
static bool no_pending(void *comm)
{
    const struct wm_comm *c = comm;
    struct quiet_requests k = { .comm = c };
    if (c->obj.refs > 1)
        rt_slab_each(&wm_request_slab, count_quiet, &k);
    return c->obj.refs <= 1 + (c->lane != NULL) + k.n;
}

static void await_pending(struct wm_comm *c)
{
    rt_lock(&c->dom->lock);
    wm_domain_until(c->dom, no_pending, c, WM_WHAT_CALL);
    rt_unlock(&c->dom->lock);
}

void (*wm_comm_part)(const struct wm_comm *c);

int wm_api_comm_disconnect(struct wm_comm *comm)
{
    if (comm_predefined(comm))
        return wm_err(MPI_ERR_COMM, "%s cannot be disconnected", comm->name);
    if (comm->lane)
        await_pending(comm->lane);
    await_pending(comm);
    if (wm_comm_part)
        wm_comm_part(comm);
    return wm_comm_free(comm);
}
