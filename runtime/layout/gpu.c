/* SPDX-License-Identifier: BSD-3-Clause */
/* Packing and unpacking device memory; under the domain's lock. */
#include "runtime/layout/gpu.h"
#include "runtime/base/err.h"

void rt_layout_gpu_pack(struct rt_gpu *g, const struct rt_layout *l, int64_t count,
                        const void *buf, int64_t pos, void *packed, int64_t len,
                        struct rt_gpu_op *op)
{
    (void)l, (void)count;
    rt_gpu_copy(g, packed, (const char *)buf + pos, (size_t)len, op);
}

void rt_layout_gpu_unpack(struct rt_gpu *g, const struct rt_layout *l, int64_t count, void *buf,
                          int64_t pos, const void *packed, int64_t len, struct rt_gpu_op *op)
{
    (void)l, (void)count;
    rt_gpu_copy(g, (char *)buf + pos, packed, (size_t)len, op);
}

int rt_layout_gpu_pack_now(struct rt_gpu *g, const struct rt_layout *l, int64_t count,
                           const void *buf, int64_t pos, void *packed, int64_t len)
{
    (void)g, (void)l, (void)count, (void)buf, (void)pos, (void)packed, (void)len;
    return -RT_ENOTSUP;
}

int rt_layout_gpu_unpack_now(struct rt_gpu *g, const struct rt_layout *l, int64_t count, void *buf,
                             int64_t pos, const void *packed, int64_t len)
{
    (void)g, (void)l, (void)count, (void)buf, (void)pos, (void)packed, (void)len;
    return -RT_ENOTSUP;
}

void rt_layout_gpu_fini(void) {}
