/* SPDX-License-Identifier: BSD-3-Clause */
/* Between move.c, ring.c and pair.c. */
#ifndef COLL_NODE_PAIR_H
#define COLL_NODE_PAIR_H

#include "coll/coll.h"

struct coll_node_pair {
    int peer;
    int64_t nbytes, elem_nbytes;
    const char *in;    /* own operand */
    char *out;         /* the result's place; NULL: it is for the other only */
    bool from_back;    /* takes the last chunks first */
    bool lands;        /* the other's operand may be read into `out`, because `in` is elsewhere */
    char *scratch;     /* a chunk, unless it lands */
    uint64_t peer_in;  /* the other's operand, in its memory */
    uint64_t peer_out; /* the result's place in the other's memory; 0: it is not for the other */
    uint64_t *next;    /* shared: chunks given out */
    rt_reduce_fn *fn;
};

/* Returns when all chunks have been given out and this rank's are done: 0 or -RT_E. */
int coll_node_pair_work(struct coll_team *t, const struct coll_node_pair *j);

#endif
