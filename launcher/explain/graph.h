/* SPDX-License-Identifier: BSD-3-Clause */
/* The wait-for graph of a job.  A node is a rank, a published wait, or a set of ranks that waits
 * share, so that the number of edges stays linear: "any rank of this communicator", "the ranks of
 * this communicator that have not reached collective 5".  A rank with several waits, one for each
 * of its threads, continues if one of them ends. */
#ifndef LAUNCHER_EXPLAIN_GRAPH_H
#define LAUNCHER_EXPLAIN_GRAPH_H

#include "launcher/explain/explain.h"

/* A node continues if all of its successors can, or any of them; ANY_OTHER: any but the waiting
 * rank itself, which is one of them. */
enum graph_mode { GRAPH_ALL, GRAPH_ANY, GRAPH_ANY_OTHER };

struct graph_wait {
    const struct explain_rank *rank;
    const struct explain_wait *wait;
    bool coll;   /* a collective of the communicator that others wait for */
    int any;     /* node: ranks of its communicator */
    int before;  /* node: those that have not reached its collective; -1: all have */
    bool unheld; /* a lock of a window whose holder is not known */
};

/* Successors or predecessors of node v: to[begin[v]] to to[begin[v + 1] - 1]. */
struct graph_links {
    int *begin, *to;
};

/* Nodes 0 to total - 1 are the ranks; then the sets; from first_wait on the waits, as in waits[].
 */
struct graph {
    const struct explain_job *job;
    int total;
    const struct explain_rank **at; /* of each rank; NULL: unknown */
    struct graph_wait *waits;       /* by communicator, then collectives by their number */
    int nwaits, first_wait, nnodes;
    int *holders, nholders; /* waits of ranks that hold locks of windows */
    bool *gone;             /* of ranks: explain_is_gone() */
    bool *source;           /* of ranks: may continue without any other rank */
    uint8_t *mode;          /* of nodes: enum graph_mode */
    bool *live;             /* of nodes: may continue.  The others never can */
    bool *lost;             /* of waits and sets: not live because ranks are gone */
    int (*edges)[2];        /* from, to */
    size_t nedges, cap;
    struct graph_links out, in;
    int *queue, *mark; /* room for a search */
    bool *seen;        /* result of graph_reach() */
    bool needs_every, needs_unfinished, nomem;
    struct explain_ref differ_a, differ_b; /* waits in different calls of one collective */
    struct explain_ref behind,
        ahead; /* waits in one collective, called a different number of times */
};

/* -RT_ENOMEM */
int graph_build(struct graph *g, const struct explain_job *job);
void graph_fini(struct graph *g);

/* Sets seen[] of the nodes that lead through at least one edge to one of roots[] (links: in), or to
 * which one of roots[] leads (out); with `dead`, only through nodes that are not live. */
void graph_reach(struct graph *g, const struct graph_links *links, const int *roots, int n,
                 bool dead);
/* A short cycle of nodes that are not live, to be freed; *n 0: there is none.  NULL: out of memory.
 */
int *graph_cycle(struct graph *g, int *n);

#endif
