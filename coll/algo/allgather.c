/* SPDX-License-Identifier: BSD-3-Clause */
/* Gather to all ranks over messages.
 *
 * recursive_doubling: pairs at distance 1, 2, 4, ... exchange all they have.  log2(p) a + (p - 1)
 * m b.  Best for small and medium blocks; p a power of two.
 *
 * bruck: the same bound for any p, at the price of a rotated temporary copy; also serves given
 * counts.
 *
 * ring: every block travels once round the ring.  (p - 1) (a + m b), always between neighbours.
 * Best for large blocks; also serves given counts.
 *
 * Reference: Bruck et al., "Efficient algorithms for all-to-all communications in multiport
 * message-passing systems", 1997. */
#include "coll/algo/algo.h"
#include "coll/sched.h"
#include "runtime/base/err.h"

static struct coll_block block_of(const struct coll_args *a, int rank)
{
    return coll_args_block(a, COLL_RECV, rank);
}

static void build_own(struct coll_sched *s, const struct coll_team *t, const struct coll_args *a)
{
    struct coll_block own = block_of(a, t->rank);
    if (a->sbuf != COLL_IN_PLACE)
        coll_sched_copy(s, a->sbuf, a->scount, a->stype, own.at, own.n, own.l);
    coll_sched_round(s);
}

static int start_recursive_doubling(struct coll_team *t, const struct coll_args *a,
                                    struct coll_task *k)
{
    struct coll_sched *s = coll_sched_new(k);
    if (!s)
        return -RT_ENOMEM;
    build_own(s, t, a);
    for (int mask = 1; mask < t->size; mask *= 2) {
        int mine = t->rank & ~(mask - 1), theirs = mine ^ mask, peer = t->rank ^ mask;
        coll_sched_recv(s, coll_at(a->rbuf, theirs * a->rcount, a->rtype), mask * a->rcount,
                        a->rtype, peer);
        coll_sched_send(s, coll_at(a->rbuf, mine * a->rcount, a->rtype), mask * a->rcount, a->rtype,
                        peer);
        coll_sched_round(s);
    }
    return coll_sched_go(s);
}

static int start_bruck(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    struct coll_sched *s = coll_sched_new(k);
    if (!s)
        return -RT_ENOMEM;
    int p = t->size;
    int64_t block = a->rcount * a->rtype->size;
    char *tmp = coll_sched_tmp(s, p * block); /* tmp block i is that of rank + i */
    if (a->sbuf == COLL_IN_PLACE)
        coll_sched_copy(s, coll_at(a->rbuf, t->rank * a->rcount, a->rtype), a->rcount, a->rtype,
                        tmp, block, &coll_bytes);
    else
        coll_sched_copy(s, a->sbuf, a->scount, a->stype, tmp, block, &coll_bytes);
    coll_sched_round(s);
    for (int have = 1; have < p; have *= 2) {
        int n = have < p - have ? have : p - have;
        coll_sched_recv(s, tmp + have * block, n * block, &coll_bytes, (t->rank + have) % p);
        coll_sched_send(s, tmp, n * block, &coll_bytes, (t->rank - have + p) % p);
        coll_sched_round(s);
    }
    for (int i = 0; i < p; i++)
        coll_sched_copy(s, tmp + i * block, block, &coll_bytes,
                        coll_at(a->rbuf, (t->rank + i) % p * a->rcount, a->rtype), a->rcount,
                        a->rtype);
    return coll_sched_go(s);
}

/* Packed bytes of the `n` blocks from that of rank `from` on, round the ranks. */
static int64_t bytes_from(const struct coll_team *t, const struct coll_args *a, int from, int n)
{
    int64_t sum = 0;
    for (int i = 0; i < n; i++)
        sum += a->rcounts[(from + i) % t->size];
    return sum * a->rtype->size;
}

static int start_bruck_v(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    struct coll_sched *s = coll_sched_new(k);
    if (!s)
        return -RT_ENOMEM;
    int p = t->size, r = t->rank;
    int64_t own = bytes_from(t, a, r, 1);
    char *tmp = coll_sched_tmp(s, bytes_from(t, a, r, p)); /* blocks of rank, rank + 1, ... */
    if (a->sbuf == COLL_IN_PLACE) {
        struct coll_block b = block_of(a, r);
        coll_sched_copy(s, b.at, b.n, b.l, tmp, own, &coll_bytes);
    } else {
        coll_sched_copy(s, a->sbuf, a->scount, a->stype, tmp, own, &coll_bytes);
    }
    coll_sched_round(s);
    for (int have = 1; have < p; have *= 2) {
        int more = have < p - have ? have : p - have, from = (r + have) % p;
        coll_sched_recv(s, tmp + bytes_from(t, a, r, have), bytes_from(t, a, from, more),
                        &coll_bytes, from);
        coll_sched_send(s, tmp, bytes_from(t, a, r, more), &coll_bytes, (r - have + p) % p);
        coll_sched_round(s);
    }
    for (int i = 0; i < p; i++) {
        struct coll_block b = block_of(a, (r + i) % p);
        coll_sched_copy(s, tmp + bytes_from(t, a, r, i), b.n * b.l->size, &coll_bytes, b.at, b.n,
                        b.l);
    }
    return coll_sched_go(s);
}

static int start_ring(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    struct coll_sched *s = coll_sched_new(k);
    if (!s)
        return -RT_ENOMEM;
    int p = t->size;
    build_own(s, t, a);
    for (int i = 0; i < p - 1; i++) {
        struct coll_block give = block_of(a, (t->rank - i + p) % p),
                          take = block_of(a, (t->rank - i - 1 + p) % p);
        coll_sched_recv(s, take.at, take.n, take.l, (t->rank - 1 + p) % p);
        coll_sched_send(s, give.at, give.n, give.l, (t->rank + 1) % p);
        coll_sched_round(s);
    }
    return coll_sched_go(s);
}

const struct coll_alg coll_allgather_algs[] = {
    { "recursive_doubling", "log2(p) exchanges of all blocks that a rank has", COLL_ALLGATHER,
      COLL_NEED_POW2, start_recursive_doubling },
    { "bruck", "log2(p) rounds for any p", COLL_ALLGATHER, 0, start_bruck },
    { "ring", "blocks travel round a ring", COLL_ALLGATHER, 0, start_ring },
    { "bruck", "log2(p) rounds for any p", COLL_ALLGATHERV, 0, start_bruck_v },
    { "ring", "blocks travel round a ring", COLL_ALLGATHERV, 0, start_ring },
    { 0 },
};
