/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the counts of the domains come together, and what outlives them.  Any thread; the list of
 * domains and the sums of those that have gone are under the interface's mutex. */
#include "mpi/tool/stats.h"
#include "mpi/p2p/domain.h"
#include "mpi/tool/tool.h"

static struct wm_domain *live; /* linked by stats_next */
static struct wm_stats past;

static uint64_t at(const struct wm_stats *s, size_t off)
{
    return rt_load_relaxed((const uint64_t *)(const void *)((const char *)s + off));
}

uint64_t tool_stat(size_t off, bool with_past)
{
    uint64_t sum = with_past ? at(&past, off) : 0;
    for (const struct wm_domain *d = live; d; d = d->stats_next)
        sum += at(&d->stats, off);
    return sum;
}

uint64_t tool_unexpected_now(void)
{
    uint64_t n = 0;
    for (const struct wm_domain *d = live; d; d = d->stats_next)
        n += rt_load_relaxed(&d->match.nunex);
    return n;
}

/* A blocking receive in progress counts, though it is in no table. */
uint64_t tool_posted_now(void)
{
    uint64_t n = 0;
    for (const struct wm_domain *d = live; d; d = d->stats_next)
        n += rt_load_relaxed(&d->match.nposted_all) + (rt_load_relaxed(&d->hot) != NULL);
    return n;
}

bool tool_is_up(void) { return live != NULL; }

const struct coll_alg *tool_last_alg(void)
{
    return live ? rt_load_relaxed(&live->stats.alg) : past.alg;
}

void tool_unexpected_rebase(void)
{
    for (struct wm_domain *d = live; d; d = d->stats_next)
        rt_store_relaxed(&d->stats.unexpected_peak, (uint64_t)rt_load_relaxed(&d->match.nunex));
}

void wm_stats_join(struct wm_domain *d)
{
    tool_lock();
    d->stats_next = live;
    live = d;
    tool_unlock();
}

void wm_stats_leave(struct wm_domain *d)
{
    tool_lock();
    struct wm_domain **p = &live;
    while (*p && *p != d)
        p = &(*p)->stats_next;
    if (*p) {
        tool_pvar_fold();
        *p = d->stats_next;
        for (size_t off = 0; off < offsetof(struct wm_stats, alg); off += sizeof(uint64_t))
            wm_stat_add((uint64_t *)(void *)((char *)&past + off), at(&d->stats, off));
        past.alg = d->stats.alg;
    }
    tool_unlock();
}

void wm_tool_coll(struct wm_domain *d, const struct coll_task *k)
{
    wm_stat_add(&d->stats.coll[k->args.kind], 1);
    rt_store_relaxed(&d->stats.alg, k->alg);
    if (rt_likely(!wm_event_wanted(WM_EVENT_COLL)))
        return;
    /* Between two groups some ranks have no data. */
    int64_t nbytes = k->team->local ? 0 : coll_args_bytes(k->team, &k->args);
    wm_event_raise(WM_EVENT_COLL,
                   &(struct wm_event_data){
                       { (int)k->args.kind, tool_alg_index(k->alg), k->team->size }, nbytes });
}

int tool_alg_index(const struct coll_alg *alg)
{
    const struct coll_alg *a;
    for (int i = 0; alg && (a = coll_alg_at(i)); i++)
        if (a == alg)
            return i;
    return -1;
}
