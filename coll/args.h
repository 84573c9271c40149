/* SPDX-License-Identifier: BSD-3-Clause */
/* The arguments of a collective call, and which blocks of memory the call reads and writes.  All
 * functions are pure; the ranks are those of the team.  What distinguishes the kinds is a row each
 * in coll/kinds.def. */
#ifndef COLL_ARGS_H
#define COLL_ARGS_H

#include <stdbool.h>
#include <stdint.h>
#include "runtime/base/memkind.h"
#include "runtime/layout/layout.h"
#include "runtime/reduce/reduce.h"

struct coll_team;

enum coll_kind {
#define KIND(kind, name, send, recv, bytes, traits) COLL_##kind,
#include "coll/kinds.def"
#undef KIND
    COLL_KINDS
};
extern const char *const coll_kind_names[COLL_KINDS];

/* How one side of a call is divided. */
enum coll_shape {
    COLL_SIDE_NONE,    /* there is no such buffer */
    COLL_SIDE_ONE,     /* one block */
    COLL_SIDE_CUT,     /* one vector, of which each rank gets a part: recvcount or recvcounts[i] */
    COLL_SIDE_ROW,     /* blocks of one length side by side, one for each peer */
    COLL_SIDE_VECTORS, /* a count and a displacement, in elements, for each peer */
    COLL_SIDE_TYPES,   /* a datatype, too; displacements in bytes */
};
/* What coll_args_bytes() returns. */
enum coll_measure {
    COLL_BYTES_UNKNOWN, /* 0: no rank knows all lengths */
    COLL_BYTES_VECTOR,  /* of the one vector that all ranks have */
    COLL_BYTES_BLOCK,   /* of a block between two ranks */
    COLL_BYTES_SUM,     /* of all parts of a vector */
    COLL_BYTES_MEAN,    /* of a block on average */
};
#define COLL_IS_TO_ROOT 1u
#define COLL_IS_FROM_ROOT 2u
#define COLL_IS_ROOTED (COLL_IS_TO_ROOT | COLL_IS_FROM_ROOT)
#define COLL_IS_REDUCTION 4u  /* or a scan */
#define COLL_IS_PREFIX 8u     /* ranks get from the ranks before them and from themselves, */
#define COLL_IS_EXCLUSIVE 16u /* or only from those before them */
#define COLL_IS_NEIGHBOR 32u  /* the peers are neighbours */

enum coll_side { COLL_SEND, COLL_RECV };
struct coll_form {
    uint8_t shape[2]; /* of each side: enum coll_shape */
    uint8_t bytes;    /* enum coll_measure */
    uint8_t traits;
};
extern const struct coll_form coll_forms[COLL_KINDS];

/* With whom a rank of a neighbourhood collective exchanges data (MPI-5.0 section 8.6): ranks in the
 * order of the blocks in its buffers, negative where there is no neighbour.  A rank may occur
 * several times; then its messages are taken in the order in which it sends them. */
struct coll_neighbors {
    int nsources, ndestinations;
    const int *sources, *destinations;
    bool grid; /* two each a dimension, the lower first: what is sent down arrives from above */
};

/* What a call passes.  Broadcast: rbuf, rcount, rtype on every rank.  Reductions and scans: rcount,
 * rtype for both buffers; input is sbuf, or rbuf when sbuf is COLL_IN_PLACE; reduce_scatter_block:
 * rcount is one block's.  Others as in MPI: sbuf COLL_IN_PLACE (on the root only for gather), rbuf
 * COLL_IN_PLACE on a scatter's root; alltoall forms in place use the receive arguments for both. */
struct coll_args {
    enum coll_kind kind;
    const void *sbuf; /* COLL_IN_PLACE where MPI_IN_PLACE was given */
    void *rbuf;
    int64_t scount, rcount;
    const struct rt_layout *stype, *rtype;
    const struct rt_op *op;
    int root;
    /* v and w variants: per rank, NULL otherwise; w: displacements in bytes and one layout per
     * rank. */
    const int64_t *scounts, *sdispls, *rcounts, *rdispls;
    const struct rt_layout *const *stypes, *const *rtypes;
    enum rt_memkind mem;
    /* sbuf and rbuf have been looked at (rt_gpu_query_looked) in the very call that is running. */
    bool looked;
    /* Neighbourhood collectives; their vectors have one entry a neighbour.  Lent until the end. */
    const struct coll_neighbors *neighbors;
};
#define COLL_IN_PLACE ((void *)1) /* same value as MPI_IN_PLACE */
/* args.root in the root's group of an intercommunicator: at the root, and at the others. */
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
/* Whether displacements say where the blocks of a side lie. */
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

/* Bytes that choose the algorithm, the same on every rank: a rank's contribution, for alltoall and
 * scatter of one pair, for reduce_scatter the whole vector, for allgatherv an average block; 0 for
 * the other v and w forms. */
int64_t coll_args_bytes(const struct coll_team *t, const struct coll_args *a);
/* Whether every rank knows that nobody has data.  Not on intercommunicators. */
bool coll_args_are_empty(const struct coll_team *t, const struct coll_args *a);
/* Whether this rank knows that it has no data, of a kind in which ranks know their own lengths
 * only. */
bool coll_args_have_nothing(const struct coll_team *t, const struct coll_args *a);
/* Whether this rank's own part is already in its place.  Equal buffers of a reduction, which MPI
 * forbids, are taken for in place. */
bool coll_args_in_place(const struct coll_args *a, int rank);
/* A hash of what MPI wants alike on all ranks: kind, root and lengths.  A rank whose own arguments
 * contradict each other has one that fits nobody's.  Not on intercommunicators. */
uint64_t coll_args_signature(const struct coll_team *t, const struct coll_args *a);
static inline uint64_t coll_args_mix(uint64_t h, int64_t v)
{
    h = (h ^ (uint64_t)v) * 0x9e3779b97f4a7c15u; /* the golden ratio: spreads every bit upwards */
    return h ^ (h >> 29);
}

/* ---- blocks ---- */

struct coll_block { /* in a user's buffer; without data there may be no layout */
    char *at;
    int64_t n;
    const struct rt_layout *l;
};
static inline int64_t coll_block_nbytes(const struct coll_block *b)
{
    return b->l && b->n > 0 ? b->n * b->l->size : 0;
}

/* Block i of a side as the arguments say it, whatever this rank's part in the call is.  The send
 * side of a reduction in place is the receive buffer; of a side of one block i does not matter,
 * but for reduce_scatter's result, which is that of rank i. */
struct coll_block coll_args_block(const struct coll_args *a, enum coll_side side, int i);
/* What this rank has for rank `to`; for itself: what it copies, or combines.  In place it has
 * nothing for itself, unless the call reduces.  Neither kind of neighbourhoods, nor
 * intercommunicators. */
struct coll_block coll_args_sent(const struct coll_team *t, const struct coll_args *a, int to);
/* Where this rank has what comes from rank `from`, or combines it with the rest; of gathers in
 * place the place of its own block, too. */
struct coll_block coll_args_received(const struct coll_team *t, const struct coll_args *a,
                                     int from);

/* One block of the user's buffers, for those who copy them. */
struct coll_use {
    struct coll_block b;
    bool in, out;    /* the call reads it; the call defines elements of it, */
    int64_t defined; /* from the first one on: less than b.n of a vector reduced in place and cut */
};
/* A side has no blocks when this rank does not use its buffer or gives MPI_IN_PLACE, one for each
 * peer in the v and w forms, and where in place blocks differ in what they are, otherwise one.
 * Block i begins where the blocks before it end, but for the v and w forms.  `t` is not looked at
 * for the kinds that treat all ranks alike without blocks for each. */
int coll_args_uses(const struct coll_team *t, const struct coll_args *a, enum coll_side side);
struct coll_use coll_args_use(const struct coll_team *t, const struct coll_args *a,
                              enum coll_side side, int i);

#endif
