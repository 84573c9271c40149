/* SPDX-License-Identifier: BSD-3-Clause */
/* Between move.c and pair.c. */
#ifndef COLL_NODE_PAIR_H
#define COLL_NODE_PAIR_H

#include "coll/coll.h"

struct coll_node_pair {
    int peer;
    int64_t nbytes, elem_nbytes;
    const char *in;    /* own operand */
    char *out;         /* root: the result's place; else NULL */
    bool lands;        /* the other's operand may be read into `out`, because `in` is elsewhere */
    char *scratch;     /* a chunk, unless it lands */
    uint64_t peer_in;  /* the other's operand, in its memory */
    uint64_t peer_out; /* not the root: the result's place in the root's memory */
    uint64_t *next;    /* shared: chunks given out */
    rt_reduce_fn *fn;
};

/* Returns when all chunks have been given out and this rank's are done: 0 or -RT_E. */
int coll_node_pair_work(struct coll_team *t, const struct coll_node_pair *j);

#endif
