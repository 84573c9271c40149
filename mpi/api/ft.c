/* SPDX-License-Identifier: BSD-3-Clause */
/* Fault tolerance (ULFM): the calls that are local, and revocation.  Their names and rules are
 * those of docs/FAULTS.md; the standard does not have them yet.  Any thread; they take the domain's
 * lock. */
#include "mpi/api/bind.h"
#include "mpi/core/group.h"
#include "mpi/core/shrink.h"
#include "mpi/ft/agree.h"
#include "mpi/ft/revoke.h"
#include "mpi/p2p/failed.h"
#include "mpi/p2p/progress.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/wait.h"
#include "runtime/base/err.h"

#include <stdlib.h>

static struct wm_comm *comm_of(MPI_Comm h, const char *call, int *err)
{
    struct wm_comm *c = NULL;
    if (rt_unlikely(!rt_load_relaxed(&wm_state.users)))
        *err = wm_bad_phase(call);
    else if (rt_unlikely(!(c = wm_comm_get(h))))
        *err = wm_raise_comm(NULL, wm_bad_comm("argument 1 (comm)", h), call);
    return c;
}

static int result(struct wm_comm *c, int err, const char *call)
{
    return rt_likely(!err) ? MPI_SUCCESS : wm_raise_comm(c, err, call);
}

/* The same for a call that stores a result at `out`, its argument `arg`. */
static struct wm_comm *comm_with(MPI_Comm h, const void *out, const char *arg, const char *call,
                                 int *err)
{
    struct wm_comm *c = comm_of(h, call, err);
    if (c && rt_unlikely(!out)) {
        *err = wm_raise_comm(c, wm_bad_null(arg, MPI_ERR_ARG), call);
        return NULL;
    }
    return c;
}

static bool is_member(const struct wm_comm *c, struct rt_proc p)
{
    return wm_group_find(c->group, p) != MPI_UNDEFINED ||
           (c->inter && wm_group_find(c->remote, p) != MPI_UNDEFINED);
}

/* The dead members among the first n entries of the list of deaths, in that order: so a longer list
 * begins with a shorter one. */
static int dead_members(struct wm_comm *c, uint32_t n, struct wm_group **out)
{
    struct rt_proc *procs = malloc((n + 1) * sizeof *procs);
    int k = 0;
    if (!procs)
        return wm_err(MPI_ERR_NO_MEM, "no memory for a group of up to %u processes", n);
    for (uint32_t i = 0; i < n; i++)
        if (is_member(c, rt_dead_at(i)))
            procs[k++] = rt_dead_at(i);
    return wm_group_create(procs, k, out);
}

static int get(MPI_Comm comm, MPI_Group *group, bool acked, const char *call)
{
    struct wm_group *g;
    int err = MPI_SUCCESS;
    struct wm_comm *c = comm_with(comm, group, "argument 2 (group)", call, &err);
    if (!c)
        return err;
    rt_lock(&c->dom->lock);
    wm_failed_look(c->dom);
    uint32_t n = acked ? c->ft.nacked : rt_dead();
    rt_unlock(&c->dom->lock);
    err = dead_members(c, n, &g);
    if (!err)
        *group = wm_group_handle(g);
    return result(c, err, call);
}

WM_EXPORT int PMPIX_Comm_get_failed(MPI_Comm comm, MPI_Group *failedgrp)
{
    return get(comm, failedgrp, false, "MPIX_Comm_get_failed");
}
WM_WEAK(MPIX_Comm_get_failed);

WM_EXPORT int PMPIX_Comm_failure_get_acked(MPI_Comm comm, MPI_Group *failedgrp)
{
    return get(comm, failedgrp, true, "MPIX_Comm_failure_get_acked");
}
WM_WEAK(MPIX_Comm_failure_get_acked);

/* Acknowledges the first `most` dead members; returns how many are acknowledged. */
static int acknowledge(struct wm_comm *c, int most)
{
    uint32_t first = 0, n = rt_dead();
    int k = 0, acked = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!is_member(c, rt_dead_at(i)))
            continue;
        if (k++ < most)
            first = i + 1;
        acked += i < first || i < c->ft.nacked;
    }
    if (first > c->ft.nacked)
        wm_failed_ack(c, first);
    return acked;
}

WM_EXPORT int PMPIX_Comm_ack_failed(MPI_Comm comm, int num_to_ack, int *num_acked)
{
    static const char call[] = "MPIX_Comm_ack_failed";
    int err = MPI_SUCCESS;
    struct wm_comm *c = comm_with(comm, num_acked, "argument 3 (num_acked)", call, &err);
    if (!c)
        return err;
    if (num_to_ack < 0)
        return wm_raise_comm(c, wm_bad_count("argument 2 (num_to_ack)", num_to_ack), call);
    rt_lock(&c->dom->lock);
    wm_failed_look(c->dom);
    *num_acked = acknowledge(c, num_to_ack);
    rt_unlock(&c->dom->lock);
    return MPI_SUCCESS;
}
WM_WEAK(MPIX_Comm_ack_failed);

WM_EXPORT int PMPIX_Comm_failure_ack(MPI_Comm comm)
{
    int err = MPI_SUCCESS;
    struct wm_comm *c = comm_of(comm, "MPIX_Comm_failure_ack", &err);
    if (!c)
        return err;
    rt_lock(&c->dom->lock);
    wm_failed_look(c->dom);
    acknowledge(c, INT_MAX);
    rt_unlock(&c->dom->lock);
    return MPI_SUCCESS;
}
WM_WEAK(MPIX_Comm_failure_ack);

WM_EXPORT int PMPIX_Comm_revoke(MPI_Comm comm)
{
    static const char call[] = "MPIX_Comm_revoke";
    int err = MPI_SUCCESS;
    struct wm_comm *c = comm_of(comm, call, &err);
    if (!c)
        return err;
    rt_lock(&c->dom->lock);
    err = wm_ft_revoke(c);
    rt_unlock(&c->dom->lock);
    return result(c, err < 0 ? wm_err_rt(err, "revoking a communicator") : 0, call);
}
WM_WEAK(MPIX_Comm_revoke);

/* Makes progress, so that a loop of such calls ends. */
WM_EXPORT int PMPIX_Comm_is_revoked(MPI_Comm comm, int *flag)
{
    static const char call[] = "MPIX_Comm_is_revoked";
    int err = MPI_SUCCESS;
    struct wm_comm *c = comm_with(comm, flag, "argument 2 (flag)", call, &err);
    if (!c)
        return err;
    rt_lock(&c->dom->lock);
    if (!c->ft.revoked)
        wm_progress(c->dom);
    *flag = c->ft.revoked;
    rt_unlock(&c->dom->lock);
    wm_domain_polled(*flag);
    return MPI_SUCCESS;
}
WM_WEAK(MPIX_Comm_is_revoked);

/* ---- agreements ---- */

static int unacked(void)
{
    return wm_err(MPIX_ERR_PROC_FAILED, "a member has failed, and not all have acknowledged that "
                                        "(MPIX_Comm_ack_failed)");
}

WM_EXPORT int PMPIX_Comm_agree(MPI_Comm comm, int *flag)
{
    static const char call[] = "MPIX_Comm_agree";
    int err = MPI_SUCCESS;
    struct wm_comm *c = comm_with(comm, flag, "argument 2 (flag)", call, &err);
    if (!c)
        return err;
    struct wm_ft_call k = { .comm = c, .flag = *flag };
    rt_lock(&c->dom->lock);
    err = wm_ft_agree_wait(&k);
    if (!err) {
        *flag = k.value->flag;
        err = wm_ft_unacked(c, k.value) ? unacked() : MPI_SUCCESS;
    } else {
        err = wm_err_rt(err, "an agreement of %d processes", c->size);
    }
    rt_unlock(&c->dom->lock);
    return result(c, err, call);
}
WM_WEAK(MPIX_Comm_agree);

struct agree_req {
    struct rt_req r; /* first member */
    struct wm_ft_call call;
    int *flag;
};
_Static_assert(sizeof(struct agree_req) <= WM_REQ_MAX, "agreement fits a slab slot");

static void agree_release(struct rt_req *r)
{
    struct agree_req *q = (struct agree_req *)r;
    wm_comm_unref(q->call.comm);
    rt_slab_free(&wm_request_slab, q);
}

static void *agree_owner(const struct rt_req *r)
{
    return ((const struct agree_req *)r)->call.comm;
}

/* The value is gone if a later agreement has ended. */
static int agree_error(const struct rt_req *r)
{
    (void)r;
    return unacked();
}

static const struct rt_req_ops agree_ops = { .name = "agreement",
                                             .release = agree_release,
                                             .owner = agree_owner,
                                             .error = agree_error,
                                             .no_free_active = true };

static void agreed(struct wm_ft_call *k)
{
    struct agree_req *q = rt_container(k, struct agree_req, call);
    *q->flag = k->value->flag;
    wm_req_end(&q->r, wm_ft_unacked(k->comm, k->value) ? -RT_EPEER : 0);
}

WM_EXPORT int PMPIX_Comm_iagree(MPI_Comm comm, int *flag, MPI_Request *request)
{
    static const char call[] = "MPIX_Comm_iagree";
    int err = MPI_SUCCESS;
    struct wm_comm *c = comm_with(comm, flag ? (void *)request : NULL,
                                  flag ? "argument 3 (request)" : "argument 2 (flag)", call, &err);
    if (!c)
        return err;
    rt_lock(&c->dom->lock);
    struct agree_req *q = wm_req_alloc(&agree_ops);
    if (q) {
        wm_comm_ref(c);
        q->flag = flag;
        q->call = (struct wm_ft_call){ .comm = c, .flag = *flag, .done = agreed };
        q->r.status = (struct rt_status){ .src = MPI_ANY_SOURCE, .tag = MPI_ANY_TAG };
        err = wm_ft_agree(&q->call);
        if (err < 0)
            agree_release(&q->r);
        else
            *request = wm_req_handle(&q->r);
    }
    rt_unlock(&c->dom->lock);
    return result(c, !q || err ? wm_err(MPI_ERR_NO_MEM, "no memory for an agreement") : 0, call);
}
WM_WEAK(MPIX_Comm_iagree);

WM_EXPORT int PMPIX_Comm_shrink(MPI_Comm comm, MPI_Comm *newcomm)
{
    static const char call[] = "MPIX_Comm_shrink";
    int err = MPI_SUCCESS;
    struct wm_comm *made, *c = comm_with(comm, newcomm, "argument 2 (newcomm)", call, &err);
    if (!c)
        return err;
    err = wm_comm_shrink(c, &made);
    if (!err)
        *newcomm = wm_comm_handle(made);
    return result(c, err, call);
}
WM_WEAK(MPIX_Comm_shrink);

WM_EXPORT int PMPIX_Comm_ishrink(MPI_Comm comm, MPI_Comm *newcomm, MPI_Request *request)
{
    static const char call[] = "MPIX_Comm_ishrink";
    int err = MPI_SUCCESS;
    struct wm_comm *made,
        *c = comm_with(comm, newcomm ? (void *)request : NULL,
                       newcomm ? "argument 3 (request)" : "argument 2 (newcomm)", call, &err);
    if (!c)
        return err;
    err = wm_comm_ishrink(c, &made, request);
    if (!err)
        *newcomm = wm_comm_handle(made);
    return result(c, err, call);
}
WM_WEAK(MPIX_Comm_ishrink);
