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

/* Most groups within groups.  Deeper ones could exhaust the stack; each level of a datatype makes
 * one at most. */
#define DEPTH_MAX 1000

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

/* ---- reading: nothing that the bytes say is trusted ---- */

struct reader {
    const char *at, *end;
    int depth; /* of groups within groups */
};

static const void *take(struct reader *r, uint64_t n)
{
    const char *p = r->at;
    if (n > (uint64_t)(r->end - p))
        return NULL;
    r->at += n;
    return p;
}

/* What the blocks of a group add up to. */
struct sums {
    int64_t size, low, high;
    bool any;
};

/* Adds `nrep` pieces of `len` bytes, whose data are in low..high from the piece's begin. */
static bool add(struct sums *s, const struct rt_block *b, int64_t low, int64_t high)
{
    int64_t nbytes, span, first, last;
    if (b->len <= 0 || b->nrep <= 0 || __builtin_mul_overflow(b->len, b->nrep, &nbytes) ||
        __builtin_add_overflow(s->size, nbytes, &s->size) ||
        __builtin_mul_overflow(b->nrep - 1, b->stride, &span) ||
        __builtin_add_overflow(b->off, span < 0 ? span : 0, &first) ||
        __builtin_add_overflow(b->off, span > 0 ? span : 0, &last) ||
        __builtin_add_overflow(first, low, &first) || __builtin_add_overflow(last, high, &last))
        return false;
    s->low = !s->any || first < s->low ? first : s->low;
    s->high = !s->any || last > s->high ? last : s->high;
    s->any = true;
    return true;
}

static int get_list(struct reader *r, const struct rt_blocks **out);

static int get_blocks(struct reader *r, struct rt_blocks *g, struct rt_block *b, struct sums *s)
{
    const char *in = take(r, g->n * sizeof(struct serial_block));
    const struct rt_blocks *last = NULL;
    int64_t *first = (int64_t *)(uintptr_t)g->first;
    uint32_t n = g->n;
    g->n = 0; /* blocks read so far: rt_blocks_unref() releases their groups after an error */
    if (!in)
        return -RT_EINVAL;
    g->b = b;
    for (uint32_t i = 0; i < n; i++) {
        struct serial_block v;
        memcpy(&v, in + i * sizeof v, sizeof v);
        /* The stride of a single piece means nothing. */
        b[i] = (struct rt_block){ v.off, v.len, v.nrep == 1 ? v.len : v.stride, v.nrep, NULL };
        if (v.sub == SUB_NEW) {
            int err = get_list(r, &last);
            if (err < 0)
                return err;
            b[i].sub = last;
        } else if (v.sub == SUB_SAME && last) {
            b[i].sub = rt_blocks_ref(last);
        } else if (v.sub != SUB_NONE) {
            return -RT_EINVAL;
        }
        g->n++;
        first[i] = s->size;
        const struct rt_blocks *sub = b[i].sub;
        if ((sub && sub->size != v.len) ||
            !add(s, &b[i], sub ? sub->low : 0, sub ? sub->high : v.len))
            return -RT_EINVAL;
    }
    first[n] = s->size;
    return 0;
}

/* Offsets of single pieces, and their packed positions. */
static int get_pieces(struct reader *r, struct rt_blocks *g, int64_t *off, struct sums *s)
{
    int64_t *first = (int64_t *)(uintptr_t)g->first;
    const void *offs = take(r, g->n * sizeof *off);
    const void *pos = first ? take(r, (g->n + (size_t)1) * sizeof *first) : NULL;
    if (!offs || (first && !pos))
        return -RT_EINVAL;
    memcpy(off, offs, g->n * sizeof *off);
    if (first)
        memcpy(first, pos, (g->n + (size_t)1) * sizeof *first);
    g->off = off;
    if (first && first[0])
        return -RT_EINVAL;
    for (uint32_t i = 0; i < g->n; i++) {
        struct rt_block b = { off[i], g->piece, 0, 1, NULL };
        if (first && __builtin_sub_overflow(first[i + 1], first[i], &b.len))
            return -RT_EINVAL;
        if (!add(s, &b, 0, b.len))
            return -RT_EINVAL;
    }
    return 0;
}

static int get_group(struct reader *r, const struct serial_list *w, struct rt_blocks *g)
{
    struct sums s = { 0 };
    bool blocks = w->form == LIST_BLOCKS;
    size_t first = w->form == LIST_PIECE ? 0 : w->n + (size_t)1;
    *g = (struct rt_blocks){ .refs = 1,
                             .n = w->n,
                             .size = w->size,
                             .low = w->low,
                             .high = w->high,
                             .piece = w->form == LIST_PIECE ? w->piece : 0 };
    int64_t *room = (int64_t *)(g + 1);
    g->first = first ? room : NULL;
    int err = blocks ? get_blocks(r, g, (struct rt_block *)(void *)(room + first), &s)
                     : get_pieces(r, g, room + first, &s);
    int64_t span;
    bool same = s.size == w->size && s.low == w->low && s.high == w->high;
    if (!err && (!same || __builtin_sub_overflow(s.high, s.low, &span)))
        err = -RT_EINVAL;
    return err;
}

static int get_list(struct reader *r, const struct rt_blocks **out)
{
    struct serial_list w;
    const void *p = take(r, sizeof w);
    if (!p || ++r->depth > DEPTH_MAX)
        return -RT_EINVAL;
    memcpy(&w, p, sizeof w);
    size_t each = w.form == LIST_BLOCKS ? sizeof(struct serial_block) : sizeof(int64_t);
    if (w.form > LIST_BLOCKS || w.n > (uint64_t)(r->end - r->at) / each)
        return -RT_EINVAL;
    size_t first = w.form == LIST_PIECE ? 0 : (w.n + (size_t)1) * sizeof(int64_t);
    size_t rest = w.n * (w.form == LIST_BLOCKS ? sizeof(struct rt_block) : sizeof(int64_t));
    struct rt_blocks *g = malloc(sizeof *g + first + rest);
    if (!g)
        return -RT_ENOMEM;
    int err = get_group(r, &w, g);
    r->depth--;
    if (err < 0) {
        rt_blocks_unref(g);
        return err;
    }
    *out = g;
    return 0;
}

/* Whether bounds, size and blocks agree. */
static bool is_sound(const struct rt_layout *l)
{
    const struct rt_blocks *g = l->blocks;
    int64_t ub;
    if (__builtin_add_overflow(l->lb, l->extent, &ub))
        return false;
    if (l->contig)
        return l->size >= 0 && !l->lb && l->extent == l->size && !l->true_lb &&
               l->true_extent == l->size;
    return l->size == g->size && l->true_lb == g->low && l->true_extent == g->high - g->low;
}

int rt_layout_deserialize(struct rt_layout *l, const void *in, size_t nbytes)
{
    struct reader r = { in, (const char *)in + nbytes, 0 };
    struct serial_head h;
    const struct rt_blocks *g = NULL;
    const void *p = take(&r, sizeof h);
    if (!p)
        return -RT_EINVAL;
    memcpy(&h, p, sizeof h);
    if (h.elem < 0 || h.elem >= RT_ELEM_COUNT || (h.contig != 0 && h.contig != 1))
        return -RT_EINVAL;
    int err = h.contig ? 0 : get_list(&r, &g);
    if (err < 0)
        return err;
    struct rt_layout got = { .size = h.size,
                             .lb = h.lb,
                             .extent = h.extent,
                             .true_lb = h.true_lb,
                             .true_extent = h.true_extent,
                             .contig = h.contig != 0,
                             .elem = (uint8_t)h.elem,
                             .blocks = g };
    if (r.at != r.end || !is_sound(&got)) {
        rt_blocks_unref(g);
        return -RT_EINVAL;
    }
    *l = got;
    return 0;
}
