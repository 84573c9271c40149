/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels built by nvcc, as embedded in the library: one image (fatbin: machine code for
 * several generations, and PTX) for each .cu file.  Made by embed.py.  Private to runtime/gpu. */
#ifndef RT_GPU_IMAGES_H
#define RT_GPU_IMAGES_H

#include <stdint.h>

struct rt_gpu_image {
    const char *name; /* of the .cu file; NULL ends the list */
    const void *data;
};
extern const struct rt_gpu_image rt_gpu_images[]; /* only the end in a build without nvcc */

#endif
