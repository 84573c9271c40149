/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines and cells as flat.c and grid.c use them.  A rank writes its payload of a call into its line
 * or, if it is longer, into its cell, and then stores the line's epoch; readers wait for the epoch.
 */
#ifndef COLL_NODE_LINE_H
#define COLL_NODE_LINE_H

#include <string.h>
#include "coll/node/node.h"
#include "coll/sched.h"
#include "runtime/base/copy.h"

static inline struct coll_node_line *coll_node_line(const struct coll_node *n, uint64_t e, int rank)
{
    unsigned i = e % COLL_NODE_SLOTS * (unsigned)n->team->size + (unsigned)rank;
    return &n->lines[i << n->apart];
}

/* Payload of a rank in call e. */
static inline char *coll_node_data(const struct coll_node *n, uint64_t e, int rank, int64_t payload)
{
    if (payload <= COLL_NODE_LINE)
        return coll_node_line(n, e, rank)->data;
    return coll_node_cell(n, e, rank, payload);
}

static inline void coll_node_pack(char *to, const void *buf, int64_t n, const struct rt_layout *l)
{
    int64_t len = n * l->size;
    if (l->contig && len <= 64)
        rt_copy_small(to, buf, (size_t)len);
    else
        coll_copy(buf, n, l, to, len, &coll_bytes);
}

static inline void coll_node_unpack(const char *from, void *buf, int64_t n,
                                    const struct rt_layout *l)
{
    int64_t len = n * l->size;
    if (l->contig && len <= 64)
        rt_copy_small(buf, from, (size_t)len);
    else
        coll_copy(from, len, &coll_bytes, buf, n, l);
}

/* Shows that this rank's payload of call e is there; lost: it is poisoned. */
static inline void coll_node_store_line(const struct coll_node *n, uint64_t e, bool lost)
{
    uint64_t epoch = rt_unlikely(lost) ? e | COLL_NODE_POISON : e;
    /* payload before epoch */
    rt_store_release(&coll_node_line(n, e, n->team->rank)->epoch, epoch);
}

/* Whether a rank's payload of call e is there. */
static inline bool coll_node_line_there(const struct coll_node *n, uint64_t e, int rank, int *lost)
{
    /* pairs with the release store of the epoch */
    uint64_t epoch = rt_load_acquire(&coll_node_line(n, e, rank)->epoch);
    return epoch == e || coll_node_has_written(epoch, e, lost);
}

/* Bytes.  A part of the sum and of one source stay in a first-level cache, so that the sum is not
 * read and written from the second level for each source. */
#define COLL_NODE_FOLD_PART (8 << 10)

/* Combines `nbytes` bytes of the sources [0, n) in this order, into `acc`, packed.  `acc`
 * may be the first source. */
static inline void coll_node_fold(const struct coll_args *a, rt_reduce_source_fn *source,
                                  const void *arg, int n, char *acc, int64_t nbytes)
{
    const int64_t elem = rt_elem_nbytes(a->rtype->elem);
    if (n == 1) {
        memcpy(acc, source(arg, 0), (size_t)nbytes);
        return;
    }
    if (n > 2 && rt_reduce_is_wide(a->op->code, (enum rt_elem)a->rtype->elem)) {
        rt_reduce_wide(a->op->code, (enum rt_elem)a->rtype->elem, source, arg, n, acc,
                       nbytes / elem);
        return;
    }
    rt_reduce_fn *fn = rt_reduce_find(a->op->code, a->rtype->elem);
    for (int64_t at = 0; at < nbytes; at += COLL_NODE_FOLD_PART) {
        const int64_t left = nbytes - at;
        const int64_t elems = (left < COLL_NODE_FOLD_PART ? left : COLL_NODE_FOLD_PART) / elem;
        const char *first = (const char *)source(arg, 0) + at;
        for (int i = 1; i < n; i++) {
            fn(first, (const char *)source(arg, i) + at, acc + at, elems);
            first = acc + at;
        }
    }
}

#endif
