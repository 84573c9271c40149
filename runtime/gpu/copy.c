/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies and kernels that complete later; under the domain's lock.  For now every operation ends
 * with -RT_EGPU. */
#include "runtime/gpu/copy.h"
#include "runtime/base/err.h"

int rt_gpu_nactive;
static struct rt_list ended = { &ended, &ended };

static void refuse(struct rt_gpu *g, struct rt_gpu_op *op)
{
    op->g = g;
    op->err = -RT_EGPU;
    rt_list_append(&ended, &op->link);
    rt_gpu_nactive++;
}

void rt_gpu_copy(struct rt_gpu *g, void *dst, const void *src, size_t len, struct rt_gpu_op *op)
{
    op->dst = dst;
    op->src = src;
    op->len = len;
    refuse(g, op);
}

void rt_gpu_launch(struct rt_gpu *g, enum rt_gpu_kernel k, unsigned grid, unsigned block,
                   const void *params, size_t nbytes, struct rt_gpu_op *op)
{
    (void)k, (void)grid, (void)block, (void)params, (void)nbytes;
    refuse(g, op);
}

int rt_gpu_progress_slow(void)
{
    int n = 0;

    for (; !rt_list_empty(&ended); n++) {
        struct rt_gpu_op *op = rt_container(ended.next, struct rt_gpu_op, link);
        rt_list_del(&op->link);
        rt_gpu_nactive--;
        op->done(op, op->err);
    }
    return n;
}

int rt_gpu_move_init(struct rt_gpu *g)
{
    (void)g;
    return 0;
}

void rt_gpu_move_fini(struct rt_gpu *g)
{
    (void)g;
}
