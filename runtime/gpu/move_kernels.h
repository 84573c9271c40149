/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by move.cu and its host side, beside kernel.h: shapes of the launches and the meeting
 * point of the polling kernel's blocks.  Plain C and CUDA C++.
 *
 * All limits here were measured on H200.  On another device they are correct but may be slower; the
 * lengths at which a way ends are rows of cost.def. */
#ifndef RT_GPU_MOVE_KERNELS_H
#define RT_GPU_MOVE_KERNELS_H

#include "runtime/gpu/kernel.h"
#include <stdint.h>

/* weft_batch: blocks take pieces of this length from the moves, one after another; a thread then
 * has four loads of 16 bytes in flight. */
#define WEFT_BATCH_THREADS 256
#define WEFT_BATCH_PIECE (16u << 10)

/* weft_linger.  While it polls it occupies one multiprocessor's room for a block of 512 threads: up
 * to half of its registers and a quarter of its threads, of 132 multiprocessors on an H200; 16
 * blocks only after a copy above ONE bytes.  The threads are for copies of 2 to 32 KiB, whose loads
 * should all be in flight at once, and a block cannot grow when such a copy comes.  The registers
 * are for the ring's reductions (four sources in units of 16 bytes).  A smaller kernel would need a
 * launch for each change between the two: 8 us in the path of a message.
 *
 * Up to TINY bytes one warp copies; up to NEAR it copies through shared memory if the copy is
 * `near` and whole units of 16 bytes (H200: 4 KiB 0.3 us faster than by the block, 8 KiB slower);
 * up to SOLO bytes block 0 copies.  Longer copies are cut into parts of at least PART bytes for as
 * many blocks as have started.  On H200 a block moves 34 to 50 GB/s, and handing a copy to other
 * blocks costs 0.9 us.  A launch has one block, which is enough up to ONE bytes, or MANY blocks if
 * it is for a longer copy. */
#define WEFT_LINGER_MANY 16
#define WEFT_LINGER_BLOCKS_MAX 32
#define WEFT_LINGER_THREADS 512
#define WEFT_LINGER_TINY 2048u
#define WEFT_LINGER_NEAR (6u << 10)
#define WEFT_LINGER_SOLO (32u << 10)
#define WEFT_LINGER_PART (8u << 10)
#define WEFT_LINGER_ONE WEFT_LINGER_SOLO
/* Reads of the ring that are under way at once.  A read takes 1.0 to 1.3 us, reads of a line
 * arrive 0.17 us apart, and the kernel needs 0.2 us to look at one: more reads would be old when it
 * looks at them.  H100, messages of 8 B between two devices, by the number of reads: 4.9 us with 1,
 * 4.8 with 3, 4.4 with 4, 5.2 with 8. */
#define WEFT_LINGER_READS 4
#define WEFT_LINGER_JOIN_NS 5000u /* blocks that start later take no part in the launch's work */

/* Reductions, by the bytes of one source: one unit a lane by one warp (copies from or to several
 * places: four a lane, so up to 2 KiB in all), up to FOLD_PART block 0 alone, longer ones in parts
 * of at least that, up to FOLD_MOST.  To choose the number of blocks, a byte counts as FOLD_WEIGHT
 * bytes of a copy; RT_GPU_FOLD_EACH counts as a copy of all its bytes. */
#define WEFT_LINGER_FOLD_PART (8u << 10)
#define WEFT_LINGER_FOLD_MOST (2u << 20)
#define WEFT_LINGER_FOLD_WEIGHT 2u

/* How block 0 of weft_linger hands work to the other blocks, through device memory that is zero
 * before the first launch.  A warp stores and loads the task at once, with the work's number in
 * every sector, so that neither side needs a fence: the task is the descriptor itself, with the
 * launch in its pad, so that nothing has to be cleared between launches. */
#define WEFT_TASK_NEAR 14
#define WEFT_TASK_LAUNCH_PARTS 7 /* launch << 8 | parts; 1: block 0 has started, 0: leave */
struct rt_gpu_task {
    uint32_t word[sizeof(struct rt_gpu_desc) / sizeof(uint32_t)];
};
struct rt_gpu_work {
    struct rt_gpu_task task;
    uint64_t present; /* launch << 32 | helpers that have started: each takes its rank from it */
    uint32_t pad2[30];
    uint32_t finished[WEFT_LINGER_BLOCKS_MAX]; /* by rank: number of the last copy finished */
};

#endif
