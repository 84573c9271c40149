/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by host code and kernels: what the kernels do, and their parameters; those of move.cu are
 * in move_kernels.h.  Included by C and by CUDA C; fixed-size types only.  A test's fake driver
 * runs the same contract on the CPU. */
#ifndef RT_GPU_KERNEL_H
#define RT_GPU_KERNEL_H

#include <stdint.h>

/* The kernels; images.c knows where each one lies. */
enum rt_gpu_kernel {
    RT_GPU_BATCH,  /* move.cu: up to RT_GPU_BATCH_MAX copies at once */
    RT_GPU_LINGER, /* move.cu: polls a ring of copies */
    RT_GPU_PACK,   /* pack.cu */
    RT_GPU_UNPACK,
    RT_GPU_MEET,      /* meet.cu: stream_ops.c */
    RT_GPU_FOLD_BITS, /* fold.cu: copies and bitwise operations, of bytes */
    RT_GPU_FOLD_4,    /* integers and floats of 4 bytes, */
    RT_GPU_FOLD_8,    /* of 8 bytes */
    RT_GPU_FOLD_F16,
    RT_GPU_FOLD_BF16,
    RT_GPU_FOLD_1,     /* fold_rare.cu: integers of 1 byte, */
    RT_GPU_FOLD_2,     /* of 2 bytes, */
    RT_GPU_FOLD_WIDE8, /* products of complex numbers, and pairs */
    RT_GPU_FOLD_WIDE16,
    RT_GPU_ATOMIC,    /* atomic.cu */
    RT_GPU_PUSH_BITS, /* push.cu (push_kernels.h): as the kernels that reduce, in the same order */
    RT_GPU_PUSH_4,
    RT_GPU_PUSH_8,
    RT_GPU_PUSH_F16,
    RT_GPU_PUSH_BF16,
    RT_GPU_PUSH_1,
    RT_GPU_PUSH_2,
    RT_GPU_PUSH_WIDE8,
    RT_GPU_PUSH_WIDE16,
    RT_GPU_MESSAGE, /* push.cu: short messages of streams */
    RT_GPU_KERNELS
};

/* weft_pack and weft_unpack: bytes [pos, pos + len) of the packed form of `count` elements at
 * `user` to or from `packed`.  An element is `ngroups` groups in packed order; the table lies in
 * device memory or, up to RT_GPU_PACK_INLINE groups, in the parameters. */
struct rt_gpu_group {
    int64_t first; /* packed position within the element */
    int64_t off, len, stride, nrep;
};
#define RT_GPU_PACK_INLINE 16
struct rt_gpu_pack {
    uint64_t flag, counter;
    uint32_t value, unit; /* bytes that move at once: 1, 2, 4, 8, 16 */
    uint64_t packed, user;
    int64_t pos, len, size, extent;
    uint64_t table; /* struct rt_gpu_group[], or 0: inline_groups */
    uint32_t ngroups, pad;
    struct rt_gpu_group inline_groups[RT_GPU_PACK_INLINE];
};

/* weft_fold_*: dst[j][i] = src[0][i] op src[1][i] op ..., in this order, for every j, so that the
 * bits do not depend on the device that computes them.  One source and RT_GPU_FOLD_COPY: a copy to
 * several places.  As many sources as destinations and RT_GPU_FOLD_EACH: dst[j][i] = src[j][i].  A
 * destination may be a source (with EACH only if there are two, so that two ranges change places);
 * otherwise they do not overlap. 16-bit floats are summed and multiplied in fp32 and rounded once.
 *
 * `prefixes`, with as many destinations as sources: dst[j] gets the fold of src[0] to src[j] alone.
 * dst[j] may be src[j] or src[j + 1]. */
enum rt_gpu_type {
    RT_GPU_I8,
    RT_GPU_U8,
    RT_GPU_I16,
    RT_GPU_U16,
    RT_GPU_I32,
    RT_GPU_U32,
    RT_GPU_I64,
    RT_GPU_U64,
    RT_GPU_F16,
    RT_GPU_BF16,
    RT_GPU_F32,
    RT_GPU_F64,
    RT_GPU_C32, /* complex of two floats */
    RT_GPU_C64,
    RT_GPU_F32_I32, /* pairs, with the layout of a C struct */
    RT_GPU_F64_I32,
    RT_GPU_I64_I32,
    RT_GPU_I32_I32,
    RT_GPU_I16_I32,
    RT_GPU_F32_F32,
    RT_GPU_F64_F64,
    RT_GPU_TYPES
};
enum rt_gpu_fold_code {
    RT_GPU_FOLD_COPY,
    RT_GPU_FOLD_SUM,
    RT_GPU_FOLD_PROD,
    RT_GPU_FOLD_MAX,
    RT_GPU_FOLD_MIN,
    RT_GPU_FOLD_LAND,
    RT_GPU_FOLD_LOR,
    RT_GPU_FOLD_LXOR,
    RT_GPU_FOLD_BAND,
    RT_GPU_FOLD_BOR,
    RT_GPU_FOLD_BXOR,
    RT_GPU_FOLD_MINLOC,
    RT_GPU_FOLD_MAXLOC,
    RT_GPU_FOLD_EACH, /* copies: source i to destination i */
    RT_GPU_FOLD_CODES
};
#define RT_GPU_FOLD_PLACES 16 /* most sources, and most destinations */
/* What the host has simplified: one source, copies and bitwise operations are RT_GPU_U8 in bytes;
 * sums of complex numbers are sums of their parts.  `unit` bytes are loaded at once: 16 (all
 * addresses are equal modulo 16, and elements are aligned to their size), 4 (the same, elements of
 * 1 and 2 bytes), the bytes of an element's word, or 1 (any addresses).  Blocks take `piece` groups
 * of a unit, or of an element where that is longer, one after another.  The end is as in
 * weft_batch; flag 0: no notification. */
struct rt_gpu_fold_args {
    uint64_t flag, counter;
    uint32_t value;
    uint8_t type, code, nsrc, ndst;
    uint64_t count; /* elements */
    uint32_t piece;
    uint16_t unit;
    uint8_t near, prefixes; /* near: as for a batch */
    uint64_t src[RT_GPU_FOLD_PLACES], dst[RT_GPU_FOLD_PLACES];
};

/* weft_atomic: changes `count` elements, each by one atomic operation of system scope, so that
 * kernels of several devices may change the same elements at once.  An element becomes operand op
 * element; with RT_GPU_FOLD_COPY it becomes the operand, with RT_GPU_ATOMIC_READ it stays, with
 * RT_GPU_ATOMIC_CAS it becomes the operand if it equals `compare`.  Element i lies at `dst` + i *
 * its size or, where there is a table, at table[i].  Old values are stored to old[i], unless old is
 * 0. The operands lie at `src`; `src` and `compare` are values and not addresses if `given` has
 * their bits.  An element that is not aligned to its size is changed without atomicity.  The end
 * is as in weft_batch.  In the ring: kind RT_GPU_RING_ATOMIC, up to RT_GPU_RING_CHANGES aligned
 * elements of `len` bytes from `dst` on, `old` at `src`, operands and `compare` in more[0] and
 * more[1], `given` as the number of sources. */
#define RT_GPU_RING_CHANGES 32u /* one a lane */
enum { RT_GPU_ATOMIC_READ = RT_GPU_FOLD_CODES, RT_GPU_ATOMIC_CAS, RT_GPU_ATOMIC_CODES };
enum { RT_GPU_GIVEN_SRC = 1, RT_GPU_GIVEN_COMPARE = 2 };
struct rt_gpu_atomic_args {
    uint64_t flag, counter;
    uint32_t value;
    uint8_t type, code, given;
    uint8_t near; /* `old` lies in this device's own memory, or is 0 and the elements do */
    uint64_t count, dst, table, src, compare, old;
};

/* weft_meet: one warp on a stream of the application.  It signals the devices of other processes
 * and waits for their signals, between the stream's operations before and after it.  Numbers grow
 * by `step` each time and lie in device memory, so that a captured launch may be repeated.  e =
 * *count + step is stored to *count; then to every signal[], after all earlier work of the stream
 * is visible everywhere; then the warp waits until every wait[] has reached e - behind.  The wait
 * ends early, with words->failed, when words->abort or *poison is not 0; then 1 is stored to every
 * poison_of[], the poison words of the other processes, so that they stop waiting, too. */
#define RT_GPU_MEET_MAX 16
struct rt_gpu_meet {
    uint64_t count;         /* this device's memory */
    uint64_t runs;          /* the same: launches so far, captured ones too */
    uint64_t poison, words; /* words: struct rt_gpu_meet_words */
    uint32_t step, nsignal, nwait, npoison;
    uint32_t ticket, behind; /* ticket: stored to words->ended at the end; 0: not stored */
    uint32_t adds, pad;      /* adds: 1 is added to every signal[] instead, atomically */
    uint64_t signal[RT_GPU_MEET_MAX], wait[RT_GPU_MEET_MAX], poison_of[RT_GPU_MEET_MAX];
};
struct rt_gpu_meet_words { /* pinned host memory */
    uint32_t abort;        /* written by the host */
    uint32_t failed;       /* the rest by the kernel */
    uint32_t ended;
    uint32_t begun, over; /* *runs at the beginning and at the end of a launch */
    uint32_t differs;     /* 1 + a rank whose arguments differ (push_kernels.h); 0: none */
    uint32_t pad[10];
};

#endif
