/* SPDX-License-Identifier: BSD-3-Clause */
/* A large reduction of two ranks, with the result at one or both, where each rank can read the
 * other's memory.  The ranks take chunks of the vector by a counter in shared memory.  The rank
 * that takes a chunk reads the peer's operand, combines, and writes the result into the buffers of
 * the ranks that get it.  One rank takes chunks from the front and the other from the back, so in
 * every call a rank works on the same part of a buffer.  The root takes more chunks, because a
 * chunk costs it less.  Once a chunk is taken, the other rank does not access its operands, so
 * results may replace operands.
 *
 * Cost: about m (b + c) (x + 2) / (2 x + 2), where a chunk takes the root x times as long as its
 * peer; against m (b + c) if the root works alone.  For the surrounding call, and for when memory
 * may be overwritten, see ring.c. */
#include "coll/node/pair.h"

/* What each of the two ranks publishes at the beginning of the half. */
struct here {
    _Alignas(RT_CACHE_LINE) uint64_t in, out; /* addresses */
    int64_t nbytes;                           /* there; both alike but in erroneous programs */
    uint64_t next;                            /* of rank 0: chunks taken */
};

static struct here *here_of(const struct coll_node *n, int rank)
{
    return (struct here *)(void *)coll_node_half(n, 0) + rank;
}

void coll_node_pair_give(struct coll_node *n, const struct coll_args *a, uint64_t e)
{
    *here_of(n, n->team->rank) = (struct here){ (uint64_t)(uintptr_t)coll_input(a),
                                                (uint64_t)(uintptr_t)a->rbuf,
                                                coll_args_bytes(n->team, a), 0 };
    coll_node_publish(n, e, 1);
}

struct work {
    struct coll_team *team;
    int64_t elem_nbytes;
    const char *in;    /* own operand */
    char *out;         /* place of the result; NULL: only the peer gets it */
    char *scratch;     /* memory for a chunk; NULL: the peer's operand may be read into `out` */
    uint64_t peer_in;  /* the peer's operand, in the peer's memory */
    uint64_t peer_out; /* place of the result in the peer's memory; 0: the peer does not get it */
    rt_reduce_fn *fn;
};

static int do_chunk(const struct work *w, int64_t at, int64_t len)
{
    struct coll_team *t = w->team;
    const int peer = !t->rank;
    char *got = w->scratch ? w->scratch : w->out + at;
    int err = t->ops->peer_read(t, peer, got, w->peer_in + (uint64_t)at, (size_t)len);
    if (err < 0)
        return err;
    const char *own = w->in + at;
    char *out = w->out ? w->out + at : got;
    w->fn(t->rank == 0 ? own : got, t->rank == 0 ? got : own, out, len / w->elem_nbytes);
    return w->peer_out ? t->ops->peer_write(t, peer, w->peer_out + (uint64_t)at, out, (size_t)len)
                       : 0;
}

int coll_node_pair_work(struct coll_node *n, const struct coll_args *a)
{
    struct coll_team *t = n->team;
    const bool both = a->kind == COLL_ALLREDUCE;
    const bool gets = both || t->rank == a->root, peer_gets = both || t->rank != a->root;
    const bool from_back = both ? t->rank == 1 : !gets; /* takes the last chunks first */
    const struct here *peer = here_of(n, !t->rank);
    struct work w = {
        .team = t,
        .elem_nbytes = rt_elem_nbytes(a->rtype->elem),
        .in = coll_input(a),
        .out = gets ? a->rbuf : NULL,
        .peer_in = peer->in,
        .peer_out = peer_gets ? peer->out : 0,
        .fn = rt_reduce_find(a->op->code, a->rtype->elem),
    };
    if ((!gets || w.in == w.out) && !(w.scratch = coll_node_scratch(n)))
        return -RT_ENOMEM;
    int64_t nbytes = coll_args_bytes(t, a);
    nbytes = nbytes < peer->nbytes ? nbytes : peer->nbytes;
    int64_t half = (nbytes / 2 + 4095) & ~(int64_t)4095,
            chunk = half < COLL_NODE_PAIR_CHUNK ? half : COLL_NODE_PAIR_CHUNK;
    int64_t nchunks = coll_pieces(nbytes, chunk);
    for (int64_t mine = 0;; mine++) {
        if ((int64_t)__atomic_fetch_add(&here_of(n, 0)->next, 1, __ATOMIC_RELAXED) >= nchunks)
            return 0;
        struct coll_piece c = coll_piece_of(nbytes, chunk, from_back ? nchunks - 1 - mine : mine);
        int err = do_chunk(&w, c.at, c.len);
        if (err < 0)
            return err;
    }
}
