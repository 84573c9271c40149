/* SPDX-License-Identifier: BSD-3-Clause */
/* The tables of algorithms over messages.  Builders that larger algorithms are composed of are in
 * the headers of their files.
 *
 * At the head of each file: p ranks, m bytes a rank contributes, a = time of a message's start, b =
 * time of a byte, c = time to combine a byte. */
#ifndef COLL_ALGO_ALGO_H
#define COLL_ALGO_ALGO_H

#include "coll/coll.h"

/* Tables end with a row without a name. */
extern const struct coll_alg coll_barrier_algs[], coll_bcast_algs[], coll_reduce_algs[],
    coll_allreduce_algs[], coll_gather_algs[], coll_scatter_algs[], coll_allgather_algs[],
    coll_alltoall_algs[], coll_reduce_scatter_algs[], coll_scan_algs[], coll_neighbor_algs[];
/* For intercommunicators. */
extern const struct coll_alg coll_inter_algs[];

#endif
