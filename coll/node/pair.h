/* SPDX-License-Identifier: BSD-3-Clause */
/* Interface of pair.c, for move.c and ring.c. */
#ifndef COLL_NODE_PAIR_H
#define COLL_NODE_PAIR_H

#include "coll/coll.h"

struct coll_node_pair {
    int peer;
    int64_t nbytes, elem_nbytes;
    const char *in;    /* own operand */
    char *out;         /* place of the result; NULL: only the peer gets it */
    bool from_back;    /* takes the last chunks first */
    bool lands;        /* the peer's operand may be read into `out`, because `in` is elsewhere */
    char *scratch;     /* memory for a chunk, unless `lands` */
    uint64_t peer_in;  /* the peer's operand, in the peer's memory */
    uint64_t peer_out; /* place of the result in the peer's memory; 0: the peer does not get it */
    uint64_t *next;    /* shared counter of chunks taken */
    rt_reduce_fn *fn;
};

/* Returns when all chunks have been taken and this rank's are done: 0 or -RT_E... */
int coll_node_pair_work(struct coll_team *t, const struct coll_node_pair *j);

#endif
