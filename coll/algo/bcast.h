/* SPDX-License-Identifier: BSD-3-Clause */
/* Broadcast. */
#ifndef COLL_ALGO_BCAST_H
#define COLL_ALGO_BCAST_H

#include "coll/sched.h"

/* Binomial broadcast of n elements at buf from root; and the same with its last round, in which a
 * rank sends, left open. */
void coll_build_bcast(struct coll_sched *s, const struct coll_team *t, void *buf, int64_t n,
                      const struct rt_layout *l, int root);
void coll_build_bcast_open(struct coll_sched *s, const struct coll_team *t, void *buf, int64_t n,
                           const struct rt_layout *l, int root);
/* Bytes of a piece, if nbytes go along a chain of p ranks or hosts; 0: a tree is better. */
int64_t coll_chain_piece(const struct coll_team *t, int64_t nbytes, int p);
/* Packed form of a broadcast's buffer: the buffer itself if it is contiguous, else a temporary,
 * which the root fills.  coll_build_unpacked() copies the temporary back into the buffer on the
 * other ranks. */
char *coll_build_packed(struct coll_sched *s, const struct coll_team *t, const struct coll_args *a,
                        int64_t nbytes);
void coll_build_unpacked(struct coll_sched *s, const struct coll_team *t, const struct coll_args *a,
                         const char *p, int64_t nbytes);

#endif
