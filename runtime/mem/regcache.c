/* SPDX-License-Identifier: BSD-3-Clause */
/* The cache of registrations: an array sorted by start address and, for each position, the index of
 * the range that ends last among those up to it.  So one binary search shows whether a range is
 * covered, even if ranges overlap.  An insertion moves half of the array and recomputes the indices
 * behind: 2 us for 4,096 entries, little compared with a registration.
 *
 * The thread of the watch must not call this file, and does not: a free() here that unmaps watched
 * memory waits for that thread. */
#include "runtime/mem/regcache.h"
#include "runtime/base/atomic.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/gpu/gpu.h"
#include "runtime/mem/segment_int.h"
#include "runtime/mem/watch.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Each entry may split a mapping into three, and the kernel allows a process 65,530 mappings. */
#define MAX_ENTRIES 4096
/* Device allocations that are checked at each registration.  The driver does not report that an
 * allocation has been freed, and its memory cannot be reused while it is registered. */
#define LOOK_AT 4

struct rt_regcache {
    const struct rt_regcache_ops *ops;
    void *arg;
    size_t max_nbytes, page;
    bool tried; /* opening the watch was tried, at the first registration of host memory */
    bool watching;
    int ndevice, nown;   /* part of `n` that is device memory, memory of the node segment */
    uint32_t emptied;    /* the segment's count when its entries were last checked */
    struct rt_list idle; /* kept, without users; oldest first */
    int n;
    struct rt_reg *at[MAX_ENTRIES]; /* kept; sorted by start */
    int furthest[MAX_ENTRIES];      /* index of the largest end among at[0 .. i] */
    struct rt_regcache_counts count;
};

/* ---- the array ---- */

/* Number of entries that start below `a`. */
static int below(const struct rt_regcache *c, uintptr_t a)
{
    int lo = 0, hi = c->n;
    while (lo < hi) {
        int mid = lo + (hi - lo) / 2;
        if (c->at[mid]->start < a)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void work_out_furthest(struct rt_regcache *c, int from)
{
    for (int i = from; i < c->n; i++) {
        int before = i ? c->furthest[i - 1] : 0;
        c->furthest[i] = i && c->at[before]->end >= c->at[i]->end ? before : i;
    }
}

static struct rt_reg *find(const struct rt_regcache *c, uintptr_t start, uintptr_t end)
{
    int i = below(c, start + 1);
    if (!i)
        return NULL;
    struct rt_reg *r = c->at[c->furthest[i - 1]];
    return r->end >= end ? r : NULL;
}

static void insert(struct rt_regcache *c, struct rt_reg *r)
{
    int i = below(c, r->start);
    memmove(&c->at[i + 1], &c->at[i], (size_t)(c->n - i) * sizeof *c->at);
    c->at[i] = r;
    c->n++;
    c->ndevice += r->id != 0;
    c->nown += r->own;
    work_out_furthest(c, i);
    r->kept = true;
}

/* ---- deregistering ---- */

/* In a child of fork() the registrations belong to the parent, which shares the devices'
 * descriptors with the child: deregistering would remove them from the parent. */
static void destroy(struct rt_regcache *c, struct rt_reg *r)
{
    for (int s = 0; s < RT_REG_SLOTS; s++)
        if (r->slot[s] && !rt_watch_is_child())
            c->ops->dereg(c->arg, s, r->slot[s]);
    c->count.nbytes -= r->end - r->start;
    free(r);
}

/* Stops watching memory that no other range needs. */
static void unwatch(struct rt_regcache *c, uintptr_t start, uintptr_t end)
{
    for (int i = 0; i < c->n && c->at[i]->start < end && start < end; i++) {
        if (c->at[i]->id || c->at[i]->own || c->at[i]->end <= start)
            continue;
        if (c->at[i]->start > start)
            rt_watch_remove(start, c->at[i]->start);
        start = c->at[i]->end;
    }
    if (start < end)
        rt_watch_remove(start, end);
}

/* Makes an entry impossible to find; it is destroyed now or with its last user. */
static void forget(struct rt_regcache *c, int i)
{
    struct rt_reg *r = c->at[i];
    c->n--;
    c->ndevice -= r->id != 0;
    c->nown -= r->own;
    memmove(&c->at[i], &c->at[i + 1], (size_t)(c->n - i) * sizeof *c->at);
    work_out_furthest(c, i);
    r->kept = false;
    rt_list_del(&r->link);
    if (!r->id && !r->own)
        unwatch(c, r->start, r->end);
    if (!r->users)
        destroy(c, r);
}

static int place_of(const struct rt_regcache *c, const struct rt_reg *r)
{
    int i = below(c, r->start);
    while (c->at[i] != r)
        i++;
    return i;
}

/* Forgets all entries in [start, end), except those of the allocation `id`. */
static void drop(struct rt_regcache *c, uintptr_t start, uintptr_t end, uint64_t but)
{
    for (int i = below(c, end) - 1; i >= 0 && c->at[c->furthest[i]]->end > start; i--) {
        if (c->at[i]->end <= start || (but && c->at[i]->id == but))
            continue;
        log_debug(MEM, "registration %#lx+%zu: the memory has changed",
                  (unsigned long)c->at[i]->start, (size_t)(c->at[i]->end - c->at[i]->start));
        c->count.dropped++;
        forget(c, i);
    }
}

static void drop_all(struct rt_regcache *c)
{
    while (c->n) {
        c->count.dropped++;
        forget(c, c->n - 1);
    }
}

/* Handles blocks of the node segment that any process of this host has freed. */
static void check_segment(struct rt_regcache *c)
{
    uint32_t now = rt_load_acquire(&node_head()->emptied);
    if (now == c->emptied)
        return;
    c->emptied = now;
    drop(c, (uintptr_t)rt_node.base, (uintptr_t)rt_node.base + rt_node.nbytes, 0);
}

/* Handles the reported changes.  A lookup after it is correct for everything that happened before
 * the call. */
static void apply_changes(struct rt_regcache *c)
{
    uintptr_t start, end;
    enum rt_watch_report report;
    if (rt_unlikely(c->nown))
        check_segment(c);
    if (rt_watch_quiet() || !c->watching)
        return;
    while ((report = rt_watch_next(&start, &end)) != RT_WATCH_NONE) {
        if (report == RT_WATCH_ALL) {
            drop_all(c);
            c->watching = rt_watch_open() == 0;
            if (!c->watching) {
                rt_watch_close();
                return;
            }
            continue;
        }
        drop(c, start, end, 0);
        unwatch(c, start, end);
    }
}

/* ---- bounds ---- */

static bool evict_one(struct rt_regcache *c)
{
    if (rt_list_empty(&c->idle))
        return false;
    c->count.evicted++;
    forget(c, place_of(c, rt_container(c->idle.next, struct rt_reg, link)));
    return true;
}

static void make_room(struct rt_regcache *c, size_t more)
{
    while ((c->count.nbytes + more > c->max_nbytes || c->n >= MAX_ENTRIES) && evict_one(c)) {
    }
}

/* Whether p still is in the allocation in which it was registered. */
static bool same_allocation(const struct rt_reg *r, const void *p)
{
    struct rt_gpu_ptr now;
    bool is = r->pinned ? rt_gpu_pinned(p, &now) : rt_gpu_query(p, 1, &now) == 0;
    return is && now.id == r->id;
}

/* Checks the oldest idle registrations of device memory: whether the allocation is still the
 * same. */
static void check_devices(struct rt_regcache *c)
{
    struct rt_list *pos, *next;
    int looked = 0;
    if (!c->ndevice)
        return;
    rt_list_each_safe (pos, next, &c->idle) {
        struct rt_reg *r = rt_container(pos, struct rt_reg, link);
        if (!r->id)
            continue;
        if (!same_allocation(r, (void *)r->start)) {
            c->count.dropped++;
            forget(c, place_of(c, r));
        }
        if (++looked == LOOK_AT)
            return;
    }
}

/* ---- registering ---- */

static int fill_slot(struct rt_regcache *c, struct rt_reg *r, int slot, const struct rt_gpu_ptr *at)
{
    int err;
    do {
        err = c->ops->reg(c->arg, slot, r->start, r->end - r->start, at, &r->slot[slot]);
    } while (err == -RT_ENOMEM && evict_one(c));
    return err;
}

static bool in_segment(const struct rt_reg *r)
{
    uintptr_t base = (uintptr_t)rt_node.base;
    return base && rt_node_private.fd >= 0 && r->start >= base && r->end <= base + rt_node.nbytes;
}

/* Whether the registration of this range may be kept.  Decided before the registration, so that no
 * change during it is missed. */
static bool may_keep(struct rt_regcache *c, struct rt_reg *r, const struct rt_gpu_ptr *at)
{
    if (!c->max_nbytes || r->end - r->start > c->max_nbytes || c->n >= MAX_ENTRIES)
        return false;
    if (at)
        return at->id != 0 && at->single;
    if (in_segment(r)) {
        if (!c->nown)
            c->emptied = rt_load_acquire(&node_head()->emptied);
        return r->own = true;
    }
    if (!c->tried) {
        c->tried = true;
        c->watching = rt_watch_open() == 0;
        if (!c->watching)
            log_info(MEM, "registrations are made for each message: %s", rt_watch_why_not());
    }
    return c->watching && rt_watch_add(r->start, r->end);
}

/* Memory that the CUDA driver has pinned cannot be watched, but has a number; the whole allocation
 * is registered. */
static bool may_keep_pinned(struct rt_regcache *c, struct rt_reg *r, const void *p)
{
    struct rt_gpu_ptr at;
    if (!c->max_nbytes || c->n >= MAX_ENTRIES || !rt_gpu_pinned(p, &at))
        return false;
    uintptr_t start = at.base & ~(c->page - 1);
    uintptr_t end = (at.base + at.len + c->page - 1) & ~(c->page - 1);
    if (start > r->start || end < r->end || end - start > c->max_nbytes)
        return false;
    r->start = start;
    r->end = end;
    r->id = at.id;
    return r->pinned = true;
}

static int make(struct rt_regcache *c, uintptr_t start, uintptr_t end, const void *p,
                const struct rt_gpu_ptr *at, int slot, struct rt_reg **out)
{
    struct rt_reg *r = calloc(1, sizeof *r);
    if (!r)
        return -RT_ENOMEM;
    *r = (struct rt_reg){ .start = start, .end = end, .id = at ? at->id : 0, .users = 1 };
    rt_list_init(&r->link);
    if (end - start <= c->max_nbytes)
        make_room(c, end - start);
    bool keep = may_keep(c, r, at) || (!at && may_keep_pinned(c, r, p));
    int err = fill_slot(c, r, slot, at);
    if (keep && err == 0)
        insert(c, r); /* a change during the registration is reported before the next lookup */
    else if (keep && !r->id && !r->own)
        unwatch(c, start, end);
    if (err < 0) {
        free(r);
        return err;
    }
    c->count.nbytes += r->end - r->start;
    *out = r;
    return 0;
}

/* An entry that covers the range and belongs to the same memory. */
static struct rt_reg *lookup(struct rt_regcache *c, uintptr_t start, uintptr_t end, const void *p,
                             uint64_t id)
{
    struct rt_reg *r = find(c, start, end);
    if (rt_likely(r && r->id == id))
        return r;
    if (!r || (!id && r->pinned && same_allocation(r, p)))
        return r;
    drop(c, start, end, id); /* memory of the driver has been allocated or freed here */
    r = find(c, start, end);
    return r && r->id == id ? r : NULL;
}

static void use(struct rt_reg *r)
{
    if (!r->users++)
        rt_list_del(&r->link);
}

int rt_regcache_get(struct rt_regcache *c, const void *p, size_t len, const struct rt_gpu_ptr *at,
                    int slot, struct rt_reg **out)
{
    uintptr_t a = (uintptr_t)p, start = a & ~(c->page - 1);
    uintptr_t end = (a + (len ? len : 1) + c->page - 1) & ~(c->page - 1);
    if (at) {
        start = at->base;
        end = at->base + at->len;
    }
    if (end <= start)
        return -RT_EINVAL;
    apply_changes(c);
    struct rt_reg *r = lookup(c, start, end, p, at ? at->id : 0);
    if (!r) {
        c->count.misses++;
        check_devices(c);
        return make(c, start, end, p, at, slot, out);
    }
    c->count.hits++;
    use(r);
    if (rt_unlikely(!r->slot[slot])) {
        int err = fill_slot(c, r, slot, at);
        if (err < 0) {
            rt_regcache_put(c, r);
            return err;
        }
        if (err > 0 && r->kept)
            forget(c, place_of(c, r));
    }
    *out = r;
    return 0;
}

void rt_regcache_put(struct rt_regcache *c, struct rt_reg *r)
{
    if (--r->users)
        return;
    if (!r->kept) {
        destroy(c, r);
        return;
    }
    rt_list_append(&c->idle, &r->link);
    make_room(c, 0);
}

/* ---- life ---- */

int rt_regcache_create(const struct rt_regcache_ops *ops, void *arg, size_t max_nbytes,
                       struct rt_regcache **out)
{
    struct rt_regcache *c = calloc(1, sizeof *c);
    if (!c)
        return -RT_ENOMEM;
    c->ops = ops;
    c->arg = arg;
    c->max_nbytes = max_nbytes;
    c->page = (size_t)sysconf(_SC_PAGESIZE);
    rt_list_init(&c->idle);
    *out = c;
    return 0;
}

void rt_regcache_destroy(struct rt_regcache *c)
{
    if (!c)
        return;
    while (c->n)
        forget(c, c->n - 1);
    if (c->count.nbytes)
        log_warn(MEM, "%zu bytes are still registered", c->count.nbytes);
    if (c->watching)
        rt_watch_close();
    free(c);
}

const char *rt_regcache_why_not(const struct rt_regcache *c)
{
    if (!c->max_nbytes)
        return "WEFT_IB_CACHE is 0";
    return c->tried && !c->watching ? rt_watch_why_not() : NULL;
}

void rt_regcache_count(const struct rt_regcache *c, struct rt_regcache_counts *out)
{
    *out = c->count;
    out->n = c->n;
}
