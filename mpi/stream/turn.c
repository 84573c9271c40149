/* SPDX-License-Identifier: BSD-3-Clause */
/* One order for the calls of all communicators, whatever thread makes them.  Streams of several
 * communicators may share a hardware queue, in which the kernels of one stream wait behind those of
 * another.  So all processes must enqueue the calls of all communicators in the same order.
 *
 * Numbers are agreed as in a total-order multicast: with its last note each process proposes a
 * number above all numbers that it has seen, and the largest proposal becomes the call's turn; the
 * communicator's context breaks ties.  A call waits while another call of this process has, or may
 * get, an earlier turn.  This cannot deadlock: a process that has proposed has seen a note of every
 * process, so all processes are in the call and will propose.  Under the domain's lock. */
#include "mpi/coll/exch.h"
#include "mpi/p2p/wait.h"
#include "mpi/stream/stream.h"

#define TAG_TURN (WM_TAG_COMM + 1)

static struct rt_list turns = { &turns, &turns };
static uint64_t last;

uint64_t wm_xstream_turn_propose(struct wm_xstream_turn *t, uint32_t ctx)
{
    t->number = ++last;
    t->ctx = ctx;
    rt_list_append(&turns, &t->link);
    return t->number;
}

static bool is_first(void *arg)
{
    const struct wm_xstream_turn *t = arg;
    struct rt_list *l;
    rt_list_each (l, &turns) {
        const struct wm_xstream_turn *o = rt_container(l, struct wm_xstream_turn, link);
        if (o->number < t->number || (o->number == t->number && o->ctx < t->ctx))
            return false;
    }
    return true;
}

void wm_xstream_turn_await(struct wm_domain *d, struct wm_xstream_turn *t, uint64_t largest)
{
    t->number = largest;
    if (largest > last)
        last = largest;
    wm_domain_until(d, is_first, t, WM_WHAT_CALL);
}

void wm_xstream_turn_end(struct wm_xstream_turn *t) { rt_list_del(&t->link); }

/* ---- calls without notes of their own ---- */

/* The message of a combination; its length does not depend on the number of processes. */
struct note {
    uint64_t turn; /* the largest proposal */
    int32_t err;   /* error class of a process that cannot take part */
};

static void merge(void *inout, const void *in)
{
    struct note *a = inout;
    const struct note *b = in;
    a->turn = a->turn > b->turn ? a->turn : b->turn;
    a->err = a->err ? a->err : b->err;
}

static int await_host(void *s, struct rt_req *r) { return wm_xstream_await(s, r); }

static int combine(struct wm_xstream_comm *s, struct note *n)
{
    struct wm_exch x = wm_exch_all(s->ctl);
    x.tag = TAG_TURN;
    x.await = await_host;
    x.arg = s;
    int rc = wm_exch_combine(&x, n, sizeof *n, merge);
    if (rc >= 0)
        return MPI_SUCCESS;
    if (rc != -RT_EREMOTE) /* others may wait for this process in the next round */
        wm_xstream_broken(s);
    return rc == -RT_EREMOTE
               ? wm_xstream_given_up(s)
               : wm_err_rt(rc, "an enqueued collective among %d processes", s->comm->size);
}

/* Waits until all hosts have made the call; `err`: of this process. */
static int all_can(struct wm_xstream_comm *s, int err)
{
    struct note n = { .err = err };
    int rc = combine(s, &n);
    if (rc || err)
        return err ? err : rc;
    if (!n.err)
        return MPI_SUCCESS;
    return wm_err(n.err, "another process of the communicator has failed in this collective");
}

int wm_xstream_turn_take(struct wm_xstream_comm *s, int err, struct wm_xstream_turn *t)
{
    err = all_can(s, err);
    if (err)
        return err;
    struct note n = { .turn = wm_xstream_turn_propose(t, s->ctl->ctx) };
    err = combine(s, &n);
    if (err)
        wm_xstream_turn_end(t);
    else
        wm_xstream_turn_await(s->comm->dom, t, n.turn);
    return err;
}
