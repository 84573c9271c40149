/* SPDX-License-Identifier: BSD-3-Clause */
/* Splitting communicators by color, host and hardware (MPI-5.0 section 7.4.2): everybody learns
 * everybody's color and key and builds the group of its own color from them; of both groups when an
 * intercommunicator is split.  Any thread; takes the domain's lock. */
#include "mpi/api/bodies.h"
#include "mpi/core/commnew.h"
#include "mpi/core/ctx.h"
#include "mpi/core/group.h"
#include "mpi/core/info.h"
#include "mpi/p2p/domain.h"
#include "runtime/base/err.h"
#include <stdlib.h>
#include <string.h>

struct member {
    int64_t color;
    int key, type, rank, pad;
};

static int by_key(const void *pa, const void *pb)
{
    const struct member *a = pa, *b = pb;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return a->rank < b->rank ? -1 : 1; /* ties in the order of the old ranks */
}

/* Of the processes of `from`, which `all` describes, those of a color; NULL when there are none.
 * Reorders `all`. */
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
        procs[i] = from->procs[all[i].rank];
    int err = wm_group_create(procs, n, out);
    if (!err)
        wm_group_set_session(*out, from->session);
    return err;
}

/* What all processes say, the local group first. */
static int exchange(struct wm_comm *comm, const struct member *mine, struct member *all)
{
    struct wm_exch x = wm_exch_all(comm, WM_TAG_COMM);
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

static int check_types(const struct member *all, int n)
{
    const struct member *first = NULL;
    for (int i = 0; i < n; i++) {
        if (all[i].color < 0)
            continue;
        if (first && all[i].type != first->type)
            return wm_err(
                MPI_ERR_ARG,
                "split_type is %d at rank %d and %d at rank %d; it must be the same at all",
                first->type, first->rank, all[i].type, all[i].rank);
        first = first ? first : &all[i];
    }
    return MPI_SUCCESS;
}

/* All that is needed has been agreed on; from here on failures are this process's own. */
static int build(struct wm_comm *comm, struct member *all, int64_t color, const uint32_t *ctx,
                 struct wm_comm **out)
{
    struct wm_group *local = NULL, *remote = NULL;
    int nids = comm->inter ? 2 : 1, err = MPI_SUCCESS;
    if (color >= 0)
        err = color_group(comm->group, all, color, &local);
    if (local && comm->inter)
        err = color_group(comm->remote, all + comm->size, color, &remote);
    *out = NULL;
    if (!err && local && (remote || !comm->inter))
        err = wm_comm_make(comm, local, remote, ctx, out); /* one id for all colors: their processes
                                                              are disjoint */
    else
        wm_comm_release_ids(comm, ctx, nids);
    wm_group_unref(local);
    wm_group_unref(remote);
    return err;
}

int wm_comm_split(struct wm_comm *comm, const struct wm_split *s, int err, struct wm_comm **out)
{
    int n = comm->size + (comm->inter ? comm->remote->size : 0), nids = comm->inter ? 2 : 1;
    struct member mine = { .color = s->color, .key = s->key, .type = s->type, .rank = comm->rank };
    struct member *all = malloc((size_t)n * sizeof *all);
    struct wm_ctx_search search = { .want = nids, .err = err, .check = s->check };
    uint32_t ctx[2];
    if (!all && !err)
        search.err = wm_err(MPI_ERR_NO_MEM, "no memory for the colors of %d processes", n);
    err = wm_comm_find_ctx(comm, &search, ctx);
    if (!err) {
        err = exchange(comm, &mine, all);
        if (!err)
            err = check_types(all, n);
        if (err)
            wm_comm_release_ids(comm, ctx, nids);
        else
            err = build(comm, all, s->color, ctx, out);
    }
    free(all);
    return err;
}

int wm_api_comm_split(struct wm_comm *comm, int color, int key, struct wm_comm **newcomm)
{
    int err = MPI_SUCCESS;
    if (color < 0 && color != MPI_UNDEFINED)
        err = wm_err(MPI_ERR_ARG, "color is %d; it must be >= 0 or MPI_UNDEFINED", color);
    struct wm_split s = { .color = color < 0 ? -1 : color, .key = key };
    return wm_comm_split(comm, &s, err, newcomm);
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
    struct wm_split s = { .color = host_color(), .key = key, .type = MPI_COMM_TYPE_HW_UNGUIDED };
    int err = wm_comm_split(comm, &s, MPI_SUCCESS, newcomm);
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
    struct wm_split s = { .color = -1, .key = key, .type = split_type };
    int err = MPI_SUCCESS;
    switch (split_type) {
    case MPI_UNDEFINED:
        break;
    case MPI_COMM_TYPE_SHARED:
        s.color = host_color();
        break;
    case MPI_COMM_TYPE_HW_UNGUIDED:
        return split_unguided(comm, key, newcomm);
    case MPI_COMM_TYPE_HW_GUIDED:
    case MPI_COMM_TYPE_RESOURCE_GUIDED:
        if (resource && !strcmp(resource, "mpi_shared_memory"))
            s.color = host_color();
        break;
    default:
        err = wm_err(
            MPI_ERR_ARG,
            "split_type is %d, which is none of the MPI_COMM_TYPE_ constants nor MPI_UNDEFINED",
            split_type);
    }
    return wm_comm_split(comm, &s, err, newcomm);
}
