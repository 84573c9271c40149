/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether a process of a communicator has died: one of this host as runtime/mem/deaths.h knows, one
 * of another host by its connection, by a message from a process that has found the death, or by
 * the list of deaths. */
#include "mpi/coll/alive.h"
#include "mpi/coll/call.h"
#include "mpi/p2p/describe.h"
#include "mpi/p2p/ended.h"
#include "mpi/p2p/domain.h"
#include "mpi/p2p/p2p.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/send.h"
#include "mpi/p2p/wait.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/boot/dead.h"
#include "runtime/boot/jobs.h"
#include "runtime/mem/deaths.h"
#include "runtime/mem/others.h"
#include <string.h>

/* On a communicator of a file, where there are no other messages between two processes. */
#define NOTICE_TAG 0

/* A process that has begun MPI_Finalize may leave: what this process waits for does not depend on
 * its life any more. */
static bool has_died(const struct wm_comm *c, int i)
{
    struct rt_proc p = wm_group_proc(c->remote, i);
    const struct rt_other *o = rt_others_find(p);
    if (rt_unlikely(rt_dead()) && rt_dead_has(p)) /* with --ft; also without a connection to it */
        return true;
    if (o)
        return o->ended && !rt_others_is_leaving(o);
    int local = p.ns == 0 ? rt_node_attached(p.rank) : -1;
    if (local >= 0)
        return rt_node_has_died(local);
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
        wm_domain_interrupt(c->dom, wm_group_proc(c->group, i));
    }
}

static bool has_lost(void *comm)
{
    struct wm_comm *c = comm;
    for (int i = 0; i < c->remote->size; i++)
        if (has_died(c, i)) {
            log_info(MPI, "process %u%s has died; a call that waits for it returns an error",
                     wm_group_proc(c->remote, i).rank,
                     rt_boot_of_job(wm_group_proc(c->remote, i).ns));
            return true;
        }
    return is_notified(c);
}

bool wm_alive_look(struct wm_comm *c, struct wm_alive *l)
{
    uint32_t now = rt_interrupts();
    if (rt_likely(now == l->seen))
        return false;
    l->seen = now;
    return has_lost(c);
}

int wm_alive_until(struct wm_comm *c, bool (*ready)(void *arg), void *arg, struct wm_what what)
{
    struct wm_interrupt by = { has_lost, c };
    return ready(arg) || wm_domain_until_or(c->dom, ready, arg, what, by) ? 0 : -RT_EPEER;
}

static int wait_request(struct wm_comm *c, const struct rt_req *r)
{
    return wm_alive_until(c, wm_wait_done, WM_WAIT_DONE(r),
                          (struct wm_what){ wm_describe_request, r });
}

int wm_alive_receive(struct wm_comm *c, struct rt_req *r)
{
    if (!wait_request(c, r))
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
    k->stays = !err && wait_request(c, &k->task.req);
    if (k->stays)
        return -RT_EPEER;
    err = err ? err : k->task.req.err;
    if (err == -RT_EREMOTE) /* numbers lie in host memory, so the sender has lost a process */
        err = -RT_EPEER;
    if (!err)
        memcpy(v, a->rbuf, (size_t)n * sizeof *v);
    return err;
}
