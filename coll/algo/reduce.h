/* SPDX-License-Identifier: BSD-3-Clause */
/* Reduction to one rank. */
#ifndef COLL_ALGO_REDUCE_H
#define COLL_ALGO_REDUCE_H

#include "coll/sched.h"

/* Binomial reduction from `in` (read only, but may be `out`) to `out` on root, in rank order where
 * the operation needs it; `out` is not used elsewhere. */
void coll_build_reduce(struct coll_sched *s, const struct coll_team *t, const struct coll_args *a,
                       const void *in, void *out, int root);

/* Largest power of two <= n, n >= 1. */
static inline int coll_pow2_below(int n) { return 1 << (31 - __builtin_clz((unsigned)n)); }

/* The part of recursive halving that is common to reduce and allreduce: folds the ranks beyond a
 * power of two, then halves. Works on `acc` in place with `tmp` of the same shape. */
struct coll_halving {
    int vr;         /* rank among the active ones; -1: folded away */
    int pow2, rest; /* active ranks; ranks folded away */
    int64_t lo, hi; /* elements of acc that are complete here */
};
struct coll_halving coll_build_halving(struct coll_sched *s, const struct coll_team *t, void *acc,
                                       void *tmp, int64_t n, const struct rt_layout *l);
/* Real rank of active rank vr. */
static inline int coll_halving_rank(const struct coll_halving *h, int vr)
{
    return vr < h->rest ? 2 * vr + 1 : vr + h->rest;
}

#endif
