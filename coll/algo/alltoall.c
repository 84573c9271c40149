/* SPDX-License-Identifier: BSD-3-Clause */
/* Complete exchange over messages.
 *
 * bruck: packed blocks move by distances that are powers of two; round k sends all blocks whose
 * remaining distance has bit k. log2(p) (a + p/2 m b).  Best for small blocks.
 *
 * pairwise: in round i a rank sends to rank + i and receives from rank - i, with a window of rounds
 * in progress at a time. (p - 1) (a + m b).  Best for large blocks; also serves given counts and
 * types.
 *
 * linear: the same with all exchanges in progress at once.  Fewer waits, more buffers; also serves
 * given counts and types.
 *
 * In place, the old contents of the receive buffer are set aside in packed form first.
 *
 * Reference: Bruck et al., "Efficient algorithms for all-to-all communications in multiport
 * message-passing systems", 1997. */
#include "coll/algo/algo.h"
#include "coll/sched.h"
#include "runtime/base/err.h"

/* Exchanges in progress at once: several, to hide the start-up time, but few, so that at any time
 * the ranks send to different ranks. */
#define WINDOW 8

/* Where the block for or from a rank lies. */
struct block {
    char *at;
    int64_t n;
    const struct rt_layout *l;
};

static struct block send_block(const struct coll_args *a, int i)
{
    if (a->kind == COLL_ALLTOALLW)
        return (struct block){ (char *)a->sbuf + a->sdispls[i], a->scounts[i], a->stypes[i] };
    if (a->kind == COLL_ALLTOALLV)
        return (struct block){ coll_at(a->sbuf, a->sdispls[i], a->stype), a->scounts[i], a->stype };
    return (struct block){ coll_at(a->sbuf, i * a->scount, a->stype), a->scount, a->stype };
}

static struct block recv_block(const struct coll_args *a, int i)
{
    if (a->kind == COLL_ALLTOALLW)
        return (struct block){ (char *)a->rbuf + a->rdispls[i], a->rcounts[i], a->rtypes[i] };
    if (a->kind == COLL_ALLTOALLV)
        return (struct block){ coll_at(a->rbuf, a->rdispls[i], a->rtype), a->rcounts[i], a->rtype };
    return (struct block){ coll_at(a->rbuf, i * a->rcount, a->rtype), a->rcount, a->rtype };
}

static int64_t block_bytes(struct block b) { return b.n * b.l->size; }

static int start_exchange(struct coll_team *t, const struct coll_args *a, struct coll_task *k,
                          int window)
{
    struct coll_sched *s = coll_sched_new(k);
    if (!s)
        return -RT_ENOMEM;
    int p = t->size;
    bool in_place = a->sbuf == COLL_IN_PLACE;
    char *old = NULL;
    if (in_place) {
        int64_t total = 0;
        for (int i = 0; i < p; i++)
            total += block_bytes(recv_block(a, i));
        old = coll_sched_tmp(s, total);
    } else {
        struct block from = send_block(a, t->rank), to = recv_block(a, t->rank);
        coll_sched_copy(s, from.at, from.n, from.l, to.at, to.n, to.l);
    }
    int64_t off = 0;
    for (int i = 1; in_place && i < p; i++) { /* filled in the order in which it is sent */
        struct block b = recv_block(a, (t->rank + i) % p);
        coll_sched_copy(s, b.at, b.n, b.l, old + off, block_bytes(b), &coll_bytes);
        off += block_bytes(b);
    }
    coll_sched_round(s);
    for (int i = 1; i < p; i++) {
        int dst = (t->rank + i) % p, src = (t->rank - i + p) % p;
        struct block from = in_place ? recv_block(a, dst) : send_block(a, dst),
                     to = recv_block(a, src);
        coll_sched_recv(s, to.at, to.n, to.l, src);
        if (in_place) {
            coll_sched_send(s, old, block_bytes(from), &coll_bytes, dst);
            old += block_bytes(from);
        } else {
            coll_sched_send(s, from.at, from.n, from.l, dst);
        }
        if (i % window == 0)
            coll_sched_round(s);
    }
    return coll_sched_go(s);
}

static int start_pairwise(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    return start_exchange(t, a, k, WINDOW);
}

static int start_linear(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    return start_exchange(t, a, k, t->size);
}

/* Copies the blocks whose distance has the bit into `pack`, or back from it; returns their
 * number. */
static int bruck_move(struct coll_sched *s, char *tmp, char *pack, int64_t block, int p, int bit,
                      bool out)
{
    int n = 0;
    for (int d = bit; d < p; d++) {
        if (!(d & bit))
            continue;
        char *in_tmp = tmp + d * block, *in_pack = pack + n * block;
        coll_sched_copy(s, out ? in_tmp : in_pack, block, &coll_bytes, out ? in_pack : in_tmp,
                        block, &coll_bytes);
        n++;
    }
    return n;
}

static int start_bruck(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    struct coll_sched *s = coll_sched_new(k);
    if (!s)
        return -RT_ENOMEM;
    int p = t->size;
    int64_t block = block_bytes(recv_block(a, 0));
    /* Before the rounds tmp block d is for rank + d; after them it has come from rank - d. */
    char *tmp = coll_sched_tmp(s, p * block), *out = coll_sched_tmp(s, p * block),
         *in = coll_sched_tmp(s, p * block);
    for (int d = 0; d < p; d++) {
        int dst = (t->rank + d) % p;
        struct block b = a->sbuf == COLL_IN_PLACE ? recv_block(a, dst) : send_block(a, dst);
        coll_sched_copy(s, b.at, b.n, b.l, tmp + d * block, block, &coll_bytes);
    }
    for (int bit = 1; bit < p; bit *= 2) {
        int n = bruck_move(s, tmp, out, block, p, bit, true);
        coll_sched_round(s);
        coll_sched_recv(s, in, n * block, &coll_bytes, (t->rank - bit + p) % p);
        coll_sched_send(s, out, n * block, &coll_bytes, (t->rank + bit) % p);
        bruck_move(s, tmp, in, block, p, bit, false);
        coll_sched_round(s);
    }
    for (int d = 0; d < p; d++) {
        struct block b = recv_block(a, (t->rank - d + p) % p);
        coll_sched_copy(s, tmp + d * block, block, &coll_bytes, b.at, b.n, b.l);
    }
    return coll_sched_go(s);
}

const struct coll_alg coll_alltoall_algs[] = {
    { "bruck", "log2(p) rounds of packed blocks", COLL_ALLTOALL, 0, start_bruck },
    { "pairwise", "p - 1 exchanges", COLL_ALLTOALL, 0, start_pairwise },
    { "pairwise", "p - 1 exchanges", COLL_ALLTOALLV, 0, start_pairwise },
    { "pairwise", "p - 1 exchanges", COLL_ALLTOALLW, 0, start_pairwise },
    { "linear", "all exchanges at once", COLL_ALLTOALL, 0, start_linear },
    { "linear", "all exchanges at once", COLL_ALLTOALLV, 0, start_linear },
    { "linear", "all exchanges at once", COLL_ALLTOALLW, 0, start_linear },
    { 0 },
};
