/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls that make communicators from communicators (MPI-5.0 section 7.4.2): all collective over
 * the parent and blocking. A context id is agreed first, then every member builds its own object,
 * then the collective side is set up among the members of the new communicator. */
#include "mpi/core/comm.h"
#include "mpi/api/bodies.h"
#include "mpi/core/attr.h"
#include "mpi/core/ctx.h"
#include "mpi/core/errh.h"
#include "mpi/core/group.h"
#include "mpi/core/info.h"
#include "mpi/core/session.h"
#include "mpi/p2p/domain.h"
#include "mpi/topo/topo.h"
#include <stdlib.h>
#include <string.h>

static int only_intra(const struct wm_comm *c)
{
    if (c->inter)
        return wm_err(
            MPI_ERR_COMM,
            "the communicator is an intercommunicator, for which this is not implemented");
    return MPI_SUCCESS;
}

/* A communicator of `group` on an agreed context; gives the context back on failure. */
static int make(struct wm_comm *parent, struct wm_group *group, uint32_t ctx, struct wm_comm **out)
{
    struct wm_comm *c;
    int err = wm_comm_create_local(group, ctx, parent->dom, &c);
    if (err) {
        rt_lock(&parent->dom->lock);
        wm_comm_release_ctx(ctx);
        rt_unlock(&parent->dom->lock);
        return err;
    }
    c->errh = wm_comm_errh_ref(parent); /* inherited (MPI-5.0 section 9.3) */
    err = wm_coll_team_init(c);
    if (err)
        wm_comm_free(c);
    else
        *out = c;
    return err;
}

int wm_comm_create_from(struct wm_comm *parent, struct wm_group *group, struct wm_comm **out)
{
    uint32_t ctx;
    int err = wm_comm_agree_ctx(parent, &ctx);
    if (err)
        return err;
    if (group && group->rank != MPI_UNDEFINED)
        return make(parent, group, ctx, out);
    rt_lock(&parent->dom->lock);
    wm_comm_release_ctx(ctx); /* disjoint groups of one call share the id; a process without a group
                                 does not need it */
    rt_unlock(&parent->dom->lock);
    *out = NULL;
    return MPI_SUCCESS;
}

static int dup(struct wm_comm *comm, const struct wm_info *info, struct wm_comm **newcomm)
{
    struct wm_comm *c;
    uint32_t ctx;
    int err = only_intra(comm);
    if (!err)
        err = wm_comm_agree_ctx(comm, &ctx);
    if (!err)
        err = make(comm, comm->group, ctx, &c);
    if (err)
        return err;
    err = wm_comm_set_info(c, info);
    if (!err)
        err = wm_topo_copy(comm->topo, &c->topo);
    if (!err)
        err = wm_attrs_copy(comm->attrs, wm_comm_handle(comm), &c->attrs, wm_comm_handle(c));
    if (err)
        wm_comm_free(c);
    else
        *newcomm = c;
    return err;
}

int wm_api_comm_dup(struct wm_comm *comm, struct wm_comm **newcomm)
{
    return dup(comm, comm->info, newcomm);
}

int wm_api_comm_dup_with_info(struct wm_comm *comm, struct wm_info *info, struct wm_comm **newcomm)
{
    return dup(comm, info, newcomm);
}

static int check_subset(const struct wm_comm *comm, const struct wm_group *group)
{
    int missing = 0;
    if (group->size && wm_session_check(comm->session, group->session, "communicator and group"))
        return MPI_ERR_SESSION;
    if (wm_group_contains(comm->group, group, &missing))
        return MPI_SUCCESS;
    return wm_err(MPI_ERR_GROUP,
                  "rank %d of the group is not in the communicator, whose subset the group must be",
                  missing);
}

int wm_api_comm_create(struct wm_comm *comm, struct wm_group *group, struct wm_comm **newcomm)
{
    int err = only_intra(comm);
    if (!err)
        err = check_subset(comm, group);
    return err ? err : wm_comm_create_from(comm, group, newcomm);
}

int wm_api_comm_create_group(struct wm_comm *comm, struct wm_group *group, int tag,
                             struct wm_comm **newcomm)
{
    uint32_t ctx;
    int err = only_intra(comm);
    if (!err)
        err = check_subset(comm, group);
    if (err)
        return err;
    if (group->rank == MPI_UNDEFINED) {
        *newcomm = NULL;
        return MPI_SUCCESS;
    }
    int *ranks = malloc(2 * (size_t)group->size * sizeof *ranks);
    if (!ranks)
        return wm_err(MPI_ERR_NO_MEM, "no memory for %d ranks", group->size);
    for (int i = 0; i < group->size; i++)
        ranks[group->size + i] = i;
    err = wm_group_translate(group, group->size, ranks + group->size, comm->group, ranks);
    if (!err) {
        /* The user's tag keeps calls of several threads apart; WM_TAG_COMM itself is that of calls
         * over all ranks. */
        const int ntags = WM_TAG_IDUP - WM_TAG_COMM - 1;
        struct wm_exch x = { .comm = comm,
                             .ranks = ranks,
                             .n = group->size,
                             .me = group->rank,
                             .tag = WM_TAG_COMM + 1 + tag % ntags };
        rt_lock(&comm->dom->lock);
        err = wm_ctx_agree(&x, (uint64_t)comm->ctx << 32 | (uint32_t)(tag + 1u), &ctx);
        rt_unlock(&comm->dom->lock);
    }
    free(ranks);
    return err ? err : make(comm, group, ctx, newcomm);
}

struct member {
    int color, key, rank;
};

static int by_key(const void *pa, const void *pb)
{
    const struct member *a = pa, *b = pb;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return a->rank < b->rank ? -1 : 1; /* ties in the order of the old ranks */
}

/* Everybody's color and key, and from them the group of this process's color; NULL for
 * MPI_UNDEFINED. */
static int split_group(struct wm_comm *comm, int color, int key, struct wm_group **out)
{
    struct member mine = { color, key, comm->rank };
    struct member *all = malloc((size_t)comm->size * sizeof *all);
    struct rt_proc *procs = malloc((size_t)comm->size * sizeof *procs);
    int n = 0, err = MPI_SUCCESS;
    *out = NULL;
    if (!all || !procs) {
        err = wm_err(MPI_ERR_NO_MEM, "no memory for the colors of %d ranks", comm->size);
        goto out;
    }
    struct wm_exch x = { .comm = comm, .n = comm->size, .me = comm->rank, .tag = WM_TAG_COMM };
    rt_lock(&comm->dom->lock);
    err = wm_exch_allgather(&x, &mine, sizeof mine, all);
    rt_unlock(&comm->dom->lock);
    if (err) {
        err = wm_err_rt(err, "exchanging colors and keys");
        goto out;
    }
    if (color == MPI_UNDEFINED)
        goto out;
    for (int i = 0; i < comm->size; i++)
        if (all[i].color == color)
            all[n++] = all[i];
    qsort(all, (size_t)n, sizeof *all, by_key);
    for (int i = 0; i < n; i++)
        procs[i] = comm->group->procs[all[i].rank];
    err = wm_group_create(procs, n, out);
    procs = NULL; /* owned by the group now, or freed by the failure */
    if (!err)
        wm_group_set_session(*out, comm->session);
out:
    free(all);
    free(procs);
    return err;
}

static int split(struct wm_comm *comm, int color, int key, struct wm_comm **newcomm)
{
    struct wm_group *g;
    int err = only_intra(comm);
    if (!err)
        err = split_group(comm, color, key, &g);
    if (err)
        return err;
    err = wm_comm_create_from(comm, g, newcomm);
    wm_group_unref(g);
    return err;
}

int wm_api_comm_split(struct wm_comm *comm, int color, int key, struct wm_comm **newcomm)
{
    if (color < 0 && color != MPI_UNDEFINED)
        return wm_err(MPI_ERR_ARG, "color is %d; it must be >= 0 or MPI_UNDEFINED", color);
    return split(comm, color, key, newcomm);
}

/* The same number in all processes of this host, another one on other hosts. */
static int host_color(void)
{
    uint32_t first = (uint32_t)rt_boot.rank;
    for (int i = 0; i < rt_boot.local_size; i++)
        if (rt_boot.local_procs[i] < first)
            first = rt_boot.local_procs[i];
    return (int)first;
}

/* A communicator that is no strict subset of its parent gives MPI_COMM_NULL for unguided splits
 * (MPI-5.0 section 7.4.2). */
static int split_unguided(struct wm_comm *comm, int key, struct wm_comm **newcomm)
{
    int err = split(comm, host_color(), key, newcomm);
    if (!err && (*newcomm)->size == comm->size) {
        err = wm_comm_free(*newcomm);
        *newcomm = NULL;
    }
    return err;
}

int wm_api_comm_split_type(struct wm_comm *comm, int split_type, int key, struct wm_info *info,
                           struct wm_comm **newcomm)
{
    const char *resource = wm_info_find(info, "mpi_hw_resource_type");
    switch (split_type) {
    case MPI_UNDEFINED:
        return split(comm, MPI_UNDEFINED, key, newcomm);
    case MPI_COMM_TYPE_SHARED:
        return split(comm, host_color(), key, newcomm);
    case MPI_COMM_TYPE_HW_UNGUIDED:
        return split_unguided(comm, key, newcomm);
    case MPI_COMM_TYPE_HW_GUIDED:
    case MPI_COMM_TYPE_RESOURCE_GUIDED:
        if (resource && !strcmp(resource, "mpi_shared_memory"))
            return split(comm, host_color(), key, newcomm);
        return split(comm, MPI_UNDEFINED, key,
                     newcomm); /* an unknown resource gives MPI_COMM_NULL */
    default:
        return wm_err(
            MPI_ERR_ARG,
            "split_type is %d, which is none of the MPI_COMM_TYPE_ constants nor MPI_UNDEFINED",
            split_type);
    }
}
