/* SPDX-License-Identifier: BSD-3-Clause */
/* What the algorithm files share: their tables, small helpers, and builders that larger algorithms
 * are composed of.
 *
 * In headers: p ranks, m bytes a rank contributes, a = time of a message's start, b = time of a
 * byte, c = time to combine a byte. */
#ifndef COLL_ALGO_ALGO_H
#define COLL_ALGO_ALGO_H

#include "coll/coll.h"
#include "coll/sched.h"

/* Tables end with a row without a name. */
extern const struct coll_alg coll_barrier_algs[], coll_bcast_algs[], coll_reduce_algs[],
    coll_allreduce_algs[], coll_gather_algs[], coll_scatter_algs[], coll_allgather_algs[],
    coll_alltoall_algs[], coll_reduce_scatter_algs[], coll_scan_algs[], coll_neighbor_algs[];

static inline char *coll_at(const void *buf, int64_t n, const struct rt_layout *l)
{
    return (char *)buf + n * l->extent; /* const is dropped for callers that only read through it */
}

/* Largest power of two <= n, n >= 1. */
static inline int coll_pow2_below(int n) { return 1 << (31 - __builtin_clz((unsigned)n)); }

/* Cut of n elements into `parts` nearly equal runs: where run i starts; run i ends where i + 1
 * starts. */
static inline int64_t coll_cut(int64_t n, int parts, int i)
{
    int64_t each = n / parts, rest = n % parts;
    return i * each + (i < rest ? i : rest);
}

/* What a reduction reads: the send buffer, or the receive buffer in place. */
static inline const void *coll_input(const struct coll_args *a)
{
    return a->sbuf == COLL_IN_PLACE ? a->rbuf : a->sbuf;
}

/* Rounds of empty messages after which each rank has a message, direct or relayed, of each other
 * one; and a tree up which all notify rank 0 that they are here, whose last round is left open. */
void coll_build_dissemination(struct coll_sched *s, const struct coll_team *t);
void coll_build_arrive(struct coll_sched *s, const struct coll_team *t);
/* Binomial broadcast of n elements at buf from root; and the same with its last round, in which a
 * rank sends, left open. */
void coll_build_bcast(struct coll_sched *s, const struct coll_team *t, void *buf, int64_t n,
                      const struct rt_layout *l, int root);
void coll_build_bcast_open(struct coll_sched *s, const struct coll_team *t, void *buf, int64_t n,
                           const struct rt_layout *l, int root);
/* Length of a piece in which nbytes go along a chain of p ranks or hosts; 0: a tree is better. */
int64_t coll_chain_piece(int64_t nbytes, int p);
extern int64_t coll_chain_trip; /* for tests */
/* Packed form of a broadcast's buffer: itself when contiguous, else a temporary that the root
 * fills; and at last, elsewhere than at the root, back from it. */
char *coll_build_packed(struct coll_sched *s, const struct coll_team *t, const struct coll_args *a,
                        int64_t nbytes);
void coll_build_unpacked(struct coll_sched *s, const struct coll_team *t, const struct coll_args *a,
                         const char *p, int64_t nbytes);
/* Reduction of n elements at buf to all ranks, in place: recursive doubling; or recursive halving
 * and doubling, for operations that commute. */
void coll_build_doubling(struct coll_sched *s, const struct coll_team *t, void *buf, int64_t n,
                         const struct rt_layout *l);
void coll_build_rabenseifner(struct coll_sched *s, const struct coll_team *t, void *buf, int64_t n,
                             const struct rt_layout *l);
/* Binomial reduction from `in` (read only, but may be `out`) to `out` on root, in rank order where
 * the operation needs it; `out` is not used elsewhere. */
void coll_build_reduce(struct coll_sched *s, const struct coll_team *t, const struct coll_args *a,
                       const void *in, void *out, int root);
/* The scan or exscan `a` by recursive doubling. */
void coll_build_scan(struct coll_sched *s, const struct coll_team *t, const struct coll_args *a);
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
