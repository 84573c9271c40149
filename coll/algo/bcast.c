/* SPDX-License-Identifier: BSD-3-Clause */
/* Broadcast over messages.
 *
 * binomial: each rank that has the data passes it to half of those behind it.  log2(p) (a + m b).
 * Best for small data.
 *
 * chain: the ranks form a chain from the root, the data flows through it in pieces of d bytes. (p -
 * 2 + m/d) (a + d b).  Best for large data and few ranks; if the tree is not slower, the tree is
 * used.
 *
 * scatter_ring: the root scatters p pieces down a binomial tree, a ring of p - 1 rounds brings all
 * pieces to all ranks. (log2(p) + p - 1) a + 2 m b.  Best for large data and many ranks.
 *
 * Reference: Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in
 * MPICH", 2005.
 *
 * Layouts may differ between ranks as long as the data agree, so pieces are cut from the packed
 * bytes. */
#include "coll/algo/bcast.h"
#include "coll/algo/algo.h"
#include "coll/sched.h"
#include "runtime/base/err.h"

/* a / b, in bytes: what the network carries while a piece is requested, granted and acknowledged.
 * A piece of 128 KiB took 470 us over TCP between 2 or 4 times 4 ranks on one machine of 32 cores,
 * where 8 MiB go at 3 GB/s (1.2 MB); by RDMA with 100 Gbit/s it would be some 100 KB. */
#define TRIP (512 << 10)

int64_t coll_chain_piece(const struct coll_team *t, int64_t nbytes, int p)
{
    if (!nbytes || p < 3)
        return 0;
    int64_t override = t->override.chain_trip;
    double m = (double)nbytes, trip = (double)(override ? override : TRIP), d = 1;
    int levels = 0;
    while (d < m && d * d * (p - 2) < m * trip)
        d *= 2;
    while (1 << levels < p)
        levels++;
    bool chain = (p - 2 + m / d) * (trip + d) < levels * (trip + m);
    return chain ? (int64_t)d : 0;
}

void coll_build_bcast_open(struct coll_sched *s, const struct coll_team *t, void *buf, int64_t n,
                           const struct rt_layout *l, int root)
{
    int p = t->size, vr = (t->rank - root + p) % p, mask = 1;
    while (mask < p && !(vr & mask))
        mask *= 2;
    if (vr) { /* mask is the lowest bit of vr: the parent lacks it */
        coll_sched_recv(s, buf, n, l, (vr - mask + root) % p);
        coll_sched_round(s);
    }
    for (mask /= 2; mask > 0; mask /= 2)
        if (vr + mask < p)
            coll_sched_send(s, buf, n, l, (vr + mask + root) % p);
}

void coll_build_bcast(struct coll_sched *s, const struct coll_team *t, void *buf, int64_t n,
                      const struct rt_layout *l, int root)
{
    coll_build_bcast_open(s, t, buf, n, l, root);
    coll_sched_round(s);
}

static int start_binomial(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    struct coll_sched *s = coll_sched_new(k);
    if (!s)
        return -RT_ENOMEM;
    coll_build_bcast(s, t, a->rbuf, a->rcount, a->rtype, a->root);
    return coll_sched_go(s);
}

char *coll_build_packed(struct coll_sched *s, const struct coll_team *t, const struct coll_args *a,
                        int64_t nbytes)
{
    if (a->rtype->contig)
        return a->rbuf;
    char *p = coll_sched_tmp(s, nbytes);
    if (t->rank == a->root) {
        coll_sched_copy(s, a->rbuf, a->rcount, a->rtype, p, nbytes, &coll_bytes);
        coll_sched_round(s);
    }
    return p;
}

void coll_build_unpacked(struct coll_sched *s, const struct coll_team *t, const struct coll_args *a,
                         const char *p, int64_t nbytes)
{
    if (!a->rtype->contig && t->rank != a->root)
        coll_sched_copy(s, p, nbytes, &coll_bytes, a->rbuf, a->rcount, a->rtype);
}

static int start_chain(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    int64_t nbytes = a->rcount * a->rtype->size, piece = coll_chain_piece(t, nbytes, t->size);
    if (!piece)
        return start_binomial(t, a, k);
    struct coll_sched *s = coll_sched_new(k);
    if (!s)
        return -RT_ENOMEM;
    int p = t->size, vr = (t->rank - a->root + p) % p;
    int prev = (t->rank - 1 + p) % p, next = (t->rank + 1) % p;
    int64_t pieces = (nbytes + piece - 1) / piece;
    char *buf = coll_build_packed(s, t, a, nbytes);
    for (int64_t i = 0; i <= pieces; i++) { /* round i receives piece i and passes piece i - 1 on */
        int64_t at = i * piece, left = nbytes - at, before = left + piece;
        if (vr > 0 && i < pieces)
            coll_sched_recv(s, buf + at, left < piece ? left : piece, &coll_bytes, prev);
        if (vr < p - 1 && i > 0)
            coll_sched_send(s, buf + at - piece, before < piece ? before : piece, &coll_bytes,
                            next);
        coll_sched_round(s);
    }
    coll_build_unpacked(s, t, a, buf, nbytes);
    return coll_sched_go(s);
}

/* Pieces [vr, vr + span) of p belong to the subtree under vr; a parent keeps its own piece and
 * sends each child the pieces of the child's subtree. */
static void build_scatter(struct coll_sched *s, const struct coll_team *t, char *buf,
                          int64_t nbytes, int root)
{
    int p = t->size, vr = (t->rank - root + p) % p, mask = 1;
    while (mask < p && !(vr & mask))
        mask *= 2;
    int end = vr + mask < p ? vr + mask : p;
    if (vr) {
        int64_t at = coll_cut(nbytes, p, vr);
        coll_sched_recv(s, buf + at, coll_cut(nbytes, p, end) - at, &coll_bytes,
                        (vr - mask + root) % p);
        coll_sched_round(s);
    }
    for (mask /= 2; mask > 0; mask /= 2) {
        if (vr + mask >= p)
            continue;
        int64_t at = coll_cut(nbytes, p, vr + mask);
        int child_end = vr + 2 * mask < p ? vr + 2 * mask : p;
        coll_sched_send(s, buf + at, coll_cut(nbytes, p, child_end) - at, &coll_bytes,
                        (vr + mask + root) % p);
    }
    coll_sched_round(s);
}

static int start_scatter_ring(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    struct coll_sched *s = coll_sched_new(k);
    if (!s)
        return -RT_ENOMEM;
    int p = t->size, vr = (t->rank - a->root + p) % p;
    int64_t nbytes = a->rcount * a->rtype->size;
    char *buf = coll_build_packed(s, t, a, nbytes);
    build_scatter(s, t, buf, nbytes, a->root);
    for (int i = 0; i < p - 1; i++) {
        int give = (vr - i + p) % p, take = (vr - i - 1 + p) % p;
        int64_t g = coll_cut(nbytes, p, give), r = coll_cut(nbytes, p, take);
        coll_sched_recv(s, buf + r, coll_cut(nbytes, p, take + 1) - r, &coll_bytes,
                        (t->rank - 1 + p) % p);
        coll_sched_send(s, buf + g, coll_cut(nbytes, p, give + 1) - g, &coll_bytes,
                        (t->rank + 1) % p);
        coll_sched_round(s);
    }
    coll_build_unpacked(s, t, a, buf, nbytes);
    return coll_sched_go(s);
}

const struct coll_alg coll_bcast_algs[] = {
    { "binomial", "tree of log2(p) levels, whole messages", COLL_BCAST, 0, start_binomial },
    { "chain", "pipelined chain of ranks", COLL_BCAST, 0, start_chain },
    { "scatter_ring", "scatter the pieces, then pass them round a ring", COLL_BCAST, 0,
      start_scatter_ring },
    { 0 },
};
