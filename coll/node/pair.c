/* SPDX-License-Identifier: BSD-3-Clause */
/* A large reduction of two ranks, to one of them or both, where each can read the other's memory.
 * Chunks of the vector are given out by a counter in shared memory; whoever takes one reads the
 * other's operand, combines, and puts the result into the buffers of those who want it.  One takes
 * them from the front and the other from the back, so that a rank meets the same part of a buffer
 * in every call.  A chunk of the root's costs it less, so it gets more of them.  No chunk's
 * operands are touched by the other rank once it is taken, so results may lie where operands do.
 *
 * m (b + c) (x + 2) / (2 x + 2) or so, where a chunk takes the root x as long as the other; against
 * m (b + c) when the root works alone.  The calls around it, and what may be overwritten when, are
 * in move.c for reduce and in ring.c for allreduce. */
#include "coll/node/pair.h"

#include "runtime/base/atomic.h"

/* Measured at 2 ranks: half of it costs more in system calls, twice as much leaves one rank idle at
 * the end. */
#define CHUNK (64 << 10)

int coll_node_pair_work(struct coll_team *t, const struct coll_node_pair *j)
{
    int64_t half = (j->nbytes / 2 + 4095) & ~(int64_t)4095, chunk = half < CHUNK ? half : CHUNK;
    int64_t nchunks = (j->nbytes + chunk - 1) / chunk;
    for (int64_t mine = 0;; mine++) {
        if ((int64_t)__atomic_fetch_add(j->next, 1, __ATOMIC_RELAXED) >= nchunks)
            return 0;
        int64_t at = (j->from_back ? nchunks - 1 - mine : mine) * chunk;
        int64_t len = j->nbytes - at < chunk ? j->nbytes - at : chunk;
        char *got = j->lands ? j->out + at : j->scratch;
        int err = t->ops->peer_read(t, j->peer, got, j->peer_in + (uint64_t)at, (size_t)len);
        if (err < 0)
            return err;
        const char *own = j->in + at;
        bool first = t->rank < j->peer;
        char *out = j->out ? j->out + at : got;
        j->fn(first ? own : got, first ? got : own, out, len / j->elem_nbytes);
        if (j->peer_out)
            err = t->ops->peer_write(t, j->peer, j->peer_out + (uint64_t)at, out, (size_t)len);
        if (err < 0)
            return err;
    }
}
