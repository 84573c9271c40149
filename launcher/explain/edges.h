/* SPDX-License-Identifier: BSD-3-Clause */
/* The nodes and edges of the wait-for graph (graph.h): from what each wait says to the ranks and
 * sets that may end it. */
#ifndef LAUNCHER_EXPLAIN_EDGES_H
#define LAUNCHER_EXPLAIN_EDGES_H

#include "launcher/explain/graph.h"

/* The first sets. */
#define EVERY(g) ((g)->total)          /* any rank of the job */
#define UNFINISHED(g) ((g)->total + 1) /* all ranks that are not in MPI_Finalize */

/* A new node. */
int graph_node(struct graph *g, enum graph_mode mode);
/* The sets, the nodes of the waits, and all edges.  Ranks and waits are there, sorted.  g->nomem:
 * out of memory. */
void graph_edges(struct graph *g);

#endif
