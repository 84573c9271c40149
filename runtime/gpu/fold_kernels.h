/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the reduction kernels and their host side, beside kernel.h: shapes of the launches.
 * Plain C and CUDA C++. */
#ifndef RT_GPU_FOLD_KERNELS_H
#define RT_GPU_FOLD_KERNELS_H

#define WEFT_FOLD_THREADS 256u
/* Tuned on H200; on another device only the speed depends on them. */
#define WEFT_FOLD_AHEAD 4u     /* of two sources: units of each that a thread has in flight */
#define WEFT_FOLD_SOURCES 7u   /* for more sources: one unit of each in flight, beside the first */
#define WEFT_FOLD_BLOCKS_SM 3u /* most blocks on a multiprocessor */
/* The same of weft_atomic, whose threads wait for one change of an element after another. */
#define WEFT_ATOMIC_BLOCKS_SM 5u

#endif
