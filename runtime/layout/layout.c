/* SPDX-License-Identifier: BSD-3-Clause */
/* Building layouts: a datatype's bytes as a short list of strided blocks in packed order.  A list
 * grows through append(), which joins what is adjacent or continues a stride, so that what users
 * build from many pieces ends as few blocks. No state; layouts are immutable once built, so any
 * thread may read them. */
#include "runtime/layout/layout.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include <stdlib.h>
#include <string.h>

struct list {
    struct rt_block *b;
    uint32_t n, cap;
};

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
    l->b[l->n++] = b;
    return 0;
}

/* Tries to express `b` by making the last block longer.  Packed order must not change, so only the
 * last one is looked at. */
static bool join(struct rt_block *last, const struct rt_block *b)
{
    if (last->nrep == 1 && b->nrep == 1 && last->off + last->len == b->off) {
        last->len += b->len;
        return true;
    }
    if (last->len != b->len)
        return false;
    int64_t stride = last->nrep > 1 ? last->stride : b->nrep > 1 ? b->stride : b->off - last->off;
    if ((b->nrep > 1 && b->stride != stride) || b->off != last->off + last->nrep * stride)
        return false;
    last->stride = stride;
    last->nrep += b->nrep;
    return true;
}

static int append(struct list *l, struct rt_block b)
{
    if (!b.len || !b.nrep)
        return 0;
    if (b.nrep > 1 && b.stride == b.len) { /* repetitions without gaps are one block */
        b.len *= b.nrep;
        b.nrep = 1;
    }
    if (b.nrep == 1)
        b.stride = b.len;
    return l->n && join(&l->b[l->n - 1], &b) ? 0 : list_push(l, b);
}

/* The blocks of one element; `tmp` serves contiguous ones, which have no list. */
static const struct rt_block *blocks_of(const struct rt_layout *l, struct rt_block *tmp,
                                        uint32_t *n)
{
    if (!l->contig) {
        *n = l->nblocks;
        return l->blocks;
    }
    *tmp = (struct rt_block){ 0, l->size, l->size, 1 };
    *n = l->size ? 1 : 0;
    return tmp;
}

/* `count` elements, `step` bytes apart, the first at `at`. */
static int append_elements(struct list *l, const struct rt_layout *t, int64_t at, int64_t count,
                           int64_t step)
{
    struct rt_block tmp;
    uint32_t n;
    const struct rt_block *b = blocks_of(t, &tmp, &n);
    if (n == 1 &&
        b[0].nrep == 1) /* one piece an element: the elements themselves are the repetitions */
        return append(l, (struct rt_block){ at + b[0].off, b[0].len, step, count });
    if (n == 1 && step == b[0].stride * b[0].nrep) /* the next element continues the stride */
        return append(l,
                      (struct rt_block){ at + b[0].off, b[0].len, b[0].stride, b[0].nrep * count });
    for (int64_t e = 0; e < count; e++) {
        for (uint32_t i = 0; i < n; i++) {
            int err = append(
                l, (struct rt_block){ at + e * step + b[i].off, b[i].len, b[i].stride, b[i].nrep });
            if (err)
                return err;
        }
    }
    return 0;
}

/* Where the data of a block begins and ends. */
static void block_range(const struct rt_block *b, int64_t *low, int64_t *high)
{
    int64_t last = b->off + (b->nrep - 1) * b->stride;
    *low = last < b->off ? last : b->off;
    *high = (last > b->off ? last : b->off) + b->len;
}

/* Turns a list into a layout with the given bounds; takes the list over, also on failure. */
static int finish(struct rt_layout *l, struct list *list, int64_t lb, int64_t extent, uint8_t elem)
{
    *l = (struct rt_layout){ .lb = lb, .extent = extent, .elem = elem };
    int64_t low = 0, high = 0;
    for (uint32_t i = 0; i < list->n; i++) {
        int64_t a, z;
        block_range(&list->b[i], &a, &z);
        low = !i || a < low ? a : low;
        high = !i || z > high ? z : high;
        l->size += list->b[i].len * list->b[i].nrep;
    }
    l->true_lb = low;
    l->true_extent = high - low;
    l->contig = !lb && extent == l->size &&
                (!list->n || (list->n == 1 && list->b[0].nrep == 1 && !list->b[0].off));
    if (l->contig) {
        free(list->b);
        return 0;
    }
    l->nblocks = list->n;
    struct rt_block *b = realloc(list->b, list->n * sizeof *b + (list->n + 1) * sizeof *l->first);
    if (!b) {
        free(list->b);
        return -RT_ENOMEM;
    }
    l->blocks = b;
    l->first = (int64_t *)(b + list->n);
    l->first[0] = 0;
    for (uint32_t i = 0; i < list->n; i++)
        l->first[i + 1] = l->first[i] + b[i].len * b[i].nrep;
    return 0;
}

int rt_layout_basic(struct rt_layout *l, int64_t nbytes, int64_t extent, enum rt_elem elem)
{
    struct list list = { 0 };
    if (nbytes == extent) { /* no memory needed, cannot fail */
        *l = (struct rt_layout){ .size = nbytes,
                                 .extent = extent,
                                 .true_extent = nbytes,
                                 .contig = true,
                                 .elem = (uint8_t)elem };
        return 0;
    }
    int err = append(&list, (struct rt_block){ 0, nbytes, nbytes, 1 });
    return err ? err : finish(l, &list, 0, extent, (uint8_t)elem);
}

/* Bounds while a layout is put together from elements; all arithmetic is checked, so that later
 * sums of offsets that lie inside the bounds cannot overflow. */
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
    b->any = true;
    return 0;
}

int rt_layout_vector(struct rt_layout *l, int64_t count, int64_t blocklen, int64_t stride_bytes,
                     const struct rt_layout *old)
{
    struct list list = { 0 };
    struct bounds b = { 0 };
    struct rt_layout block;
    int64_t span = 0, block_step;
    if (!count)
        blocklen = 0;
    int err = bounds_add(&b, old, 0, blocklen, old->extent);
    if (err || __builtin_sub_overflow(b.ub, b.lb, &span))
        return -RT_EINVAL;
    if (blocklen) {
        /* The size and reach of all blocks, from one block's. */
        block = (struct rt_layout){
            .size = b.size, .lb = b.lb, .extent = span, .true_lb = b.lb, .true_extent = span
        };
        b = (struct bounds){ 0 };
        err = bounds_add(&b, &block, 0, count, stride_bytes);
        if (err || __builtin_sub_overflow(b.ub, b.lb, &span))
            return -RT_EINVAL;
    }
    if (blocklen <= 1) {
        err = append_elements(&list, old, 0, blocklen ? count : 0, stride_bytes);
    } else if (!__builtin_mul_overflow(blocklen, old->extent, &block_step) &&
               stride_bytes == block_step) {
        err = append_elements(&list, old, 0, count * blocklen, old->extent);
    } else {
        struct list one = { 0 };
        err = append_elements(&one, old, 0, blocklen, old->extent);
        if (!err && one.n == 1 && one.b[0].nrep == 1) {
            err = append(&list,
                         (struct rt_block){ one.b[0].off, one.b[0].len, stride_bytes, count });
        } else {
            for (int64_t i = 0; i < count && !err; i++)
                for (uint32_t k = 0; k < one.n && !err; k++)
                    err = append(&list,
                                 (struct rt_block){ i * stride_bytes + one.b[k].off, one.b[k].len,
                                                    one.b[k].stride, one.b[k].nrep });
        }
        free(one.b);
    }
    if (err) {
        free(list.b);
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
    int64_t extent;
    for (int64_t i = 0; i < count && !err; i++) {
        const struct rt_layout *t = types[one_type ? 0 : i];
        err = bounds_add(&b, t, disp[i], blocklen[i], t->extent);
        if (!err && blocklen[i] && t->size)
            elem = elem < 0 || elem == t->elem ? t->elem : RT_ELEM_NONE;
    }
    if (!err && __builtin_sub_overflow(b.ub, b.lb, &extent))
        err = -RT_EINVAL;
    for (int64_t i = 0; i < count && !err; i++) {
        const struct rt_layout *t = types[one_type ? 0 : i];
        err = append_elements(&list, t, disp[i], blocklen[i], t->extent);
    }
    if (err) {
        free(list.b);
        return err;
    }
    return finish(l, &list, b.lb, extent, (uint8_t)(elem < 0 ? RT_ELEM_NONE : elem));
}

int rt_layout_resized(struct rt_layout *l, int64_t lb, int64_t extent, const struct rt_layout *old)
{
    struct list list = { 0 };
    int64_t ub;
    int err = __builtin_add_overflow(lb, extent, &ub)
                  ? -RT_EINVAL
                  : append_elements(&list, old, 0, 1, old->extent);
    if (err) {
        free(list.b);
        return err;
    }
    return finish(l, &list, lb, extent, old->elem);
}

int rt_layout_dup(struct rt_layout *l, const struct rt_layout *old)
{
    return rt_layout_resized(l, old->lb, old->extent, old);
}

void rt_layout_fini(struct rt_layout *l)
{
    free(l->blocks);
    *l = (struct rt_layout){ 0 };
}
