/* SPDX-License-Identifier: BSD-3-Clause */
/* Start and end of the use of devices, and what is done when a program sets something up.  Under
 * the domain's lock. */
#include "runtime/gpu/life.h"
#include "runtime/base/err.h"
#include "runtime/base/ticks.h"
#include "runtime/gpu/classify.h"
#include "runtime/gpu/context.h"
#include "runtime/gpu/cu.h"
#include "runtime/gpu/dev.h"
#include "runtime/gpu/driver.h"

#include <stdlib.h>

void rt_gpu_prepare(void)
{
    struct rt_gpu *g;
    cu_ctx c = NULL;
    if (!rt_gpu_watch || rt_gpu_driver(false) != RT_GPU_DRIVER_READY)
        return;
    if (rt_cuda.ctx_get_current(&c) == CU_OK && c)
        (void)rt_gpu_of(c, -1, &g); /* a message in the context tries again and returns the error */
}

int rt_gpu_take(size_t len, void **out)
{
    const size_t large = 2u << 20;
    struct rt_gpu *g;
    cu_ctx c = NULL;
    cu_ptr p = 0;
    if (!rt_gpu_watch || rt_gpu_driver(false) != RT_GPU_DRIVER_READY ||
        rt_cuda.ctx_get_current(&c) != CU_OK || !c)
        return -RT_ENOTSUP;
    int err = rt_gpu_of(c, -1, &g);
    if (err < 0)
        return err;
    int in = rt_gpu_enter(g);
    if (in < 0)
        return in;
    if (len >= large) /* rt_gpu_in_large_pages() */
        len = (len + large - 1) / large * large;
    cu_result r = rt_cuda.mem_alloc(&p, len);
    rt_gpu_leave(in);
    *out = (void *)(uintptr_t)p;
    return r == CU_OK                    ? 0
           : r == CU_ERROR_OUT_OF_MEMORY ? -RT_ENOMEM
                                         : rt_cuda_error(r, "cuMemAlloc");
}

struct given {
    struct rt_gpu_deferred deferred;
    struct rt_gpu *g;
    cu_ptr p;
};

static void give_now(struct rt_gpu_deferred *d)
{
    struct given *x = rt_container(d, struct given, deferred);
    int in = rt_gpu_enter(x->g);
    if (in >= 0) { /* else it has been freed with its context */
        rt_cuda.mem_free(x->p);
        rt_gpu_leave(in);
    }
    free(x);
}

void rt_gpu_give(void *p)
{
    struct rt_gpu_ptr at;
    struct given *x = rt_gpu_query(p, 1, &at) < 0 ? NULL : calloc(1, sizeof *x);
    if (!x)
        return;
    x->g = at.g;
    x->p = (cu_ptr)(uintptr_t)p;
    rt_gpu_defer(at.g, &x->deferred, at.len, give_now);
}

void rt_gpu_init(void)
{
    rt_ticks_init();
    rt_gpu_classify_init();
    rt_gpu_watch = rt_gpu_possible();
}

void rt_gpu_fini(void)
{
    rt_gpu_end_all();
    rt_gpu_watch = false;
}
