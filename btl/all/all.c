/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of transports.  Constant data. */
#include "btl/all/all.h"

#include <string.h>
#include "btl/cuda/cuda.h"
#include "btl/self/self.h"
#include "btl/shm/shm.h"
#include "btl/tcp/tcp.h"
#include "btl/verbs/ops.h"

const struct btl_ops *const btl_all[] = { &btl_self_ops,  &btl_cuda_ops, &btl_shm_ops,
                                          &btl_verbs_ops, &btl_tcp_ops,  NULL };

const struct btl_ops *btl_find(const char *name)
{
    for (int i = 0; btl_all[i]; i++)
        if (!strcmp(btl_all[i]->name, name))
            return btl_all[i];
    return NULL;
}

_Static_assert(BTL_NODE_CUDA + sizeof(struct cuda_table) <= sizeof(struct ring_mem) &&
                   sizeof(struct shm_home) < BTL_NODE_CUDA,
               "what a rank publishes fits into its own pair region");
size_t btl_node_pair_nbytes(void) { return sizeof(struct ring_mem); }
