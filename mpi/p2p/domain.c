/* SPDX-License-Identifier: BSD-3-Clause */
/* The progress domain: opens transports, finds peers and makes progress.  Called under the domain's
 * lock, except create, destroy, rest and resume, which run while no other thread is inside the
 * library. */
#include "mpi/p2p/domain.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "btl/all/all.h"
#include "coll/begin.h"
#include "mpi/p2p/cancel.h"
#include "mpi/p2p/chunks.h"
#include "mpi/p2p/device.h"
#include "mpi/p2p/flow.h"
#include "mpi/base/event.h"
#include "mpi/p2p/part.h"
#include "mpi/p2p/pieces.h"
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
#include "runtime/boot/jobs.h"
#include "runtime/mem/others.h"
#include "runtime/mem/segment.h"

#define ADDRESS_MAX 1024 /* bytes a transport may publish */

/* How long MPI_Finalize waits without any event for messages that no process receives: far longer
 * than a rank is late in its last calls on any machine.  Only an incorrect program waits so
 * long. */
#define DRAIN_NS 5000000000u

struct wm_domain *wm_main_domain;

static bool list_has(const char *list, const char *name, size_t len)
{
    for (const char *p = list; p && *p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
        if (!strncmp(p, name, len) && (p[len] == ',' || !p[len]))
            return true;
    return false;
}

/* cfg.btl: names to use, best first, or "^a,b": all but these. */
static bool btl_wanted(const char *name)
{
    bool all_but = cfg.btl[0] == '^';
    return list_has(cfg.btl + all_but, name, strlen(name)) != all_but;
}

static int check_names(void)
{
    char names[256];
    snprintf(names, sizeof names, "%s", cfg.btl + (cfg.btl[0] == '^'));
    for (char *save, *n = strtok_r(names, ",", &save); n; n = strtok_r(NULL, ",", &save))
        if (!btl_find(n)) {
            char known[128] = "";
            for (int i = 0; btl_all[i]; i++)
                snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "",
                         btl_all[i]->name);
            log_error(MPI,
                      "WEFT_BTL names the transport \"%s\", which does not exist; known are %s", n,
                      known);
            return -RT_EINVAL;
        }
    return 0;
}

/* The key has the transport's name and the instance's number among those of that name: other
 * processes may have opened other transports before this one. */
static void address_key(char *key, size_t len, const struct wm_domain *d, int i)
{
    int n = 0;
    for (int k = 0; k < i; k++)
        n += d->btl[k]->ops == d->btl[i]->ops;
    snprintf(key, len, "weft.%s.%d", d->btl[i]->ops->name, n);
}

/* Whether transports that reach other hosts are needed: there are other hosts, or no other
 * transport is wanted that carries messages between processes. */
static bool remote_wanted(const struct btl_ops *const *all)
{
    if (rt_boot.size < 2)
        return false; /* processes of other jobs: wm_domain_open_jobs() */
    if (rt_boot.nnodes > 1)
        return true;
    for (int i = 0; all[i]; i++)
        if (!all[i]->remote && all[i]->send && strcmp(all[i]->name, "self") &&
            (all != btl_all || btl_wanted(all[i]->name)))
            return false;
    return true;
}

/* The addresses of the transports from `first` on. */
static int publish(struct wm_domain *d, int first)
{
    bool any = false;
    for (int i = first; i < d->nbtl; i++) {
        char blob[ADDRESS_MAX], key[64];
        int len = d->btl[i]->ops->address ? d->btl[i]->ops->address(d->btl[i], blob, sizeof blob)
                                          : 0;
        if (len < 0)
            return len;
        if (len == 0)
            continue;
        address_key(key, sizeof key, d, i);
        int err = rt_boot_put(key, blob, (size_t)len);
        if (err < 0)
            return err;
        any = true;
    }
    return any ? rt_boot_commit() : 0;
}

/* Local rank of a process that shares memory with this one; -1: it does not. */
static int local_rank(const struct wm_peer *p)
{
    return p->proc.ns == 0 ? rt_node_attached(p->proc.rank) : -1;
}

/* Whether the process publishes its end in shared memory. */
static bool shares_memory(const struct wm_peer *p)
{
    return local_rank(p) >= 0 || rt_others_find(p->proc);
}

static bool is_leaving(const struct wm_peer *p)
{
    const struct rt_other *o = rt_others_find(p->proc);
    int r = local_rank(p);
    return o ? rt_others_is_leaving(o) : r < 0 ? p->is_last : rt_node_is_leaving(r);
}

bool wm_peer_is_last(const struct wm_peer *p)
{
    const struct rt_other *o = rt_others_find(p->proc);
    int r = local_rank(p);
    return o       ? rt_others_is_leaving(o) || rt_others_gone(o)
           : r < 0 ? p->is_last
                   : rt_node_is_leaving(r) || rt_node_gone(r);
}

static void on_down(void *arg, struct btl_peer *bp, int err)
{
    struct wm_peer *p = bp->up;
    if (!p || p->err)
        return;
    if (wm_peer_is_last(p))
        wm_cancel_left(p);
    /* A process that has published its end may leave.  Requests that wait for it then report their
     * error themselves, unless the program still cancels them. */
    bool leaving = is_leaving(p), normal = err == 0;
    bool idle = rt_list_empty(&p->pending) && rt_list_empty(&p->rndv);
    bool ended = idle ? leaving || normal : leaving && normal;
    err = normal ? -RT_EPEER : err;
    log_at(MPI, ended ? RT_LOG_INFO : RT_LOG_ERROR,
           "lost contact with rank %u%s: %s; operations with it fail from now on", p->proc.rank,
           rt_boot_of_job(p->proc.ns), rt_err_text(err));
    p->err = err;
    p->is_last = ended || leaving;
    p->blocked = true;
    wm_flow_hold(p);
    if (rt_unlikely(!normal && wm_event_wanted(WM_EVENT_PEER_LOST)))
        wm_event_raise(WM_EVENT_PEER_LOST,
                       &(struct wm_event_data){ { (int)p->proc.rank, (int)p->proc.ns, 0 }, 0 });
    wm_rndv_fail_peer(p, err);
    wm_recv_fail_peer(arg, p, err);
    wm_part_fail_peer(arg, p, err);
    struct wm_domain *d = arg;
    if (d->rma_down)
        d->rma_down(d, p);
}

static int open_transport(struct wm_domain *d, const struct btl_ops *ops)
{
    struct btl_up up = { .recv = wm_on_recv, .down = on_down, .arg = d };
    int n = ops->open(&up, d->btl + d->nbtl, WM_BTL_MAX - d->nbtl);
    if (n < 0)
        return n; /* the transport has logged why */
    for (int k = 0; k < n; k++)
        if (btl_check(d->btl[d->nbtl + k]) < 0)
            return -RT_EINTERN;
    d->has_fds = d->has_fds || (n && ops->sleep_fd && ops->remote);
    d->nbtl += n;
    return 0;
}

static bool is_open(const struct wm_domain *d, const struct btl_ops *ops)
{
    for (int i = 0; i < d->nbtl; i++)
        if (d->btl[i]->ops == ops)
            return true;
    return false;
}

static int preference(const struct btl *b)
{
    int i = 0;
    while (btl_all[i] && btl_all[i] != b->ops)
        i++;
    return i;
}

/* Puts transports that were opened later in their place. */
static void sort_transports(struct wm_domain *d)
{
    for (int i = 1; i < d->nbtl; i++)
        for (int k = i; k > 0 && preference(d->btl[k]) < preference(d->btl[k - 1]); k--) {
            struct btl *b = d->btl[k];
            d->btl[k] = d->btl[k - 1];
            d->btl[k - 1] = b;
        }
}

int wm_domain_open_jobs(struct wm_domain *d)
{
    bool any = false, segment = rt_others_open();
    for (int i = 0; btl_all[i]; i++) {
        if (!btl_all[i]->other_jobs || !btl_wanted(btl_all[i]->name))
            continue;
        int first = d->nbtl, err = is_open(d, btl_all[i]) ? 0 : open_transport(d, btl_all[i]);
        if (!err)
            err = publish(d, first);
        if (!err && segment && is_open(d, btl_all[i]) && !btl_all[i]->remote)
            err = rt_others_publish();
        if (err)
            return err;
        any = any || is_open(d, btl_all[i]);
    }
    d->has_fds = true;
    sort_transports(d);
    if (!any)
        log_error(MPI,
                  "no transport that reaches processes of other jobs is open: shm and tcp do, and "
                  "WEFT_BTL is \"%s\"",
                  cfg.btl);
    return any ? 0 : -RT_EUNREACH;
}

/* Committed with the addresses of transports that were opened for ranks that are apart. */
#define APART_KEY "weft.apart"

/* Ranks of this host do not share memory with this one: they are reached like those of other hosts.
 */
static void open_apart(struct wm_domain *d)
{
    int first = d->nbtl, err = 0;
    d->napart = rt_load_relaxed(&rt_node.napart);
    for (int i = 0; btl_all[i] && !err; i++)
        if (btl_all[i]->remote && btl_wanted(btl_all[i]->name) && !is_open(d, btl_all[i]))
            err = open_transport(d, btl_all[i]);
    if (!err && d->nbtl > first)
        err = rt_boot_put(APART_KEY, "", 1);
    if (!err)
        err = publish(d, first);
    if (err)
        log_error(MPI, "could not open the transports to ranks of %s that do not share memory: %s",
                  rt_boot.host, rt_err_text(err));
}

static bool has_remote(const struct wm_domain *d)
{
    for (int i = 0; i < d->nbtl; i++)
        if (d->btl[i]->ops->remote)
            return true;
    return false;
}

static bool is_apart(struct rt_proc p)
{
    return p.ns == 0 && rt_node.base && rt_boot_local(p.rank) >= 0 && rt_node_local(p.rank) < 0;
}

/* Waits until a rank that is apart has published the addresses of its transports: it finds out that
 * it is apart in its next call that waits or polls, or leaves MPI. */
static void await_apart(struct rt_proc proc)
{
    struct rt_idle idle = { 0 };
    void *val = NULL;
    size_t len;
    while (rt_boot_get(proc, APART_KEY, &val, &len, 0) == -RT_ENOENT)
        rt_idle_pause(&idle, 1);
    free(val);
}

static int open_transports(struct wm_domain *d, const struct btl_ops *const *all)
{
    for (int i = 0; all[i]; i++) {
        if (all == btl_all && !btl_wanted(all[i]->name))
            continue;
        if (all[i]->remote && !remote_wanted(all))
            continue;
        int err = open_transport(d, all[i]);
        if (err)
            return err;
    }
    if (d->nbtl)
        return 0;
    log_error(MPI, "no transport opened; WEFT_BTL is \"%s\"", cfg.btl);
    return -RT_EUNREACH;
}

int wm_domain_create_over(const struct btl_ops *const *all, struct wm_domain **out)
{
    struct wm_domain *d = aligned_alloc(RT_CACHE_LINE, sizeof *d); /* the type is aligned alike */
    if (!d)
        return -RT_ENOMEM;
    memset(d, 0, sizeof *d);
    rt_lock_init(&d->lock);
    rt_list_init(&d->tasks);
    rt_list_init(&d->retry);
    rt_list_init(&d->streams);
    rt_list_init(&d->staged);
    rt_list_init(&d->part_recvs);
    rt_list_init(&d->part_inits);
    rt_list_init(&d->part_sends);
    rt_list_init(&d->sleepers);
    int err = wm_req_init();
    if (!err)
        err = check_names();
    if (!err)
        err = wm_match_init(&d->match);
    if (!err)
        err = open_transports(d, all);
    if (!err)
        err = publish(d, 0);
    if (err) {
        wm_domain_destroy(d);
        return err;
    }
    *out = d;
    return 0;
}

int wm_domain_create(struct wm_domain **out) { return wm_domain_create_over(btl_all, out); }

/* A process with which something is unfinished, preferably one that may still do its part: queued
 * messages, started rendezvous, and receives whose requests were freed. */
static const struct wm_peer *unfinished(const struct wm_domain *d)
{
    const struct wm_peer *found = NULL;
    for (int i = 0; i < WM_PEER_BUCKETS; i++)
        for (const struct wm_peer *p = d->peers[i]; p; p = p->next) {
            if (p->err || (rt_list_empty(&p->pending) && rt_list_empty(&p->rndv)))
                continue;
            if (!wm_peer_is_last(p))
                return p;
            found = p;
        }
    const struct wm_peer *sender = wm_recv_freed(d);
    return sender ? sender : found;
}

/* Whether there is a connection to the process, or a message waits for one.  A receive or a probe
 * alone makes none, so this process does not notice the end of such a process. */
static bool has_spoken(const struct wm_peer *p)
{
    bool (*connected)(const struct btl_peer *) = p->eager->btl->ops->connected;
    return !connected || connected(p->eager) || !rt_list_empty(&p->pending);
}

static bool is_silent(const struct wm_peer *p) { return !p->err && !p->is_self && !has_spoken(p); }

/* `ranges` is in ascending order: "0-3,7-7". */
static bool in_ranges(const char *ranges, uint32_t rank)
{
    for (char *at = (char *)(uintptr_t)ranges; *at;) {
        uint32_t first = (uint32_t)strtoul(at, &at, 10);
        uint32_t last = *at == '-' ? (uint32_t)strtoul(at + 1, &at, 10) : first;
        if (rank <= last)
            return rank >= first;
        at += *at == ',';
    }
    return false;
}

/* Makes a connection by a message that changes nothing.  No mpirun can be asked about a process of
 * another job, but its kernel refuses the connection if the process has ended. */
static void greet(struct wm_domain *d, struct wm_peer *p)
{
    struct wm_last msg = { false };
    wm_try_ctl(d, p, wm_hdr(WM_LAST, 0, 0, 0), &msg, sizeof msg);
}

/* The end of a process is otherwise noticed by its connection, or in shared memory.  A process that
 * has sent anything was connected to this one before it ended. */
void wm_domain_look_for_ended(struct wm_domain *d)
{
    char *ranges = NULL;
    bool any = false;
    for (int i = 0; i < WM_PEER_BUCKETS; i++)
        for (struct wm_peer *p = d->peers[i]; p; p = p->next) {
            any = any || (p->proc.ns == 0 && is_silent(p));
            if (p->proc.ns && is_silent(p) && (p->probed || wm_recv_names_peer(d, p)))
                greet(d, p);
        }
    if (!any)
        return;
    rt_unlock_plain(&d->lock);
    int err = rt_boot_ended_ranks(&ranges);
    rt_lock(&d->lock);
    if (err < 0)
        return;
    wm_progress(d); /* may find the connection of a process that has just ended */
    for (int i = 0; i < WM_PEER_BUCKETS; i++)
        for (struct wm_peer *p = d->peers[i]; p; p = p->next)
            if (p->proc.ns == 0 && is_silent(p) && in_ranges(ranges, p->proc.rank))
                on_down(d, p->eager, 0);
    free(ranges);
}

void wm_domain_report_died(struct wm_domain *d, struct rt_proc to, struct rt_proc dead)
{
    struct rt_name name = rt_boot_name(dead);
    struct wm_peer *p;
    if (wm_domain_peer(d, to, &p) >= 0 && !p->is_self)
        wm_try_ctl(d, p, wm_hdr(WM_CONTROL, 0, WM_DIED, 0), &name, sizeof name);
}

void wm_domain_died(struct wm_domain *d, struct rt_proc proc)
{
    struct wm_peer *p;
    if (wm_domain_peer(d, proc, &p) >= 0 && !p->is_self && !has_spoken(p))
        on_down(d, p->eager, -RT_EPEER);
}

/* Publishes that this process is in MPI_Finalize, or uses MPI again: on this host in the segment,
 * to other hosts by a message to each process with which there was communication. */
static void publish_leaving(struct wm_domain *d, bool leaving)
{
    struct wm_last msg = { leaving };
    if (leaving)
        rt_node_publish_leaving();
    for (int i = 0; i < WM_PEER_BUCKETS; i++)
        for (struct wm_peer *p = d->peers[i]; p; p = p->next)
            if (!p->err && !p->is_self && !shares_memory(p) && has_spoken(p))
                wm_try_ctl(d, p, wm_hdr(WM_LAST, 0, 0, 0), &msg, sizeof msg);
}

/* A correct program has completed its requests, so only control messages and freed requests are
 * left here; the peers do their part at their next MPI calls, however late.  An incorrect program
 * must not hang: a peer that is in MPI_Finalize itself, or has gone, takes nothing more after
 * DRAIN_NS without an event. */
static void drain(struct wm_domain *d)
{
    struct wm_wait wait = { 0 };
    uint64_t last = rt_now_ns();
    const struct wm_peer *p;
    publish_leaving(d, true);
    wm_progress(d); /* delivers what this process has sent to itself */
    while ((p = unfinished(d))) {
        if (wm_progress(d)) {
            wait.idle = (struct rt_idle){ 0 };
            last = rt_now_ns();
        } else if (rt_now_ns() - last > DRAIN_NS && wm_peer_is_last(p)) {
            log_warn(
                MPI,
                "MPI_Finalize leaves a message to or from rank %u unfinished: a send or a freed "
                "receive without its match, or a request that was never completed",
                p->proc.rank);
            break;
        } else {
            wm_domain_idle(d, &wait);
        }
    }
    wm_domain_left(d, &wait);
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
    struct rt_idle idle = { 0 };
    while (!may_leave(d)) {
        if (wm_progress(d))
            continue;
        rt_unlock(&d->lock);
        rt_idle_pause(&idle, 1);
        rt_lock(&d->lock);
    }
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
        for (struct wm_preq *q = d->spare[kind], *next; q; q = next) {
            next = q->r.arg;
            q->r.obj.handle = (uint32_t)q->r.err;
            rt_slab_free(&wm_request_slab, q);
        }
    for (struct wm_stored *s = d->free_stored, *next; s; s = next) {
        next = s->next_free;
        rt_reserve_free(s);
    }
    d->spare[0] = d->spare[1] = NULL;
    d->free_stored = NULL;
}

void wm_domain_rest(struct wm_domain *d)
{
    rt_lock(&d->lock);
    rt_node_seek();
    if (!rt_load_acquire(&rt_node.settled) && !has_remote(d))
        (void)rt_boot_put(APART_KEY, "", 1); /* no address follows, so no process waits for one */
    drain(d);
    see_off(d);
    wm_dev_rest(d);
    spare_fini(d);
    wm_req_fini();
    rt_unlock(&d->lock);
}

int wm_domain_resume(struct wm_domain *d)
{
    int err = wm_req_init();
    if (err)
        wm_req_fini();
    rt_lock(&d->lock);
    if (!err)
        publish_leaving(d, false);
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
    wm_dev_fini(d);
    wm_part_fini(d);
    wm_req_fini();
    unexpected_fini(d);
    if (d->match.posted)
        wm_match_fini(&d->match);
    rt_lock_fini(&d->lock);
    free(d);
}

static uint32_t proc_hash(struct rt_proc proc)
{
    return (proc.ns * 31u + proc.rank) % WM_PEER_BUCKETS;
}

/* Connects by one transport. -RT_EUNREACH: it does not reach the process. */
static int connect_by(struct wm_domain *d, int i, struct rt_proc proc, struct btl_peer **out)
{
    struct btl *b = d->btl[i];
    void *addr = NULL;
    size_t len = 0;
    char blob[ADDRESS_MAX];
    if (b->ops->address && b->ops->address(b, blob, sizeof blob) > 0) {
        char key[64];
        address_key(key, sizeof key, d, i);
        if (rt_boot_get(proc, key, &addr, &len, 0) < 0)
            return -RT_EUNREACH; /* the peer did not open this transport */
    }
    int err = b->ops->add_peer(b, &proc, addr, len, out);
    free(addr);
    return err;
}

/* The first transport with messages, in order of preference, that reaches the process. */
static int connect_peer(struct wm_domain *d, struct rt_proc proc, struct btl_peer **out)
{
    if (is_apart(proc)) {
        open_apart(d);
        if (has_remote(d) && !remote_wanted(btl_all))
            await_apart(proc);
    }
    for (int i = 0; i < d->nbtl; i++) {
        int err = btl_has_messages(d->btl[i]) ? connect_by(d, i, proc, out) : -RT_EUNREACH;
        if (err != -RT_EUNREACH)
            return err;
    }
    char tried[128] = "";
    for (int i = 0; i < d->nbtl; i++)
        snprintf(tried + strlen(tried), sizeof tried - strlen(tried), "%s%s", i ? ", " : "",
                 d->btl[i]->ops->name);
    log_error(MPI, "no transport leads to rank %u%s%s; tried %s; see WEFT_BTL", proc.rank,
              rt_boot_of_job(proc.ns),
              is_apart(proc) ? ", which is on this host but does not share its memory" : "", tried);
    return -RT_EUNREACH;
}

struct btl_peer *wm_domain_find_dev(struct wm_domain *d, struct wm_peer *p)
{
    p->dev_looked = true;
    for (int i = 0; i < d->nbtl && !p->dev; i++)
        if (!btl_has_messages(d->btl[i]) && connect_by(d, i, p->proc, &p->dev) < 0)
            p->dev = NULL;
    if (p->dev)
        p->dev->up = p;
    else if (!p->is_self && p->eager->btl->caps.rma_mem & RT_MEM_DEVICE_BITS)
        p->dev = p->eager;
    return p->dev;
}

void wm_domain_drop_dev(struct wm_peer *p)
{
    if (p->dev && !wm_dev_by_net(p))
        p->dev->btl->ops->del_peer(p->dev);
    p->dev = NULL;
    p->dev_looked = false;
}

bool wm_domain_part(struct wm_domain *d, uint32_t ns)
{
    bool all = true;
    for (int i = 0; i < WM_PEER_BUCKETS; i++)
        for (struct wm_peer *p = d->peers[i]; p; p = p->next) {
            bool may = rt_list_empty(&p->rndv); /* else `dev` still has registrations to end */
            if (p->proc.ns == ns && may)
                wm_domain_drop_dev(p);
            all = all && (p->proc.ns != ns || may);
        }
    return all;
}

struct wm_peer *wm_domain_known(struct wm_domain *d, struct rt_proc proc)
{
    for (struct wm_peer *p = d->peers[proc_hash(proc)]; p; p = p->next)
        if (p->proc.rank == proc.rank && p->proc.ns == proc.ns)
            return p;
    return NULL;
}

static int make_peer(struct wm_domain *d, struct rt_proc proc, struct btl_peer *bp,
                     struct wm_peer **out)
{
    uint32_t h = proc_hash(proc);
    struct wm_peer *p = aligned_alloc(RT_CACHE_LINE, (sizeof *p + RT_CACHE_LINE - 1) &
                                                         ~(size_t)(RT_CACHE_LINE - 1));
    if (!p) {
        bp->btl->ops->del_peer(bp);
        return -RT_ENOMEM;
    }
    *p = (struct wm_peer){ .eager = bp,
                           .send = bp->btl->ops->send,
                           .poll = bp->btl->ops->poll,
                           .eager_max = (uint32_t)bp->btl->caps.eager_max,
                           .budget = wm_flow_budget(),
                           .is_self = proc.ns == 0 && proc.rank == (uint32_t)rt_boot.rank,
                           .proc = proc,
                           .next = d->peers[h] };
    rt_list_init(&p->pending);
    rt_list_init(&p->retry);
    rt_list_init(&p->rndv);
    d->peers[h] = p;
    wm_stat_add(&d->stats.peers, 1);
    bp->up = p;
    *out = p;
    return 0;
}

int wm_domain_peer(struct wm_domain *d, struct rt_proc proc, struct wm_peer **out)
{
    struct btl_peer *bp;
    *out = wm_domain_known(d, proc);
    if (*out)
        return 0;
    int err = connect_peer(d, proc, &bp);
    return err < 0 ? err : make_peer(d, proc, bp, out);
}

int wm_domain_adopt(struct wm_domain *d, struct btl_peer *bp, struct wm_peer **out)
{
    *out = wm_domain_known(d, bp->proc);
    if (*out) {
        log_error(MPI,
                  "rank %u connects by %s, but this rank is connected to it by %s; set WEFT_BTL "
                  "to the same value on all hosts",
                  bp->proc.rank, bp->btl->ops->name, (*out)->eager->btl->ops->name);
        return -RT_EUNREACH;
    }
    int err = bp->btl->ops->add_peer(bp->btl, &bp->proc, NULL, 0, &bp);
    return err < 0 ? err : make_peer(d, bp->proc, bp, out);
}

int wm_comm_peer(struct wm_comm *c, int rank, struct wm_peer **out)
{
    if (!c->peers[rank]) {
        int err = wm_domain_peer(c->dom, wm_group_proc(c->remote, rank), &c->peers[rank]);
        if (err < 0)
            return err;
    }
    *out = c->peers[rank];
    return 0;
}

static int advance_tasks(struct wm_domain *d)
{
    int n = 0;
    struct rt_list *l, *before = &d->tasks;
    while ((l = before->next) != &d->tasks) {
        rt_list_del(l); /* before advancing: the end of a task may free its memory */
        if (coll_task_advance(rt_container(l, struct coll_task, link))) {
            n++;
        } else if (rt_list_empty(l)) { /* it does not wait in another list */
            rt_list_append(before->next, l);
            before = l;
        }
    }
    return n;
}

int wm_progress_copies(struct wm_domain *d)
{
    d->gathers_fins = true;
    int n = rt_gpu_progress();
    d->gathers_fins = false;
    if (d->nfins)
        wm_fins_flush(d);
    return n;
}

int wm_progress(struct wm_domain *d)
{
    int n = rt_unlikely(rt_gpu_nactive) ? wm_progress_copies(d) : 0;
    for (int i = 0; i < d->nbtl; i++)
        n += d->btl[i]->ops->progress(d->btl[i]);
    if (rt_unlikely(!rt_list_empty(&d->retry)))
        n += wm_retry(d);
    if (rt_unlikely(!rt_list_empty(&d->streams)))
        n += wm_stream_progress(d);
    if (rt_unlikely(d->staged_room))
        wm_pieces_resume(d);
    if (!rt_list_empty(&d->tasks))
        n += advance_tasks(d);
    if (rt_unlikely(d->cancels) && !n)
        wm_cancel_look(d);
    if (rt_unlikely(d->napart != rt_load_relaxed(&rt_node.napart)))
        open_apart(d);
    return n;
}

void wm_domain_add_task(struct wm_domain *d, struct coll_task *k)
{
    k->home = &d->tasks;
    rt_list_append(k->home, &k->link);
}
