/* SPDX-License-Identifier: BSD-3-Clause */
/* What the kernels that reduce and their host side share beside kernel.h: shapes of the launches.
 * Plain C and CUDA C++. */
#ifndef RT_GPU_FOLD_H
#define RT_GPU_FOLD_H

#define WEFT_FOLD_THREADS 256u
#define WEFT_FOLD_AHEAD 4u     /* units of a source that a thread has in flight, of two sources */
#define WEFT_FOLD_SOURCES 7u   /* of more: beside the first, a unit of each in flight */
#define WEFT_FOLD_BLOCKS_SM 3u /* most of a multiprocessor */

#endif
