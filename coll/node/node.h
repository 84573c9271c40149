/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives of a team whose ranks share memory.  Called under the domain's lock; nothing here
 * blocks.
 *
 * The area.  Every rank owns, and alone writes, one progress word and COLL_NODE_SLOTS lines: a
 * line is a cache line with an epoch and up to 56 bytes.  Larger contributions go to cells (one
 * page a slot and rank) and to blocks (two a rank, plus two for results); that memory is allocated
 * by rank 0 when it is first needed.
 *
 * Epochs.  The team's node calls are numbered 1, 2, ...; all ranks start them in the same order,
 * so numbers agree.  A rank works on one call at a time, in order: `turn` is the last one it has
 * finished.  Progress words only grow:
 *
 *     (e - 1) << 24 | s   the rank has done s steps of call e
 *
 *     e << 24             the rank has finished call e and will not look at its memory again
 *
 * Why nothing is overwritten too early.  Call e uses slot e % SLOTS.  Before a rank writes a slot
 * that it last wrote in call x, it makes sure that all ranks have finished x.  That is mostly
 * known for nothing: whoever has seen all ranks' lines of call e knows that all have started e and
 * so finished e - 1 (`seen`).  Only a rank that runs ahead through rooted calls, where it waits
 * for nobody, reads the progress words, once in SLOTS calls.  No deadlock: a wait in call e is
 * only for ranks that have not finished a call before e, and the rank with the lowest call never
 * waits for this.
 *
 * Waking.  A rank that stores something which others may sleep on rings them all; that is a
 * relaxed load each. */
#ifndef COLL_NODE_NODE_H
#define COLL_NODE_NODE_H

#include "coll/coll.h"
#include "runtime/base/atomic.h"

#define COLL_NODE_SLOTS 4   /* calls a root may run ahead before it looks at the others' progress */
#define COLL_NODE_LINE 56   /* payload of a line */
#define COLL_NODE_CELL 4096 /* payload of a cell: a page, so unused ones are never touched */
#define COLL_NODE_STEP_BITS 24

struct coll_node_line {
    _Alignas(RT_CACHE_LINE) char data[COLL_NODE_LINE];
    uint64_t epoch;
};
struct coll_node_prog {
    _Alignas(RT_CACHE_LINE) uint64_t word;
};

/* Offset + 1 of memory that rank 0 allocated later: 0 not yet, UINT64_MAX refused. */
struct coll_node_head {
    _Alignas(RT_CACHE_LINE) uint64_t cells, blocks;
};

struct coll_node { /* this rank's view; private memory */
    struct coll_team *team;
    struct coll_node_head *head;
    struct coll_node_prog *prog;  /* [size] */
    struct coll_node_line *lines; /* [COLL_NODE_SLOTS][size] */
    char *cells, *blocks;         /* NULL until needed */
    size_t block_len;
    uint64_t started, turn;          /* calls started here; last call finished here */
    uint64_t seen;                   /* all ranks have finished this call */
    uint64_t wrote[COLL_NODE_SLOTS]; /* call in which this rank last wrote the slot */
    uint64_t block_busy; /* last call in which others read this rank's blocks without this rank
                            waiting for them */
    int64_t step;        /* of the call at `turn` + 1: where its step function stands */
    int next;            /* first rank not yet heard from in this step */
};

extern const struct coll_alg coll_node_flat_algs[], coll_node_block_algs[];

/* Whether node_flat can carry what this call's ranks contribute. */
bool coll_node_cell_fits(const struct coll_team *t, const struct coll_args *a, int64_t bytes);

/* Shared by flat.c and block.c. */
uint64_t coll_node_begin(struct coll_node *n, struct coll_task *k); /* numbers the call */
bool coll_node_my_turn(const struct coll_node *n, const struct coll_task *k);
bool coll_node_finished(struct coll_node *n, uint64_t epoch); /* by all ranks; refreshes `seen` */
void coll_node_wake(struct coll_node *n);
void coll_node_publish(struct coll_node *n, uint64_t epoch, int64_t steps);
int coll_node_end(struct coll_node *n); /* the call is finished here; returns 1 */
/* 1 ready, 0 not yet, -RT_ENOSPC: there is none, on any rank. */
int coll_node_cells(struct coll_node *n);
int coll_node_blocks(struct coll_node *n);
/* Leaves the call to a message algorithm, on all ranks alike. */
int coll_node_give_up(struct coll_node *n, struct coll_task *k);

#endif
