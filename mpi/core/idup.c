/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI_Comm_idup: the agreement on context ids as a task that the progress loop advances.  The new
 * communicator exists from the start, with its attributes.  It gets its context and its shared
 * memory at the end; the agreement also carries the place of that memory.  On several hosts each
 * host's ranks get the place of their block in a broadcast afterwards.  If a process has failed,
 * the requests of all others fail.  Everything but the bodies runs under the domain's lock. */
#include "mpi/core/idup.h"
#include "coll/begin.h"
#include "coll/start/team.h"
#include "mpi/api/bodies.h"
#include "mpi/coll/team.h"
#include "mpi/core/commnew.h"
#include "mpi/core/ctx.h"
#include "mpi/core/comm.h"
#include "mpi/core/lanes.h"
#include "mpi/ft/revoke.h"
#include "mpi/p2p/failed.h"
#include "mpi/p2p/p2p.h"
#include "mpi/datatype/type.h"
#include "mpi/p2p/progress.h"
#include "mpi/p2p/recv.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/send.h"
#include "mpi/p2p/wait.h"
#include "runtime/base/err.h"
#include <stdlib.h>

struct idup_state {
    struct wm_ctx_search search;
    struct wm_ctx_offer in;
    int next;                /* next step of the round */
    struct rt_req *out, *rx; /* of the current step, or NULL */
    bool replace;            /* the message to receive is the result, not a contribution */
    int tag;
    bool sharing;   /* ids are agreed: each host's ranks now get the place of their block */
    uint64_t block; /* offset + 1 of the block; allocated by the lowest rank of the host */
    uint32_t ctx[2];
};

struct idup {
    struct coll_task task;          /* first member: its req is the request */
    struct wm_comm *parent, *fresh; /* fresh: NULL in a process that has failed */
    int failed;                     /* error class of a process that has failed; else 0 */
    bool dropped;
};
_Static_assert(sizeof(struct idup) <= WM_REQ_MAX, "request fits a slab slot");

/* Duplications that failed in this process and continue because other processes need them. */
static unsigned ndropped;

struct step {
    int peer;
    bool send, recv, replace;
    bool across; /* peer is a rank of the remote group */
};

/* Step `*i` of combining over n ranks as in mpi/coll/exch.c: ranks beyond the largest power of two
 * send their contributions, the others combine by recursive doubling and send the results back.
 * False if there is no such step; *i then counts from the end of these steps. */
static bool plan_combine(int n, int me, int *i, struct step *s)
{
    int pow2 = 1, rounds = 0;
    for (; 2 * pow2 <= n; pow2 *= 2)
        rounds++;
    bool late = me >= pow2, partner = me + pow2 < n;
    int at = *i, nsteps = late ? 2 : rounds + 2 * partner;
    if (at >= nsteps) {
        *i = at - nsteps;
        return false;
    }
    if (late)
        *s = (struct step){ .peer = me - pow2, .send = at == 0, .recv = at == 1, .replace = true };
    else if (partner && at == 0)
        *s = (struct step){ .peer = me + pow2, .recv = true };
    else if (at - partner < rounds)
        *s = (struct step){ .peer = me ^ (1 << (at - partner)), .send = true, .recv = true };
    else
        *s = (struct step){ .peer = me + pow2, .send = true };
    return true;
}

/* The same for a broadcast down a binomial tree from rank 0. */
static bool plan_bcast(int n, int me, int i, struct step *s)
{
    int mask = 1;
    while (mask < n && !(me & mask))
        mask *= 2;
    if (me && i == 0) {
        *s = (struct step){ .peer = me - mask, .recv = true, .replace = true };
        return true;
    }
    i -= me != 0;
    for (mask /= 2; mask > 0; mask /= 2)
        if (me + mask < n && i-- == 0) {
            *s = (struct step){ .peer = me + mask, .send = true };
            return true;
        }
    return false;
}

/* An intracommunicator: its group combines.  An intercommunicator: both groups combine, their ranks
 * 0 exchange the results and broadcast them. */
static bool plan(const struct wm_comm *c, int i, struct step *s)
{
    if (plan_combine(c->size, c->rank, &i, s))
        return true;
    if (!c->inter)
        return false;
    if (c->rank == 0 && i == 0) {
        *s = (struct step){ .peer = 0, .send = true, .recv = true, .across = true };
        return true;
    }
    return plan_bcast(c->size, c->rank, i - (c->rank == 0), s);
}

/* Broadcast of the block's place on this host, down a tree of its ranks. */
static bool plan_share(const struct wm_comm *fresh, int i, struct step *s)
{
    const struct coll_team *l = &fresh->team, *here = coll_team_local((struct coll_team *)l);
    if (here == l || !plan_bcast(here->size, here->rank, i, s))
        return false;
    s->peer = coll_team_whole_rank(here, s->peer);
    return true;
}

static int start_step(struct idup *q, struct idup_state *st, const struct step *s)
{
    struct wm_msg m = { .count = sizeof st->in,
                        .layout = &wm_type_get(MPI_BYTE)->layout,
                        .comm = q->parent->inter && !s->across ? q->parent->local : q->parent,
                        .peer = s->peer,
                        .tag = st->tag,
                        .coll = true };
    int err = 0;
    if (s->recv) {
        m.buf = &st->in;
        err = wm_p2p_irecv(&m, &st->rx);
    }
    if (s->send && !err) {
        m.buf = &st->search.offer;
        err = wm_p2p_isend(&m, WM_STANDARD, &st->out);
    }
    st->replace = s->replace;
    return err;
}

/* Returns 0: a message is still in flight; 1: the step is complete. */
static int finish_step(struct idup_state *st)
{
    if ((st->out && !rt_req_done(st->out)) || (st->rx && !rt_req_done(st->rx)))
        return 0;
    int err = st->out ? st->out->err : 0;
    if (st->out)
        wm_req_release(st->out);
    if (st->rx) {
        err = err ? err : st->rx->err;
        wm_req_release(st->rx);
        if (!err && st->replace)
            st->search.offer = st->in;
        else if (!err)
            wm_ctx_merge(&st->search.offer, &st->in);
    }
    st->out = st->rx = NULL;
    return err ? err : 1;
}

/* The ids are agreed, and the block's place is known. */
static int complete(struct idup *q, struct idup_state *st)
{
    q->fresh->ctx = st->ctx[0];
    wm_ft_created(q->fresh);
    wm_comm_enter_lane(q->fresh, wm_lane_of(q->fresh->ctx, st->search.offer.lanes));
    if (q->fresh->inter) {
        q->fresh->local->ctx = st->ctx[1];
        return 1;
    }
    wm_coll_team_attach(q->fresh, st->search.offer.block);
    st->search.block = st->block = 0; /* the team owns the block from here */
    return 1;
}

static void share(struct idup *q, struct idup_state *st)
{
    st->sharing = true;
    st->next = 0;
    if (q->fresh->team.hier)
        st->search.offer.block = st->block;
}

/* A member has died.  Living ones that know of it may have given up, and send nothing more. */
static bool give_up(struct idup_state *st)
{
    if (st->rx && !rt_req_done(st->rx))
        st->rx->ops->cancel(st->rx);
    if ((st->rx && !rt_req_done(st->rx)) || (st->out && !rt_req_done(st->out)))
        return false;
    if (st->rx)
        wm_req_release(st->rx);
    if (st->out)
        wm_req_release(st->out);
    st->rx = st->out = NULL;
    return true;
}

static int idup_step(struct coll_task *k)
{
    struct idup *q = (struct idup *)k;
    struct idup_state *st = k->state;
    struct step s;
    if (rt_unlikely(q->parent->ft.revoked && !st->out && !st->rx))
        return -RT_EREVOKED;
    if (rt_unlikely(rt_dead()) && wm_failed_taints(q->parent) && give_up(st))
        return -RT_EPEER;
    for (;;) {
        int rc = finish_step(st);
        if (rc <= 0)
            return rc;
        if (st->sharing ? plan_share(q->fresh, st->next, &s) : plan(q->parent, st->next, &s)) {
            st->next++;
            rc = start_step(q, st, &s);
        } else if (st->sharing) {
            return complete(q, st);
        } else if (st->search.offer.err) {
            q->failed = st->search.offer.err;
            return -RT_EREMOTE;
        } else {
            rc = wm_ctx_settle(&st->search, st->ctx);
            if (!rc && st->ctx[0]) {
                share(q, st);
                continue;
            }
            st->next = 0;
            wm_ctx_round(&st->search);
            if (q->parent->size == 1 && !q->parent->inter)
                return rc; /* no message to wait for: another agreement must finish first */
        }
        if (rc < 0)
            return rc;
    }
}

static void idup_cleanup(struct coll_task *k)
{
    struct idup_state *st = k->state;
    wm_ctx_idups--;
    wm_ctx_leave(&st->search);
    wm_coll_team_unblock(((struct idup *)k)->fresh, st->search.block + st->block); /* one is 0 */
    free(st);
}

static void idup_release(struct rt_req *r)
{
    struct idup *q = (struct idup *)r;
    ndropped -= q->dropped;
    wm_comm_unref(q->parent);
    if (q->fresh)
        wm_comm_unref(q->fresh);
    rt_slab_free(&wm_request_slab, q);
}

static void *idup_owner(const struct rt_req *r) { return ((const struct idup *)r)->parent; }

static int idup_error(const struct rt_req *r)
{
    const struct idup *q = (const struct idup *)r;
    if (!q->failed)
        return wm_err_rt(r->err, "duplicating a communicator");
    return wm_err(q->failed, "another process failed in this call; its own message says why");
}

static void idup_done(struct rt_req *r, void *arg)
{
    (void)arg;
    if (r->flags & RT_REQ_DETACHED)
        wm_req_release(r);
}

static const struct rt_req_ops idup_ops = { .name = "duplication of a communicator",
                                            .release = idup_release,
                                            .owner = idup_owner,
                                            .error = idup_error };

/* `err`: this process has failed, and all others will. */
static MPI_Request idup_start(struct wm_comm *parent, struct wm_comm *fresh, uint32_t lanes,
                              int err)
{
    struct idup *q = wm_req_alloc(&idup_ops);
    struct idup_state *st = calloc(1, sizeof *st);
    if (!q || !st)
        rt_boot_abort(1, "out of memory to start MPI_Comm_idup, in which other processes would "
                         "wait for this one");
    st->tag = wm_comm_call_tag(parent);
    int nth = st->tag - WM_TAG_CALL;
    /* Above the orders of MPI_Comm_create_group, which end at 0x80000000. */
    st->search.order = (uint64_t)parent->ctx << 32 | (0x80000001u + (uint32_t)nth);
    st->search.want = parent->inter ? 2 : 1;
    st->search.err = err;
    st->search.lanes = lanes;
    if (fresh && !fresh->inter)
        *(fresh->team.hier ? &st->block : &st->search.block) = wm_coll_team_block(fresh);
    wm_ctx_idups++;
    wm_ctx_round(&st->search);
    q->parent = parent;
    q->fresh = fresh;
    wm_comm_ref(parent);
    if (fresh)
        wm_comm_ref(fresh);
    q->task.state = st;
    q->task.step = idup_step;
    q->task.cleanup = idup_cleanup;
    q->task.req.notify = idup_done;
    q->task.req.status = (struct rt_status){ .src = MPI_ANY_SOURCE, .tag = MPI_ANY_TAG };
    if (!coll_task_advance(&q->task))
        wm_domain_add_task(parent->dom, &q->task);
    return wm_req_handle(&q->task.req);
}

/* The call failed in this process, but the other members need this process in the agreement, which
 * continues without a handle and notifies them. */
static void idup_drop(MPI_Request request)
{
    struct rt_req *r = wm_req_get(request);
    if (rt_req_done(r)) {
        wm_req_release(r);
        return;
    }
    r->flags |= RT_REQ_DETACHED;
    ((struct idup *)r)->dropped = true;
    ndropped++;
}

static bool none_dropped(void *arg)
{
    (void)arg;
    return !ndropped;
}

void wm_comm_finish_dropped(struct wm_domain *dom)
{
    rt_lock(&dom->lock);
    wm_domain_until(dom, none_dropped, NULL, WM_WHAT_CALL);
    rt_unlock(&dom->lock);
}

static int idup(struct wm_comm *comm, const struct wm_info *info, struct wm_comm **newcomm,
                MPI_Request *request)
{
    struct wm_comm *c = NULL;
    int err = wm_comm_prepare_dup(comm, info, &c);
    uint32_t lanes = wm_lanes_offer(c); /* may wait for processes to start */
    rt_lock(&comm->dom->lock);
    MPI_Request r = idup_start(comm, c, lanes, err);
    if (err)
        idup_drop(r);
    rt_unlock(&comm->dom->lock);
    if (!err) {
        *request = r;
        *newcomm = c;
    }
    return err;
}

int wm_api_comm_idup(struct wm_comm *comm, struct wm_comm **newcomm, MPI_Request *request)
{
    return idup(comm, comm->info, newcomm, request);
}

int wm_api_comm_idup_with_info(struct wm_comm *comm, struct wm_info *info, struct wm_comm **newcomm,
                               MPI_Request *request)
{
    return idup(comm, info, newcomm, request);
}
