/* SPDX-License-Identifier: BSD-3-Clause */
/* Accumulates: the rule that makes them atomic, for all that element.c does not carry out.  A
 * process that changes the memory of a target by an accumulate holds the stripes of the pages in
 * question, in the target's control block.  This applies to a process of the target's host, which
 * uses a pointer or process_vm_writev, and to the target itself, which executes messages.  Messages
 * with accumulates on device memory are executed by atomic operations of the device if origins'
 * devices change such elements, too (acc_origin.c); else contiguous elements by a kernel where
 * there is one, others after a copy to host memory.
 *
 * Contiguous elements go page by page, with one stripe at a time.  For other layouts, and for
 * elements that cannot be reduced in place, the data of a part are gathered, reduced and
 * scattered while all stripes of its range are held, in ascending order.  An element belongs to the
 * page of its first byte.  The pages of a target are spread over the stripes by a hash, so that
 * processes that go through equal parts of one target in step do not meet in one stripe. */
#include "mpi/rma/acc.h"
#include "mpi/rma/acc_device.h"
#include "mpi/rma/cma.h"
#include "mpi/rma/element.h"
#include "runtime/base/err.h"
#include "runtime/mem/peer.h"
#include "runtime/mem/deaths.h"
#include <stdlib.h>
#include <string.h>

/* Packed bytes that are gathered at a time. */
#define PART ((int64_t)32 << 10)

static inline uint64_t offset_of(const struct wm_rma_acc *a, const char *at)
{
    return (uint64_t)(uintptr_t)at - (uint64_t)(uintptr_t)a->zero;
}

/* A stripe is held for the reduction of a page, or of a part of PART bytes. */
static inline void lock(struct wm_rma_ctl *c, unsigned i)
{
    if (rt_unlikely(!wm_rma_stripe_try(&c->stripe[i], rt_node.rank)))
        rt_node_hold(&c->stripe[i].holder);
}

static inline void unlock(struct wm_rma_ctl *c, unsigned i) { wm_rma_stripe_free(&c->stripe[i]); }

/* The stripes of [low, high), a bit each. */
static uint64_t stripes_of(uint64_t low, uint64_t high)
{
    uint64_t set = 0, first = low / WM_RMA_PAGE, last = (high - 1) / WM_RMA_PAGE;
    if (last - first >= 4 * WM_RMA_STRIPES)
        return ~(uint64_t)0;
    for (uint64_t page = first; page <= last; page++)
        set |= (uint64_t)1 << wm_rma_stripe_of(page * WM_RMA_PAGE);
    return set;
}

static void lock_set(struct wm_rma_ctl *c, uint64_t set)
{
    for (; set; set &= set - 1)
        lock(c, (unsigned)__builtin_ctzll(set));
}

static void unlock_set(struct wm_rma_ctl *c, uint64_t set)
{
    for (; set; set &= set - 1)
        unlock(c, (unsigned)__builtin_ctzll(set));
}

/* ---- reductions of packed data ---- */

/* A pair with a hole between its parts, as C has it; its index is an int. */
static void pairs_expand(char *to, const char *packed, int64_t n, int64_t cbytes, int64_t pbytes)
{
    int64_t value = pbytes - (int64_t)sizeof(int), at = (value + 3) & ~(int64_t)3;
    for (int64_t i = 0; i < n; i++, to += cbytes, packed += pbytes) {
        memcpy(to, packed, (size_t)value);
        memcpy(to + at, packed + value, sizeof(int));
    }
}

static void pairs_pack(char *packed, const char *from, int64_t n, int64_t cbytes, int64_t pbytes)
{
    int64_t value = pbytes - (int64_t)sizeof(int), at = (value + 3) & ~(int64_t)3;
    for (int64_t i = 0; i < n; i++, from += cbytes, packed += pbytes) {
        memcpy(packed, from, (size_t)value);
        memcpy(packed + value, from + at, sizeof(int));
    }
}

#define PAIRS 64 /* of at most 32 bytes, on the stack */

static void fold_pairs(const struct wm_rma_acc *a, rt_reduce_fn *fn, const char *origin,
                       char *inout, int64_t n)
{
    _Alignas(16) char x[PAIRS * 32], y[PAIRS * 32];
    int64_t cbytes = rt_elem_nbytes(a->elem);
    memset(x, 0, sizeof x);
    memset(y, 0, sizeof y);
    while (n > 0) {
        int64_t k = n < PAIRS ? n : PAIRS;
        pairs_expand(x, origin, k, cbytes, a->esize);
        pairs_expand(y, inout, k, cbytes, a->esize);
        fn(x, y, y, k);
        pairs_pack(inout, y, k, cbytes, a->esize);
        origin += k * a->esize;
        inout += k * a->esize;
        n -= k;
    }
}

/* inout = origin op inout; both packed, and aligned unless the operation only moves bytes. */
static void fold(const struct wm_rma_acc *a, const char *origin, char *inout, int64_t len)
{
    if (a->op == RT_OP_NO_OP)
        return;
    if (a->op == RT_OP_REPLACE) {
        memcpy(inout, origin, (size_t)len);
        return;
    }
    rt_reduce_fn *fn = rt_reduce_find(a->op, a->elem);
    if (rt_elem_packs(a->elem))
        fn(origin, inout, inout, len / a->esize);
    else
        fold_pairs(a, fn, origin, inout, len / a->esize);
}

/* ---- contiguous elements in place ---- */

static bool aligned(const struct wm_rma_acc *a, const char *at)
{
    uint64_t unit = (uint64_t)(a->esize & -a->esize), both = (uintptr_t)at | (uintptr_t)a->origin;
    if (a->op == RT_OP_REPLACE || a->op == RT_OP_NO_OP)
        return true;
    return !(both & ((unit < 16 ? unit : 16) - 1));
}

/* Bytes of the elements that begin in the page of `offset`. */
static inline int64_t in_page(const struct wm_rma_acc *a, uint64_t offset, int64_t left)
{
    int64_t page = (int64_t)(WM_RMA_PAGE - offset % WM_RMA_PAGE);
    int64_t n = (page + a->esize - 1) / a->esize * a->esize;
    return n < left ? n : left;
}

static void in_place(const struct wm_rma_acc *a, char *at)
{
    for (int64_t done = 0, n; done < a->len; done += n) {
        uint64_t offset = offset_of(a, at + done);
        n = in_page(a, offset, a->len - done);
        unsigned i = wm_rma_stripe_of(offset);
        lock(a->ctl, i);
        if (a->result)
            memcpy(a->result + done, at + done, (size_t)n);
        fold(a, a->origin + done, at + done, n);
        unlock(a->ctl, i);
    }
}

/* ---- everything else ---- */

/* The range of offsets of the elements that hold bytes [pos, pos + len). */
static void range_of(const struct wm_rma_acc *a, int64_t pos, int64_t len, uint64_t *low,
                     uint64_t *high)
{
    const struct rt_layout *l = a->layout;
    int64_t first = pos / l->size * l->extent, last = (pos + len - 1) / l->size * l->extent;
    int64_t min = first < last ? first : last, max = first < last ? last : first;
    *low = offset_of(a, a->base) + (uint64_t)(min + l->true_lb);
    *high = offset_of(a, a->base) + (uint64_t)(max + l->true_lb + l->true_extent);
}

static int gather(const struct wm_rma_acc *a, int64_t pos, char *to, int64_t len)
{
    if (a->cma >= 0)
        return wm_rma_cma(a->cma, false, a->layout, a->count, a->base, pos, to, len);
    if (rt_unlikely(a->mem))
        return wm_rma_pack(a->mem, a->layout, a->count, a->base, pos, to, len);
    if (a->layout->contig)
        memcpy(to, a->base + pos, (size_t)len);
    else
        rt_layout_pack(a->layout, a->count, a->base, pos, to, len);
    return 0;
}

static int scatter(const struct wm_rma_acc *a, int64_t pos, char *from, int64_t len)
{
    if (a->cma >= 0)
        return wm_rma_cma(a->cma, true, a->layout, a->count, a->base, pos, from, len);
    if (rt_unlikely(a->mem))
        return wm_rma_unpack(a->mem, a->layout, a->count, a->base, pos, from, len);
    if (a->layout->contig)
        memcpy(a->base + pos, from, (size_t)len);
    else
        rt_layout_unpack(a->layout, a->count, a->base, pos, from, len);
    return 0;
}

/* One part; `old` and `in` have room for it. */
static int part(const struct wm_rma_acc *a, int64_t done, int64_t len, char *old, char *in)
{
    bool reads = a->result || a->op != RT_OP_REPLACE;
    uint64_t low, high;
    int64_t pos = a->pos + done;
    int err = rt_unlikely(a->mem) ? wm_rma_acc_atomic(a, done, len) : -RT_ENOTSUP;
    if (err != -RT_ENOTSUP)
        return err;
    range_of(a, pos, len, &low, &high);
    uint64_t set = stripes_of(low, high);
    if (a->op != RT_OP_NO_OP)
        memcpy(in, a->origin + done, (size_t)len);
    lock_set(a->ctl, set);
    err = rt_unlikely(a->mem) ? wm_rma_acc_device(a, done, len) : -RT_ENOTSUP;
    if (err != -RT_ENOTSUP) {
        unlock_set(a->ctl, set);
        return err;
    }
    err = reads ? gather(a, pos, old, len) : 0;
    if (!err && a->result)
        memcpy(a->result + done, old, (size_t)len);
    if (!err && a->op != RT_OP_NO_OP) {
        fold(a, in, old, len);
        err = scatter(a, pos, old, len);
    }
    unlock_set(a->ctl, set);
    return err;
}

static int in_parts(const struct wm_rma_acc *a)
{
    int64_t most = PART / a->esize * a->esize;
    most = a->len < most ? a->len : most;
    char *old = aligned_alloc(64, ((size_t)(2 * most) + 127 + 64) & ~(size_t)63);
    if (!old)
        return -RT_ENOMEM;
    char *in = old + ((most + 63) & ~(int64_t)63);
    int err = 0;
    for (int64_t done = 0, n; done < a->len && !err; done += n) {
        n = a->len - done < most ? a->len - done : most;
        err = part(a, done, n, old, in);
    }
    free(old);
    return err;
}

static void use_stripes(const struct wm_rma_acc *a)
{
    if (rt_unlikely(rt_load_acquire(&a->ctl->rule) != WM_RMA_BY_STRIPE))
        wm_rma_stripes_begin(a->rma, a->ctl);
}

int wm_rma_acc(const struct wm_rma_acc *a)
{
    if (a->len <= 0)
        return 0;
    use_stripes(a);
    if (a->cma >= 0 || a->mem || !a->layout->contig || !aligned(a, a->base + a->pos))
        return in_parts(a);
    in_place(a, a->base + a->pos);
    return 0;
}

int wm_rma_cas(const struct wm_rma_acc *a, const void *compare)
{
    unsigned i = wm_rma_stripe_of(offset_of(a, a->base));
    char old[16];
    int err = rt_unlikely(a->mem) ? wm_rma_cas_atomic(a, compare) : -RT_ENOTSUP;
    if (err != -RT_ENOTSUP)
        return err;
    use_stripes(a);
    lock(a->ctl, i);
    err = gather(a, 0, old, a->len);
    if (!err && !memcmp(old, compare, (size_t)a->len))
        err = scatter(a, 0, (char *)(uintptr_t)a->origin, a->len);
    unlock(a->ctl, i);
    if (!err)
        memcpy(a->result, old, (size_t)a->len);
    return err;
}
