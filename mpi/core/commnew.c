/* SPDX-License-Identifier: BSD-3-Clause */
/* What the calls that create communicators from communicators have in common (MPI-5.0 section
 * 7.4.2), and duplication; all collective over the parent and blocking.  First every member builds
 * its own object, with all memory that it needs.  Then the processes agree on a context id (two for
 * an intercommunicator); a process that has failed notifies the others in the same messages, which
 * also carry the place of the shared memory.  Where they cannot carry it, the members of the new
 * communicator exchange it at the end.  Any thread; takes the domain's lock. */
#include "mpi/core/commnew.h"
#include "mpi/api/bodies.h"
#include "mpi/base/attr.h"
#include "mpi/coll/team.h"
#include "mpi/core/comm.h"
#include "mpi/core/ctx.h"
#include "mpi/core/errh.h"
#include "mpi/core/info.h"
#include "mpi/core/lanes.h"
#include "mpi/ft/revoke.h"
#include "mpi/p2p/domain.h"
#include "runtime/base/err.h"
#include "runtime/gpu/gpu.h"

/* An intercommunicator's hidden communicator of the local group. */
static int prepare_local(struct wm_comm *parent, struct wm_group *group,
                         const struct wm_comm *model, struct wm_comm **out)
{
    int err = wm_comm_create_local(group, 0, parent->dom, out);
    if (err)
        return err;
    wm_coll_team_plain(*out);
    if (model)
        wm_coll_team_like(*out, model->local);
    return MPI_SUCCESS;
}

int wm_comm_prepare_in(struct wm_comm *parent, struct wm_group *group, struct wm_group *remote,
                       const struct wm_comm *model, struct wm_comm **out)
{
    struct wm_comm *local = NULL, *given = *out;
    rt_gpu_prepare();
    int err = remote ? prepare_local(parent, group, model, &local)
                     : wm_comm_fill_local(group, 0, parent->dom, out);
    if (!err && remote)
        err = wm_comm_create_inter(group, remote, 0, local, parent->dom, out);
    else if (!err)
        err = wm_coll_team_prepare(*out, model);
    if (!err) {
        (*out)->errh = wm_errh_ref_of(&parent->errh); /* inherited (MPI-5.0 section 9.3) */
        (*out)->notices = parent->notices;
        return MPI_SUCCESS;
    }
    if (local && !(*out && (*out)->local))
        wm_comm_unref(local);
    if (given)
        wm_comm_clear(given);
    else if (*out)
        wm_comm_unref(*out);
    *out = given;
    return err;
}

int wm_comm_prepare(struct wm_comm *parent, struct wm_group *group, struct wm_group *remote,
                    const struct wm_comm *model, struct wm_comm **out)
{
    *out = NULL;
    rt_lock(&parent->dom->lock);
    int err = wm_comm_prepare_in(parent, group, remote, model, out);
    rt_unlock(&parent->dom->lock);
    return err;
}

/* The ids of the agreement, for the members of the new communicator; other processes do not need
 * them: disjoint groups of one call share the ids. */
void wm_comm_take_ids(struct wm_comm *c, const struct wm_ctx_search *s, const uint32_t *ctx)
{
    for (int i = 0; !c && i < (s->want ? s->want : 1); i++)
        wm_comm_release_ctx(ctx[i]);
    if (c)
        c->ctx = ctx[0];
    if (c && c->inter)
        c->local->ctx = ctx[1];
    if (c)
        wm_ft_created(c);
}

int wm_comm_agree(const struct wm_exch *x, struct wm_ctx_search *s, struct wm_comm *c, bool whole,
                  struct wm_comm **out)
{
    *out = NULL;
    struct wm_domain *dom = x->comm->dom;
    if (rt_unlikely(x->comm->ft.revoked)) {
        if (c)
            wm_comm_free(c);
        return wm_err_rt(-RT_EREVOKED, "creating a communicator");
    }
    bool with_block = c && whole && wm_coll_team_in_agreement(c);
    uint32_t ctx[2];
    rt_lock(&dom->lock);
    if (with_block)
        s->block = wm_coll_team_block(c);
    int err = wm_ctx_find(x, s, ctx);
    if (!err)
        wm_comm_take_ids(c, s, ctx);
    if (!err && c)
        wm_comm_enter_lane(c, wm_lane_of(c->ctx, s->offer.lanes));
    if (!err && with_block)
        wm_coll_team_attach(c, s->offer.block);
    else if (with_block)
        wm_coll_team_unblock(c, s->block);
    rt_unlock(&dom->lock);
    if (!err && c && !with_block)
        err = wm_coll_team_share(c);
    if (err && c && c->ft.revoked) { /* already: the communicator exists, in all processes */
        wm_coll_team_attach(c, 0);
        err = MPI_SUCCESS;
    }
    if (err && c)
        wm_comm_free(c);
    *out = err ? NULL : c;
    return err;
}

int wm_comm_agree_all(struct wm_comm *parent, struct wm_ctx_search *s, struct wm_comm *c,
                      bool whole, struct wm_comm **out)
{
    struct wm_exch x = wm_exch_all(parent);
    s->order = (uint64_t)parent->ctx << 32;
    return wm_comm_agree(&x, s, c, whole, out);
}

int wm_comm_create_checked(struct wm_comm *parent, struct wm_group *group, struct wm_ctx_search *s,
                           struct wm_comm **out)
{
    struct wm_comm *c = NULL;
    if (!s->err && group && group->rank != MPI_UNDEFINED)
        s->err = wm_comm_prepare(parent, group, NULL, NULL, &c);
    if (s->users)
        s->lanes = wm_lanes_offer(c);
    return wm_comm_agree_all(parent, s, c, group && group->size == parent->size, out);
}

int wm_comm_create_from(struct wm_comm *parent, struct wm_group *group, int err,
                        struct wm_comm **out)
{
    struct wm_ctx_search s = { .err = err };
    return wm_comm_create_checked(parent, group, &s, out);
}

int wm_comm_prepare_dup(struct wm_comm *comm, const struct wm_info *info, struct wm_comm **out)
{
    struct wm_comm *c;
    int err = wm_comm_prepare(comm, comm->group, comm->inter ? comm->remote : NULL, comm, &c);
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
        *out = c;
    return err;
}

static int dup(struct wm_comm *comm, const struct wm_info *info, struct wm_comm **newcomm)
{
    struct wm_ctx_search s = { .want = comm->inter ? 2 : 1 };
    struct wm_comm *c = NULL, *out;
    s.err = wm_comm_prepare_dup(comm, info, &c);
    s.lanes = wm_lanes_offer(c);
    int err = wm_comm_agree_all(comm, &s, c, true, &out);
    if (!err)
        *newcomm = out;
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
