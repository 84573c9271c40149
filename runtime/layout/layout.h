/* SPDX-License-Identifier: BSD-3-Clause */
/* Data layouts: the positions of the bytes of one element of a datatype.  A layout is flattened
 * once, at commit, and then immutable.  Everything below mpi/ (message engine, collectives) uses
 * layouts, never MPI datatypes. */
#ifndef RT_LAYOUT_LAYOUT_H
#define RT_LAYOUT_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The basic types of reductions.  RT_ELEM_NONE: bytes without arithmetic, or a mixture of types. */
enum rt_elem {
    RT_ELEM_NONE,
    RT_ELEM_I8,
    RT_ELEM_U8,
    RT_ELEM_I16,
    RT_ELEM_U16,
    RT_ELEM_I32,
    RT_ELEM_U32,
    RT_ELEM_I64,
    RT_ELEM_U64,
    RT_ELEM_F16,
    RT_ELEM_BF16,
    RT_ELEM_F32,
    RT_ELEM_F64,
    RT_ELEM_LDBL,
    RT_ELEM_C32,
    RT_ELEM_C64,
    RT_ELEM_CLDBL,
    RT_ELEM_I128, /* 16-byte types, if the compiler has them (rt_elem_nbytes) */
    RT_ELEM_F128, /* IEEE quad precision */
    RT_ELEM_CF16, /* complex of two 16-bit floats */
    RT_ELEM_C128,
    RT_ELEM_BOOL,
    RT_ELEM_BYTE, /* bitwise only */
    RT_ELEM_F32_I32,
    RT_ELEM_F64_I32,
    RT_ELEM_I64_I32,
    RT_ELEM_I32_I32,
    RT_ELEM_I16_I32,
    RT_ELEM_LDBL_I32, /* pairs of MINLOC and MAXLOC */
    RT_ELEM_F32_F32,
    RT_ELEM_F64_F64, /* pairs of Fortran */
    RT_ELEM_COUNT
};

/* `nrep` pieces, the first at `off`, each `stride` bytes after the previous one.  A piece is `len`
 * bytes without a gap or, with `sub`, the blocks of a group that has `len` bytes of data.  Packed
 * order is the order of the array: block by block, piece by piece. */
struct rt_blocks;
struct rt_block {
    int64_t off, len, stride, nrep;
    const struct rt_blocks *sub; /* referenced */
};

/* A list of blocks in packed order, immutable once built and shared by all layouts that contain it:
 * a repetition of many blocks costs one block.  Lists without repetitions, as most indexed types
 * and structures have, are stored as offsets and packed positions only; if all pieces have the same
 * length, as offsets only.  Then packing reads less. */
struct rt_blocks {
    int32_t refs; /* atomic; 0: static, never freed */
    uint32_t n;
    int64_t size;             /* bytes of data */
    int64_t low, high;        /* lowest and highest offset of the data */
    int64_t piece;            /* length of each piece if only `off` is stored; otherwise 0 */
    const int64_t *off;       /* n offsets; NULL if `b` is stored */
    const int64_t *first;     /* packed position at which block i begins, n + 1; NULL with
                               * `piece` */
    const struct rt_block *b; /* n blocks, or NULL */
};

/* A reference keeps the list and its address valid; NULL and static lists are allowed. */
const struct rt_blocks *rt_blocks_ref(const struct rt_blocks *g);
void rt_blocks_unref(const struct rt_blocks *g);

struct rt_layout {
    int64_t size;       /* bytes of data in one element */
    int64_t lb, extent; /* distance between elements is `extent`; may be negative */
    int64_t true_lb, true_extent;
    bool contig;  /* the data of `count` elements are the count * size bytes at the buffer */
    uint8_t elem; /* enum rt_elem of all its data */
    const struct rt_blocks *blocks; /* a reference; NULL if contig */
};

/* Constructors fill the caller's storage; rt_layout_fini releases `blocks`.  All strides are in
 * bytes.  -RT_ENOMEM; -RT_EINVAL: a size does not fit in 63 bits. */
int rt_layout_basic(struct rt_layout *l, int64_t nbytes, int64_t extent, enum rt_elem elem);
int rt_layout_vector(struct rt_layout *l, int64_t count, int64_t blocklen, int64_t stride_bytes,
                     const struct rt_layout *old);
/* General form: block i holds blocklen[i] elements of types[i] (types[0] if one_type) at byte
 * displacement disp[i]. */
int rt_layout_struct(struct rt_layout *l, int64_t count, const int64_t *blocklen,
                     const int64_t *disp, const struct rt_layout *const *types, bool one_type);
int rt_layout_resized(struct rt_layout *l, int64_t lb, int64_t extent, const struct rt_layout *old);
int rt_layout_dup(struct rt_layout *l, const struct rt_layout *old);
void rt_layout_fini(struct rt_layout *l);

/* Copies bytes [pos, pos + len) of the packed form of `count` elements at `buf` to `out`, and back.
 * `pos + len` must not exceed count * size.  The range may begin inside an element (pipelines);
 * finding it is O(log blocks). */
void rt_layout_pack(const struct rt_layout *l, int64_t count, const void *buf, int64_t pos,
                    void *out, int64_t len);
void rt_layout_unpack(const struct rt_layout *l, int64_t count, void *buf, int64_t pos,
                      const void *in, int64_t len);
/* Calls fn for all data of one element in packed order: `nrep` pieces of `len` bytes, the first at
 * offset `off`. */
typedef void rt_layout_fn(void *arg, int64_t off, int64_t len, int64_t stride, int64_t nrep);
void rt_layout_each(const struct rt_layout *l, rt_layout_fn *fn, void *arg);
/* Copies elements of one layout to another one with the same size of data, without a message (sends
 * to the process itself, its block of an alltoall). */
void rt_layout_copy(const struct rt_layout *src_l, int64_t src_n, const void *src,
                    const struct rt_layout *dst_l, int64_t dst_n, void *dst);

#endif
