/* SPDX-License-Identifier: BSD-3-Clause */
/* What a process leaves unfinished in MPI_Finalize: see left.h. */
#include "mpi/p2p/left.h"
#include <stdio.h>
#include <string.h>
#include "mpi/p2p/describe.h"
#include "mpi/p2p/engine.h"
#include "mpi/p2p/lane.h"
#include "mpi/p2p/request.h"
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"

#define SHOWN 3 /* messages that the warning names */

struct left {
    const struct wm_domain *d;
    bool given_up;
    struct rt_wait_note *note; /* to describe the wait; NULL: to report */
    int n;
    char text[SHOWN * 192];
};

/* A message of the program.  Messages of collectives, and those of communicators that are internal
 * or have been freed, are not. */
static bool is_users(const struct left *l, const struct wm_preq *q)
{
    return q->dom == l->d && !q->coll && !wm_lane_whole(q->comm)->no_handle;
}

/* A send that MPI_Finalize waits for, unless the program cancels it; a receive that no message can
 * match any more, and one whose request was freed, for which MPI_Finalize waits, too.  Where the
 * peer has ended before, the request has failed. */
static bool is_left(const struct left *l, const struct wm_preq *q)
{
    const struct rt_req *held = q->r.flags & RT_REQ_INNER ? q->r.arg : &q->r;
    bool freed = held->flags & RT_REQ_DETACHED, send = q->kind == WM_PREQ_SEND;
    if (rt_req_done(&q->r))
        return q->r.err == -RT_EPEER && !l->note;
    if (send || freed)
        return (l->note || l->given_up) && (send ? q->state != WM_RECALLED : q->state == WM_POSTED);
    return q->state == WM_POSTED && !l->note;
}

static void name(struct left *l, const struct wm_preq *q)
{
    struct rt_wait_note n = { 0 };
    char peer[32] = "any rank", tag[32] = "any tag", where[64];
    bool send = q->kind == WM_PREQ_SEND;
    size_t len = strlen(l->text);
    wm_describe_preq(q, &n);
    if (q->peer_rank != MPI_ANY_SOURCE)
        snprintf(peer, sizeof peer, "rank %d", q->peer_rank);
    if (q->tag != MPI_ANY_TAG)
        snprintf(tag, sizeof tag, "tag %d", q->tag);
    if (n.comm.name[0])
        snprintf(where, sizeof where, "%s", n.comm.name);
    else
        snprintf(where, sizeof where, "communicator %u", n.comm.ctx);
    snprintf(l->text + len, sizeof l->text - len, "%s%s %s %s, %lld B on %s", len ? "; " : "",
             send ? "send to" : "receive from", peer, tag, (long long)q->nbytes, where);
    len = strlen(l->text);
    snprintf(l->text + len, sizeof l->text - len, ", which no %s has %s",
             send ? "receive" : "message",
             !send || q->state == WM_ANNOUNCED || q->r.err ? "matched" : "completed");
    len = strlen(l->text);
    if (!send)
        wm_describe_instead(q->comm, q->peer_rank, l->text + len, sizeof l->text - len);
}

static void look(void *obj, void *arg)
{
    const struct wm_preq *q = wm_preq_named(((const struct rt_req *)obj)->obj.handle);
    struct left *l = arg;
    if (!q || !is_users(l, q) || !is_left(l, q))
        return;
    if (l->note)
        wm_describe_add(l->note, &q->r);
    else if (l->n < SHOWN)
        name(l, q);
    l->n++;
}

void wm_left_describe(const void *d, struct rt_wait_note *n)
{
    struct left l = { .d = d, .note = n };
    rt_slab_each(&wm_request_slab, look, &l);
    if (!l.n)
        n->item = (struct rt_wait_item){ .kind = RT_WAIT_FINALIZE, .world = RT_WAIT_NOBODY };
}

void wm_left_report(const struct wm_domain *d, const struct wm_peer *given_up)
{
    struct left l = { .d = d, .given_up = given_up };
    if (cfg.check && !given_up) /* WEFT_CHECK has reported the requests */
        return;
    rt_slab_each(&wm_request_slab, look, &l);
    if (l.n)
        log_warn(MPI,
                 "MPI_Finalize leaves %d message%s of this rank unfinished: %s%s; complete each "
                 "request with MPI_Wait or MPI_Test, or cancel it, before MPI_Finalize",
                 l.n, l.n == 1 ? "" : "s", l.text, l.n > SHOWN ? "; ..." : "");
    else if (given_up && !rt_list_empty(&given_up->rndv))
        log_warn(MPI, "MPI_Finalize leaves a message to or from rank %u unfinished",
                 given_up->proc.rank);
}
