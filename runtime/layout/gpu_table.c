/* SPDX-License-Identifier: BSD-3-Clause */
/* Flattens layouts for devices, and caches the resulting tables, so that a type which is used again
 * finds its table on the device.  A table is dropped if its type has been freed, or if the cache is
 * full and it was used least recently.  Under the domain's lock. */
#include "runtime/layout/gpu_table.h"
#include "runtime/base/atomic.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include <stdlib.h>
#include <string.h>

/* Size of all tables: 32 of the large staging buffers, which every table of more than 819 groups
 * takes. */
#define CACHE_NBYTES (32 * (size_t)RT_GPU_STAGE_LARGE)

static struct {
    struct rt_list tables;
    size_t nbytes;
} cache = { .tables = { &cache.tables, &cache.tables } };

int64_t rt_groups_of_block(const struct rt_block *b, int64_t most)
{
    int64_t n;
    if (!b->sub)
        return 1;
    return __builtin_mul_overflow(rt_groups_count(b->sub, most), b->nrep, &n) ? INT64_MAX : n;
}

static int64_t count_some(const struct rt_blocks *b, uint32_t from, uint32_t to, int64_t most)
{
    int64_t n = to - from;
    for (uint32_t i = from; b->b && i < to && n <= most; i++)
        if (__builtin_add_overflow(n, rt_groups_of_block(&b->b[i], most) - 1, &n))
            return INT64_MAX;
    return n;
}

int64_t rt_groups_count(const struct rt_blocks *b, int64_t most)
{
    return count_some(b, 0, b->n, most);
}

struct writer {
    struct rt_gpu_group *v;
    uint32_t n, max;
    int64_t pos; /* packed position of the next group */
    uint64_t bits;
    bool full;
};

/* Tries to express a group by extending the last one.  The layout has joined neighbours within a
 * list; this joins neighbours where groups repeat. */
static bool join(struct rt_gpu_group *last, const struct rt_gpu_group *w)
{
    if (last->nrep == 1 && w->nrep == 1 && last->off + last->len == w->off) {
        last->len += w->len;
        return true;
    }
    if (last->len != w->len)
        return false;
    int64_t whole;
    int64_t stride = last->nrep > 1 ? last->stride : w->nrep > 1 ? w->stride : w->off - last->off;
    if ((w->nrep > 1 && w->stride != stride) ||
        __builtin_mul_overflow(last->nrep, stride, &whole) || w->off - last->off != whole)
        return false;
    last->stride = stride;
    last->nrep += w->nrep;
    return true;
}

static void write_group(struct writer *w, int64_t off, int64_t len, int64_t stride, int64_t nrep)
{
    const struct rt_gpu_group g = { w->pos, off, len, nrep > 1 ? stride : len, nrep };
    w->pos += len * nrep;
    w->bits |= (uint64_t)off | (uint64_t)len | (uint64_t)g.stride;
    if (w->n && join(&w->v[w->n - 1], &g))
        return;
    if (w->n == w->max)
        w->full = true;
    else
        w->v[w->n++] = g;
}

static void write_blocks(struct writer *w, const struct rt_blocks *g, int64_t at, uint32_t from,
                         uint32_t to)
{
    for (uint32_t i = from; i < to && !w->full; i++) {
        if (!g->b) {
            int64_t len = g->piece ? g->piece : g->first[i + 1] - g->first[i];
            write_group(w, at + g->off[i], len, len, 1);
            continue;
        }
        const struct rt_block *b = &g->b[i];
        if (!b->sub)
            write_group(w, at + b->off, b->len, b->stride, b->nrep);
        for (int64_t r = 0; b->sub && r < b->nrep && !w->full; r++)
            write_blocks(w, b->sub, at + b->off + r * b->stride, 0, b->sub->n);
    }
}

int rt_groups_write(const struct rt_blocks *b, struct rt_gpu_group *v, uint32_t max,
                    struct rt_groups *out)
{
    struct writer w = { .v = v, .max = max };
    if (rt_groups_count(b, 4 * (int64_t)max) > 4 * (int64_t)max) /* some groups may join */
        return -RT_ENOSPC;
    write_blocks(&w, b, 0, 0, b->n);
    if (w.full)
        return -RT_ENOSPC;
    *out = (struct rt_groups){ v, w.n, w.bits };
    return 0;
}

/* ---- the cache ---- */

static void drop(struct rt_table *t)
{
    rt_list_del(&t->link);
    cache.nbytes -= t->nbytes;
    if (t->stage)
        rt_gpu_stage_give(t->stage);
    rt_blocks_unref(t->blocks);
    free((void *)(uintptr_t)t->groups.v);
    free(t);
}

/* Drops tables to which only the cache refers; then, until `more` bytes fit, the least recently
 * used. */
static void make_room(size_t more)
{
    struct rt_list *l, *next;
    rt_list_each_safe (l, next, &cache.tables) {
        struct rt_table *t = rt_container(l, struct rt_table, link);
        if (!t->nused && rt_load_relaxed(&t->blocks->refs) == 1)
            drop(t);
    }
    for (l = cache.tables.prev; l != &cache.tables; l = next) {
        if (cache.nbytes + more <= CACHE_NBYTES)
            return;
        struct rt_table *t = rt_container(l, struct rt_table, link);
        next = l->prev;
        if (!t->nused)
            drop(t);
    }
}

static struct rt_table *find(struct rt_gpu *g, const struct rt_blocks *b, uint32_t from,
                             uint32_t to)
{
    struct rt_list *l;
    rt_list_each (l, &cache.tables) {
        struct rt_table *t = rt_container(l, struct rt_table, link);
        if (t->blocks == b && t->g == g && t->from == from && t->to == to)
            return t;
    }
    return NULL;
}

static int64_t packed_begin(const struct rt_blocks *b, uint32_t i)
{
    return b->first ? b->first[i] : i * b->piece;
}

static int fill(struct rt_table *t, int64_t count)
{
    struct writer w = { .pos = packed_begin(t->blocks, t->from) };
    w.max = (uint32_t)count;
    w.v = malloc(w.max * sizeof *w.v);
    if (!w.v)
        return -RT_ENOMEM;
    write_blocks(&w, t->blocks, 0, t->from, t->to);
    t->groups = (struct rt_groups){ w.v, w.n, w.bits };
    if (w.full)
        RT_BUG("a table for blocks %u to %u has no room for its groups", t->from, t->to);
    struct rt_gpu_group *less = realloc(w.v, w.n * sizeof *w.v);
    t->groups.v = less ? less : w.v;
    return 0;
}

static int upload(struct rt_table *t)
{
    size_t nbytes = t->groups.n * sizeof *t->groups.v;
    t->nbytes = nbytes;
    if (!rt_gpu_has_kernels(t->g))
        return 0;
    make_room(nbytes > RT_GPU_STAGE_SMALL ? RT_GPU_STAGE_LARGE : RT_GPU_STAGE_SMALL);
    int err = rt_gpu_stage_take(t->g, false, nbytes, &t->stage);
    if (err == -RT_ENOMEM) /* reported already */
        return 0;
    if (!err)
        t->nbytes = t->stage->len;
    return err ? err : rt_gpu_copy_now(t->g, t->stage->p, t->groups.v, nbytes);
}

int rt_table_get(struct rt_gpu *g, const struct rt_blocks *b, uint32_t from, uint32_t to,
                 struct rt_table **out)
{
    struct rt_table *t = find(g, b, from, to);
    if (!t) {
        int64_t count = count_some(b, from, to, RT_TABLE_MAX);
        if (count > (int64_t)RT_TABLE_MAX)
            return -RT_ENOSPC;
        make_room(0);
        t = calloc(1, sizeof *t);
        if (!t)
            return -RT_ENOMEM;
        *t = (struct rt_table){ .g = g, .blocks = rt_blocks_ref(b), .from = from, .to = to };
        rt_list_init(&t->link);
        int err = fill(t, count);
        if (!err)
            err = upload(t);
        cache.nbytes += t->nbytes;
        if (err) {
            drop(t);
            return err;
        }
        log_debug(GPU, "a datatype of %lld bytes is %u groups on GPU %d", (long long)b->size,
                  t->groups.n, rt_gpu_info(g)->ordinal);
    }
    rt_list_del(&t->link);
    rt_list_append(cache.tables.next, &t->link); /* at the front */
    t->nused++;
    *out = t;
    return 0;
}

void rt_table_put(struct rt_table *t) { t->nused--; }

void rt_table_drop_all(void)
{
    struct rt_list *l, *next;
    rt_list_each_safe (l, next, &cache.tables) {
        struct rt_table *t = rt_container(l, struct rt_table, link);
        if (!t->nused)
            drop(t);
    }
}
