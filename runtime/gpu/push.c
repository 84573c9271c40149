/* SPDX-License-Identifier: BSD-3-Clause */
/* Launches of the kernels for short collectives and messages of streams. */
#include "runtime/gpu/push.h"
#include "runtime/base/err.h"
#include "runtime/gpu/gpu_int.h"

_Static_assert(RT_GPU_PUSH_WIDE16 - RT_GPU_PUSH_BITS == RT_GPU_FOLD_WIDE16 - RT_GPU_FOLD_BITS,
               "one for each kernel that reduces, in the same order");
_Static_assert(RT_GPU_PUSH_RANKS == RT_GPU_MEET_MAX, "the same communicators");

size_t rt_gpu_push_slot(void) { return rt_gpu_push_max() / RT_GPU_PUSH_GROUP * RT_GPU_PUSH_ROOM; }

/* Of a launch for n groups, one a thread. */
static void shape(uint32_t n, unsigned *blocks, unsigned *threads)
{
    *threads = WEFT_PUSH_THREADS;
    *blocks = (n + WEFT_PUSH_THREADS - 1) / WEFT_PUSH_THREADS;
    if (*blocks > WEFT_PUSH_BLOCKS)
        *blocks = WEFT_PUSH_BLOCKS;
    if (*blocks <= 1) {
        *blocks = 1;
        *threads = n <= 32 ? 64 : (n + 31) / 32 * 32;
    }
}

static int launch(struct rt_gpu *g, void *stream, enum rt_gpu_kernel k, uint32_t ngroups,
                  void *params[], const char *what)
{
    unsigned blocks, threads;
    shape(ngroups, &blocks, &threads);
    int in = rt_gpu_enter(g);
    if (in < 0)
        return g->lost ? rt_gpu_gone(g) : in;
    cu_result r = rt_cuda.launch_kernel(g->fn[k], blocks, 1, 1, threads, 1, 1, 0, stream, params,
                                        NULL);
    rt_gpu_leave(in);
    if (r == CU_OK)
        return 0;
    return rt_gpu_check_lost(g, r) ? rt_gpu_gone(g) : rt_cuda_error(r, what);
}

/* Threads for the groups of the longest block; without a reduction, for those of all blocks. */
int rt_gpu_push_on(struct rt_gpu *g, void *stream, const struct rt_gpu_push *call)
{
    struct rt_gpu_push p = *call;
    void *params[] = { &p };
    uint32_t ngroups = p.stride / RT_GPU_PUSH_ROOM * (p.folds ? 1u : p.size);
    enum rt_gpu_kernel k = RT_GPU_FOLD_BITS;
    if (p.folds)
        k = rt_gpu_fold_kernel(&p.type, p.code);
    k = (enum rt_gpu_kernel)(k - RT_GPU_FOLD_BITS + RT_GPU_PUSH_BITS);
    return launch(g, stream, k, ngroups, params,
                  "starting a collective on the stream of a communicator");
}

int rt_gpu_message_on(struct rt_gpu *g, void *stream, const struct rt_gpu_message *message)
{
    struct rt_gpu_message m = *message;
    void *params[] = { &m };
    return launch(g, stream, RT_GPU_MESSAGE, m.nbytes / RT_GPU_PUSH_GROUP + 1, params,
                  "starting a message on the stream of a communicator");
}
