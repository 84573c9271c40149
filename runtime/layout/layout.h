/* SPDX-License-Identifier: BSD-3-Clause */
/* Data layouts: where the bytes of one element of a datatype lie.  A layout is flattened once, at
 * commit, and immutable from then on; everything below mpi/ (message engine, collectives) sees
 * layouts, never MPI datatypes. */
#ifndef RT_LAYOUT_LAYOUT_H
#define RT_LAYOUT_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The basic types that reductions know.  RT_ELEM_NONE: bytes without arithmetic, or a mixture of
 * types. */
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
    RT_ELEM_I128, /* 16-byte types: where the compiler has them (rt_elem_nbytes) */
    RT_ELEM_F128, /* IEEE quad */
    RT_ELEM_CF16, /* complex of two halves */
    RT_ELEM_C128,
    RT_ELEM_BOOL,
    RT_ELEM_BYTE, /* bitwise only */
    RT_ELEM_F32_I32,
    RT_ELEM_F64_I32,
    RT_ELEM_I64_I32,
    RT_ELEM_I32_I32,
    RT_ELEM_I16_I32,
    RT_ELEM_LDBL_I32, /* MINLOC pairs */
    RT_ELEM_F32_F32,
    RT_ELEM_F64_F64, /* Fortran's pairs */
    RT_ELEM_COUNT
};

/* `nrep` pieces, the first at `off`, the next `stride` bytes further.  A piece is `len` bytes
 * without a gap, or, with `sub`, the blocks of a group that has `len` bytes of data.  Packed order
 * is the order of the array, block by block, piece by piece. */
struct rt_blocks;
struct rt_block {
    int64_t off, len, stride, nrep;
    const struct rt_blocks *sub; /* referenced */
};

/* A list of blocks in packed order, never changed once built and shared by all layouts that contain
 * it: a repetition of many blocks costs one block.  Lists without repetitions, the usual case
 * of indexed types and structures, are kept as offsets and packed positions only, and when
 * all pieces have one length as offsets only: less to read while packing. */
struct rt_blocks {
    int32_t refs; /* atomic; 0: static, never freed */
    uint32_t n;
    int64_t size;             /* bytes of data */
    int64_t low, high;        /* where the data begins and ends */
    int64_t piece;            /* length of each piece when there is only `off`, else 0 */
    const int64_t *off;       /* n; NULL when `b` is there */
    const int64_t *first;     /* packed position where block i begins, n + 1; NULL with `piece` */
    const struct rt_block *b; /* n, or NULL */
};

/* A reference keeps the list, and so its address; NULL and static lists are allowed. */
const struct rt_blocks *rt_blocks_ref(const struct rt_blocks *g);
void rt_blocks_unref(const struct rt_blocks *g);

struct rt_layout {
    int64_t size;       /* bytes of data in one element */
    int64_t lb, extent; /* step from one element to the next is `extent`; may be negative */
    int64_t true_lb, true_extent;
    bool contig;  /* count elements are the count * size bytes from the buffer on */
    uint8_t elem; /* enum rt_elem of all its data */
    const struct rt_blocks *blocks; /* referenced; NULL when contig */
};

/* Constructors fill caller's storage; rt_layout_fini releases `blocks`.  All take byte strides;
 * -RT_ENOMEM, -RT_EINVAL when a size does not fit in 63 bits. */
int rt_layout_basic(struct rt_layout *l, int64_t nbytes, int64_t extent, enum rt_elem elem);
int rt_layout_vector(struct rt_layout *l, int64_t count, int64_t blocklen, int64_t stride_bytes,
                     const struct rt_layout *old);
/* General form: block i holds blocklen[i] elements of types[i] (or types[0] when one_type) at byte
 * displacement disp[i]. */
int rt_layout_struct(struct rt_layout *l, int64_t count, const int64_t *blocklen,
                     const int64_t *disp, const struct rt_layout *const *types, bool one_type);
int rt_layout_resized(struct rt_layout *l, int64_t lb, int64_t extent, const struct rt_layout *old);
int rt_layout_dup(struct rt_layout *l, const struct rt_layout *old);
void rt_layout_fini(struct rt_layout *l);

/* Copies bytes [pos, pos + len) of the packed form of `count` elements at `buf` to `out`, and back.
 * `pos + len` must not exceed count * size.  Starting in the middle of an element is allowed
 * (pipelines) and O(log blocks). */
void rt_layout_pack(const struct rt_layout *l, int64_t count, const void *buf, int64_t pos,
                    void *out, int64_t len);
void rt_layout_unpack(const struct rt_layout *l, int64_t count, void *buf, int64_t pos,
                      const void *in, int64_t len);
/* Calls fn for all data of one element in packed order: `nrep` pieces of `len` bytes, the first
 * `off` bytes from the element's origin. */
typedef void rt_layout_fn(void *arg, int64_t off, int64_t len, int64_t stride, int64_t nrep);
void rt_layout_each(const struct rt_layout *l, rt_layout_fn *fn, void *arg);
/* Copies n_src elements of one layout to another of the same data size without a message (self
 * sends, Alltoall to self). */
void rt_layout_copy(const struct rt_layout *src_l, int64_t src_n, const void *src,
                    const struct rt_layout *dst_l, int64_t dst_n, void *dst);

#endif
