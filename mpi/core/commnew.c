/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls that create communicators from communicators (MPI-5.0 section 7.4.2), all collective
 * over the parent and blocking; splits are in split.c.  First the processes agree on a context id
 * (two for an intercommunicator); a process that has failed notifies the others in the same
 * messages.  Then every member builds its own object.  Then the members of the new communicator set
 * up its collective side.  Any thread; takes the domain's lock. */
#include "mpi/core/commnew.h"
#include "mpi/api/bodies.h"
#include "mpi/base/attr.h"
#include "mpi/coll/team.h"
#include "mpi/core/comm.h"
#include "mpi/core/ctx.h"
#include "mpi/core/errh.h"
#include "mpi/core/group.h"
#include "mpi/core/info.h"
#include "mpi/core/session.h"
#include "mpi/core/split.h"
#include "mpi/p2p/domain.h"
#include "runtime/boot/jobs.h"
#include "runtime/gpu/gpu.h"
#include <stdlib.h>

/* Releases the agreed ids that this process does not use. */
void wm_comm_release_ids(struct wm_comm *parent, const uint32_t *ctx, int n)
{
    rt_lock(&parent->dom->lock);
    for (int i = 0; i < n; i++)
        wm_comm_release_ctx(ctx[i]);
    rt_unlock(&parent->dom->lock);
}

int wm_comm_make(struct wm_comm *parent, struct wm_group *group, struct wm_group *remote,
                 const uint32_t *ctx, struct wm_comm **out)
{
    struct wm_comm *c, *local = NULL;
    int err = MPI_SUCCESS;
    rt_lock(&parent->dom->lock);
    rt_gpu_prepare();
    rt_unlock(&parent->dom->lock);
    if (remote) {
        err = wm_comm_create_local(group, ctx[1], parent->dom, &local);
        if (!err) {
            wm_coll_team_plain(local);
            err = wm_comm_create_inter(group, remote, ctx[0], local, parent->dom, &c);
        }
    } else {
        err = wm_comm_create_local(group, ctx[0], parent->dom, &c);
    }
    if (err) {
        wm_comm_release_ids(parent, ctx, remote && !local ? 2 : 1);
        if (local)
            wm_comm_free(local); /* its id goes too */
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

/* `s` is filled in as for wm_comm_find_ctx(). */
static int create_from(struct wm_comm *parent, struct wm_group *group, struct wm_ctx_search *s,
                       struct wm_comm **out)
{
    uint32_t ctx;
    int err = wm_comm_find_ctx(parent, s, &ctx);
    if (err)
        return err;
    if (group && group->rank != MPI_UNDEFINED)
        return wm_comm_make(parent, group, NULL, &ctx, out);
    /* Disjoint groups of one call share the id; a process without a group does not need it. */
    wm_comm_release_ids(parent, &ctx, 1);
    *out = NULL;
    return MPI_SUCCESS;
}

int wm_comm_create_from(struct wm_comm *parent, struct wm_group *group, struct wm_comm **out)
{
    struct wm_ctx_search s = { 0 };
    return create_from(parent, group, &s, out);
}

static int dup(struct wm_comm *comm, const struct wm_info *info, struct wm_comm **newcomm)
{
    struct wm_ctx_search s = { .want = comm->inter ? 2 : 1 };
    struct wm_comm *c;
    uint32_t ctx[2];
    int err = wm_comm_find_ctx(comm, &s, ctx);
    if (!err)
        err = wm_comm_make(comm, comm->group, comm->inter ? comm->remote : NULL, ctx, &c);
    if (err)
        return err;
    err = wm_comm_set_info(c, info);
    if (!err)
        err = wm_comm_copy_topo(comm, c);
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

static uint64_t mix(uint64_t h) /* the finaliser of MurmurHash3, which is in the public domain */
{
    h = (h ^ h >> 33) * 0xff51afd7ed558ccdull;
    h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53ull;
    return h ^ h >> 33;
}

static uint64_t group_hash(const struct wm_group *g)
{
    uint64_t h = mix(0x9e3779b97f4a7c15ull + (uint64_t)g->size); /* not 0 if empty */
    for (int i = 0; i < g->size; i++) {
        struct rt_name n = rt_boot_name(wm_group_proc(g, i));
        h = mix(h ^ n.job ^ n.rank * 0x9e3779b97f4a7c15ull);
    }
    return h;
}

/* Contributions whose sum over all processes is 0 exactly if all members of every named group name
 * the same group (except for collisions of 64-bit hashes).  The first member of a group adds one
 * term for each member; each member subtracts its own term. */
static uint64_t group_check(const struct wm_group *g)
{
    uint64_t h = group_hash(g), sum = 0;
    if (g->rank == MPI_UNDEFINED)
        return 0;
    for (int i = 0; g->rank == 0 && i < g->size; i++)
        sum += mix(h + (uint64_t)i);
    return sum - mix(h + (uint64_t)g->rank);
}

int wm_api_comm_create(struct wm_comm *comm, struct wm_group *group, struct wm_comm **newcomm)
{
    int err = check_subset(comm, group);
    if (comm->inter) {
        /* All processes of a side must name the same group: rank 0 adds what the others
         * subtract. */
        uint64_t h = mix(group_hash(group)), n = (uint64_t)comm->size;
        struct wm_split s = { .color = group->rank == MPI_UNDEFINED ? -1 : 0,
                              .key = group->rank,
                              .check = comm->rank == 0 ? (n - 1) * h : 0 - h };
        return wm_comm_split(comm, &s, err, newcomm);
    }
    struct wm_ctx_search s = { .err = err, .check = err ? 0 : group_check(group) };
    return create_from(comm, group, &s, newcomm);
}

int wm_api_comm_create_group(struct wm_comm *comm, struct wm_group *group, int tag,
                             struct wm_comm **newcomm)
{
    uint32_t ctx;
    if (comm->inter)
        return wm_err(MPI_ERR_COMM, "the communicator is an intercommunicator, expected an "
                                    "intracommunicator; MPI_Comm_create takes both");
    int err = check_subset(comm, group);
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
        /* The user's tag distinguishes calls of several threads; WM_TAG_COMM itself is for calls
         * over all ranks. */
        const int ntags = WM_TAG_IDUP - WM_TAG_COMM - 1;
        struct wm_exch x = { .comm = comm,
                             .ranks = ranks,
                             .n = group->size,
                             .me = group->rank,
                             .tag = WM_TAG_COMM + 1 + tag % ntags };
        struct wm_ctx_search s = { .order = (uint64_t)comm->ctx << 32 | (uint32_t)(tag + 1u),
                                   .check = group_check(group) };
        rt_lock(&comm->dom->lock);
        err = wm_ctx_find(&x, &s, &ctx);
        rt_unlock(&comm->dom->lock);
    }
    free(ranks);
    return err ? err : wm_comm_make(comm, group, NULL, &ctx, newcomm);
}
