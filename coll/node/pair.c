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
 * peer; against m (b + c) if the root works alone.  For the surrounding calls, and for when memory
 * may be overwritten, see move.c (reduce) and ring.c (allreduce). */
#include "coll/node/pair.h"

#include "runtime/base/atomic.h"

/* Bytes.  Measured at 2 ranks: half of it costs more in system calls; with twice as much one rank
 * is idle at the end.  On any machine a rank is idle for at most one chunk. */
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
