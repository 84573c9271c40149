/* SPDX-License-Identifier: BSD-3-Clause */
/* Building layouts: the bytes of a datatype as a short list of strided blocks in packed order.  A
 * list grows through append(), which joins a new block with the last one if they are adjacent or
 * continue a stride.  So a type that users build from many pieces becomes few blocks.  What repeats
 * and does not join is a group that all repetitions share.  No state.  Layouts are immutable once
 * built, so any thread may read them; reference counts of groups are atomic. */
#include "runtime/layout/layout.h"
#include "runtime/base/atomic.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include <stdlib.h>
#include <string.h>

/* Most blocks of a repeated or included list that are copied, so that neighbours can be joined.  A
 * longer list becomes a group of its own. */
#define WRITE_OUT 16

const struct rt_blocks *rt_blocks_ref(const struct rt_blocks *g)
{
    if (g && g->refs)
        rt_fetch_add((int32_t *)(uintptr_t)&g->refs, 1);
    return g;
}

void rt_blocks_unref(const struct rt_blocks *g)
{
    if (!g || !g->refs || rt_fetch_add((int32_t *)(uintptr_t)&g->refs, -1) != 1)
        return;
    for (uint32_t i = 0; g->b && i < g->n; i++)
        rt_blocks_unref(g->b[i].sub);
    free((void *)(uintptr_t)g);
}

struct list { /* under construction; owns references to the blocks' groups */
    struct rt_block *b;
    uint32_t n, cap;
};

static void list_free(struct list *l)
{
    for (uint32_t i = 0; i < l->n; i++)
        rt_blocks_unref(l->b[i].sub);
    free(l->b);
    *l = (struct list){ 0 };
}

static int list_push(struct list *l, struct rt_block b)
{
    if (l->n == l->cap) {
        if (l->cap > UINT32_MAX / 4)
            return -RT_EINVAL;
        uint32_t cap = l->cap ? 2 * l->cap : 4;
        struct rt_block *more = realloc(l->b, cap * sizeof *more);
        if (!more)
            return -RT_ENOMEM;
        l->b = more;
        l->cap = cap;
    }
    rt_blocks_ref(b.sub);
    l->b[l->n++] = b;
    return 0;
}

/* Tries to express `b` by extending the last block.  Packed order must not change, so only the last
 * block can be extended. */
static bool join(struct rt_block *last, const struct rt_block *b)
{
    if (last->sub != b->sub)
        return false;
    if (!b->sub && last->nrep == 1 && b->nrep == 1 && last->off + last->len == b->off) {
        last->len += b->len;
        return true;
    }
    if (last->len != b->len)
        return false;
    int64_t whole;
    int64_t stride = last->nrep > 1 ? last->stride : b->nrep > 1 ? b->stride : b->off - last->off;
    if ((b->nrep > 1 && b->stride != stride) ||
        __builtin_mul_overflow(last->nrep, stride, &whole) || b->off - last->off != whole)
        return false;
    last->stride = stride;
    last->nrep += b->nrep;
    return true;
}

static int append(struct list *l, struct rt_block b)
{
    if (!b.len || !b.nrep)
        return 0;
    if (!b.sub && b.nrep > 1 && b.stride == b.len) { /* repetitions without gaps are one block */
        b.len *= b.nrep;
        b.nrep = 1;
    }
    if (b.nrep == 1)
        b.stride = b.len;
    return l->n && join(&l->b[l->n - 1], &b) ? 0 : list_push(l, b);
}

static struct rt_block moved(struct rt_block b, int64_t at)
{
    b.off += at;
    return b;
}

static struct rt_block block_at(const struct rt_blocks *g, uint32_t i)
{
    if (g->b)
        return g->b[i];
    int64_t len = g->piece ? g->piece : g->first[i + 1] - g->first[i];
    return (struct rt_block){ g->off[i], len, len, 1, NULL };
}

/* Appends `count` groups of blocks, `step` bytes apart, the first at `at`. */
static int append_group(struct list *l, const struct rt_blocks *g, int64_t at, int64_t count,
                        int64_t step)
{
    if (!count || !g->n)
        return 0;
    if (g->n == 1) {
        struct rt_block b = moved(block_at(g, 0), at);
        if (b.nrep == 1) { /* a group of one piece: the groups themselves are the repetitions */
            b.stride = step;
            b.nrep = count;
            return append(l, b);
        }
        int64_t whole;
        if (!__builtin_mul_overflow(b.stride, b.nrep, &whole) &&
            step == whole) { /* the next group continues the stride */
            b.nrep *= count;
            return append(l, b);
        }
    }
    if (count > WRITE_OUT || g->n * count > WRITE_OUT)
        return append(l, (struct rt_block){ at, g->size, step, count, g });
    for (int64_t e = 0; e < count; e++) {
        for (uint32_t i = 0; i < g->n; i++) {
            int err = append(l, moved(block_at(g, i), at + e * step));
            if (err)
                return err;
        }
    }
    return 0;
}

/* The same for elements of a layout. */
static int append_elements(struct list *l, const struct rt_layout *t, int64_t at, int64_t count,
                           int64_t step)
{
    if (!t->contig)
        return append_group(l, t->blocks, at, count, step);
    return append(l, (struct rt_block){ at, t->size, step, t->size ? count : 0, NULL });
}

/* Lowest and highest offset of the data of a block. */
static void block_range(const struct rt_block *b, int64_t *low, int64_t *high)
{
    int64_t last = b->off + (b->nrep - 1) * b->stride;
    *low = (last < b->off ? last : b->off) + (b->sub ? b->sub->low : 0);
    *high = (last > b->off ? last : b->off) + (b->sub ? b->sub->high : b->len);
}

/* Any two neighbours of equal length join to a pair.  Lists of short runs are better stored as
 * single pieces, which take 16 bytes each; a block takes 48. */
#define SHORT_RUN 4

/* Size and bounds of a list, and its number of single pieces; 0: it is stored as blocks. */
static struct rt_blocks summary(const struct list *list, int64_t *pieces)
{
    struct rt_blocks g = { .refs = 1, .n = list->n, .piece = list->n ? list->b[0].len : 0 };
    bool subs = false;
    *pieces = 0;
    for (uint32_t i = 0; i < list->n; i++) {
        const struct rt_block *b = &list->b[i];
        int64_t a, z;
        block_range(b, &a, &z);
        g.low = !i || a < g.low ? a : g.low;
        g.high = !i || z > g.high ? z : g.high;
        g.size += b->len * b->nrep;
        g.piece = b->len == g.piece ? g.piece : 0;
        subs = subs || b->sub;
        *pieces += b->nrep;
    }
    if (subs || *pieces > (list->n > 1 ? SHORT_RUN : 1) * (int64_t)list->n)
        *pieces = 0;
    return g;
}

static void fill_pieces(const struct list *list, int64_t *off, int64_t *first, int64_t size)
{
    int64_t pos = 0;
    size_t k = 0;
    for (uint32_t i = 0; i < list->n; i++) {
        const struct rt_block *b = &list->b[i];
        for (int64_t r = 0; r < b->nrep; r++, k++, pos += b->len) {
            off[k] = b->off + r * b->stride;
            if (first)
                first[k] = pos;
        }
    }
    if (first)
        first[k] = size;
}

/* Turns a list into a group; takes over the list, also on failure. */
static const struct rt_blocks *group_of(struct list *list)
{
    int64_t pieces;
    if (list->n == 1 && list->b[0].sub && list->b[0].nrep == 1 && !list->b[0].off) {
        const struct rt_blocks *only = list->b[0].sub; /* the group takes over the reference */
        free(list->b);
        return only;
    }
    struct rt_blocks facts = summary(list, &pieces);
    bool plain = pieces || !list->n;
    size_t n = plain ? (size_t)pieces : list->n, first = plain && facts.piece ? 0 : n + 1;
    size_t nbytes = sizeof facts + (first + (plain ? n : 0)) * sizeof(int64_t) +
                    (plain ? 0 : n * sizeof(struct rt_block));
    struct rt_blocks *g = pieces > UINT32_MAX ? NULL : malloc(nbytes);
    if (!g) {
        list_free(list);
        return NULL;
    }
    *g = facts;
    g->n = (uint32_t)n;
    g->piece = plain ? facts.piece : 0;
    int64_t *pos = first ? (int64_t *)(g + 1) : NULL, *rest = (int64_t *)(g + 1) + first;
    g->first = pos;
    if (plain) {
        g->off = rest;
        fill_pieces(list, rest, pos, facts.size);
    } else {
        g->b = memcpy(rest, list->b, n * sizeof *list->b); /* the references are taken over */
        pos[0] = 0;
        for (size_t i = 0; i < n; i++)
            pos[i + 1] = pos[i] + list->b[i].len * list->b[i].nrep;
    }
    free(list->b);
    return g;
}

/* Turns a list into a layout with the given bounds; takes over the list, also on failure. */
static int finish(struct rt_layout *l, struct list *list, int64_t lb, int64_t extent, uint8_t elem)
{
    const struct rt_blocks *g = group_of(list);
    if (!g)
        return -RT_ENOMEM;
    *l = (struct rt_layout){ .size = g->size,
                             .lb = lb,
                             .extent = extent,
                             .true_lb = g->low,
                             .true_extent = g->high - g->low,
                             .elem = elem };
    l->contig = !lb && extent == l->size && (!g->n || (g->n == 1 && g->piece && !g->off[0]));
    if (l->contig)
        rt_blocks_unref(g);
    else
        l->blocks = g;
    return 0;
}

int rt_layout_basic(struct rt_layout *l, int64_t nbytes, int64_t extent, enum rt_elem elem)
{
    struct list list = { 0 };
    if (nbytes == extent) { /* needs no memory, so it cannot fail */
        *l = (struct rt_layout){ .size = nbytes,
                                 .extent = extent,
                                 .true_extent = nbytes,
                                 .contig = true,
                                 .elem = (uint8_t)elem };
        return 0;
    }
    int err = append(&list, (struct rt_block){ 0, nbytes, nbytes, 1, NULL });
    return err ? err : finish(l, &list, 0, extent, (uint8_t)elem);
}

/* Bounds while a layout is built from elements.  All arithmetic is checked, so later sums of
 * offsets within the bounds cannot overflow. */
struct bounds {
    int64_t lb, ub, true_lb, true_ub, size;
    bool any;
};

static bool range_of(int64_t at, int64_t count, int64_t step, int64_t low, int64_t high,
                     int64_t *first, int64_t *last)
{
    int64_t span, a, z;
    if (__builtin_mul_overflow(count - 1, step, &span) ||
        __builtin_add_overflow(at, span < 0 ? span : 0, &a) ||
        __builtin_add_overflow(at, span > 0 ? span : 0, &z))
        return false;
    return !__builtin_add_overflow(a, low, first) && !__builtin_add_overflow(z, high, last);
}

static int bounds_add(struct bounds *b, const struct rt_layout *t, int64_t at, int64_t count,
                      int64_t step)
{
    int64_t nbytes, lb, ub, tlb, tub;
    if (!count)
        return 0;
    if (__builtin_mul_overflow(count, t->size, &nbytes) ||
        __builtin_add_overflow(b->size, nbytes, &b->size) ||
        !range_of(at, count, step, t->lb, t->lb + t->extent, &lb, &ub) ||
        !range_of(at, count, step, t->true_lb, t->true_lb + t->true_extent, &tlb, &tub))
        return -RT_EINVAL;
    b->lb = !b->any || lb < b->lb ? lb : b->lb;
    b->ub = !b->any || ub > b->ub ? ub : b->ub;
    b->true_lb = !b->any || tlb < b->true_lb ? tlb : b->true_lb;
    b->true_ub = !b->any || tub > b->true_ub ? tub : b->true_ub;
    b->any = true;
    return 0;
}

/* Computes extent and true extent; false: they do not fit in 63 bits. */
static bool spans(const struct bounds *b, int64_t *extent, int64_t *true_extent)
{
    return !__builtin_sub_overflow(b->ub, b->lb, extent) &&
           !__builtin_sub_overflow(b->true_ub, b->true_lb, true_extent);
}

int rt_layout_vector(struct rt_layout *l, int64_t count, int64_t blocklen, int64_t stride_bytes,
                     const struct rt_layout *old)
{
    struct list list = { 0 };
    struct bounds b = { 0 };
    struct rt_layout block;
    int64_t span = 0, true_span = 0, block_step;
    if (!count)
        blocklen = 0;
    int err = bounds_add(&b, old, 0, blocklen, old->extent);
    if (err || !spans(&b, &span, &true_span))
        return -RT_EINVAL;
    if (blocklen) {
        /* size and bounds of all blocks, from those of one */
        block = (struct rt_layout){ .size = b.size,
                                    .lb = b.lb,
                                    .extent = span,
                                    .true_lb = b.true_lb,
                                    .true_extent = true_span };
        b = (struct bounds){ 0 };
        err = bounds_add(&b, &block, 0, count, stride_bytes);
        if (err || !spans(&b, &span, &true_span))
            return -RT_EINVAL;
    }
    if (blocklen <= 1) {
        err = append_elements(&list, old, 0, blocklen ? count : 0, stride_bytes);
    } else if (!__builtin_mul_overflow(blocklen, old->extent, &block_step) &&
               stride_bytes == block_step) {
        err = append_elements(&list, old, 0, count * blocklen, old->extent);
    } else {
        struct list one = { 0 };
        const struct rt_blocks *g = NULL;
        err = append_elements(&one, old, 0, blocklen, old->extent);
        if (err)
            list_free(&one);
        else if (!(g = group_of(&one)))
            err = -RT_ENOMEM;
        else
            err = append_group(&list, g, 0, count, stride_bytes);
        rt_blocks_unref(g);
    }
    if (err) {
        list_free(&list);
        return err;
    }
    return finish(l, &list, b.lb, span, old->elem);
}

int rt_layout_struct(struct rt_layout *l, int64_t count, const int64_t *blocklen,
                     const int64_t *disp, const struct rt_layout *const *types, bool one_type)
{
    struct list list = { 0 };
    struct bounds b = { 0 };
    int err = 0, elem = -1;
    int64_t extent, true_extent;
    for (int64_t i = 0; i < count && !err; i++) {
        const struct rt_layout *t = types[one_type ? 0 : i];
        err = bounds_add(&b, t, disp[i], blocklen[i], t->extent);
        if (!err && blocklen[i] && t->size)
            elem = elem < 0 || elem == t->elem ? t->elem : RT_ELEM_NONE;
    }
    if (!err && !spans(&b, &extent, &true_extent))
        err = -RT_EINVAL;
    for (int64_t i = 0; i < count && !err; i++) {
        const struct rt_layout *t = types[one_type ? 0 : i];
        err = append_elements(&list, t, disp[i], blocklen[i], t->extent);
    }
    if (err) {
        list_free(&list);
        return err;
    }
    return finish(l, &list, b.lb, extent, (uint8_t)(elem < 0 ? RT_ELEM_NONE : elem));
}

int rt_layout_resized(struct rt_layout *l, int64_t lb, int64_t extent, const struct rt_layout *old)
{
    struct list list = { 0 };
    int64_t ub;
    if (__builtin_add_overflow(lb, extent, &ub))
        return -RT_EINVAL;
    if (!old->contig) {
        const struct rt_blocks *g = old->blocks;
        bool contig = !lb && extent == old->size &&
                      (!g->n || (g->n == 1 && g->piece && !g->off[0]));
        *l = *old;
        l->lb = lb;
        l->extent = extent;
        l->contig = contig;
        l->blocks = contig ? NULL : rt_blocks_ref(g);
        return 0;
    }
    int err = append_elements(&list, old, 0, 1, old->extent);
    return err ? err : finish(l, &list, lb, extent, old->elem);
}

int rt_layout_dup(struct rt_layout *l, const struct rt_layout *old)
{
    *l = *old;
    rt_blocks_ref(l->blocks);
    return 0;
}

void rt_layout_fini(struct rt_layout *l)
{
    rt_blocks_unref(l->blocks);
    *l = (struct rt_layout){ 0 };
}
