/* SPDX-License-Identifier: BSD-3-Clause */
/* The embedded kernels of one context: all images are loaded and all functions found when the
 * context is first used, because loading one while the lingering kernel runs would wait for it.  A
 * device that no image fits is no error: copies then go by the copy engine.  Under the domain's
 * lock, the context current. */
#include "runtime/gpu/images.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/gpu/gpu_int.h"
#include <string.h>

static const char *const names[RT_GPU_KERNELS] = {
    [RT_GPU_BATCH] = "weft_batch",
    [RT_GPU_LINGER] = "weft_linger",
    [RT_GPU_PACK] = "weft_pack",
    [RT_GPU_UNPACK] = "weft_unpack",
};

static int find(struct rt_gpu *g, enum rt_gpu_kernel k)
{
    cu_result r = CU_ERROR_NOT_FOUND;
    for (int i = 0; i < RT_GPU_MODULES && g->module[i] && r == CU_ERROR_NOT_FOUND; i++)
        r = rt_cuda.module_get_function(&g->fn[k], g->module[i], names[k]);
    if (r == CU_OK && rt_cuda.func_load)
        r = rt_cuda.func_load(g->fn[k]); /* a driver that loads lazily would do it at the launch */
    if (r != CU_OK)
        g->fn[k] = NULL;
    return r;
}

int rt_gpu_images_load(struct rt_gpu *g)
{
    const struct rt_gpu_image *image = rt_gpu_images;
    const char *what = "image";
    cu_result r = CU_OK;
    if (!image->name) {
        log_info(GPU, "built without nvcc: copies on %s go by the copy engine", g->info.name);
        return 0;
    }
    for (int i = 0; image[i].name && r == CU_OK; i++) {
        rt_assert(i < RT_GPU_MODULES);
        what = image[i].name;
        r = rt_cuda.module_load_data(&g->module[i], image[i].data);
        if (r != CU_OK)
            g->module[i] = NULL;
    }
    for (int k = 0; k < RT_GPU_KERNELS && r == CU_OK; k++) {
        what = names[k];
        r = find(g, (enum rt_gpu_kernel)k);
    }
    if (r == CU_OK || rt_gpu_check_lost(g, r))
        return 0;
    const char *name = NULL;
    rt_cuda.get_error_name(r, &name);
    log_info(GPU, "no kernel for %s (%s: %s): copies go by the copy engine", g->info.name, what,
             name ? name : "unknown error");
    rt_gpu_images_unload(g);
    return 0;
}

void rt_gpu_images_unload(struct rt_gpu *g)
{
    for (int i = 0; i < RT_GPU_MODULES; i++)
        if (g->module[i] && !g->lost)
            rt_cuda.module_unload(g->module[i]);
    memset(g->module, 0, sizeof g->module);
    memset(g->fn, 0, sizeof g->fn);
}

bool rt_gpu_has_kernels(struct rt_gpu *g)
{
    return g->module[0] != NULL;
}
