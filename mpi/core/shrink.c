/* SPDX-License-Identifier: BSD-3-Clause */
/* MPIX_Comm_shrink, made of agreements (mpi/ft/agree.h), so that it works while members die.
 *
 * 1. An agreement gives the set of the dead.
 * 2. Each member that is left makes its object for the others, and offers context ids, its place in
 *    shared memory and its own failure; another agreement combines the offers.  If the set of the
 *    dead has grown, 2. begins again with the larger set; if no id is free in all, with the next
 *    offer.
 * 3. If the offers could not carry the places in shared memory (several hosts), the members
 *    exchange them by messages, and a third agreement says whether that has succeeded for all.  If
 *    not, 2. begins again.
 *
 * All decisions are values of agreements, so all members take the same way.  A member that dies
 * after the last agreement is in the new communicator, as if it had died later. */
#include "mpi/core/shrink.h"
#include "mpi/coll/team.h"
#include "mpi/core/comm.h"
#include "mpi/core/commnew.h"
#include "mpi/core/ctx.h"
#include "mpi/core/group.h"
#include "mpi/ft/agree.h"
#include "mpi/p2p/domain.h"
#include "runtime/base/err.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct wm_ctx_offer) <= WM_FT_EXTRA, "an offer is part of the value");

struct shrink {
    struct wm_comm *parent, *made;
    bool *dead; /* by the place in ft.h */
    struct wm_ctx_search search;
    bool with_block;
};

static void offer(struct shrink *s, struct wm_ft_call *call, char *extra)
{
    memcpy(extra, &s->search.offer, sizeof s->search.offer);
    call->extra = extra;
    call->err = s->search.err;
    call->merge = wm_ctx_merge;
}

static int no_memory(void) { return wm_err(MPI_ERR_NO_MEM, "no memory for an agreement"); }

/* One agreement; *grown: there are new members in the set of the dead. */
static int agree(struct shrink *s, struct wm_ft_call *call, bool *grown)
{
    call->comm = s->parent;
    *grown = false;
    if (wm_ft_agree_wait(call) < 0)
        return no_memory();
    for (int i = 0; i < wm_ft_size(s->parent); i++) {
        bool failed = wm_ft_failed(call->value, i);
        *grown = *grown || (failed && !s->dead[i]);
        s->dead[i] = s->dead[i] || failed;
    }
    return MPI_SUCCESS;
}

static bool is_dead(const struct shrink *s, struct rt_proc p)
{
    for (int i = 0; i < wm_ft_size(s->parent); i++) {
        struct rt_proc q = wm_ft_member(s->parent, i);
        if (q.rank == p.rank && q.ns == p.ns)
            return s->dead[i];
    }
    return false;
}

static int living_of(const struct shrink *s, const struct wm_group *g, struct wm_group **out)
{
    struct rt_proc *procs = malloc(((size_t)g->size + 1) * sizeof *procs);
    int n = 0;
    if (!procs)
        return wm_err(MPI_ERR_NO_MEM, "no memory for a group of %d processes", g->size);
    for (int i = 0; i < g->size; i++)
        if (!is_dead(s, wm_group_proc(g, i)))
            procs[n++] = wm_group_proc(g, i);
    return wm_group_create(procs, n, out);
}

/* This member's object.  A failure is part of its offer. */
static int prepare(struct shrink *s)
{
    struct wm_group *group = NULL, *remote = NULL;
    int err = living_of(s, s->parent->group, &group);
    if (!err && s->parent->inter)
        err = living_of(s, s->parent->remote, &remote);
    if (!err && remote && !remote->size)
        err = wm_err(MPIX_ERR_PROC_FAILED, "all processes of the remote group have failed");
    if (!err)
        err = wm_comm_prepare(s->parent, group, remote, NULL, &s->made);
    if (group)
        wm_group_unref(group);
    if (remote)
        wm_group_unref(remote);
    return err;
}

static void discard(struct shrink *s)
{
    if (s->made)
        wm_comm_free(s->made);
    s->made = NULL;
}

/* Under the domain's lock: agreements until there are ids.  *again: the set has grown. */
static int find_ids(struct shrink *s, uint32_t *ctx, bool *again)
{
    char extra[WM_FT_EXTRA] = { 0 };
    int err = MPI_SUCCESS;
    if (!rt_threaded && !wm_ctx_idups)
        wm_ctx_join(&s->search);
    *ctx = 0;
    while (!err && !*ctx && !*again) {
        struct wm_ft_call call = { .flag = -1 };
        wm_ctx_round(&s->search);
        offer(s, &call, extra);
        err = agree(s, &call, again);
        if (err || *again)
            break;
        memcpy(&s->search.offer, call.value->extra, sizeof s->search.offer);
        if (call.value->err)
            err = s->search.err ? s->search.err
                                : wm_err(call.value->err, "another process failed in this call; "
                                                          "its own message says why");
        else if (wm_ctx_settle(&s->search, ctx) < 0)
            err = wm_err_rt(-RT_ENOSPC, "agreeing on a context id for a new communicator");
    }
    wm_ctx_leave(&s->search);
    return err;
}

/* Step 2. */
static int make(struct shrink *s, bool *again)
{
    struct wm_domain *dom = s->parent->dom;
    uint32_t ctx[2] = { 0 };
    s->search = (struct wm_ctx_search){ .want = s->parent->inter ? 2 : 1,
                                        .order = (uint64_t)s->parent->ctx << 32 };
    s->search.err = prepare(s);
    s->with_block = s->made && wm_coll_team_in_agreement(s->made);
    rt_lock(&dom->lock);
    if (s->with_block)
        s->search.block = wm_coll_team_block(s->made);
    int err = find_ids(s, ctx, again);
    bool done = !err && !*again;
    if (done)
        wm_comm_take_ids(s->made, &s->search, ctx);
    if (done && s->with_block)
        wm_coll_team_attach(s->made, s->search.offer.block);
    else if (s->with_block)
        wm_coll_team_unblock(s->made, s->search.block);
    rt_unlock(&dom->lock);
    if (!done)
        discard(s);
    return err;
}

/* Step 3. */
static int share(struct shrink *s, bool *again)
{
    struct wm_domain *dom = s->parent->dom;
    struct wm_ft_call call = { 0 };
    call.flag = wm_coll_team_share(s->made) == MPI_SUCCESS;
    rt_lock(&dom->lock);
    int err = agree(s, &call, again);
    *again = !err && !call.value->flag;
    rt_unlock(&dom->lock);
    if (err || *again) {
        s->made->team.failed = true; /* of some member; its messages may be left here */
        discard(s);
    }
    return err;
}

int wm_comm_shrink(struct wm_comm *comm, struct wm_comm **out)
{
    struct shrink s = { .parent = comm };
    struct wm_ft_call first = { .flag = -1 };
    bool again;
    s.dead = calloc((size_t)wm_ft_size(comm), sizeof *s.dead);
    if (!s.dead)
        return no_memory();
    rt_lock(&comm->dom->lock);
    int err = agree(&s, &first, &again);
    rt_unlock(&comm->dom->lock);
    do {
        again = false;
        if (!err)
            err = make(&s, &again);
        if (!err && !again && !s.with_block)
            err = share(&s, &again);
    } while (!err && again);
    free(s.dead);
    *out = s.made;
    return err;
}
