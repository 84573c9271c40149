/* SPDX-License-Identifier: BSD-3-Clause */
/* How a wait notices that a process has died: one of this host by its entry in the node segment and
 * its pid, one of another job on this host by its pidfd, one of another host by the transport,
 * which reports a lost connection, or by a message from a process that has found the death. */
#include "mpi/coll/alive.h"
#include "mpi/coll/call.h"
#include "mpi/p2p/describe.h"
#include "mpi/p2p/domain.h"
#include "mpi/p2p/ended.h"
#include "mpi/p2p/p2p.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/send.h"
#include "mpi/p2p/wait.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/boot/jobs.h"
#include "runtime/mem/others.h"
#include "runtime/mem/segment.h"
#include <string.h>
#include <time.h>

/* Between two checks, each of which is one kill(2) for each process of this host.  A longer
 * interval only delays the error. */
#define LOOK_NS 50000000u
/* Polls between readings of the clock, which takes as long as several polls. */
#define LOOK_POLLS 64

/* On a communicator of a file, where there are no other messages between two processes. */
#define NOTICE_TAG 0

struct look {
    struct wm_comm *comm;
    bool (*ready)(void *arg);
    void *arg;
    struct wm_alive at;
    bool dead;
};

/* A process that has begun MPI_Finalize may leave: what this process waits for does not depend on
 * its life any more. */
static bool has_died(const struct wm_comm *c, int i)
{
    struct rt_proc p = wm_group_proc(c->remote, i);
    const struct rt_other *o = rt_others_find(p);
    if (o)
        return o->ended && !rt_others_is_leaving(o);
    int local = p.ns == 0 ? rt_node_attached(p.rank) : -1;
    if (local >= 0)
        return !rt_node_is_leaving(local) && rt_node_gone(local);
    const struct wm_peer *peer = wm_domain_known(c->dom, p);
    return peer && peer->err && !peer->is_last;
}

/* Whether another process of the file has reported a death.  This process may have no connection to
 * the dead process, and so not detect the death itself. */
static bool is_notified(const struct wm_comm *c)
{
    struct wm_key k = { .ctx = c->notices, .src = MPI_ANY_SOURCE, .tag = NOTICE_TAG };
    return c->notices && wm_match_find(&c->dom->match, &k);
}

void wm_alive_report(struct wm_comm *c)
{
    for (int i = 0; i < c->remote->size; i++)
        for (int k = 0; has_died(c, i) && k < c->remote->size; k++)
            if (!has_died(c, k))
                wm_domain_report_died(c->dom, wm_group_proc(c->remote, k),
                                      wm_group_proc(c->remote, i));
}

void wm_alive_notify(struct wm_comm *c)
{
    struct rt_req *r;
    wm_alive_report(c);
    for (int i = 0; i < c->size; i++) {
        struct wm_msg m = { .buf = "",
                            .layout = &wm_type_get(MPI_BYTE)->layout,
                            .comm = c,
                            .peer = i,
                            .tag = NOTICE_TAG };
        if (i == c->rank || has_died(c, i) || wm_p2p_isend(&m, WM_STANDARD, &r) < 0)
            continue;
        if (rt_req_done(r))
            wm_req_release(r);
        else
            r->flags |= RT_REQ_DETACHED;
    }
}

/* A process that sleeps is here about once a second; the clock is read at once then. */
bool wm_alive_look(struct wm_comm *c, struct wm_alive *l)
{
    struct timespec t;
    uint64_t nsleeps = c->dom->stats->sleeps;
    if (++l->npolls % LOOK_POLLS && nsleeps == l->nsleeps)
        return false;
    l->nsleeps = nsleeps;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    uint64_t now = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    if (now < l->next_ns)
        return false;
    bool first = !l->next_ns;
    l->next_ns = now + LOOK_NS;
    for (int i = 0; i < c->remote->size && !first; i++)
        if (has_died(c, i)) {
            log_info(MPI, "process %u%s has died; a call that waits for it returns an error",
                     wm_group_proc(c->remote, i).rank,
                     rt_boot_of_job(wm_group_proc(c->remote, i).ns));
            return true;
        }
    return !first && is_notified(c);
}

static bool ended(void *arg)
{
    struct look *l = arg;
    if (l->ready(l->arg))
        return true;
    l->dead = l->dead || wm_alive_look(l->comm, &l->at);
    return l->dead;
}

int wm_alive_until(struct wm_comm *c, bool (*ready)(void *arg), void *arg, struct wm_what what)
{
    struct look l = { .comm = c, .ready = ready, .arg = arg };
    l.at.nsleeps = c->dom->stats->sleeps;
    if (!ready(arg))
        wm_domain_until(c->dom, ended, &l, what);
    return ready(arg) ? 0 : -RT_EPEER;
}

int wm_alive_wait(struct wm_comm *c, const struct rt_req *r)
{
    return wm_alive_until(c, wm_wait_done, (void *)(uintptr_t)&r->done,
                          (struct wm_what){ wm_describe_request, r });
}

int wm_alive_receive(struct wm_comm *c, struct rt_req *r)
{
    if (!wm_alive_wait(c, r))
        return 0;
    r->ops->cancel(r);
    wm_domain_wait(c->dom, r); /* returns at once: the messages of exch.c are short */
    return r->status.cancelled ? -RT_EPEER : 0;
}

int wm_alive_numbers(struct wm_comm *c, struct coll_args *a, struct wm_numbers *k, int64_t *v,
                     int n)
{
    rt_assert(n <= WM_ALIVE_NUMBERS);
    a->rbuf = memcpy(k->v, v, (size_t)n * sizeof *v);
    a->rcount = n;
    int err = wm_coll_begin(c, &c->team, a, &k->task);
    if (!err && wm_alive_wait(c, &k->task.req))
        return -RT_EPEER; /* the task stays */
    err = err ? err : k->task.req.err;
    if (err == -RT_EREMOTE) /* numbers lie in host memory, so the sender has lost a process */
        err = -RT_EPEER;
    if (!err)
        memcpy(v, a->rbuf, (size_t)n * sizeof *v);
    return err;
}
