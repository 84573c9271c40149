/* SPDX-License-Identifier: BSD-3-Clause */
/* The arguments of a collective call, and which blocks of memory the call reads and writes.  All
 * functions are pure.  Ranks are ranks of the team.  The properties of each kind are its row in
 * coll/kinds.def. */
#ifndef COLL_ARGS_H
#define COLL_ARGS_H

#include <stdbool.h>
#include <stdint.h>
#include "runtime/base/memkind.h"
#include "runtime/layout/layout.h"
#include "runtime/reduce/reduce.h"

struct coll_team;
struct rt_gpu_ptr;

enum coll_kind {
#define KIND(kind, name, send, recv, bytes, traits) COLL_##kind,
#include "coll/kinds.def"
#undef KIND
    COLL_KINDS
};
extern const char *const coll_kind_names[COLL_KINDS];

/* How the buffer of one side of a call (send, receive) is divided. */
enum coll_shape {
    COLL_SIDE_NONE,    /* no buffer */
    COLL_SIDE_ONE,     /* one block */
    COLL_SIDE_CUT,     /* one vector, of which each rank gets a part: recvcount or recvcounts[i]
                        * elements */
    COLL_SIDE_ROW,     /* contiguous blocks of equal length, one for each peer */
    COLL_SIDE_VECTORS, /* for each peer a count and a displacement in elements */
    COLL_SIDE_TYPES,   /* for each peer a count, a datatype and a displacement in bytes */
};
/* The length that coll_args_bytes() returns. */
enum coll_measure {
    COLL_BYTES_UNKNOWN, /* 0: no rank knows all lengths */
    COLL_BYTES_VECTOR,  /* the vector that all ranks have */
    COLL_BYTES_BLOCK,   /* a block between two ranks */
    COLL_BYTES_SUM,     /* the sum of all parts of a vector */
    COLL_BYTES_MEAN,    /* a block, on average */
};
#define COLL_IS_TO_ROOT 1u
#define COLL_IS_FROM_ROOT 2u
#define COLL_IS_ROOTED (COLL_IS_TO_ROOT | COLL_IS_FROM_ROOT)
#define COLL_IS_REDUCTION 4u  /* reductions and scans */
#define COLL_IS_PREFIX 8u     /* a rank gets data from lower ranks and itself, */
#define COLL_IS_EXCLUSIVE 16u /* or from lower ranks only */
#define COLL_IS_NEIGHBOR 32u  /* the peers are neighbours */

enum coll_side { COLL_SEND, COLL_RECV };
struct coll_form {
    uint8_t shape[2]; /* enum coll_shape of each side */
    uint8_t bytes;    /* enum coll_measure */
    uint8_t traits;
};
extern const struct coll_form coll_forms[COLL_KINDS];

/* The peers of a rank in a neighbourhood collective (MPI-5.0 section 8.6): ranks in the order of
 * the blocks in its buffers, negative where there is no neighbour.  If a rank occurs several times,
 * its messages are matched in the order in which it sends them. */
struct coll_neighbors {
    int nsources, ndestinations;
    const int *sources, *destinations;
    bool grid; /* two per dimension, lower neighbour first; data sent to the lower neighbour arrives
                * there from its upper one */
};

/* The arguments of a call.  Broadcast: rbuf, rcount, rtype on every rank.  Reductions and scans:
 * rcount and rtype describe both buffers; the input is sbuf, or rbuf when sbuf is COLL_IN_PLACE;
 * for reduce_scatter_block rcount is the length of one block.  All others as in MPI: sbuf is
 * COLL_IN_PLACE for in place (for gather at the root only), rbuf is COLL_IN_PLACE at the root of a
 * scatter; alltoall forms in place use the receive arguments for both sides. */
struct coll_args {
    enum coll_kind kind;
    enum rt_memkind mem;
    const void *sbuf; /* COLL_IN_PLACE for MPI_IN_PLACE */
    void *rbuf;
    int64_t scount, rcount;
    const struct rt_layout *stype, *rtype;
    const struct rt_op *op;
    int root;
    /* v and w forms: one entry per rank, NULL for other kinds; w: displacements in bytes and one
     * layout per rank. */
    const int64_t *scounts, *sdispls, *rcounts, *rdispls;
    const struct rt_layout *const *stypes, *const *rtypes;
    /* [2], by enum coll_side: the allocations that the caller has found the buffers in (`g` NULL:
     * not found).  Used by coll_start() only; NULL: nothing is known. */
    const struct rt_gpu_ptr *found;
    /* Neighbourhood collectives: the vectors above have one entry per neighbour.  Borrowed until
     * the call ends. */
    const struct coll_neighbors *neighbors;
};
#define COLL_IN_PLACE ((void *)1) /* same value as MPI_IN_PLACE */
/* args.root in the root's group of an intercommunicator: COLL_ROOT at the root, COLL_NOBODY at the
 * others. */
#define COLL_ROOT (-4)   /* same value as MPI_ROOT */
#define COLL_NOBODY (-3) /* same value as MPI_PROC_NULL */

static inline bool coll_is(enum coll_kind kind, unsigned traits)
{
    return coll_forms[kind].traits & traits;
}
static inline enum coll_shape coll_shape(enum coll_kind kind, enum coll_side side)
{
    return (enum coll_shape)coll_forms[kind].shape[side];
}
/* Whether displacements give the positions of the blocks of a side. */
static inline bool coll_is_apart(enum coll_kind kind, enum coll_side side)
{
    return coll_shape(kind, side) >= COLL_SIDE_VECTORS;
}
/* Whether both sides have a block for each peer. */
static inline bool coll_is_alltoall(enum coll_kind kind)
{
    return coll_shape(kind, COLL_SEND) >= COLL_SIDE_ROW &&
           coll_shape(kind, COLL_RECV) >= COLL_SIDE_ROW;
}

static inline char *coll_at(const void *buf, int64_t n, const struct rt_layout *l)
{
    return (char *)buf + n * l->extent; /* const is dropped for callers that only read through it */
}

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

/* The length that selects the algorithm, in bytes, the same on every rank: a rank's contribution;
 * for alltoall and scatter the block of one pair; for reduce_scatter the whole vector; for
 * allgatherv the average block; 0 for the other v and w forms. */
int64_t coll_args_bytes(const struct coll_team *t, const struct coll_args *a);
/* Whether every rank knows that no rank has data; bytes: coll_args_bytes().  A mean of 0 may be the
 * result of rounding.  Not for intercommunicators. */
static inline bool coll_args_are_empty(const struct coll_args *a, int64_t bytes)
{
    return bytes == 0 && coll_forms[a->kind].bytes != COLL_BYTES_UNKNOWN &&
           coll_forms[a->kind].bytes != COLL_BYTES_MEAN;
}
/* Whether this rank knows that it has no data itself, for a kind whose ranks know only their own
 * lengths. */
bool coll_args_have_nothing(const struct coll_team *t, const struct coll_args *a);
/* Whether this rank's own part is already in its place.  Equal buffers of a reduction, which MPI
 * forbids, count as in place. */
bool coll_args_in_place(const struct coll_args *a, int rank);
/* A hash of the arguments that MPI requires to be the same on all ranks: kind, root and lengths.
 * If a rank's own arguments contradict each other, its hash equals no other rank's.  Not for
 * intercommunicators. */
uint64_t coll_args_signature(const struct coll_team *t, const struct coll_args *a);
static inline uint64_t coll_args_mix(uint64_t h, int64_t v)
{
    h = (h ^ (uint64_t)v) * 0x9e3779b97f4a7c15u; /* 2^64 / golden ratio: mixes every bit into the
                                                  * higher bits */
    return h ^ (h >> 29);
}

/* ---- blocks ---- */

struct coll_block { /* in a user's buffer; `l` may be NULL if there are no data */
    char *at;
    int64_t n;
    const struct rt_layout *l;
};
static inline int64_t coll_block_nbytes(const struct coll_block *b)
{
    return b->l && b->n > 0 ? b->n * b->l->size : 0;
}

/* A side as one block: of a row, its first block; of a vector that is cut, its first part if all
 * are equal.  The send side of a reduction in place is the receive buffer. */
static inline struct coll_block coll_args_side(const struct coll_args *a, enum coll_side side)
{
    if (side == COLL_RECV)
        return (struct coll_block){ (char *)a->rbuf, a->rcount, a->rtype };
    if (coll_is(a->kind, COLL_IS_REDUCTION))
        return (struct coll_block){ (char *)coll_input(a), a->rcount, a->rtype };
    return (struct coll_block){ (char *)a->sbuf, a->scount, a->stype };
}
/* Elements in the first n parts of a vector of which each rank gets a part. */
int64_t coll_args_parts(const struct coll_args *a, int n);
/* Block i of a side, computed from the arguments alone.  The send side of an in-place reduction is
 * the receive buffer.  A side with one block ignores i, except the result of reduce_scatter: i is
 * the rank that receives the block. */
struct coll_block coll_args_block(const struct coll_args *a, enum coll_side side, int i);
/* The data that this rank sends to rank `to`; for its own rank: the data that it copies or
 * combines.  An in-place call has no block for its own rank, unless the call reduces.  Not for
 * neighbourhoods or intercommunicators. */
struct coll_block coll_args_sent(const struct coll_team *t, const struct coll_args *a, int to);
/* The place for the data that this rank receives from rank `from`, or combines with other data.
 * For an in-place gather the place of the rank's own block, too. */
struct coll_block coll_args_received(const struct coll_team *t, const struct coll_args *a,
                                     int from);

/* A block of the user's buffers, for code that copies these buffers. */
struct coll_use {
    struct coll_block b;
    bool in, out;    /* the call reads the block; the call writes the block */
    int64_t defined; /* elements that the call writes, from the first on; less than b.n if an
                      * in-place vector is reduced and cut */
};
/* The number of blocks of a side.  0 if this rank does not use the buffer or passes MPI_IN_PLACE;
 * one per peer for v and w forms, and where the blocks of an in-place buffer differ in use;
 * otherwise 1.  Except in v and w forms block i begins where block i - 1 ends.  `t` is not read for
 * kinds that treat all ranks alike and have no block per rank. */
int coll_args_uses(const struct coll_team *t, const struct coll_args *a, enum coll_side side);
struct coll_use coll_args_use(const struct coll_team *t, const struct coll_args *a,
                              enum coll_side side, int i);

#endif
