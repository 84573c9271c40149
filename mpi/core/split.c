/* SPDX-License-Identifier: BSD-3-Clause */
/* Splitting communicators by color, host and hardware (MPI-5.0 section 7.4.2).  Each process
 * receives all colors and keys and builds the group of its own color; if an intercommunicator is
 * split, the groups of both sides.  Any thread; takes the domain's lock. */
#include "mpi/core/split.h"
#include "mpi/api/bodies.h"
#include "mpi/core/comm.h"
#include "mpi/core/commnew.h"
#include "mpi/core/ctx.h"
#include "mpi/core/group.h"
#include "mpi/core/info.h"
#include "mpi/core/lanes.h"
#include "mpi/p2p/domain.h"
#include "runtime/base/err.h"
#include "runtime/boot/jobs.h"
#include "runtime/mem/segment.h"
#include "runtime/topo/topo.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct member {
    int64_t color;
    int key, rank;
};

#define RESOURCE_KEY "mpi_hw_resource_type"

/* Contributions of as many processes are on the stack. */
#define FEW 256

static int by_key(const void *pa, const void *pb)
{
    const struct member *a = pa, *b = pb;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return a->rank < b->rank ? -1 : 1; /* equal keys: in the order of the old ranks */
}

/* The processes of `from` (described by `all`) that have a color, as a group; NULL if there are
 * none.  Reorders `all`. */
static int color_group(const struct wm_group *from, struct member *all, int64_t color,
                       struct wm_group **out)
{
    int n = 0;
    *out = NULL;
    for (int i = 0; i < from->size; i++)
        if (all[i].color == color)
            all[n++] = all[i];
    if (n == 0)
        return MPI_SUCCESS;
    struct rt_proc *procs = malloc((size_t)n * sizeof *procs);
    if (!procs)
        return wm_err(MPI_ERR_NO_MEM, "no memory for a group of %d processes", n);
    qsort(all, (size_t)n, sizeof *all, by_key);
    for (int i = 0; i < n; i++)
        procs[i] = wm_group_proc(from, all[i].rank);
    int err = wm_group_create(procs, n, out);
    if (!err)
        wm_group_set_session(*out, from->session);
    return err;
}

/* Collects the contributions of all processes, the local group first. */
static int exchange(struct wm_comm *comm, const struct member *mine, struct member *all)
{
    struct wm_exch x = wm_exch_all(comm);
    struct member *far = all + comm->size;
    const int64_t len = sizeof *all, far_n = comm->inter ? comm->remote->size : 0;
    rt_lock(&comm->dom->lock);
    int err = wm_exch_allgather(&x, mine, len, all);
    if (!err && x.two && x.me == x.leader)
        err = wm_exch_swap(&x, all, comm->size * len, far, far_n * len);
    if (!err && x.two)
        err = wm_exch_bcast(&x, far, far_n * len);
    rt_unlock(&comm->dom->lock);
    return err ? wm_err_rt(err, "exchanging colors and keys") : MPI_SUCCESS;
}

/* Stores the resource type of the split in the info of the new communicator, and in the info that
 * the user passed. */
static int store_resource(struct wm_comm *c, const struct wm_split *s)
{
    int err = c->info ? MPI_SUCCESS : wm_info_create(&c->info);
    if (!err)
        err = wm_info_put(c->info, RESOURCE_KEY, s->resource);
    if (!err && s->info)
        err = wm_info_put(s->info, RESOURCE_KEY, s->resource);
    return err;
}

/* The communicator of this process's color, but for the agreement; NULL: it is in none, or an error
 * is returned. */
static int prepare(struct wm_comm *comm, struct member *all, const struct wm_split *s,
                   struct wm_comm **out)
{
    struct wm_group *local = NULL, *remote = NULL;
    int err = MPI_SUCCESS;
    if (s->color >= 0)
        err = color_group(comm->group, all, s->color, &local);
    if (!err && local && comm->inter)
        err = color_group(comm->remote, all + comm->size, s->color, &remote);
    if (!err && local && (remote || !comm->inter))
        err = wm_comm_prepare(comm, local, remote, NULL, out);
    if (!err && *out && s->resource)
        err = store_resource(*out, s);
    if (err && *out) {
        wm_comm_free(*out);
        *out = NULL;
    }
    wm_group_unref(local);
    wm_group_unref(remote);
    return err;
}

/* The memory for the contributions of n processes: `few`, or allocated.  All processes agree that
 * each has it. */
static int get_room(struct wm_comm *comm, int n, struct member *few, struct member **all)
{
    struct wm_exch x = wm_exch_all(comm);
    *all = n <= FEW ? few : malloc((size_t)n * sizeof **all);
    if (n <= FEW)
        return MPI_SUCCESS;
    int32_t missing = !*all;
    rt_lock(&comm->dom->lock);
    int err = wm_exch_max(&x, &missing);
    rt_unlock(&comm->dom->lock);
    if (!err && !missing)
        return MPI_SUCCESS;
    free(*all);
    return err ? wm_err_rt(err, "splitting a communicator")
               : wm_err(MPI_ERR_NO_MEM,
                        "no memory for the colors of %d processes, here or in "
                        "another process",
                        n);
}

int wm_comm_split(struct wm_comm *comm, const struct wm_split *s, int err, struct wm_comm **out)
{
    int n = comm->size + (comm->inter ? comm->remote->size : 0);
    struct member mine = { .color = s->color, .key = s->key, .rank = comm->rank };
    struct member few[FEW], *all;
    struct wm_ctx_search search = { .want = comm->inter ? 2 : 1, .check = s->check };
    struct wm_comm *c = NULL;
    *out = NULL;
    int rc = get_room(comm, n, few, &all);
    if (rc)
        return rc;
    rc = exchange(comm, &mine, all);
    if (!rc) {
        search.err = err ? err : prepare(comm, all, s, &c);
        search.lanes = wm_lanes_offer(c);
        rc = wm_comm_agree_all(comm, &search, c, c && c->size == comm->size, out);
    }
    if (all != few)
        free(all);
    return rc;
}

int wm_api_comm_split(struct wm_comm *comm, int color, int key, struct wm_comm **newcomm)
{
    int err = MPI_SUCCESS;
    if (color < 0 && color != MPI_UNDEFINED)
        err = wm_err(MPI_ERR_ARG, "color is %d; it must be >= 0 or MPI_UNDEFINED", color);
    struct wm_split s = { .color = color < 0 ? -1 : color, .key = key };
    return wm_comm_split(comm, &s, err, newcomm);
}

static bool is_self(struct rt_proc p) { return p.ns == 0 && p.rank == (uint32_t)rt_boot.rank; }
static bool in_job(struct rt_proc p) { return p.ns == 0; }
/* Processes of another job on this host do not count: they take no part in shared windows. */
static bool on_host(struct rt_proc p) { return p.ns == 0 && rt_node_local(p.rank) >= 0; }

/* An order that all processes agree on. */
static bool comes_before(struct rt_proc a, struct rt_proc b)
{
    struct rt_name x = rt_boot_name(a), y = rt_boot_name(b);
    return x.job != y.job ? x.job < y.job : x.rank < y.rank;
}

/* A number that this process has in common with exactly those processes of the communicator for
 * which alike() is true: the place of the first of them, in both groups of an intercommunicator.
 * Under the domain's lock, as jobs.h demands. */
static int color_of(const struct wm_comm *c, bool (*alike)(struct rt_proc p))
{
    const struct wm_group *g = c->group, *next = c->inter ? c->remote : NULL;
    int n = 0;
    if (next && comes_before(wm_group_proc(next, 0), wm_group_proc(g, 0))) {
        g = c->remote;
        next = c->group;
    }
    for (; g; g = next, next = NULL)
        for (int i = 0; i < g->size; i++, n++)
            if (alike(wm_group_proc(g, i)))
                return n;
    return n;
}

/* ---- by hardware ---- */

#define SHARED_MEMORY "mpi_shared_memory"
#define PSET_KEY "mpi_pset_name"

/* Level 0 is the host; the other levels are those of rt_topo_resource(). */
#define LEVELS (1 + RT_TOPO_RESOURCES)

static const char *level_name(int level)
{
    int object;
    return level ? rt_topo_resource(level - 1, &object) : SHARED_MEMORY;
}

/* The same number for all processes bound within the same object, different numbers for different
 * objects; -1 for a process that is not bound within one object. */
static int64_t level_color(const struct wm_comm *c, int level)
{
    int object = 0;
    if (level)
        rt_topo_resource(level - 1, &object);
    return object < 0 ? -1 : (int64_t)color_of(c, on_host) << 32 | (uint32_t)object;
}

static int level_of(const char *resource)
{
    if (!strcmp(resource, SHARED_MEMORY))
        return 0;
    int i = rt_topo_find_resource(resource);
    return i < 0 ? -1 : i + 1;
}

/* The first exchange: minimum and maximum over all processes of the split type and of the color at
 * each level.  A process that passes MPI_UNDEFINED has color -1. */
struct spread {
    int64_t min[LEVELS], max[LEVELS];
    int32_t min_type, max_type;
};
_Static_assert(sizeof(struct spread) <= WM_EXCH_MAX, "a spread can be combined");

static void widen(void *inout, const void *in)
{
    struct spread *a = inout;
    const struct spread *b = in;
    for (int i = 0; i < LEVELS; i++) {
        a->min[i] = a->min[i] < b->min[i] ? a->min[i] : b->min[i];
        a->max[i] = a->max[i] > b->max[i] ? a->max[i] : b->max[i];
    }
    a->min_type = a->min_type < b->min_type ? a->min_type : b->min_type;
    a->max_type = a->max_type > b->max_type ? a->max_type : b->max_type;
}

/* *level is the highest level at which the processes differ, *color this process's color there; -1
 * if there is no such level. */
static int compare(struct wm_comm *comm, int type, int *level, int64_t *color)
{
    struct wm_exch x = wm_exch_all(comm);
    bool out = type == MPI_UNDEFINED;
    struct spread mine = { .min_type = out ? INT32_MAX : type, .max_type = out ? INT32_MIN : type };
    rt_lock(&comm->dom->lock);
    for (int i = 0; i < LEVELS; i++) /* the hardware is inspected only if the call asks for it */
        mine.min[i] = mine.max[i] = type == MPI_COMM_TYPE_HW_UNGUIDED ? level_color(comm, i) : -1;
    struct spread all = mine;
    int err = wm_exch_combine(&x, &all, sizeof all, widen);
    rt_unlock(&comm->dom->lock);
    if (err)
        return wm_err_rt(err, "exchanging the split types");
    if (all.min_type < all.max_type)
        return wm_err(MPI_ERR_ARG,
                      "split_type is %d here and goes from %d to %d over all processes; it must be "
                      "the same at all, or MPI_UNDEFINED",
                      type, all.min_type, all.max_type);
    *level = 0;
    while (*level < LEVELS && all.min[*level] == all.max[*level])
        ++*level;
    *color = *level < LEVELS ? mine.min[*level] : -1;
    return MPI_SUCCESS;
}

/* Different names give different colors.  No name, several names, or an unknown name give
 * MPI_COMM_NULL. */
static int64_t guided_color(struct wm_comm *comm, const struct wm_info *info, bool psets)
{
    const char *resource = wm_info_find(info, RESOURCE_KEY);
    const char *pset = psets ? wm_info_find(info, PSET_KEY) : NULL;
    int64_t color = -1;
    rt_lock(&comm->dom->lock); /* rt_topo_... needs the lock, too */
    if (resource && !pset) {
        int level = level_of(resource);
        color = level < 0 ? -1 : level_color(comm, level);
        color = color < 0 ? -1 : color | (int64_t)level << 24;
    }
    if (pset && !resource && !strcasecmp(pset, "mpi://WORLD"))
        color = (int64_t)1 << 62 | color_of(comm, in_job);
    else if (pset && !resource && !strcasecmp(pset, "mpi://SELF"))
        color = (int64_t)1 << 61 | color_of(comm, is_self);
    rt_unlock(&comm->dom->lock);
    return color;
}

int wm_api_comm_split_type(struct wm_comm *comm, int split_type, int key, struct wm_info *info,
                           struct wm_comm **newcomm)
{
    struct wm_split s = { .color = -1, .key = key };
    int64_t color = -1;
    int level = LEVELS, err = compare(comm, split_type, &level, &color);
    if (err)
        return err;
    switch (split_type) {
    case MPI_UNDEFINED:
        break;
    case MPI_COMM_TYPE_SHARED:
        rt_lock(&comm->dom->lock);
        s.color = color_of(comm, on_host);
        rt_unlock(&comm->dom->lock);
        break;
    case MPI_COMM_TYPE_HW_UNGUIDED:
        s.color = color; /* a strict subset of the parent's processes, or no process */
        s.resource = level < LEVELS ? level_name(level) : NULL;
        s.info = info;
        break;
    case MPI_COMM_TYPE_HW_GUIDED:
    case MPI_COMM_TYPE_RESOURCE_GUIDED:
        s.color = guided_color(comm, info, split_type == MPI_COMM_TYPE_RESOURCE_GUIDED);
        break;
    default: /* processes that pass MPI_UNDEFINED must be notified */
        err = wm_err(
            MPI_ERR_ARG,
            "split_type is %d, which is none of the MPI_COMM_TYPE_ constants nor MPI_UNDEFINED",
            split_type);
    }
    return wm_comm_split(comm, &s, err, newcomm);
}
