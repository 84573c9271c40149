/* SPDX-License-Identifier: BSD-3-Clause */
/* The device plans between which WEFT_COLL and the tuning table can choose, by name.  They are
 * listed with the algorithms but are not started like them: run.c carries plans out, and
 * plan_fold.c reads the choice here. */
#include "coll/gpu/plan.h"
#include "coll/select.h"

#define PLAN (COLL_NEED_CUDA_BUFFERS | COLL_NEED_PEER_MAP)
const struct coll_alg coll_gpu_algs[] = {
    /* in the order of enum coll_gpu_way, without AUTO */
    { "gpu_one_shot", "every device reduces the whole vector", COLL_ALLREDUCE, PLAN, NULL },
    { "gpu_two_shot", "each device reduces its block and stores it to all", COLL_ALLREDUCE, PLAN,
      NULL },
    { "gpu_put", "each device reduces its block, copy engines copy it to all", COLL_ALLREDUCE, PLAN,
      NULL },
    { "gpu_engine", "copy engines move all data, devices reduce in their own memory",
      COLL_ALLREDUCE, PLAN, NULL },
    { "gpu_mixed", "gpu_engine, but kernels reduce a part over the link", COLL_ALLREDUCE, PLAN,
      NULL },
    { NULL, NULL, COLL_ALLREDUCE, 0, NULL },
};

enum coll_gpu_way coll_gpu_asked_way(int size, int64_t nbytes, bool direct)
{
    const char *why;
    if (coll_gpu_way != COLL_GPU_AUTO)
        return coll_gpu_way;
    const struct coll_alg *alg = coll_choose_gpu(COLL_ALLREDUCE, size, nbytes, direct, &why);
    return alg ? (enum coll_gpu_way)(alg - coll_gpu_algs + 1) : COLL_GPU_AUTO;
}
