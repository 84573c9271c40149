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

/* weft_linger: up to TINY bytes one warp copies, up to SOLO bytes block 0; longer copies are cut
 * into parts of at least PART bytes for as many blocks as there are. */
#define WEFT_LINGER_BLOCKS 8
#define WEFT_LINGER_THREADS 512
#define WEFT_LINGER_TINY 512u
#define WEFT_LINGER_SOLO (8u << 10)
#define WEFT_LINGER_PART (8u << 10)

/* How block 0 of weft_linger hands a copy to the others.  Device memory, zero before the first
 * launch.  Every word that a launch reads carries that launch's number or is written by block 0
 * first, so that nothing need be cleared between launches. */
struct rt_gpu_work {
    /* launch << 32 | number of the copy << 8 | helpers that take part; all ones below the launch:
     * leave.  Stored last (release) by block 0, which waits for the helpers before the next. */
    uint64_t post;
    uint64_t present;  /* launch << 32 | helpers that have started; they rank in this order */
    uint64_t dst, src, len;
    uint32_t finished; /* helpers that have ended this copy */
    uint32_t pad[5];
};

#endif
