/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/check/left.h"
#include <stdio.h>
#include "coll/coll.h"
#include "mpi/check/report.h"
#include "mpi/p2p/create.h"
#include "mpi/p2p/engine.h"
#include "mpi/p2p/progress.h"
#include "mpi/p2p/recv.h"
#include "mpi/p2p/rndv.h"
#include "mpi/p2p/transfer.h"
#include "runtime/base/log.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/mem/segment.h"

/* Between two looks.  A message that was sent before its sender has published its end arrives
 * meanwhile; far less than the second after which the end of a process is noticed. */
#define LOOK_NS 100000000u
/* How long MPI_Finalize waits for room in the rings of processes that do not poll. */
#define FLUSH_NS 1000000000u

static struct {
    struct coll_task task;
    bool watching, published;
    uint64_t next_ns;
} state;

static bool is_leaving(const struct wm_peer *p)
{
    return !p->err && !p->is_self && wm_peer_is_leaving(p);
}

/* A send of the user that the peer has not matched. */
static bool is_unmatched(const struct wm_preq *q)
{
    return !q->coll && q->kind == WM_PREQ_SEND && q->state == WM_ANNOUNCED &&
           !(q->r.flags & RT_REQ_DETACHED);
}

static bool has_sends(const struct wm_peer *p)
{
    const struct rt_list *l;
    rt_list_each (l, &p->rndv) {
        const struct wm_preq *q = rt_container(l, struct wm_preq, link);
        if (is_unmatched(q))
            return true;
    }
    return false;
}

static void fail_sends(struct wm_peer *p)
{
    char name[MPI_MAX_OBJECT_NAME + 64];
    struct rt_list *l, *tmp;
    rt_list_each_safe (l, tmp, &p->rndv) {
        struct wm_preq *q = rt_container(l, struct wm_preq, link);
        if (!is_unmatched(q))
            continue;
        log_error(MPI,
                  "WEFT_CHECK: a message of %lld bytes from rank %d to rank %d, tag %d, on %s has "
                  "not been received: rank %d calls MPI_Finalize",
                  (long long)q->nbytes, q->comm->rank, q->peer_rank, q->tag,
                  check_comm_name(q->comm, name, sizeof name), q->peer_rank);
        q->fail = -RT_EPEER;
        wm_rndv_step(q, WM_STEP_LOST, -RT_EPEER);
    }
}

/* A message of the user that differs from what a receive asks for in one thing. */
struct near {
    const struct wm_preq *q;
    const struct wm_unex *by_tag, *by_comm, *by_source;
};

static void compare(const struct wm_unex *u, void *arg)
{
    struct near *n = arg;
    const struct wm_key *want = &n->q->posted.key, *k = &u->key;
    bool ctx = k->ctx == want->ctx, src = k->src == want->src;
    bool tag = k->tag == want->tag || want->tag == WM_MATCH_ANY;
    if (k->ctx & 1) /* of a collective */
        return;
    if (ctx && src && !tag)
        n->by_tag = u;
    else if (ctx && tag && !src)
        n->by_source = u;
    else if (src && tag && !ctx)
        n->by_comm = u;
}

static void explain(const struct wm_match *m, const struct wm_preq *q)
{
    char name[MPI_MAX_OBJECT_NAME + 64], what[120] = "";
    struct near n = { .q = q };
    wm_match_each(m, compare, &n);
    if (n.by_tag)
        snprintf(what, sizeof what, "; tag %d is here, tag %d is asked", n.by_tag->key.tag, q->tag);
    else if (n.by_comm)
        snprintf(what, sizeof what, "; communicator %u is here, communicator %u is asked",
                 n.by_comm->key.ctx, q->comm->ctx);
    else if (n.by_source)
        snprintf(what, sizeof what, "; source %d is here, source %d is asked", n.by_source->key.src,
                 q->peer_rank);
    log_error(MPI,
              "WEFT_CHECK: rank %d waits for a message from rank %d, tag %d, on %s, but rank %d "
              "calls MPI_Finalize%s",
              q->comm->rank, q->peer_rank, q->tag, check_comm_name(q->comm, name, sizeof name),
              q->peer_rank, what);
}

static void explain_receives(const struct wm_domain *d, const struct wm_peer *p)
{
    const struct wm_match *m = &d->match;
    const struct rt_list *l;
    for (uint32_t i = 0; i < m->nbuckets; i++)
        rt_list_each (l, &m->posted[i]) {
            const struct wm_preq *q = rt_container(l, struct wm_preq, posted.link);
            if (!q->coll && q->peer_rank >= 0 && q->comm->peers[q->peer_rank] == p)
                explain(m, q);
        }
}

/* Ends the messages that wait for a process, with an error, if the process was in MPI_Finalize at
 * the last look, too. */
static void look_at(struct wm_domain *d, struct wm_peer *p)
{
    if (!is_leaving(p) || (!has_sends(p) && !wm_recv_names_peer(d, p))) {
        p->seen_leaving = false;
    } else if (!p->seen_leaving) {
        p->seen_leaving = true;
    } else {
        explain_receives(d, p);
        fail_sends(p);
        wm_recv_fail_peer(d, p, -RT_EPEER, false);
    }
}

static int look(struct coll_task *t)
{
    uint64_t now = rt_now_ns();
    (void)t;
    if (state.published)
        return 1;
    if (now < state.next_ns)
        return 0;
    state.next_ns = now + LOOK_NS;
    for (int i = 0; i < WM_PEER_BUCKETS; i++)
        for (struct wm_peer *p = wm_main_domain->peers[i]; p; p = p->next)
            look_at(wm_main_domain, p);
    return 0;
}

void check_left_watch(struct wm_domain *d)
{
    if (state.watching)
        return;
    state.watching = true;
    state.published = false;
    state.task.step = look;
    wm_domain_add_task(d, &state.task);
}

static bool is_queued(const struct wm_domain *d)
{
    for (int i = 0; i < WM_PEER_BUCKETS; i++)
        for (const struct wm_peer *p = d->peers[i]; p; p = p->next)
            if (!p->err && !rt_list_empty(&p->pending))
                return true;
    return false;
}

void check_left_publish(struct wm_domain *d)
{
    uint64_t begin = rt_now_ns();
    while (is_queued(d) && rt_now_ns() - begin < FLUSH_NS)
        wm_progress(d);
    state.published = true;
    state.watching = false;
    wm_progress(d); /* the task ends */
    wm_domain_publish_leaving(d, true);
    for (int i = 0; rt_node.bells && i < rt_node.size; i++)
        rt_bell_ring(i);
}
