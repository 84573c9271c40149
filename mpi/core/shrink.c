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
 *    not, the call begins again.
 *
 * All decisions are values of agreements, so all members take the same way.  A member that dies
 * after the last agreement is in the new communicator, as if it had died later.
 *
 * 1. and 2. are a task that the progress loop advances; MPIX_Comm_shrink waits for it.
 * MPIX_Comm_ishrink ends there: on several hosts, collectives of its communicator use messages.
 * Everything but the functions of shrink.h runs under the domain's lock. */
#include "mpi/core/shrink.h"
#include "coll/begin.h"
#include "mpi/coll/team.h"
#include "mpi/core/comm.h"
#include "mpi/core/commnew.h"
#include "mpi/core/ctx.h"
#include "mpi/core/group.h"
#include "mpi/ft/agree.h"
#include "mpi/p2p/domain.h"
#include "mpi/p2p/progress.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/wait.h"
#include "runtime/base/err.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct wm_ctx_offer) <= WM_FT_EXTRA, "an offer is part of the value");

struct shrink {
    struct wm_ft_call call; /* the agreement in progress */
    struct wm_comm *parent, *made;
    struct wm_ctx_search search;
    bool blocking, offered; /* offered: the agreement is one of step 2 */
    bool has_members, with_block;
    _Alignas(8) char extra[WM_FT_EXTRA];
    bool dead[]; /* by the place in ft.h */
};

struct request {
    struct coll_task task; /* first member: its req is the request */
    struct wm_comm *parent, *made;
    int failed; /* error class of a process that has failed; else 0 */
};
_Static_assert(sizeof(struct request) <= WM_REQ_MAX, "request fits a slab slot");

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
        err = wm_comm_prepare_in(s->parent, group, remote, NULL, &s->made);
    s->has_members = !err;
    if (!err && !s->blocking)
        err = wm_coll_team_no_share(s->made);
    if (group)
        wm_group_unref(group);
    if (remote)
        wm_group_unref(remote);
    return err;
}

/* After a round of step 2 that did not make the communicator. */
static void discard(struct shrink *s)
{
    wm_ctx_leave(&s->search);
    if (s->with_block)
        wm_coll_team_unblock(s->made, s->search.block);
    if (s->has_members)
        wm_comm_clear(s->made);
    s->has_members = s->with_block = false;
}

/* An agreement of step 2. */
static int offer(struct shrink *s)
{
    wm_ctx_round(&s->search);
    memcpy(s->extra, &s->search.offer, sizeof s->search.offer);
    s->offered = true;
    s->call.extra = s->extra;
    s->call.err = s->search.err;
    s->call.merge = wm_ctx_merge;
    return wm_ft_agree(&s->call);
}

/* Step 2. */
static int make(struct shrink *s)
{
    s->search = (struct wm_ctx_search){ .want = s->parent->inter ? 2 : 1,
                                        .order = (uint64_t)s->parent->ctx << 32 };
    s->search.err = prepare(s);
    s->with_block = s->has_members && wm_coll_team_in_agreement(s->made);
    if (s->with_block)
        s->search.block = wm_coll_team_block(s->made);
    if (s->blocking && !rt_threaded && !wm_ctx_idups)
        wm_ctx_join(&s->search);
    return offer(s);
}

/* After a round of step 2: 1: the communicator exists; 0: another round. */
static int settle(struct shrink *s, int *failed)
{
    uint32_t ctx[2];
    memcpy(&s->search.offer, s->call.value->extra, sizeof s->search.offer);
    if (s->call.value->err) {
        *failed = s->call.value->err;
        return -RT_EREMOTE;
    }
    int err = wm_ctx_settle(&s->search, ctx);
    if (err || !ctx[0])
        return err;
    wm_comm_take_ids(s->made, &s->search, ctx);
    if (s->with_block)
        wm_coll_team_attach(s->made, s->search.offer.block);
    else if (!s->blocking && !s->made->inter)
        wm_coll_team_attach(s->made, 0);
    s->with_block = s->has_members = false; /* they are the communicator's */
    return 1;
}

/* Whether the value adds members to the set of the dead. */
static bool take_dead(struct shrink *s)
{
    bool grown = false;
    for (int i = 0; i < wm_ft_size(s->parent); i++) {
        bool failed = wm_ft_failed(s->call.value, i);
        grown = grown || (failed && !s->dead[i]);
        s->dead[i] = s->dead[i] || failed;
    }
    return grown;
}

static int shrink_step(struct coll_task *k)
{
    struct shrink *s = k->state;
    int err = 0;
    while (!err && s->call.value) {
        bool grown = take_dead(s);
        if (s->offered && !grown) {
            err = settle(s, &((struct request *)k)->failed);
            /* At the next progress, because another search may have to end before. */
            return err ? err : offer(s);
        }
        discard(s);
        err = make(s);
    }
    return err;
}

static void shrink_cleanup(struct coll_task *k)
{
    struct shrink *s = k->state;
    discard(s);
    wm_ft_agree_leave(&s->call);
    wm_ctx_idups -= !s->blocking;
    free(s);
}

static void shrink_release(struct rt_req *r)
{
    struct request *q = (struct request *)r;
    if (r->err)
        wm_comm_unref(q->made);
    wm_comm_unref(q->parent);
    rt_slab_free(&wm_request_slab, q);
}

static void *shrink_owner(const struct rt_req *r) { return ((const struct request *)r)->parent; }

static int shrink_error(const struct rt_req *r)
{
    const struct request *q = (const struct request *)r;
    if (!q->failed)
        return wm_err_rt(r->err, "shrinking a communicator");
    return wm_err(q->failed, "a process has failed to make its part of the new communicator");
}

static const struct rt_req_ops shrink_ops = { .name = "shrinking of a communicator",
                                              .release = shrink_release,
                                              .owner = shrink_owner,
                                              .error = shrink_error,
                                              .no_free_active = true };

static struct request *start(struct wm_comm *comm, bool blocking)
{
    struct request *q = wm_req_alloc(&shrink_ops);
    struct shrink *s = calloc(1, sizeof *s + (size_t)wm_ft_size(comm) * sizeof *s->dead);
    struct wm_comm *made = q && s ? wm_comm_reserve(comm->dom) : NULL;
    if (!made)
        goto err_free;
    s->call = (struct wm_ft_call){ .flag = -1, .comm = comm, .more = true };
    s->parent = q->parent = comm;
    s->made = q->made = made;
    s->blocking = blocking;
    if (wm_ft_agree(&s->call) < 0)
        goto err_unreserve;
    wm_comm_ref(comm);
    wm_ctx_idups += !blocking;
    q->task.state = s;
    q->task.step = shrink_step;
    q->task.cleanup = shrink_cleanup;
    q->task.req.status = (struct rt_status){ .src = MPI_ANY_SOURCE, .tag = MPI_ANY_TAG };
    if (!coll_task_advance(&q->task))
        wm_domain_add_task(comm->dom, &q->task);
    return q;

err_unreserve:
    wm_comm_unref(made);
err_free:
    free(s);
    if (q)
        rt_slab_free(&wm_request_slab, q);
    return NULL;
}

static int no_memory(void) { return wm_err(MPI_ERR_NO_MEM, "no memory for an agreement"); }

int wm_comm_ishrink(struct wm_comm *comm, struct wm_comm **out, MPI_Request *request)
{
    rt_lock(&comm->dom->lock);
    struct request *q = start(comm, false);
    if (q) {
        *out = q->made;
        *request = wm_req_handle(&q->task.req);
    }
    rt_unlock(&comm->dom->lock);
    return q ? MPI_SUCCESS : no_memory();
}

/* Steps 1 and 2. */
static int shrink(struct wm_comm *comm, struct wm_comm **out)
{
    struct request *q = start(comm, true);
    if (!q)
        return no_memory();
    wm_domain_wait(comm->dom, &q->task.req);
    int err = q->task.req.err ? shrink_error(&q->task.req) : MPI_SUCCESS;
    *out = q->made;
    wm_req_release(&q->task.req);
    return err;
}

/* Step 3. */
static int share(struct wm_comm *comm, struct wm_comm **made, bool *again)
{
    struct wm_ft_call call = { .comm = comm };
    call.flag = wm_coll_team_share(*made) == MPI_SUCCESS;
    rt_lock(&comm->dom->lock);
    int err = wm_ft_agree_wait(&call) < 0 ? no_memory() : MPI_SUCCESS;
    *again = !err && !call.value->flag;
    if (err || *again) {
        (*made)->team.failed = true; /* of some member; its messages may be left here */
        wm_comm_unref(*made);
    }
    rt_unlock(&comm->dom->lock);
    return err;
}

int wm_comm_shrink(struct wm_comm *comm, struct wm_comm **out)
{
    bool again;
    int err;
    do {
        again = false;
        rt_lock(&comm->dom->lock);
        err = shrink(comm, out);
        rt_unlock(&comm->dom->lock);
        if (!err && !wm_coll_team_in_agreement(*out))
            err = share(comm, out, &again);
    } while (!err && again);
    return err;
}
