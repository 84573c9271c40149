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
#include "mpi/p2p/wait.h"
#include "mpi/stream/stream.h"

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
