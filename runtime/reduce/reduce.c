/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds reduction kernels and applies them to layouts.  Pure functions: any thread. */
#include "runtime/reduce/kernel.h"
#include "runtime/base/err.h"

#include <stddef.h>

struct elem_facts {
    uint8_t nbytes, packed;
}; /* size of the C type; bytes of data (pairs have holes) */

#define BASIC(type) \
    { \
        sizeof(type), sizeof(type) \
    }
#define PAIR(type, value) \
    { \
        sizeof(struct type), sizeof(value) + sizeof(int) \
    }

static const struct elem_facts elems[RT_ELEM_COUNT] = {
    [RT_ELEM_I8] = BASIC(int8_t),
    [RT_ELEM_U8] = BASIC(uint8_t),
    [RT_ELEM_I16] = BASIC(int16_t),
    [RT_ELEM_U16] = BASIC(uint16_t),
    [RT_ELEM_I32] = BASIC(int32_t),
    [RT_ELEM_U32] = BASIC(uint32_t),
    [RT_ELEM_I64] = BASIC(int64_t),
    [RT_ELEM_U64] = BASIC(uint64_t),
    [RT_ELEM_F16] = BASIC(uint16_t),
    [RT_ELEM_BF16] = BASIC(uint16_t),
    [RT_ELEM_F32] = BASIC(float),
    [RT_ELEM_F64] = BASIC(double),
    [RT_ELEM_LDBL] = BASIC(long double),
    [RT_ELEM_C32] = BASIC(float _Complex),
    [RT_ELEM_C64] = BASIC(double _Complex),
    [RT_ELEM_CLDBL] = BASIC(long double _Complex),
    [RT_ELEM_I128] = { RT_HAVE_I128 * 16, RT_HAVE_I128 * 16 },
    [RT_ELEM_F128] = { RT_HAVE_F128 * 16, RT_HAVE_F128 * 16 },
    [RT_ELEM_CF16] = { 4, 4 },
    [RT_ELEM_C128] = { RT_HAVE_F128 * 32, RT_HAVE_F128 * 32 },
    [RT_ELEM_BOOL] = BASIC(bool),
    [RT_ELEM_BYTE] = BASIC(char),
    [RT_ELEM_F32_I32] = PAIR(rt_pair_f32, float),
    [RT_ELEM_F64_I32] = PAIR(rt_pair_f64, double),
    [RT_ELEM_I64_I32] = PAIR(rt_pair_i64, int64_t),
    [RT_ELEM_I32_I32] = PAIR(rt_pair_i32, int32_t),
    [RT_ELEM_I16_I32] = PAIR(rt_pair_i16, int16_t),
    [RT_ELEM_LDBL_I32] = PAIR(rt_pair_ldbl, long double),
    [RT_ELEM_F32_F32] = BASIC(struct rt_pair_2f32),
    [RT_ELEM_F64_F64] = BASIC(struct rt_pair_2f64),
};

int64_t rt_elem_nbytes(enum rt_elem elem) { return elems[elem].nbytes; }

bool rt_elem_packs(enum rt_elem elem)
{
    return elems[elem].nbytes && elems[elem].nbytes == elems[elem].packed;
}

rt_reduce_fn *rt_reduce_find_for(enum rt_opcode op, enum rt_elem elem, bool avx2)
{
    rt_reduce_fn *fn = rt_reduce_find_int(op, elem, avx2);
    if (!fn)
        fn = rt_reduce_find_float(op, elem, avx2);
    if (!fn)
        fn = rt_reduce_find_pair(op, elem);
    if (!fn)
        fn = rt_reduce_find_wide(op, elem);
    return fn ? fn : rt_reduce_find_move(op, elems[elem].nbytes);
}

rt_reduce_fn *rt_reduce_find(enum rt_opcode op, enum rt_elem elem)
{
    return rt_reduce_find_for(op, elem, rt_reduce_has_avx2());
}

/* State of a walk over the basic elements of a layout.  A pair with a hole is several pieces of
 * data; its address is that of its first byte. */
struct walk {
    rt_reduce_fn *fn;
    const char *in;
    char *inout;
    struct elem_facts e;
    int64_t fill; /* bytes of the current basic element already passed */
};

static void walk_piece(struct walk *w, int64_t off, int64_t len)
{
    while (len > 0) {
        if (w->fill == 0 && len >= w->e.nbytes && w->e.nbytes == w->e.packed) {
            int64_t n = len / w->e.nbytes;
            w->fn(w->in + off, w->inout + off, w->inout + off, n);
            off += n * w->e.nbytes;
            len -= n * w->e.nbytes;
            continue;
        }
        if (w->fill == 0)
            w->fn(w->in + off, w->inout + off, w->inout + off, 1);
        int64_t step = w->e.packed - w->fill < len ? w->e.packed - w->fill : len;
        w->fill = (w->fill + step) % w->e.packed;
        off += step;
        len -= step;
    }
}

static void walk_run(void *arg, int64_t off, int64_t len, int64_t stride, int64_t nrep)
{
    for (int64_t r = 0; r < nrep; r++)
        walk_piece(arg, off + r * stride, len);
}

int rt_reduce_apply(const struct rt_op *op, const void *in, void *inout, int64_t n,
                    const struct rt_layout *l)
{
    if (n <= 0)
        return 0;
    if (op->code == RT_OP_USER) {
        op->user(op, in, inout, n, l);
        return 0;
    }
    rt_reduce_fn *fn = rt_reduce_find(op->code, l->elem);
    if (!fn)
        return -RT_EINVAL;
    struct elem_facts e = elems[l->elem];
    if (l->contig) {
        fn(in, inout, inout, n * l->size / e.nbytes);
        return 0;
    }
    struct walk w = { fn, in, inout, e, 0 };
    for (int64_t i = 0; i < n; i++) {
        rt_layout_each(l, walk_run, &w);
        w.in += l->extent;
        w.inout += l->extent;
    }
    return 0;
}
