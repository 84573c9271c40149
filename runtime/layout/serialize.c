/* SPDX-License-Identifier: BSD-3-Clause */
/* See serialize.h.  The form is that of the memory: a head, the arrays of each group, then the
 * groups that its blocks repeat.  A block that repeats the same group as the block before is
 * marked, so a structure of many equal members stays short. */
#include "runtime/layout/serialize.h"
#include "runtime/base/err.h"
#include <stdlib.h>
#include <string.h>

enum { SUB_NONE, SUB_NEW, SUB_SAME }; /* serial_block.sub */
enum { LIST_PIECE, LIST_FIRST, LIST_BLOCKS };

struct serial_head {
    int64_t size, lb, extent, true_lb, true_extent;
    int32_t contig, elem;
};
struct serial_list {
    int64_t size, low, high, piece;
    uint32_t n, form;
};
struct serial_block {
    int64_t off, len, stride, nrep, sub;
};

struct cursor {
    char *at; /* NULL: only counts */
    size_t nbytes;
};

static void put(struct cursor *c, const void *p, size_t n)
{
    if (c->at && n)
        memcpy(c->at + c->nbytes, p, n);
    c->nbytes += n;
}

static void put_list(struct cursor *c, const struct rt_blocks *g)
{
    struct serial_list w = { g->size, g->low,
                             g->high, g->piece,
                             g->n,    g->b ? LIST_BLOCKS : g->first ? LIST_FIRST : LIST_PIECE };
    put(c, &w, sizeof w);
    if (!g->b) {
        put(c, g->off, g->n * sizeof *g->off);
        if (g->first)
            put(c, g->first, (g->n + 1u) * sizeof *g->first);
        return;
    }
    const struct rt_blocks *last = NULL;
    for (uint32_t i = 0; i < g->n; i++) {
        const struct rt_block *b = &g->b[i];
        int64_t sub = !b->sub ? SUB_NONE : b->sub == last ? SUB_SAME : SUB_NEW;
        struct serial_block v = { b->off, b->len, b->stride, b->nrep, sub };
        put(c, &v, sizeof v);
        last = b->sub ? b->sub : last;
    }
    last = NULL;
    for (uint32_t i = 0; i < g->n; i++) {
        if (g->b[i].sub && g->b[i].sub != last)
            put_list(c, last = g->b[i].sub);
    }
}

static void put_layout(struct cursor *c, const struct rt_layout *l)
{
    struct serial_head h = { l->size,        l->lb,     l->extent, l->true_lb,
                             l->true_extent, l->contig, l->elem };
    put(c, &h, sizeof h);
    if (!l->contig)
        put_list(c, l->blocks);
}

size_t rt_layout_serial_nbytes(const struct rt_layout *l)
{
    struct cursor c = { 0 };
    put_layout(&c, l);
    return c.nbytes;
}

void rt_layout_serialize(const struct rt_layout *l, void *out)
{
    struct cursor c = { out, 0 };
    put_layout(&c, l);
}

struct reader {
    const char *at, *end;
};

static const void *take(struct reader *r, uint64_t n)
{
    const char *p = r->at;
    if (n > (uint64_t)(r->end - p))
        return NULL;
    r->at += n;
    return p;
}

static int get_list(struct reader *r, const struct rt_blocks **out);

static int get_blocks(struct reader *r, struct rt_blocks *g, struct rt_block *b)
{
    const char *in = take(r, g->n * sizeof(struct serial_block));
    const struct rt_blocks *last = NULL;
    int64_t *first = (int64_t *)(uintptr_t)g->first, pos = 0;
    uint32_t n = g->n;
    if (!in)
        return -RT_EINVAL;
    g->n = 0; /* blocks read so far: rt_blocks_unref() releases their groups after an error */
    g->b = b;
    for (uint32_t i = 0; i < n; i++) {
        struct serial_block v;
        memcpy(&v, in + i * sizeof v, sizeof v);
        b[i] = (struct rt_block){ v.off, v.len, v.stride, v.nrep, NULL };
        if (v.sub == SUB_NEW) {
            int err = get_list(r, &last);
            if (err < 0)
                return err;
            b[i].sub = last;
        } else if (v.sub == SUB_SAME && last) {
            b[i].sub = rt_blocks_ref(last);
        }
        first[i] = pos;
        pos += v.len * v.nrep;
        g->n++;
    }
    first[n] = pos;
    return 0;
}

static int get_list(struct reader *r, const struct rt_blocks **out)
{
    struct serial_list w;
    const void *p = take(r, sizeof w);
    if (!p)
        return -RT_EINVAL;
    memcpy(&w, p, sizeof w);
    size_t each = w.form == LIST_BLOCKS ? sizeof(struct serial_block) : sizeof(int64_t);
    if (w.n > (uint64_t)(r->end - r->at) / each)
        return -RT_EINVAL;
    size_t first = w.form == LIST_PIECE ? 0 : (w.n + 1u) * sizeof(int64_t);
    size_t rest = w.n * (w.form == LIST_BLOCKS ? sizeof(struct rt_block) : sizeof(int64_t));
    struct rt_blocks *g = malloc(sizeof *g + first + rest);
    if (!g)
        return -RT_ENOMEM;
    *g = (struct rt_blocks){ .refs = 1, .n = w.n, .size = w.size, .low = w.low, .high = w.high };
    char *room = (char *)(g + 1);
    int err = 0;
    g->first = first ? (const int64_t *)(void *)room : NULL;
    if (w.form == LIST_BLOCKS) {
        err = get_blocks(r, g, (struct rt_block *)(void *)(room + first));
    } else {
        g->off = (const int64_t *)(void *)(room + first);
        g->piece = w.piece;
        const void *off = take(r, rest), *pos = take(r, first);
        if (!off || !pos)
            err = -RT_EINVAL;
        else
            memcpy(room + first, off, rest), memcpy(room, pos, first);
    }
    if (err < 0) {
        rt_blocks_unref(g);
        return err;
    }
    *out = g;
    return 0;
}

int rt_layout_deserialize(struct rt_layout *l, const void *in, size_t nbytes)
{
    struct reader r = { in, (const char *)in + nbytes };
    struct serial_head h;
    const void *p = take(&r, sizeof h);
    if (!p)
        return -RT_EINVAL;
    memcpy(&h, p, sizeof h);
    if (h.elem < 0 || h.elem >= RT_ELEM_COUNT)
        return -RT_EINVAL;
    *l = (struct rt_layout){ .size = h.size,
                             .lb = h.lb,
                             .extent = h.extent,
                             .true_lb = h.true_lb,
                             .true_extent = h.true_extent,
                             .contig = h.contig != 0,
                             .elem = (uint8_t)h.elem };
    return l->contig ? 0 : get_list(&r, &l->blocks);
}
