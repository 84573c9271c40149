/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by move.cu and its host side, beside kernel.h: parameters, the ring of the polling kernel,
 * the words that the host polls, shapes of the launches and the meeting point of the polling
 * kernel's blocks.  Plain C and CUDA C++.
 *
 * All limits here were measured on H200.  On another device they are correct but may be slower; the
 * lengths at which a way ends are rows of cost.def. */
#ifndef RT_GPU_MOVE_KERNELS_H
#define RT_GPU_MOVE_KERNELS_H

#include "runtime/gpu/kernel.h"
#include <stdint.h>

struct rt_gpu_move { /* one copy */
    uint64_t dst, src, len;
};

/* The host may recall a kernel that only copies and has not started, because kernels of the
 * application fill the device.  The word lies in device memory.  Each block begins with one atomic
 * addition to all 64 bits, which counts it in `started` and returns `recalled`.  The host has a
 * copy engine store the launch's number to `recalled`, and then load the word.  The device's L2
 * cache does one after the other: if the load shows no start of this launch, every block sees the
 * recall and copies nothing; if it shows one, the copies belong to the kernel until it has ended.
 * `started` is modulo 2^32; its carry makes at most one launch skip its copies.
 *
 * In host memory the word would cost a fence and a load over PCIe, which blocks make one after
 * another: 1.05 us each, 16 GB/s for messages of 64 KiB instead of 100 (H100, driver 580). */
struct rt_gpu_recall {
    uint32_t started;  /* blocks of all launches */
    uint32_t recalled; /* number of a launch */
};
/* A cache line of device memory, for one stream of kernels that end with a flag. */
struct rt_gpu_line {
    uint32_t counter; /* where blocks meet at the end; zero between launches */
    uint32_t pad;
    struct rt_gpu_recall recall; /* of batches */
    uint32_t pad2[12];
};

/* weft_batch(struct rt_gpu_batch): n copies by the whole grid.  The last block to finish orders all
 * data before it stores `value` to *flag (host memory); the blocks meet at `counter`, the first
 * word of a struct rt_gpu_line.  `near`: all stores go to this device's own memory.  The flag is
 * the first word of a struct rt_gpu_flag.  A block that was recalled has copied nothing and stores
 * `value` to `skipped`: then everything has to be copied again. */
struct rt_gpu_flag { /* a cache line of pinned host memory */
    uint32_t flag;
    uint32_t skipped;
    uint32_t pad[14];
};
#define RT_GPU_BATCH_MAX 64
struct rt_gpu_batch {
    uint64_t flag, counter;
    uint32_t value;
    uint16_t n, near;
    struct rt_gpu_move move[RT_GPU_BATCH_MAX];
};

/* The ring of weft_linger, in pinned host memory.  The host fills slot (seq % SLOTS) and stores
 * `seq` last, in both 32-byte sectors of a line.  The kernel reads a sector at once, so a read that
 * shows it in both has read a whole line.  The second line is used only if `fold` has
 * RT_GPU_RING_FAR, and is written first. */
#define RT_GPU_RING_SLOTS 64
#define RT_GPU_RING_NEAR 5    /* addresses in the first line: dst, src, more */
#define RT_GPU_RING_PLACES 11 /* in both */
#define RT_GPU_RING_SOURCES 8 /* most of them that are sources */
struct rt_gpu_desc {
    uint32_t seq;
    uint32_t fold; /* 0: a copy; else the reduction: RT_GPU_RING_FOLD */
    uint64_t dst, src;
    uint32_t len; /* bytes; for a reduction, of one source */
    uint32_t pad;
    uint64_t more[3]; /* the addresses of a reduction: dst, src, these and far, sources first */
    /* Its stores go to this device's own memory, and the loads of a copy come from memory of
     * some device. */
    uint32_t near;
    uint32_t seq_too;
    uint32_t seq_far;
    uint32_t pad3;
    uint64_t far[RT_GPU_RING_PLACES - RT_GPU_RING_NEAR];
    uint32_t pad4;
    uint32_t seq_far_too;
};
/* The reductions that the ring supports: the kinds of fold.cu, in units of 8, 4, 2 or 1 bytes that
 * are whole elements and divide the length and all addresses, or of 16 bytes: more than
 * RT_GPU_RING_SHORT of them, and of at most RT_GPU_RING_WIDE sources or RT_GPU_FOLD_EACH.  `same`:
 * the destinations are the first sources and not listed again.  Tuned on H200; a reduction that the
 * ring does not take is a launch. */
#define RT_GPU_RING_SHORT 256u
#define RT_GPU_RING_WIDE 4
enum rt_gpu_ring_kind {
    RT_GPU_RING_BITS = 1,
    RT_GPU_RING_4,
    RT_GPU_RING_8,
    RT_GPU_RING_F16,
    RT_GPU_RING_BF16,
    RT_GPU_RING_ATOMIC /* no reduction: weft_atomic */
};
#define RT_GPU_RING_FOLD(kind, type, code, nsrc, ndst, unit, same) \
    ((uint32_t)(kind) | (uint32_t)(type) << 3 | (uint32_t)(code) << 8 | (uint32_t)(nsrc) << 12 | \
     (uint32_t)(ndst) << 16 | (uint32_t)(unit) << 20 | (uint32_t)(same) << 25 | \
     ((same) ? (nsrc) : (nsrc) + (ndst)) / (RT_GPU_RING_NEAR + 1u) * RT_GPU_RING_FAR)
#define RT_GPU_RING_FAR (1u << 28) /* addresses in the second line: 6 to 11 of them in all */
#define RT_GPU_RING_KIND(fold) ((fold)&7)
#define RT_GPU_RING_TYPE(fold) ((fold) >> 3 & 31)
#define RT_GPU_RING_CODE(fold) ((fold) >> 8 & 15)
#define RT_GPU_RING_NSRC(fold) ((fold) >> 12 & 15)
#define RT_GPU_RING_NDST(fold) ((fold) >> 16 & 15)
#define RT_GPU_RING_UNIT(fold) ((fold) >> 20 & 31)
#define RT_GPU_RING_SAME(fold) ((fold) >> 25 & 1)
struct rt_gpu_words { /* written by the kernel, polled by the host; pinned host memory */
    uint32_t done;    /* last descriptor finished; they finish in order */
    uint32_t left;    /* number of the launch that has ended */
    uint32_t pad[14];
};
/* weft_linger: block 0 polls; with more blocks it hands long copies to all through `work` (device
 * memory).  Leaves after idle_ns without work and after life_ns in any case, storing `launch` to
 * words->left last.  Block 0 alone counts itself in `recall`, and leaves at once if recalled. */
struct rt_gpu_linger {
    uint64_t ring, words, work;
    uint32_t next;   /* first descriptor to look for */
    uint32_t launch; /* number of this launch */
    uint64_t idle_ns, life_ns;
    uint64_t recall; /* struct rt_gpu_recall */
    uint64_t pad;
    /* That descriptor as it is in the ring: a read of the ring takes 1.3 us (H200). */
    struct rt_gpu_desc first;
};

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
