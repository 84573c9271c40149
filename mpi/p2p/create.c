/* SPDX-License-Identifier: BSD-3-Clause */
/* The domain as a whole: creation, the loss of a peer, leaving MPI and coming back, the end.  While
 * create, destroy, rest and resume run, no other thread is inside the library. */
#include "mpi/p2p/create.h"
#include <stdlib.h>
#include "btl/all/all.h"
#include "mpi/base/event.h"
#include "mpi/p2p/arrive.h"
#include "mpi/p2p/cancel.h"
#include "mpi/p2p/control.h"
#include "mpi/p2p/device.h"
#include "mpi/p2p/failed.h"
#include "mpi/p2p/flow.h"
#include "mpi/p2p/lane.h"
#include "mpi/p2p/left.h"
#include "mpi/p2p/part.h"
#include "mpi/p2p/pieces.h"
#include "mpi/p2p/progress.h"
#include "mpi/p2p/recv.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/rndv.h"
#include "mpi/p2p/send.h"
#include "mpi/p2p/wait.h"
#include "runtime/base/cfg.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/base/reserve.h"
#include "runtime/boot/dead.h"
#include "runtime/boot/jobs.h"
#include "runtime/mem/deaths.h"
#include "runtime/mem/activity.h"

_Static_assert(sizeof(struct wm_stats) <= RT_ACTIVITY_COUNTERS * sizeof(uint64_t),
               "the counters fit in the page");

/* How long MPI_Finalize waits without any event for messages that no process receives: far longer
 * than a rank is late in its last calls on any machine.  Only an incorrect program waits so
 * long. */
#define DRAIN_NS 5000000000u
#define SEE_OFF_US 1000 /* between looks whether the transports may close */

static void on_down(void *arg, struct btl_peer *bp, int err)
{
    struct wm_peer *p = bp->up;
    if (!p || p->err)
        return;
    if (wm_peer_is_last(p))
        wm_cancel_left(p);
    /* A process that has published its end may leave.  Requests that wait for it then report their
     * error themselves, unless the program still cancels them. */
    bool leaving = wm_peer_is_leaving(p), normal = err == 0;
    bool idle = rt_list_empty(&p->pending) && rt_list_empty(&p->rndv);
    bool ended = idle ? leaving || normal : leaving && normal;
    err = normal ? -RT_EPEER : err;
    log_at(MPI, ended || cfg.ft ? RT_LOG_INFO : RT_LOG_ERROR,
           "lost contact with rank %u%s: %s; operations with it fail from now on", p->proc.rank,
           rt_boot_of_job(p->proc.ns), rt_err_text(err));
    p->err = err;
    p->is_last = ended || leaving;
    if (!p->is_last)
        rt_dead_add(p->proc);
    rt_interrupt();
    p->blocked = true;
    wm_peer_hold(p);
    if (rt_unlikely(!normal && wm_event_wanted(WM_EVENT_PEER_LOST)))
        wm_event_raise(WM_EVENT_PEER_LOST,
                       &(struct wm_event_data){ { (int)p->proc.rank, (int)p->proc.ns, 0 }, 0 });
    wm_pend_drop(p, err);
    wm_rndv_fail_peer(p, err);
    wm_recv_fail_peer(arg, p, err, true);
    wm_part_fail_peer(arg, p, err);
    struct wm_domain *d = arg;
    if (d->rma_down)
        d->rma_down(d, p, leaving);
}

static int start_message(const struct wm_msg *m, bool send, struct rt_req **out)
{
    return send ? wm_p2p_isend(m, WM_STANDARD, out) : wm_p2p_irecv(m, out);
}

static int create(int lane, const struct btl_ops *const *all, struct wm_domain **out)
{
    struct wm_domain *d = aligned_alloc(RT_CACHE_LINE, sizeof *d); /* the type is aligned alike */
    if (!d)
        return -RT_ENOMEM;
    memset(d, 0, sizeof *d);
    d->lock = (struct rt_lock)RT_LOCK_INIT;
    rt_list_init(&d->tasks);
    rt_list_init(&d->retry);
    rt_list_init(&d->streams);
    rt_list_init(&d->staging.queue);
    rt_list_init(&d->part.recvs);
    rt_list_init(&d->part.inits);
    rt_list_init(&d->part.sends);
    rt_list_init(&d->wait.sleepers);
    rt_list_init(&d->wait.guests);
    d->lane = lane;
    d->up = (struct btl_up){ .recv = wm_on_recv, .down = on_down, .arg = d, .lane = lane };
    d->start_message = start_message;
    d->cancel_send = wm_cancel_send;
    d->budget = wm_flow_budget();
    void *shared = lane ? NULL : rt_activity_counters(WM_STATS_MOVING);
    d->stats = shared ? shared : &d->own_stats;
    int err = wm_req_init();
    if (!err)
        err = wm_match_init(&d->match);
    if (!err)
        err = lane ? wm_domain_open_lane(d) : wm_domain_open(d, all);
    if (err) {
        wm_domain_destroy(d);
        return err;
    }
    *out = d;
    return 0;
}

int wm_domain_create_over(const struct btl_ops *const *all, struct wm_domain **out)
{
    return create(0, all, out);
}

int wm_domain_create(struct wm_domain **out) { return wm_domain_create_over(btl_all, out); }

int wm_domain_create_lane(int lane, struct wm_domain **out) { return create(lane, NULL, out); }

/* What a process may still do for this one, so that something unfinished ends. */
enum hope { NOTHING, IN_FINALIZE, EVERYTHING };

static enum hope hope_of(const struct wm_peer *p)
{
    return !wm_peer_is_last(p) ? EVERYTHING : wm_peer_has_left(p) ? NOTHING : IN_FINALIZE;
}

/* A process with which something is unfinished, one with the most hope: queued messages, started
 * rendezvous, and receives whose requests were freed. */
static const struct wm_peer *unfinished(const struct wm_domain *d, enum hope *hope_p)
{
    const struct wm_peer *found = wm_recv_freed(d);
    *hope_p = found ? hope_of(found) : NOTHING;
    for (int i = 0; i < WM_PEER_BUCKETS && *hope_p != EVERYTHING; i++)
        for (const struct wm_peer *p = d->peers[i]; p; p = p->next) {
            if (p->err || (rt_list_empty(&p->pending) && rt_list_empty(&p->rndv)))
                continue;
            enum hope hope = hope_of(p);
            if (!found || hope > *hope_p) {
                found = p;
                *hope_p = hope;
            }
        }
    return found;
}

void wm_domain_publish_leaving(struct wm_domain *d, bool leaving)
{
    struct wm_last msg = { leaving };
    if (leaving)
        rt_node_publish_leaving();
    for (int i = 0; i < WM_PEER_BUCKETS; i++)
        for (struct wm_peer *p = d->peers[i]; p; p = p->next)
            if (!p->err && !p->is_self && !wm_peer_shares_memory(p) && wm_peer_has_spoken(p))
                wm_try_ctl(d, p, wm_hdr(WM_LAST, 0, 0, 0), &msg, sizeof msg);
}

/* A correct program has completed its requests, so only control messages and freed requests are
 * left here; the peers do their part at their next MPI calls, however late.  An incorrect program
 * must not hang: a peer that is in MPI_Finalize itself takes nothing more after DRAIN_NS without an
 * event, and one that has left MPI nothing at all. */
static void drain(struct wm_domain *d)
{
    struct wm_wait wait = { .what = { wm_left_describe, d } };
    uint64_t last = rt_now_ns();
    const struct wm_peer *p;
    enum hope hope;
    if (!d->lane)
        wm_domain_publish_leaving(d, true);
    wm_progress(d); /* delivers what this process has sent to itself */
    while ((p = unfinished(d, &hope))) {
        if (wm_progress(d)) {
            wait.idle = (struct rt_idle){ 0 };
            last = rt_now_ns();
        } else if (hope == NOTHING || (hope == IN_FINALIZE && rt_now_ns() - last > DRAIN_NS)) {
            break;
        } else {
            wm_domain_idle(d, &wait);
        }
    }
    wm_domain_left(d, &wait);
    wm_left_report(d, p);
}

static bool may_leave(const struct wm_domain *d)
{
    bool may = true;
    for (int i = 0; i < d->nbtl; i++)
        if (d->btl[i]->ops->leave && d->btl[i]->ops->leave(d->btl[i]) < 0)
            may = false;
    return may;
}

/* Waits until every transport may close.  No event wakes a process when its last message is
 * acknowledged. */
static void see_off(struct wm_domain *d)
{
    struct wm_wait wait = { .limit_us = SEE_OFF_US };
    while (!may_leave(d))
        wm_domain_step(d, &wait);
    wm_domain_left(d, &wait);
}

static void peer_destroy(struct wm_peer *p)
{
    wm_domain_drop_dev(p);
    struct rt_list *l, *tmp;
    rt_list_each_safe (l, tmp, &p->pending)
        rt_reserve_free(rt_container(l, struct wm_pend, link));
    if (p->eager)
        p->eager->btl->ops->del_peer(p->eager);
    free(p);
}

static void spare_fini(struct wm_domain *d)
{
    for (int kind = 0; kind < 2; kind++)
        for (struct wm_preq *q = d->spare.preq[kind], *next; q; q = next) {
            next = q->r.arg;
            q->r.obj.handle = (uint32_t)q->r.err;
            rt_slab_free(&wm_request_slab, q);
        }
    for (struct wm_stored *s = d->spare.stored, *next; s; s = next) {
        next = s->next_free;
        rt_reserve_free(s);
    }
    for (struct wm_dev *v = d->spare.dev, *next; v; v = next) {
        next = v->next;
        free(v);
    }
    d->spare.preq[0] = d->spare.preq[1] = NULL;
    d->spare.stored = NULL;
    d->spare.dev = NULL;
}

static void rest(struct wm_domain *d)
{
    rt_lock(&d->lock);
    if (!d->lane)
        wm_domain_seek_apart(d);
    drain(d);
    see_off(d);
    wm_dev_rest(d);
    spare_fini(d);
    wm_req_fini();
    rt_unlock(&d->lock);
}

void wm_domain_rest(struct wm_domain *d)
{
    rest(d);
    for (int i = 1; i < wm_lanes.n; i++)
        if (wm_lane_at(i))
            rest(wm_lane_at(i));
}

int wm_domain_resume(struct wm_domain *d)
{
    int err = wm_req_init();
    if (err)
        wm_req_fini();
    for (int i = 1; i < wm_lanes.n && !err; i++)
        if (wm_lane_at(i))
            wm_req_init(); /* counts */
    rt_lock(&d->lock);
    if (!err)
        wm_domain_publish_leaving(d, false);
    rt_unlock(&d->lock);
    return err;
}

/* Messages that were not received: from lost peers, or of an incorrect program. */
static void unexpected_fini(struct wm_domain *d)
{
    for (uint32_t i = 0; d->match.posted && i < d->match.nbuckets; i++) {
        struct rt_list *l, *tmp;
        rt_list_each_safe (l, tmp, &d->match.unex[0][i])
            rt_reserve_free(rt_container(l, struct wm_stored, unex.link[0]));
    }
}

void wm_domain_destroy(struct wm_domain *d)
{
    rt_lock(&d->lock);
    drain(d);
    see_off(d);
    rt_unlock(&d->lock);
    for (int i = 0; i < WM_PEER_BUCKETS; i++)
        for (struct wm_peer *p = d->peers[i], *next; p; p = next) {
            next = p->next;
            peer_destroy(p);
        }
    for (int i = d->nbtl - 1; i >= 0; i--)
        d->btl[i]->ops->close(d->btl[i]);
    spare_fini(d);
    wm_pieces_fini(d);
    wm_part_fini(d);
    wm_req_fini();
    unexpected_fini(d);
    if (d->match.posted)
        wm_match_fini(&d->match);
    wm_failed_fini(d);
    free(d);
}
