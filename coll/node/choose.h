/* SPDX-License-Identifier: BSD-3-Clause */
/* Which algorithm of coll/node runs a call, and the algorithms' steps. */
#ifndef COLL_NODE_CHOOSE_H
#define COLL_NODE_CHOOSE_H

#include "coll/node/node.h"

/* In the order of algs[] in choose.c. */
enum coll_node_alg {
    COLL_NODE_ALG_FLAT,
    COLL_NODE_ALG_GRID,
    COLL_NODE_ALG_TREE, /* the last one that does not need blocks */
    COLL_NODE_ALG_RING,
    COLL_NODE_ALG_SLICE,
    COLL_NODE_ALG_DIRECT,
    COLL_NODE_ALG_OWN, /* the reduce_scatter of direct.c */
    COLL_NODE_ALG_CUT,
    COLL_NODE_ALG_LINEAR,
    COLL_NODE_ALG_MOVE,
    COLL_NODE_ALGS
};

/* What the rules ask for: node.def. */
enum {
    COLL_NODE_IF_TWO = 1,
    COLL_NODE_IF_MANY = 2,
    COLL_NODE_IF_CROWDED = 4,
    COLL_NODE_IF_ROOMY = 8,
    COLL_NODE_IF_BLIND = 16,
    COLL_NODE_IF_WIDE = 32,
    COLL_NODE_IF_NARROW = 64,
    COLL_NODE_IF_FITS = 128,
    COLL_NODE_IF_NEAR = 256,
};

/* The algorithm that runs the call; a pure function of facts that all ranks know. */
enum coll_node_alg coll_node_choose(enum coll_node_alg asked, enum coll_kind kind, unsigned facts,
                                    int64_t bytes);
/* For weft_info: the file of coll/node whose algorithm runs a call, if all ranks can read the
 * others' memory; levels: they run on several L3 caches; NULL: `alg` is no algorithm of coll/node.
 * *why: set if a rule decides. */
const char *coll_node_runs(const struct coll_alg *alg, const struct coll_team *t,
                           const struct coll_args *a, bool crowded, bool levels, const char **why);

/* The limits of node.def; ends with a row of zeros. */
struct coll_node_limit_row {
    const char *name, *what, *measured;
    int64_t value;
    bool bytes;
};
extern const struct coll_node_limit_row coll_node_limit_rows[];

/* All algorithms of coll/node; ends with a row of zeros. */
extern const struct coll_alg coll_node_algs[];

/* Of flat.c: starts without a choice.  Whether the contributions of a call fit lines or cells;
 * bytes: coll_args_bytes(). */
int coll_node_flat_start(struct coll_team *t, const struct coll_args *a, struct coll_task *k);
bool coll_node_cell_fits(const struct coll_team *t, const struct coll_args *a, int64_t bytes);
/* Of linear.c: whether all ranks know that no block needs a copy between processes. */
bool coll_node_linear_is_short(const struct coll_node *n, const struct coll_task *k);

/* Of pace.c. */
/* At a writer, when a call with a block of `bytes` bytes for another rank begins: sets n->way to
 * the way that is faster or that the reader wants, and measures the call unless the reader does.
 * Whether the block shall move directly. */
bool coll_node_pace_begin(struct coll_node *n, enum coll_kind kind, int64_t bytes);
/* At the only reader of such a call: measures it, if readers decide about it. */
void coll_node_pace_read(struct coll_node *n, enum coll_kind kind, int64_t bytes);
/* When that call ends; n->paced is set until then.  n->way: how the block has moved. */
void coll_node_pace_end(struct coll_node *n);

/* The algorithms; each is coll_task.step from the call's first step on. */
int coll_node_flat_step(struct coll_task *k);
int coll_node_grid_step(struct coll_task *k);
int coll_node_tree_step(struct coll_task *k);
int coll_node_ring_step(struct coll_task *k);
int coll_node_slice_step(struct coll_task *k);
int coll_node_direct_step(struct coll_task *k);
int coll_node_own_step(struct coll_task *k);
int coll_node_cut_step(struct coll_task *k);
int coll_node_linear_step(struct coll_task *k);
int coll_node_move_step(struct coll_task *k);

#endif
