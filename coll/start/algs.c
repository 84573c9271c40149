/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of all algorithms.  Constant data. */
#include "coll/algo/algo.h"
#include "coll/gpu/plan.h"
#include "coll/hier/hier.h"
#include "coll/node/choose.h"
#include "coll/select.h"

const struct coll_alg *const coll_alg_tables[] = {
    coll_barrier_algs,
    coll_bcast_algs,
    coll_reduce_algs,
    coll_allreduce_algs,
    coll_gather_algs,
    coll_scatter_algs,
    coll_allgather_algs,
    coll_alltoall_algs,
    coll_reduce_scatter_algs,
    coll_scan_algs,
    coll_node_algs,
    coll_neighbor_algs,
    coll_gpu_algs,
    coll_hier_rooted_algs,
    coll_hier_allreduce_algs,
    coll_hier_allgather_algs,
    coll_hier_alltoall_algs,
    coll_hier_gather_algs,
    coll_hier_reduce_scatter_algs,
    coll_hier_scan_algs,
    NULL,
};

const struct coll_alg *const coll_alg_inter = coll_inter_algs;
