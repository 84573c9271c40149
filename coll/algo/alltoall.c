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
#include "coll/algo/alltoall.h"
#include "coll/algo/algo.h"
#include "coll/sched.h"
#include "runtime/base/err.h"

/* Exchanges in progress at once: several, to hide the start-up time, but few, so that at any time
 * the ranks send to different ranks. */
#define WINDOW 8

static struct coll_block block_to(const struct coll_args *a, int dst)
{
    return coll_args_block(a, a->sbuf == COLL_IN_PLACE ? COLL_RECV : COLL_SEND, dst);
}

static struct coll_block block_from(const struct coll_args *a, int src)
{
    return coll_args_block(a, COLL_RECV, src);
}

char *coll_build_set_aside(struct coll_sched *s, const struct coll_team *t,
                           const struct coll_args *a)
{
    int64_t total = 0, at = 0;
    for (int i = 0; i < t->size; i++) {
        struct coll_block b = block_from(a, i);
        total += coll_block_nbytes(&b);
    }
    char *old = coll_sched_tmp(s, total);
    for (int i = 1; i < t->size; i++) {
        struct coll_block b = block_from(a, (t->rank + i) % t->size);
        int64_t len = coll_block_nbytes(&b);
        coll_sched_copy(s, b.at, b.n, b.l, old + at, len, &coll_bytes);
        at += len;
    }
    coll_sched_round(s);
    return old;
}

static int start_exchange(struct coll_team *t, const struct coll_args *a, struct coll_task *k,
                          int window)
{
    struct coll_sched *s = coll_sched_new(k);
    if (!s)
        return -RT_ENOMEM;
    int p = t->size;
    bool in_place = a->sbuf == COLL_IN_PLACE;
    char *old = in_place ? coll_build_set_aside(s, t, a) : NULL;
    if (!in_place) {
        struct coll_block from = block_to(a, t->rank), to = block_from(a, t->rank);
        coll_sched_copy(s, from.at, from.n, from.l, to.at, to.n, to.l);
        coll_sched_round(s);
    }
    for (int i = 1; i < p; i++) {
        int dst = (t->rank + i) % p, src = (t->rank - i + p) % p;
        struct coll_block from = block_to(a, dst), to = block_from(a, src);
        coll_sched_recv(s, to.at, to.n, to.l, src);
        if (in_place) {
            coll_sched_send(s, old, coll_block_nbytes(&from), &coll_bytes, dst);
            old += coll_block_nbytes(&from);
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
    int64_t block = a->rcount * a->rtype->size;
    /* Before the rounds tmp block d is for rank + d; after them it has come from rank - d. */
    char *tmp = coll_sched_tmp(s, p * block), *out = coll_sched_tmp(s, p * block),
         *in = coll_sched_tmp(s, p * block);
    for (int d = 0; d < p; d++) {
        struct coll_block b = block_to(a, (t->rank + d) % p);
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
        struct coll_block b = block_from(a, (t->rank - d + p) % p);
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
