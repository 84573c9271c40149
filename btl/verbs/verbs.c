/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs transport: opening and closing, peers, progress.  The engine serialises calls on the
 * instance. */
#include "btl/verbs/verbs.h"
#include "btl/verbs/alive.h"
#include "btl/verbs/cm.h"
#include "btl/verbs/dgram.h"
#include "btl/verbs/handshake.h"
#include "btl/verbs/msg.h"
#include "btl/verbs/ops.h"
#include "btl/verbs/poll.h"
#include "btl/verbs/rma.h"
#include "runtime/base/atomic.h"
#include "runtime/base/cfg.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define DRAIN_MAX 32    /* messages of a ring before the next ring gets a turn */
#define ALIVE_EVERY 16u /* idle polls between two reads of the clock */
#define LOOKS 3u        /* looks at each peer during net_timeout_s */
/* Longest sleep, because of timers: repeated datagrams and keep_alive(). */
#define TIMERS_US 200000
/* Polls between two looks for datagrams if no connection is being set up. */
#define SETUP_EVERY 64u

#define PATIENCE_NS 50000000u /* wait for data sent to a peer that may have gone */
#define BYE_ROOM 4u           /* requests: three for a goodbye by ring, one for its completion */

enum { VERBS_LARGE_GET, VERBS_LARGE_PUT }; /* cfg.verbs_large */

/* ---- peers ---- */

/* Handles all data that arrived before the failure, then reports the failure.  It is not an error
 * in the log if the peer has sent its goodbye, or if this process has sent its own and the peer has
 * all earlier messages: the peer has gone, too.  The engine knows whether it still needs the
 * peer. */
static void report(struct verbs *v, struct verbs_peer *p)
{
    bool parted = p->state == VERBS_PARTED;
    p->state = VERBS_DOWN;
    verbs_lanes_stop(p);
    verbs_cm_lanes_close(p);
    for (int i = 0; i < p->nlanes; i++)
        while (verbs_rail_poll(p->lanes[i].rail) > 0)
            continue;
    if (p->rx.state == VERBS_RING_ON)
        while (verbs_ring_drain(p, DRAIN_MAX) > 0)
            continue;
    rt_list_del(&p->ringing);
    for (int i = 0; i < v->nrails; i++)
        verbs_rail_events(&v->rails[i]);
    log_at(BTL, parted || p->bye.theirs_ns ? RT_LOG_INFO : RT_LOG_ERROR,
           "connection to rank %u: %s", p->base.proc.rank, p->why);
    if (!v->closing)
        v->up.down(v->up.arg, &p->base, p->err);
}

static int work_step(struct verbs *v, struct verbs_peer *p)
{
    int n = 0;
    if (p->state == VERBS_UP) {
        if (verbs_ring_due(p))
            verbs_ring_step(p);
        if (p->sleep.wake_due)
            verbs_wake_step(p);
        verbs_credits_step(p);
    }
    if (!rt_list_empty(&p->xfers))
        n += verbs_xfers_step(p);
    if (p->state == VERBS_FAILED || p->state == VERBS_PARTED) {
        report(v, p);
        n++;
    }
    bool more = p->state == VERBS_UP &&
                (verbs_ring_due(p) || p->sleep.wake_due || verbs_credits_due(p));
    if (!more && rt_list_empty(&p->xfers))
        rt_list_del(&p->work);
    return n;
}

static int work(struct verbs *v)
{
    struct rt_list *pos, *tmp;
    int n = 0;
    rt_list_each_safe (pos, tmp, &v->work)
        n += work_step(v, rt_container(pos, struct verbs_peer, work));
    return n;
}

/* Whether posted requests have neither completed nor failed since the last look. */
static bool has_stood_still(struct verbs_lane *l)
{
    bool still = l->mark_head != l->mark_tail && l->done == l->done_seen;
    l->done_seen = l->done;
    return still;
}

/* A device detects a lost peer only when it sends.  A process that only waits sends nothing, so on
 * an idle connection it sometimes posts an empty write.  A posted request may also never complete:
 * a device retries without limit while the peer has no buffers (because it is not calling MPI), or
 * with verbs_retry 7.  Then the peer is pinged, as during connection setup, on a rail whose
 * requests do not complete. */
static void look_after(struct verbs_peer *p)
{
    const struct verbs_lane *still = NULL;
    for (int i = 0; i < p->nlanes; i++)
        still = has_stood_still(&p->lanes[i]) ? &p->lanes[i] : still;
    if (!still)
        p->live.stuck = 0;
    else if (p->live.stuck++ < LOOKS)
        verbs_alive_ask(still);
    else
        verbs_peer_fail(p, -RT_EPEER,
                        "requests on %s port %d do not complete, and the process has not "
                        "answered for %d s: its host is frozen, or the link is down",
                        still->rail->ib->dev, still->rail->ib->port, cfg.net_timeout_s);
    if (p->state == VERBS_UP && p->lanes[0].mark_head == p->lanes[0].mark_tail)
        verbs_lane_flush(&p->lanes[0]);
}

/* False: there is no room for a ping now. */
static bool may_ask(const struct verbs_peer *p)
{
    for (int i = 0; i < p->nlanes; i++)
        if (!verbs_dgram_has_room(p->lanes[i].rail->dgram, 1))
            return false;
    return true;
}

static int setup_progress(struct verbs *v)
{
    int n = verbs_handshake_progress(v);
    return v->cm ? n + verbs_cm_progress(v) : n;
}

static void keep_alive(struct verbs *v)
{
    uint64_t now = rt_now_ns(), pause = (uint64_t)cfg.net_timeout_s * 1000000000u / LOOKS;
    if (now < v->alive_ns)
        return;
    setup_progress(v); /* pongs that have arrived since the last look */
    for (int i = 0; i < VERBS_BUCKETS; i++)
        for (struct verbs_peer *p = v->peers[i]; p; p = p->next) {
            if (p->state != VERBS_UP || p->bye.theirs_ns || now < p->live.look_ns)
                continue;
            if (!may_ask(p))
                return; /* the remaining peers the next time */
            p->live.look_ns = now + pause;
            look_after(p);
        }
    v->alive_ns = now + pause;
}

static int verbs_progress(struct btl *b)
{
    struct verbs *v = (struct verbs *)b;
    struct rt_list *pos, *tmp;
    int n = 0;
    rt_list_each_safe (pos, tmp, &v->rings)
        n += verbs_ring_drain(rt_container(pos, struct verbs_peer, ringing), DRAIN_MAX);
    for (int i = 0; v->nlanes && i < v->nrails; i++)
        n += verbs_rail_poll(&v->rails[i]);
    if (!rt_list_empty(&v->work))
        n += work(v);
    if (rt_unlikely(rt_ib_nflushes))
        n += rt_ib_flush_progress();
    v->polls++;
    if (!rt_list_empty(&v->asking) || v->polls % SETUP_EVERY == 0)
        n += setup_progress(v);
    if (n == 0 && v->nlanes && v->polls % ALIVE_EVERY == 0)
        keep_alive(v);
    return n;
}

/* Polls the ring first; if it is empty, everything else, because sends need completions and
 * credits. */
static int verbs_poll(struct btl_peer *peer)
{
    struct verbs_peer *p = (struct verbs_peer *)peer;
    int n = p->rx.state == VERBS_RING_ON ? verbs_ring_drain(p, DRAIN_MAX) : 0;
    return n ? n : verbs_progress(p->base.btl);
}

/* Completions make events.  Writes into rings do not, so each writer must be notified first; this
 * process can sleep only after that. */
static int verbs_sleep_fd(struct btl *b, int *limit_us)
{
    struct verbs *v = (struct verbs *)b;
    struct rt_list *pos;
    bool ready = rt_ib_nflushes == 0; /* flushes make no events */
    rt_list_each (pos, &v->rings)
        ready = verbs_arm(rt_container(pos, struct verbs_peer, ringing)) && ready;
    if (!ready)
        return -RT_EAGAIN;
    *limit_us = *limit_us < TIMERS_US ? *limit_us : TIMERS_US;
    for (int i = 0; i < v->nrails; i++) {
        verbs_events_take(v->rails[i].chan); /* discards old events: progress() will handle
                                              * everything */
        if (ibv_req_notify_cq(v->rails[i].cq, 0) || verbs_handshake_arm(v, i))
            return -RT_EAGAIN;
    }
    return v->sleep_fd;
}

static bool wakes(struct verbs *v, int fd)
{
    struct epoll_event e = { .events = EPOLLIN };
    return epoll_ctl(v->sleep_fd, EPOLL_CTL_ADD, fd, &e) == 0;
}

static int sleep_open(struct verbs *v)
{
    v->sleep_fd = epoll_create1(EPOLL_CLOEXEC);
    bool good = v->sleep_fd >= 0 && (!v->cm || wakes(v, verbs_cm_fd(v)));
    for (int i = 0; i < v->nrails && good; i++) {
        const struct verbs_rail *r = &v->rails[i];
        good = wakes(v, r->chan->fd) && (!r->cm || wakes(v, verbs_dgram_fd(r->dgram)));
    }
    if (good)
        return 0;
    log_error(BTL, "epoll descriptor: %m");
    return -RT_ESYS;
}

/* ---- opening and closing ---- */

static bool unsent(const struct verbs_peer *p)
{
    for (int i = 0; i < p->nlanes; i++)
        if (p->lanes[i].posted != p->lanes[i].done)
            return true;
    return false;
}

/* Sends the goodbye, followed by a request whose completion shows that all earlier requests are
 * done.  True: no data of this process are in flight any more, or the peer does not wait for them.
 * A peer that has sent its own goodbye gets one, too, so that it does not wait for an
 * acknowledgement that is lost with the queue pair; that peer may have gone, so the wait is
 * limited.  A peer that has not sent a goodbye may be one that is not calling MPI and takes the
 * data later; if it has ended instead, keep_alive() detects this. */
static bool peer_leave(struct verbs_peer *p, uint64_t now)
{
    const struct verbs *v = verbs_of(p);
    struct verbs_lane *l = &p->lanes[0];
    if (p->state != VERBS_UP)
        return true;
    struct verbs_goodbye *g = &p->bye;
    if (g->leave_ns != v->leave_ns) {
        g->leave_ns = v->leave_ns;
        g->wanted = l->posted;
    }
    if (l->posted != g->ours_at && verbs_lane_has_room(l, BYE_ROOM) &&
        verbs_send_ctl(p, VERBS_CTL_BYE, NULL, 0) == 0) {
        verbs_lane_flush(l);
        g->ours_at = l->posted;
    }
    /* iWARP completes requests whose data the peer may not have yet; closing would lose these
     * data. */
    bool there = !l->rail->ib->iwarp || verbs_all_taken(p);
    if (l->posted == g->ours_at && !unsent(p) && there)
        return true;
    uint64_t both = g->theirs_ns > v->leave_ns ? g->theirs_ns : v->leave_ns;
    return g->theirs_ns && now - both > PATIENCE_NS;
}

static int verbs_leave(struct btl *b)
{
    struct verbs *v = (struct verbs *)b;
    uint64_t now = rt_now_ns();
    bool all = true;
    if (!v->leave_ns)
        v->leave_ns = now;
    for (int i = 0; i < VERBS_BUCKETS; i++)
        for (struct verbs_peer *p = v->peers[i]; p; p = p->next)
            all = peer_leave(p, now) && all;
    if (!all)
        return -RT_EAGAIN;
    v->leave_ns = 0;
    return 0;
}

static void verbs_close(struct btl *b)
{
    struct verbs *v = (struct verbs *)b;
    v->closing = true;
    for (int i = 0; i < VERBS_BUCKETS; i++)
        for (struct verbs_peer *p = v->peers[i], *next; p; p = next) {
            next = p->next;
            verbs_cm_lanes_close(p);
            verbs_lanes_free(p);
            verbs_xfers_free(p);
            free(p);
        }
    verbs_mems_free(v);
    verbs_alive_close(v);
    verbs_cm_close(v);
    verbs_handshake_close(v);
    if (v->sleep_fd >= 0)
        close(v->sleep_fd);
    verbs_rails_close(v);
    free(v->lanes);
    free(v->spare_xfer);
    free(v);
}

static void caps_fill(struct verbs *v)
{
    uint32_t rate = 0, rd = 16;
    for (int i = 0; i < v->nrails; i++) {
        const struct rt_ib_rail *ib = v->rails[i].ib;
        uint32_t most = (uint32_t)(ib->attr.max_qp_init_rd_atom < ib->attr.max_qp_rd_atom
                                       ? ib->attr.max_qp_init_rd_atom
                                       : ib->attr.max_qp_rd_atom);
        rate += ib->mb_per_s ? ib->mb_per_s : 1;
        rd = most && most < rd ? most : rd;
        rt_ib_addr(ib, &v->addr.rails[i].at);
    }
    v->addr.magic = VERBS_MAGIC;
    v->addr.version = VERBS_VERSION;
    v->addr.nrails = (uint8_t)v->nrails;
    v->addr.qps = (uint8_t)cfg.verbs_qps;
    v->addr.rd_atomic = (uint8_t)rd;
    v->base.ops = &btl_verbs_ops;
    v->base.caps = (struct btl_caps){ .flags = BTL_PUT | BTL_GET | BTL_WHOLE | BTL_WINDOW,
                                      .send_mem = RT_MEM_HOST_BITS,
                                      .rma_mem = RT_MEM_HOST_BITS | rt_ib_gpu_mem(),
                                      .eager_max = (size_t)cfg.verbs_eager,
                                      .key_len = BTL_KEY_MAX,
                                      .latency_ns = 1500,
                                      .mb_per_s = rate,
                                      .put_mb_per_s = rate,
                                      .get_mb_per_s = rate };
    if (cfg.verbs_large == VERBS_LARGE_PUT)
        v->base.caps.put_mb_per_s++; /* the two rates only decide which one moves a message */
}

static int setup_open(struct verbs *v)
{
    for (int i = 0; i < v->nrails; i++)
        v->rails[i].cm = verbs_cm_wanted(v->rails[i].ib);
    int err = verbs_handshake_open(v);
    if (!err)
        err = verbs_cm_open(v);
    if (!err)
        err = verbs_alive_open(v);
    return err ? err : sleep_open(v);
}

static int verbs_open(const struct btl_up *up, struct btl **out, int max)
{
    if (max < 1 || rt_boot.size < 2 || !rt_ib_possible())
        return 0;
    struct verbs *v = calloc(1, sizeof *v);
    if (!v)
        return -RT_ENOMEM;
    v->up = *up;
    rt_list_init(&v->work);
    rt_list_init(&v->rings);
    rt_list_init(&v->asking);
    rt_list_init(&v->held);
    rt_list_init(&v->mems);
    v->sleep_fd = -1;
    int n = verbs_rails_open(v);
    int err = n > 0 ? setup_open(v) : n;
    if (n <= 0 || err < 0) {
        verbs_close(&v->base);
        return err;
    }
    caps_fill(v);
    *out = &v->base;
    return 1;
}

static int verbs_address(struct btl *b, void *buf, size_t len)
{
    const struct verbs *v = (const struct verbs *)b;
    if (len >= sizeof v->addr)
        memcpy(buf, &v->addr, sizeof v->addr);
    return (int)sizeof v->addr;
}

static bool addr_sane(const struct verbs_addr *a, size_t len)
{
    return len == sizeof *a && a->magic == VERBS_MAGIC && a->version == VERBS_VERSION &&
           a->nrails >= 1 && a->nrails <= VERBS_RAILS && a->qps >= 1 && a->rd_atomic >= 1;
}

static int verbs_add_peer(struct btl *b, const struct rt_proc *proc, const void *addr, size_t len,
                          struct btl_peer **out)
{
    struct verbs *v = (struct verbs *)b;
    struct verbs_peer *p;
    struct verbs_addr a;
    if (proc->ns != 0 || proc->rank >= (uint32_t)rt_boot.size ||
        proc->rank == (uint32_t)rt_boot.rank)
        return -RT_EUNREACH;
    if (addr) {
        memcpy(&a, addr, len < sizeof a ? len : sizeof a);
        if (!addr_sane(&a, len)) {
            log_error(BTL,
                      "rank %u has another version of btl/verbs; use one Weft in all processes",
                      proc->rank);
            return -RT_EUNREACH;
        }
        if (!verbs_rails_reach(&v->addr, &a)) {
            if (!a.rails[0].cm_port != !v->addr.rails[0].cm_port)
                log_warn(BTL, "rank %u connects %s: WEFT_VERBS_CONNECT differs; no RDMA to it",
                         proc->rank, a.rails[0].cm_port ? "by rdma_cm" : "without rdma_cm");
            return -RT_EUNREACH;
        }
    }
    int err = verbs_peer_get(v, *proc, addr != NULL, &p);
    if (err < 0)
        return err == -RT_ENOENT ? -RT_EUNREACH : err;
    if (addr && !p->has_addr && p->state == VERBS_NEW) {
        p->addr = a;
        p->has_addr = true;
    }
    *out = &p->base;
    return 0;
}

/* The connection stays and is used if the peer is added again. */
static void verbs_del_peer(struct btl_peer *peer)
{
    verbs_xfers_drop((struct verbs_peer *)peer);
    peer->up = NULL;
}

static bool verbs_connected(const struct btl_peer *peer)
{
    return ((const struct verbs_peer *)peer)->state != VERBS_NEW;
}

const struct btl_ops btl_verbs_ops = {
    .name = "verbs",
    .help = "RDMA by InfiniBand or RoCE",
    .remote = true,
    .open = verbs_open,
    .close = verbs_close,
    .address = verbs_address,
    .add_peer = verbs_add_peer,
    .del_peer = verbs_del_peer,
    .connected = verbs_connected,
    .send = verbs_send,
    .mem_reg = verbs_mem_reg,
    .window_reg = verbs_window_reg,
    .mem_dereg = verbs_mem_dereg,
    .mem_key = verbs_mem_key,
    .attach = verbs_attach,
    .detach = verbs_detach,
    .put = verbs_put,
    .get = verbs_get,
    .progress = verbs_progress,
    .poll = verbs_poll,
    .sleep_fd = verbs_sleep_fd,
    .leave = verbs_leave,
};
