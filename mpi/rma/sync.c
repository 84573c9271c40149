/* SPDX-License-Identifier: BSD-3-Clause */
/* Bodies of the synchronisation calls (MPI-5.0 section 12.5): fence, post-start-complete-wait,
 * locks.  Within a host, a process notifies another by a word in a control block and a ring of the
 * bell; processes of other hosts get messages. */
#include "mpi/rma/sync.h"
#include "mpi/api/bodies.h"
#include "mpi/coll/call.h"
#include "mpi/core/group.h"
#include "mpi/p2p/progress.h"
#include "mpi/p2p/wait.h"
#include "mpi/rma/checked.h"
#include "mpi/rma/epoch.h"
#include "mpi/rma/flush.h"
#include "mpi/rma/lock.h"
#include "mpi/rma/message.h"
#include "mpi/rma/progress.h"
#include "mpi/rma/quick.h"
#include "mpi/rma/target.h"
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "runtime/mem/segment.h"
#include <stdlib.h>

static int bad_assert(int assert, int allowed)
{
    if (rt_likely(!(assert & ~allowed)))
        return MPI_SUCCESS;
    return wm_err(MPI_ERR_ASSERT, "argument assert is 0x%x; allowed here is 0x%x", (unsigned)assert,
                  (unsigned)allowed);
}

/* The end of an access epoch. */
static void leave_access(struct wm_rma *r, enum wm_rma_access next)
{
    if (rt_unlikely(cfg.check))
        wm_rma_checked_end(r, NULL);
    wm_rma_quick_close_all(r);
    r->epoch.access = next;
}

/* Waits until operations on a target may be carried out, and for those operations. */
static int flush_ready(struct wm_rma *r, struct wm_rma_target *t, enum wm_rma_until until)
{
    int err = wm_rma_await_ready(r, t);
    return err ? err : wm_rma_flush(r, t, until);
}

/* ---- fence ---- */

/* If a process has gone, the barrier stays among the domain's tasks, so the window is not freed. */
int wm_rma_barrier(struct wm_rma *r)
{
    struct coll_args a = { .kind = COLL_BARRIER };
    if (r->dead)
        return wm_rma_dead(r);
    wm_flow_before_coll(r->dom);
    int err = wm_coll_begin(r->comm, &r->comm->team, &a, &r->barrier);
    if (!err && wm_rma_until(r, wm_wait_done, WM_WAIT_DONE(&r->barrier.req)))
        return wm_rma_dead(r);
    err = err ? err : r->barrier.req.err;
    if (err == -RT_EREMOTE) /* a barrier has no data, so the sender has lost a process */
        err = -RT_EPEER;
    return err < 0 ? wm_err_rt(err, "synchronising the processes of the window") : MPI_SUCCESS;
}

static bool pair_has_met(const struct wm_rma *r, const struct wm_rma_target *t)
{
    (void)t;
    uint32_t n = rt_load_acquire(&wm_rma_ctl_at(r, r->shared.pair)->nfences);
    return (int32_t)(n - r->shared.nfences) >= 0;
}

/* The barrier of a fence between two processes of one host: a counter in each control block.  The
 * barrier for any number of processes takes twice as long. */
static int meet_pair(struct wm_rma *r)
{
    if (r->dead)
        return wm_rma_dead(r);
    rt_store_release(&r->shared.ctl->nfences,
                     ++r->shared.nfences); /* after the stores to the other's memory */
    rt_bell_ring(r->shared.pair);
    return wm_rma_wait_near(r, NULL, pair_has_met);
}

static int meet(struct wm_rma *r)
{
    if (rt_likely(r->shared.pair >= 0))
        return meet_pair(r);
    rt_fence(); /* stores to other processes' memory before the barrier */
    return wm_rma_barrier(r);
}

int wm_api_win_fence(int assert, struct wm_win *win)
{
    const int allowed = MPI_MODE_NOSTORE | MPI_MODE_NOPUT | MPI_MODE_NOPRECEDE | MPI_MODE_NOSUCCEED;
    struct wm_rma *r = win->rma;
    int err = bad_assert(assert, allowed);
    if (err)
        return err;
    rt_lock(&r->dom->lock);
    err = wm_rma_may(r, WM_MOVE_FENCE);
    if (rt_unlikely(cfg.check) && !err)
        err = wm_rma_checked_fence(r, assert);
    if (!err) {
        err = wm_rma_flush(r, NULL, WM_UNTIL_TARGET);
        /* With MPI_MODE_NOPRECEDE too: peers may store into this process's memory at once. */
        int e = meet(r);
        err = err ? err : e;
        leave_access(r, assert &MPI_MODE_NOSUCCEED ? WM_ACCESS_NONE : WM_ACCESS_OPEN);
    }
    rt_unlock(&r->dom->lock);
    return err;
}

/* ---- start and complete ---- */

static int translate(const struct wm_rma *r, const struct wm_group *g, int *ranks)
{
    if (g->size <= WM_RMA_FEW) {
        for (int i = 0; i < g->size; i++)
            ranks[i] = wm_group_find(r->comm->group, wm_group_proc(g, i));
        return MPI_SUCCESS;
    }
    for (int i = 0; i < g->size; i++)
        ranks[g->size + i] = i;
    return wm_group_translate(g, g->size, ranks + g->size, r->comm->group, ranks);
}

static void ranks_free(int *ranks, const int *few)
{
    if (ranks != few)
        free(ranks);
}

/* The ranks of a group in the window: in `few`, of WM_RMA_FEW, or malloc'ed.  *out: for
 * ranks_free(). */
static int ranks_of(const struct wm_rma *r, const struct wm_group *g, int *few, int **out)
{
    int *ranks = g->size > WM_RMA_FEW ? malloc(2 * (size_t)g->size * sizeof *ranks) : few;
    if (!ranks)
        return wm_err(MPI_ERR_NO_MEM, "no memory for %d ranks", g->size);
    int err = translate(r, g, ranks);
    for (int i = 0; i < g->size && !err; i++)
        if (ranks[i] == MPI_UNDEFINED)
            err = wm_err(MPI_ERR_GROUP, "rank %d of the group is not in the window", i);
    if (err)
        ranks_free(ranks, few);
    else
        *out = ranks;
    return err;
}

/* The targets for a list of ranks, all made. */
static int make_targets(struct wm_rma *r, const int *ranks, int n)
{
    struct wm_rma_target *t;
    int err = MPI_SUCCESS;
    for (int i = 0; i < n && !err; i++)
        err = wm_rma_named(r, ranks[i], &t);
    return err;
}

int wm_api_win_start(struct wm_group *group, int assert, struct wm_win *win)
{
    struct wm_rma *r = win->rma;
    int *ranks = NULL;
    int err = bad_assert(assert, MPI_MODE_NOCHECK);
    if (err)
        return err;
    rt_lock(&r->dom->lock);
    err = wm_rma_may(r, WM_MOVE_START);
    if (!err)
        err = ranks_of(r, group, r->epoch.few, &ranks);
    if (!err && (err = make_targets(r, ranks, group->size)))
        ranks_free(ranks, r->epoch.few);
    if (!err) {
        r->epoch.started = ranks;
        r->epoch.nstarted = group->size;
        r->epoch.nocheck = assert &MPI_MODE_NOCHECK;
        r->epoch.access = WM_ACCESS_START;
        for (int i = 0; i < group->size; i++)
            wm_rma_target(r, ranks[i])->epoch.in_start = true;
    }
    rt_unlock(&r->dom->lock);
    return err;
}

/* The operations on one target are complete or, where a message notifies the target, have been
 * sent. */
static int complete_one(struct wm_rma *r, struct wm_rma_target *t)
{
    int err = flush_ready(r, t, t->by_ctl ? WM_UNTIL_TARGET : WM_UNTIL_EXECUTED);
    t->epoch.in_start = false;
    t->epoch.post_seen = false;
    if (t->by_ctl) {
        /* the target's next post comes after this completion */
        t->epoch.posts_seen = rt_load_relaxed(&r->shared.ctl->from[t->local].posts);
        rt_store_release(&t->ctl->from[rt_node.rank].completes, ++t->epoch.completes);
        rt_bell_ring(t->local);
    } else if (wm_rma_target_peer(r, t) == 0) {
        t->msg.sent++;
        wm_rma_activate(r, t);
        wm_rma_send(r, t->msg.peer, WM_RMA_COMPLETE, 0, 0);
    }
    return err;
}

int wm_api_win_complete(struct wm_win *win)
{
    struct wm_rma *r = win->rma;
    rt_lock(&r->dom->lock);
    int err = wm_rma_may(r, WM_MOVE_COMPLETE);
    if (!err) {
        for (int i = 0; i < r->epoch.nstarted; i++) {
            int e = complete_one(r, wm_rma_target(r, r->epoch.started[i]));
            err = err ? err : e;
        }
        ranks_free(r->epoch.started, r->epoch.few);
        r->epoch.started = NULL;
        r->epoch.nstarted = 0;
        leave_access(r, WM_ACCESS_NONE);
    }
    rt_unlock(&r->dom->lock);
    return err;
}

/* ---- post and wait ---- */

static bool posts_by_ctl(const struct wm_rma_target *t) { return t->ctl && !t->ctl->by_messages; }

/* The targets of posts, and the connections to those that need messages: no post fails later. */
static int make_posts(struct wm_rma *r, const int *ranks, int n)
{
    struct wm_rma_target *t;
    for (int i = 0; i < n; i++) {
        int err = wm_rma_named(r, ranks[i], &t);
        if (err)
            return err;
        if (!posts_by_ctl(t) && (err = wm_rma_target_peer(r, t)) < 0)
            return wm_err_rt(err, "rank %d cannot be reached", ranks[i]);
    }
    return MPI_SUCCESS;
}

static void post_to(struct wm_rma *r, struct wm_rma_target *t)
{
    if (!posts_by_ctl(t)) {
        wm_rma_send(r, t->msg.peer, WM_RMA_POST, 0, 0);
        return;
    }
    /* after own stores to the window */
    rt_store_release(&t->ctl->from[rt_node.rank].posts, ++t->epoch.posts);
    rt_bell_ring(t->local);
}

int wm_api_win_post(struct wm_group *group, int assert, struct wm_win *win)
{
    struct wm_rma *r = win->rma;
    int few[WM_RMA_FEW], *ranks = few;
    int err = bad_assert(assert, MPI_MODE_NOCHECK | MPI_MODE_NOSTORE | MPI_MODE_NOPUT);
    if (err)
        return err;
    rt_lock(&r->dom->lock);
    err = wm_rma_may(r, WM_MOVE_POST);
    if (!err)
        err = ranks_of(r, group, few, &ranks);
    if (!err)
        err = assert &MPI_MODE_NOCHECK ? make_targets(r, ranks, group->size)
                                       : make_posts(r, ranks, group->size);
    if (!err) {
        r->epoch.exposed = true;
        r->epoch.nexposed = group->size;
        for (int i = 0; i < group->size && i < RT_ACTIVITY_REQS; i++)
            r->epoch.first_exposed[i] = ranks[i];
        if (r->epoch.access == WM_ACCESS_OPEN)
            r->epoch.access = WM_ACCESS_NONE;
        for (int i = 0; i < group->size && !(assert &MPI_MODE_NOCHECK); i++)
            post_to(r, wm_rma_target(r, ranks[i]));
    }
    ranks_free(ranks, few);
    rt_unlock(&r->dom->lock);
    return err;
}

static bool all_completed(const struct wm_rma *r, const struct wm_rma_target *t)
{
    (void)t;
    return wm_rma_ncompleted(r) >= (uint32_t)r->epoch.nexposed;
}

static void unexpose(struct wm_rma *r)
{
    r->epoch.nwaited_for += (uint32_t)r->epoch.nexposed;
    r->epoch.exposed = false;
}

int wm_api_win_wait(struct wm_win *win)
{
    struct wm_rma *r = win->rma;
    rt_lock(&r->dom->lock);
    int err = wm_rma_may(r, WM_MOVE_WAIT);
    if (!err)
        err = r->shared.nmembers == r->comm->size ? wm_rma_wait_near(r, NULL, all_completed)
                                                  : wm_rma_wait(r, NULL, all_completed);
    if (!err)
        unexpose(r);
    rt_unlock(&r->dom->lock);
    return err;
}

int wm_api_win_test(struct wm_win *win, int *flag)
{
    struct wm_rma *r = win->rma;
    rt_lock(&r->dom->lock);
    int err = wm_rma_may(r, WM_MOVE_WAIT);
    if (!err && !all_completed(r, NULL))
        wm_progress(r->dom);
    *flag = !err && all_completed(r, NULL);
    if (*flag)
        unexpose(r);
    rt_unlock(&r->dom->lock);
    if (!err)
        wm_domain_polled(*flag);
    return err;
}

/* ---- locks ---- */

/* Loads and stores may follow at once: the process's own memory, and shared memory. */
static bool is_prompt(const struct wm_rma *r, const struct wm_rma_target *t)
{
    return t->rank == r->comm->rank || r->win->flavor == MPI_WIN_FLAVOR_SHARED;
}

static void enter_lock(struct wm_rma *r, struct wm_rma_target *t, bool nocheck)
{
    t->epoch.locked = true;
    t->epoch.nocheck = nocheck;
    r->epoch.nlocks++;
    r->epoch.access = WM_ACCESS_LOCK;
}

static void leave_lock(struct wm_rma *r, struct wm_rma_target *t)
{
    t->epoch.locked = false;
    if (--r->epoch.nlocks == 0)
        r->epoch.access = WM_ACCESS_NONE;
    wm_rma_quick_close(r, t);
}

bool wm_rma_quick_lock(int lock_type, int rank, int assert, MPI_Win win)
{
    const struct wm_rma_quick *q = wm_rma_quick_find(win, rank);
    const unsigned allowed = 1u << WM_ACCESS_NONE | 1u << WM_ACCESS_OPEN | 1u << WM_ACCESS_LOCK;
    if (rt_unlikely(!q || !q->t || assert || rt_threaded))
        return false;
    if (rt_unlikely(lock_type != MPI_LOCK_SHARED && lock_type != MPI_LOCK_EXCLUSIVE))
        return false;
    struct wm_rma *r = q->rma;
    struct wm_rma_target *t = q->t;
    if (rt_unlikely(!(allowed >> r->epoch.access & 1) || t->epoch.locked || !t->by_ctl))
        return false;
    if (!wm_rma_want_now(r, &t->epoch.want,
                         lock_type == MPI_LOCK_SHARED ? WM_WANT_SHARED : WM_WANT_EXCLUSIVE, t->ctl))
        return false;
    enter_lock(r, t, false);
    wm_rma_quick_open(r, t);
    return true;
}

bool wm_rma_quick_unlock(int rank, MPI_Win win)
{
    const struct wm_rma_quick *q = wm_rma_quick_find(win, rank);
    if (rt_unlikely(!q || !q->passive || rt_threaded || q->rma->epoch.access != WM_ACCESS_LOCK) ||
        wm_rma_quick_due())
        return false;
    struct wm_rma_target *t = q->t;
    if (rt_unlikely(t->epoch.want.state != WM_WANT_HELD || !rt_list_empty(&t->active)))
        return false;
    wm_rma_release(q->rma, &t->epoch.want);
    leave_lock(q->rma, t);
    return true;
}

int wm_api_win_lock(int lock_type, int rank, int assert, struct wm_win *win)
{
    struct wm_rma *r = win->rma;
    struct wm_rma_target *t;
    int err = bad_assert(assert, MPI_MODE_NOCHECK);
    if (rt_unlikely(lock_type != MPI_LOCK_SHARED && lock_type != MPI_LOCK_EXCLUSIVE))
        err = wm_err(MPI_ERR_LOCKTYPE, "argument 1 (lock_type) is %d", lock_type);
    if (rt_unlikely(err || rank == MPI_PROC_NULL))
        return err;
    rt_lock(&r->dom->lock);
    err = wm_rma_named(r, rank, &t);
    if (!err)
        err = wm_rma_may_with(r, WM_MOVE_LOCK, t);
    if (!err) {
        enum wm_want_kind kind = lock_type == MPI_LOCK_EXCLUSIVE ? WM_WANT_EXCLUSIVE
                                                                 : WM_WANT_SHARED;
        enter_lock(r, t, assert &MPI_MODE_NOCHECK);
        if (!t->epoch.nocheck && t->by_ctl)
            wm_rma_want_soon(r, &t->epoch.want, kind, t->ctl);
        else if (!t->epoch.nocheck)
            wm_rma_ask(r, t, kind);
        if (is_prompt(r, t))
            err = wm_rma_await_ready(r, t);
        if (t->epoch.want.state == WM_WANT_HELD)
            wm_rma_quick_open(r, t);
    }
    rt_unlock(&r->dom->lock);
    return err;
}

/* Releases a lock that was requested by a message.  True: the target will acknowledge the release,
 * and with it all operations. */
static bool unask(struct wm_rma *r, struct wm_rma_target *t)
{
    bool dirty = t->msg.acked != t->msg.sent;
    r->epoch.nasked -= t->epoch.asked;
    t->epoch.asked = false;
    if (!t->epoch.granted)
        return false;
    t->epoch.granted = false;
    t->msg.sent++;
    wm_rma_activate(r, t);
    if (dirty)
        t->msg.flushed = t->msg.sent;
    t->msg.acks = false;
    wm_rma_send(r, t->msg.peer, WM_RMA_UNLOCK, dirty, (int64_t)t->msg.sent);
    return dirty;
}

static int unlock_by_message(struct wm_rma *r, struct wm_rma_target *t)
{
    int err = flush_ready(r, t, WM_UNTIL_EXECUTED);
    int e = unask(r, t) ? wm_rma_flush(r, t, WM_UNTIL_TARGET) : MPI_SUCCESS;
    return err ? err : e;
}

static int unlock_by_ctl(struct wm_rma *r, struct wm_rma_target *t)
{
    int err = flush_ready(r, t, WM_UNTIL_TARGET);
    if (t->epoch.want.state == WM_WANT_HELD)
        wm_rma_release(r, &t->epoch.want);
    else
        rt_fence(); /* stores to the target's memory before what follows */
    return err;
}

int wm_api_win_unlock(int rank, struct wm_win *win)
{
    struct wm_rma *r = win->rma;
    struct wm_rma_target *t;
    if (rank == MPI_PROC_NULL)
        return MPI_SUCCESS;
    rt_lock(&r->dom->lock);
    int err = wm_rma_named(r, rank, &t);
    if (!err)
        err = wm_rma_may_with(r, WM_MOVE_UNLOCK, t);
    if (!err) {
        err = t->epoch.asked ? unlock_by_message(r, t) : unlock_by_ctl(r, t);
        if (rt_unlikely(cfg.check))
            wm_rma_checked_end(r, t);
        leave_lock(r, t);
        wm_rma_poll(r);
    }
    rt_unlock(&r->dom->lock);
    return err;
}

static bool has_all(const struct wm_rma *r, const struct wm_rma_target *t)
{
    (void)t;
    return r->shared.all.state == WM_WANT_HELD;
}

/* By messages: targets whose memory may be accessed at once are locked now. */
static int lock_prompt(struct wm_rma *r)
{
    int err = MPI_SUCCESS;
    for (int i = 0; i < r->comm->size && !err; i++) {
        struct wm_rma_target *t;
        if (i != r->comm->rank && r->win->flavor != MPI_WIN_FLAVOR_SHARED)
            continue;
        err = wm_rma_named(r, i, &t);
        if (!err)
            wm_rma_ask(r, t, WM_WANT_SHARED);
        if (!err)
            err = wm_rma_await_ready(r, t);
    }
    return err;
}

int wm_api_win_lock_all(int assert, struct wm_win *win)
{
    struct wm_rma *r = win->rma;
    int err = bad_assert(assert, MPI_MODE_NOCHECK);
    if (err)
        return err;
    rt_lock(&r->dom->lock);
    err = wm_rma_may(r, WM_MOVE_LOCK_ALL);
    if (!err) {
        r->epoch.access = WM_ACCESS_LOCK_ALL;
        r->epoch.nocheck = assert &MPI_MODE_NOCHECK;
        if (!r->epoch.nocheck && wm_rma_by_messages()) {
            err = lock_prompt(r);
        } else if (!r->epoch.nocheck) {
            wm_rma_want(r, &r->shared.all, WM_WANT_ALL, NULL);
            err = wm_rma_wait(r, NULL, has_all);
        }
    }
    rt_unlock(&r->dom->lock);
    return err;
}

/* Flushes all targets.  Then releases the locks that were requested by messages, all at once, and
 * waits for the acknowledgements. */
static int unlock_targets(struct wm_rma *r)
{
    struct rt_list *l, *tmp;
    int err = MPI_SUCCESS, e;
    rt_list_each_safe (l, tmp, &r->targets.active) {
        struct wm_rma_target *t = rt_container(l, struct wm_rma_target, active);
        e = wm_rma_flush(r, t, t->epoch.asked ? WM_UNTIL_EXECUTED : WM_UNTIL_TARGET);
        err = err ? err : e;
    }
    for (int i = 0; i < WM_RMA_BUCKETS && r->epoch.nasked; i++)
        for (struct wm_rma_target *t = r->targets.bucket[i]; t; t = t->next)
            t->epoch.unlocking = t->epoch.asked && unask(r, t);
    rt_list_each_safe (l, tmp, &r->targets.active) {
        struct wm_rma_target *t = rt_container(l, struct wm_rma_target, active);
        e = t->epoch.unlocking ? wm_rma_flush(r, t, WM_UNTIL_TARGET) : MPI_SUCCESS;
        t->epoch.unlocking = false;
        err = err ? err : e;
    }
    return err;
}

int wm_api_win_unlock_all(struct wm_win *win)
{
    struct wm_rma *r = win->rma;
    rt_lock(&r->dom->lock);
    int err = wm_rma_may(r, WM_MOVE_UNLOCK_ALL);
    if (!err) {
        if (rt_unlikely(!rt_list_empty(&r->targets.active) || r->epoch.nasked))
            err = unlock_targets(r);
        if (r->shared.all.state == WM_WANT_HELD)
            wm_rma_release(r, &r->shared.all);
        else
            rt_fence(); /* stores to the targets' memory before what follows */
        leave_access(r, WM_ACCESS_NONE);
        wm_rma_poll(r);
    }
    rt_unlock(&r->dom->lock);
    return err;
}

int wm_api_win_get_group(struct wm_win *win, struct wm_group **group)
{
    wm_group_ref(win->comm->group);
    *group = win->comm->group;
    return MPI_SUCCESS;
}
