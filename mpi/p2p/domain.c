/* SPDX-License-Identifier: BSD-3-Clause */
/* Transports and peers: opens transports, finds processes and connects to them.  Called under the
 * domain's lock. */
#include "mpi/p2p/domain.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "btl/all/all.h"
#include "mpi/base/comm.h"
#include "runtime/base/cfg.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/boot/dead.h"
#include "runtime/boot/jobs.h"
#include "runtime/mem/activity.h"
#include "runtime/mem/deaths.h"
#include "runtime/mem/others.h"

#define ADDRESS_MAX 1024 /* bytes a transport may publish */

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

static int open_transport(struct wm_domain *d, const struct btl_ops *ops)
{
    int n = ops->open(&d->up, d->btl + d->nbtl, WM_BTL_MAX - d->nbtl);
    if (n < 0)
        return n; /* the transport has logged why */
    for (int k = 0; k < n; k++)
        if (btl_check(d->btl[d->nbtl + k]) < 0)
            return -RT_EINTERN;
    if (n && ops->sleep_fd && ops->remote)
        rt_store_relaxed(&d->has_fds, true);
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
    rt_store_relaxed(&d->has_fds, true); /* sleepers find descriptors to poll when they wake up */
    rt_bell_ring_self();
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

void wm_domain_open_apart(struct wm_domain *d)
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

static bool has_died(struct rt_proc p) { return rt_unlikely(rt_dead()) && rt_dead_has(p); }

/* Waits until a rank that is apart has published the addresses of its transports: it finds out that
 * it is apart in its next call that waits or polls, or leaves MPI. */
static void await_apart(struct rt_proc proc)
{
    struct rt_wait_note *note = rt_activity_await(RT_WAIT_OTHER, proc.rank);
    rt_boot_await(proc, APART_KEY);
    rt_activity_end(note, rt_now_ns());
}

void wm_domain_seek_apart(struct wm_domain *d)
{
    rt_node_seek();
    if (!rt_load_acquire(&rt_node.settled) && !has_remote(d))
        (void)rt_boot_put(APART_KEY, "", 1); /* no address follows, so no process waits for one */
}

int wm_domain_open(struct wm_domain *d, const struct btl_ops *const *all)
{
    int err = check_names();
    if (err)
        return err;
    for (int i = 0; all[i]; i++) {
        if (all == btl_all && !btl_wanted(all[i]->name))
            continue;
        if (all[i]->remote && !remote_wanted(all))
            continue;
        err = open_transport(d, all[i]);
        if (err)
            return err;
    }
    if (d->nbtl)
        return publish(d, 0);
    log_error(MPI, "no transport opened; WEFT_BTL is \"%s\"", cfg.btl);
    return -RT_EUNREACH;
}

int wm_domain_open_lane(struct wm_domain *d)
{
    for (int i = 0; i < wm_main_domain->nbtl; i++) {
        const struct btl_ops *ops = wm_main_domain->btl[i]->ops;
        int err = ops->lanes && !is_open(d, ops) ? open_transport(d, ops) : 0;
        if (err)
            return err;
    }
    return 0;
}

/* Local rank of a process that shares memory with this one; -1: it does not. */
static int local_rank(const struct wm_peer *p)
{
    return p->proc.ns == 0 ? rt_node_attached(p->proc.rank) : -1;
}

bool wm_peer_shares_memory(const struct wm_peer *p)
{
    return local_rank(p) >= 0 || rt_others_find(p->proc);
}

bool wm_peer_is_leaving(const struct wm_peer *p)
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

bool wm_peer_has_left(const struct wm_peer *p)
{
    const struct rt_other *o = rt_others_find(p->proc);
    int r = local_rank(p);
    return o ? rt_others_gone(o) : r >= 0 && rt_node_gone(r);
}

bool wm_peer_has_spoken(const struct wm_peer *p)
{
    bool (*connected)(const struct btl_peer *) = p->eager->btl->ops->connected;
    return !connected || connected(p->eager) || !rt_list_empty(&p->pending);
}

static uint32_t proc_hash(struct rt_proc proc)
{
    return (proc.ns * 31u + proc.rank) % WM_PEER_BUCKETS;
}

/* Waits until a process of this job is in MPI_Init. */
static int fetch_address(struct rt_proc proc, const char *key, void **addr, size_t *len)
{
    if (proc.ns)
        return rt_boot_get(proc, key, addr, len, 0);
    struct rt_wait_note *note = rt_activity_await(RT_WAIT_ENTRY, proc.rank);
    int err = rt_boot_get(proc, key, addr, len, 0);
    rt_activity_end(note, rt_now_ns());
    return err;
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
        if (fetch_address(proc, key, &addr, &len) < 0)
            return -RT_EUNREACH; /* the peer did not open this transport */
    }
    int err = b->ops->add_peer(b, &proc, addr, len, out);
    free(addr);
    return err;
}

/* The first transport with messages, in order of preference, that reaches the process. */
static int connect_peer(struct wm_domain *d, struct rt_proc proc, struct btl_peer **out)
{
    bool apart = is_apart(proc); /* may wait, until the process dies */
    if (apart && !has_died(proc)) {
        wm_domain_open_apart(d);
        if (has_remote(d) && !remote_wanted(btl_all))
            await_apart(proc);
    }
    for (int i = 0; i < d->nbtl && !has_died(proc); i++) {
        int err = btl_has_messages(d->btl[i]) ? connect_by(d, i, proc, out) : -RT_EUNREACH;
        if (err != -RT_EUNREACH)
            return err;
    }
    if (has_died(proc))
        return -RT_EPEER;
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
                           .budget = d->budget,
                           .is_self = proc.ns == 0 && proc.rank == (uint32_t)rt_boot.rank,
                           .proc = proc,
                           .next = d->peers[h] };
    rt_list_init(&p->pending);
    rt_list_init(&p->retry);
    rt_list_init(&p->rndv);
    d->peers[h] = p;
    wm_stat_add(&d->stats->peers, 1);
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
        if (rt_unlikely(c->ft.revoked))
            return -RT_EREVOKED;
        int err = wm_domain_peer(c->dom, wm_group_proc(c->remote, rank), &c->peers[rank]);
        if (err < 0)
            return err;
    }
    *out = c->peers[rank];
    return 0;
}
