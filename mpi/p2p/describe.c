/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/p2p/describe.h"
#include "mpi/p2p/engine.h"
#include "mpi/p2p/lane.h"
#include "runtime/base/err.h"
#include "runtime/base/req.h"
#include <stdio.h>
#include <string.h>

static int32_t world_rank(const struct wm_comm *c, int peer)
{
    if (peer == MPI_ANY_SOURCE)
        return RT_WAIT_ANY;
    if (peer < 0)
        return RT_WAIT_NOBODY;
    struct rt_proc p = wm_group_proc(c->remote, peer);
    return p.ns ? RT_WAIT_FOREIGN : (int32_t)p.rank;
}

/* Adds a rank to rows of equal distance; false: there are too many. */
static bool add_to_runs(struct rt_wait_comm *c, int32_t rank)
{
    int i = (int)c->nruns - 1;
    if (i >= 0 && c->runs[i].count == 1)
        c->runs[i].stride = rank - c->runs[i].first;
    if (i >= 0 && rank - c->runs[i].first == c->runs[i].stride * c->runs[i].count) {
        c->runs[i].count++;
        return true;
    }
    if (++i == RT_ACTIVITY_RUNS)
        return false;
    c->nruns++;
    c->runs[i].first = rank;
    c->runs[i].stride = c->runs[i].count = 1;
    return true;
}

/* The ranks of communicators from MPI_Comm_split are rows; others may be too irregular. */
static void describe_group(struct rt_wait_comm *c, const struct wm_group *g)
{
    bool regular = g->size > 0;
    for (int i = 0; regular && i < (g->procs ? g->size : 1); i++) {
        struct rt_proc p = wm_group_proc(g, i);
        regular = !p.ns && add_to_runs(c, (int32_t)p.rank);
    }
    if (!regular) {
        memset(c->runs, 0, sizeof c->runs);
        c->nruns = 0;
    } else if (!g->procs) {
        c->runs[0].count = g->size;
    }
}

void wm_describe_comm(struct rt_wait_note *n, const struct wm_comm *c)
{
    n->comm = (struct rt_wait_comm){ .ctx = c->ctx, .size = c->remote->size, .rank = c->rank };
    snprintf(n->comm.name, sizeof n->comm.name, "%.*s", (int)sizeof n->comm.name - 1,
             wm_lane_whole(c)->name);
    describe_group(&n->comm, c->remote);
}

struct rt_wait_item wm_describe_item(enum rt_wait_kind kind, const struct wm_comm *c, int peer,
                                     int tag, int64_t nbytes)
{
    return (struct rt_wait_item){ .kind = kind,
                                  .ctx = c->ctx,
                                  .peer = peer,
                                  .world = world_rank(c, peer),
                                  .tag = tag,
                                  .nbytes = nbytes };
}

void wm_describe_one(struct rt_wait_note *n, const struct wm_comm *c, struct rt_wait_item item)
{
    wm_describe_comm(n, c);
    n->item = item;
}

void wm_describe_request(const void *request, struct rt_wait_note *n)
{
    const struct rt_req *r = request;
    if (r->ops && r->ops->describe)
        r->ops->describe(r, n);
}

/* Bytes for the process that its ring or its connection has no room for. */
static uint32_t queued(const struct wm_peer *p)
{
    const struct rt_list *l;
    int64_t n = 0;
    rt_list_each (l, &p->pending) {
        const struct wm_pend *w = rt_container(l, struct wm_pend, link);
        n += w->req ? w->req->nbytes : w->len;
    }
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

/* Messages that the library sends for itself have contexts and tags of their own. */
void wm_describe_preq(const void *preq, struct rt_wait_note *n)
{
    const struct wm_preq *q = preq;
    enum wm_preq_kind kind = q->kind;
    wm_describe_one(n, q->comm,
                    wm_describe_item(kind == WM_PREQ_SEND ? RT_WAIT_SEND : RT_WAIT_RECV, q->comm,
                                     q->peer_rank, q->tag, q->nbytes));
    if (q->kind == WM_PREQ_SEND && q->peer)
        n->item.queued = queued(q->peer);
    if (q->coll)
        n->item.ctx++;
}

void wm_describe_add(struct rt_wait_note *n, const struct rt_req *r)
{
    struct rt_wait_note one = { 0 };
    if (n->nreqs >= RT_ACTIVITY_REQS) {
        n->nreqs++;
        return;
    }
    wm_describe_request(r, &one);
    n->reqs[n->nreqs] = one.item;
    if (n->nreqs++) {
        n->item.kind = RT_WAIT_REQS;
        return;
    }
    n->item = one.item;
    n->comm = one.comm;
    n->number = one.number;
    n->root = one.root;
    memcpy(n->what, one.what, sizeof n->what);
}

/* Messages of collectives have odd contexts. */
static void add_unexpected(const struct wm_unex *u, void *arg)
{
    struct rt_wait_note *n = arg;
    const struct wm_stored *s = rt_container(u, struct wm_stored, unex);
    const struct wm_key *k = &u->key;
    if (k->ctx & 1)
        return;
    uint32_t i = n->nunex++;
    if (i >= RT_ACTIVITY_UNEX) { /* in place of one of another communicator */
        for (i = 0; i < RT_ACTIVITY_UNEX && n->unex[i].ctx == n->comm.ctx; i++) {
        }
        if (i == RT_ACTIVITY_UNEX || k->ctx != n->comm.ctx)
            return;
    }
    n->unex[i] = (struct rt_wait_item){ .kind = RT_WAIT_SEND,
                                        .ctx = k->ctx,
                                        .peer = k->src,
                                        .world = s->from->proc.ns ? RT_WAIT_FOREIGN
                                                                  : (int32_t)s->from->proc.rank,
                                        .tag = k->tag,
                                        .nbytes = wm_stored_len(s) };
}

void wm_describe_unexpected(struct wm_domain *d, struct rt_wait_note *n)
{
    wm_match_each(&d->match, add_unexpected, n);
}

void wm_describe_locks(const struct wm_domain *d, struct rt_wait_note *n)
{
    struct wm_domain *zero = wm_main_domain;
    if (d != zero && !rt_lock_try(&zero->lock))
        return; /* a thread uses lane 0; where it waits, it publishes them */
    if (zero->rma_held)
        zero->rma_held(n);
    if (d != zero)
        rt_unlock_plain(&zero->lock); /* nothing has changed */
}

void wm_describe_held(struct rt_wait_note *n, const struct wm_comm *c, int target)
{
    uint32_t i = n->nheld++;
    if (i < RT_ACTIVITY_HELD) {
        n->held[i].ctx = c->ctx;
        n->held[i].world = world_rank(c, target);
    }
}

struct instead {
    uint32_t ctx;
    int source;
    const struct wm_unex *first;
};

static void note_instead(const struct wm_unex *u, void *arg)
{
    struct instead *i = arg;
    if (!i->first && u->key.ctx == i->ctx && u->key.src == i->source)
        i->first = u;
}

static const struct wm_unex *find_instead(const struct wm_comm *c, int source)
{
    struct instead i = { c->ctx, source, NULL };
    wm_match_each(&c->dom->match, note_instead, &i);
    return i.first;
}

void wm_describe_instead(const struct wm_comm *c, int source, char *out, size_t len)
{
    const struct wm_unex *first = find_instead(c, source);
    out[0] = '\0';
    if (first)
        snprintf(out, len, " (tag %d is here)", first->key.tag);
}

int wm_err_gone(const struct wm_comm *c, int source, int tag)
{
    if (source == MPI_ANY_SOURCE)
        return wm_err_rt(-RT_EPEER, "a process of the communicator has failed, and may have been "
                                    "the one to send; MPIX_Comm_ack_failed lets receives from any "
                                    "source wait for the others");
    const struct wm_unex *first = find_instead(c, source);
    char asked[32] = "", there[64] = "";
    if (tag >= 0)
        snprintf(asked, sizeof asked, " with tag %d", tag);
    if (first)
        snprintf(there, sizeof there, "; a message with tag %d from it is there", first->key.tag);
    return wm_err_rt(-RT_EPEER, "no message%s from rank %d can arrive any more%s", asked, source,
                     there);
}
