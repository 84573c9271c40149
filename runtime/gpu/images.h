/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels built by nvcc, as embedded in the library: one image (fatbin: machine code for
 * several generations, and PTX) for each .cu file.  Made by embed.py. */
#ifndef RT_GPU_IMAGES_H
#define RT_GPU_IMAGES_H

#include <stdbool.h>
#include <stdint.h>

struct rt_gpu_image {
    const char *name; /* of the .cu file; NULL ends the list */
    const void *data;
};
extern const struct rt_gpu_image rt_gpu_images[]; /* only the end in a build without nvcc */

struct rt_gpu;
bool rt_gpu_has_kernels(struct rt_gpu *g); /* built with nvcc and loaded on this device */
/* load: g's context is current; loads all modules and finds all functions.  Without kernels (not
 * built, or no image for this device) it logs this once at level info, leaves g->module[0] NULL and
 * returns 0.  unload: makes no call with g->lost. */
int rt_gpu_images_load(struct rt_gpu *g);
void rt_gpu_images_unload(struct rt_gpu *g);

#endif
