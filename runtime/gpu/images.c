/* SPDX-License-Identifier: BSD-3-Clause */
/* The embedded kernels of one context.  All images are loaded and all functions found when the
 * context is prepared (rt_gpu_prepare()), because loading waits for every kernel of the device, the
 * application's and the polling kernel.  A device for which there is no image is no error: copy
 * engines then do all copies.  Under the domain's lock, the context current. */
#include "runtime/gpu/images.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/gpu/context.h"
#include "runtime/gpu/gpu_int.h"
#include <string.h>

/* Where each one lies: asking the driver for a function that an image does not have is harmless,
 * but tools that watch the driver report an error of the program. */
static const struct {
    const char *image, *name;
} kernels[RT_GPU_KERNELS] = {
    [RT_GPU_BATCH] = { "move", "weft_batch" },
    [RT_GPU_LINGER] = { "move", "weft_linger" },
    [RT_GPU_PACK] = { "pack", "weft_pack" },
    [RT_GPU_UNPACK] = { "pack", "weft_unpack" },
    [RT_GPU_MEET] = { "meet", "weft_meet" },
    [RT_GPU_FOLD_BITS] = { "fold", "weft_fold_bits" },
    [RT_GPU_FOLD_4] = { "fold", "weft_fold_4" },
    [RT_GPU_FOLD_8] = { "fold", "weft_fold_8" },
    [RT_GPU_FOLD_F16] = { "fold", "weft_fold_f16" },
    [RT_GPU_FOLD_BF16] = { "fold", "weft_fold_bf16" },
    [RT_GPU_FOLD_1] = { "fold_rare", "weft_fold_1" },
    [RT_GPU_FOLD_2] = { "fold_rare", "weft_fold_2" },
    [RT_GPU_FOLD_WIDE8] = { "fold_rare", "weft_fold_wide8" },
    [RT_GPU_FOLD_WIDE16] = { "fold_rare", "weft_fold_wide16" },
    [RT_GPU_ATOMIC] = { "atomic", "weft_atomic" },
    [RT_GPU_PUSH_BITS] = { "push", "weft_push_bits" },
    [RT_GPU_PUSH_4] = { "push", "weft_push_4" },
    [RT_GPU_PUSH_8] = { "push", "weft_push_8" },
    [RT_GPU_PUSH_F16] = { "push", "weft_push_f16" },
    [RT_GPU_PUSH_BF16] = { "push", "weft_push_bf16" },
    [RT_GPU_PUSH_1] = { "push", "weft_push_1" },
    [RT_GPU_PUSH_2] = { "push", "weft_push_2" },
    [RT_GPU_PUSH_WIDE8] = { "push", "weft_push_wide8" },
    [RT_GPU_PUSH_WIDE16] = { "push", "weft_push_wide16" },
    [RT_GPU_MESSAGE] = { "push", "weft_message" },
};

/* Index of its image and module; -1: none. */
static int image_at(const char *name)
{
    for (int i = 0; rt_gpu_images[i].name; i++)
        if (!strcmp(rt_gpu_images[i].name, name))
            return i;
    return -1;
}

static cu_result find(struct rt_gpu *g, enum rt_gpu_kernel k)
{
    int i = image_at(kernels[k].image);
    cu_result r = i < 0 || !g->module[i]
                      ? CU_ERROR_NOT_FOUND
                      : rt_cuda.module_get_function(&g->fn[k], g->module[i], kernels[k].name);
    if (r == CU_OK && rt_cuda.func_load)
        r = rt_cuda.func_load(g->fn[k]); /* a driver that loads lazily would do it at the launch */
    if (r != CU_OK)
        g->fn[k] = NULL;
    return r;
}

static cu_result load(struct rt_gpu *g, int i, const char **what)
{
    rt_assert(i < RT_GPU_MODULES);
    *what = rt_gpu_images[i].name;
    cu_result r = rt_cuda.module_load_data(&g->module[i], rt_gpu_images[i].data);
    if (r != CU_OK)
        g->module[i] = NULL;
    return r;
}

static cu_result find_all(struct rt_gpu *g, const char **what)
{
    cu_result r = CU_OK;
    for (int k = 0; k < RT_GPU_KERNELS && r == CU_OK; k++) {
        *what = kernels[k].name;
        r = find(g, (enum rt_gpu_kernel)k);
    }
    return r;
}

int rt_gpu_images_load(struct rt_gpu *g)
{
    const struct rt_gpu_image *image = rt_gpu_images;
    const char *what = "image", *name = NULL;
    cu_result r = CU_OK;
    if (!image->name) {
        log_info(GPU, "built without nvcc: copies on %s go by the copy engine", g->info.name);
        return 0;
    }
    for (int i = 0; image[i].name && r == CU_OK; i++)
        r = load(g, i, &what);
    if (r == CU_OK)
        r = find_all(g, &what);
    if (r == CU_OK || rt_gpu_check_lost(g, r))
        return 0;
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

bool rt_gpu_has_kernels(struct rt_gpu *g) { return g->module[0] != NULL; }
