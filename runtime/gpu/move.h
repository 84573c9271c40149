/* SPDX-License-Identifier: BSD-3-Clause */
/* What move.cu and its host side share beside kernel.h: shapes of the launches and the meeting
 * point of the lingering kernel's blocks.  Plain C and CUDA C++. */
#ifndef RT_GPU_MOVE_H
#define RT_GPU_MOVE_H

#include <stdint.h>

/* weft_batch: blocks take pieces of this length from the moves, one after another; a thread then
 * has four loads of 16 bytes in flight. */
#define WEFT_BATCH_THREADS 256
#define WEFT_BATCH_PIECE (16u << 10)

/* weft_linger.  Up to TINY bytes one warp copies, up to SOLO bytes block 0; longer copies are cut
 * into parts of at least PART bytes for as many blocks as there are.  On H200 a block moves 40 GB/s
 * and handing a copy to other blocks costs 1 us.  A launch has one block, which does well up to ONE
 * bytes, or, when it is for a longer copy, MANY. */
#define WEFT_LINGER_MANY 16
#define WEFT_LINGER_BLOCKS_MAX 32
#define WEFT_LINGER_THREADS 512
#define WEFT_LINGER_TINY 2048u
#define WEFT_LINGER_SOLO (32u << 10)
#define WEFT_LINGER_PART (8u << 10)
#define WEFT_LINGER_ONE (96u << 10)

/* How block 0 of weft_linger hands a copy to the others, through device memory that is zero before
 * the first launch.  The first line is one store and one load of a warp, 32 bytes of one sector,
 * with the copy's number at both ends, so that neither side needs a fence; it names the launch, so
 * that nothing need be cleared between launches. */
struct rt_gpu_task {
    uint32_t seq;
    uint32_t dst[2], src[2], len; /* low words first */
    uint32_t launch_parts;        /* launch << 8 | parts; 1: block 0 is there, 0: leave */
    uint32_t seq_too;
};
struct rt_gpu_work {
    struct rt_gpu_task task;
    uint32_t pad[24];
    uint64_t present; /* launch << 32 | helpers that have started; they rank in this order */
    uint32_t pad2[30];
    uint32_t finished[WEFT_LINGER_BLOCKS_MAX]; /* by rank: number of the last copy finished */
};

#endif
