/* SPDX-License-Identifier: BSD-3-Clause */
/* Reduction kernels for types that few programs use: 16-byte integers and logicals, IEEE quad,
 * complex of 16-bit floats and of quads; and MPI_REPLACE and MPI_NO_OP, which accumulate needs for
 * all types.  Pure functions: any thread. */
#include "runtime/reduce/kernel.h"

#include <string.h>

#define ID(v) (v)

#if RT_HAVE_I128
#define SIGNED(op, expr) RT_REDUCE_KERNEL(op##_I128, rt_i128, rt_i128, ID, ID, expr)
#define BITS(op, expr) RT_REDUCE_KERNEL(op##_I128, rt_u128, rt_u128, ID, ID, expr)
SIGNED(max, (x > y ? x : y))
SIGNED(min, (x < y ? x : y))
BITS(sum, (x + y))
BITS(prod, (x * y))
BITS(band, (x & y))
BITS(bor, (x | y))
BITS(bxor, (x ^ y))
BITS(land, (x && y))
BITS(lor, (x || y))
BITS(lxor, (!x != !y))
#define ROW_I128(op) [RT_ELEM_I128] = op##_I128
#else
#define ROW_I128(op) [RT_ELEM_I128] = NULL
#endif

struct half_complex {
    uint16_t re, im;
};

static void sum_CF16(const void *pa, const void *pb, void *pout, int64_t n)
{
    const struct half_complex *a = pa, *b = pb;
    struct half_complex *out = pout;
    for (int64_t i = 0; i < n; i++) {
        float re = rt_half_load(a[i].re) + rt_half_load(b[i].re);
        float im = rt_half_load(a[i].im) + rt_half_load(b[i].im);
        out[i] = (struct half_complex){ rt_half_store(re), rt_half_store(im) };
    }
}

static void prod_CF16(const void *pa, const void *pb, void *pout, int64_t n)
{
    const struct half_complex *a = pa, *b = pb;
    struct half_complex *out = pout;
    for (int64_t i = 0; i < n; i++) {
        float ar = rt_half_load(a[i].re), ai = rt_half_load(a[i].im);
        float br = rt_half_load(b[i].re), bi = rt_half_load(b[i].im);
        out[i] = (struct half_complex){ rt_half_store(ar * br - ai * bi),
                                        rt_half_store(ar * bi + ai * br) };
    }
}

#if RT_HAVE_F128
#define REAL(op, expr) RT_REDUCE_KERNEL(op##_F128, rt_f128, rt_f128, ID, ID, expr)
REAL(max, (x > y ? x : y))
REAL(min, (x < y ? x : y))
REAL(sum, (x + y))
REAL(prod, (x * y))

struct quad_complex {
    rt_f128 re, im;
};
static inline struct quad_complex quad_add(struct quad_complex x, struct quad_complex y)
{
    return (struct quad_complex){ x.re + y.re, x.im + y.im };
}
static inline struct quad_complex quad_mul(struct quad_complex x, struct quad_complex y)
{
    return (struct quad_complex){ x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re };
}
RT_REDUCE_KERNEL(sum_C128, struct quad_complex, struct quad_complex, ID, ID, quad_add(x, y))
RT_REDUCE_KERNEL(prod_C128, struct quad_complex, struct quad_complex, ID, ID, quad_mul(x, y))
#define ROW_F128(op) [RT_ELEM_F128] = op##_F128
#define ROW_C128(op) [RT_ELEM_C128] = op##_C128
#else
#define ROW_F128(op) [RT_ELEM_F128] = NULL
#define ROW_C128(op) [RT_ELEM_C128] = NULL
#endif

static rt_reduce_fn *const kernels[RT_OP_COUNT][RT_ELEM_COUNT] = {
    [RT_OP_MAX] = { ROW_I128(max), ROW_F128(max) },
    [RT_OP_MIN] = { ROW_I128(min), ROW_F128(min) },
    [RT_OP_SUM] = { ROW_I128(sum), ROW_F128(sum), [RT_ELEM_CF16] = sum_CF16, ROW_C128(sum) },
    [RT_OP_PROD] = { ROW_I128(prod), ROW_F128(prod), [RT_ELEM_CF16] = prod_CF16, ROW_C128(prod) },
    [RT_OP_LAND] = { ROW_I128(land) },
    [RT_OP_LOR] = { ROW_I128(lor) },
    [RT_OP_LXOR] = { ROW_I128(lxor) },
    [RT_OP_BAND] = { ROW_I128(band) },
    [RT_OP_BOR] = { ROW_I128(bor) },
    [RT_OP_BXOR] = { ROW_I128(bxor) },
};

rt_reduce_fn *rt_reduce_find_wide(enum rt_opcode op, enum rt_elem elem)
{
    return kernels[op][elem];
}

/* out = a and out = b; out may equal a or b */
#define MOVE(nbytes) \
    static void replace_##nbytes(const void *a, const void *b, void *out, int64_t n) \
    { \
        (void)b; \
        if (out != a) \
            memmove(out, a, (size_t)n *(nbytes)); \
    } \
    static void no_op_##nbytes(const void *a, const void *b, void *out, int64_t n) \
    { \
        replace_##nbytes(b, a, out, n); \
    }
MOVE(1)
MOVE(2)
MOVE(4)
MOVE(8)
MOVE(16)
MOVE(32)

rt_reduce_fn *rt_reduce_find_move(enum rt_opcode op, int64_t nbytes)
{
    static const struct {
        int nbytes;
        rt_reduce_fn *replace, *no_op;
    } rows[] = { { 1, replace_1, no_op_1 },    { 2, replace_2, no_op_2 },
                 { 4, replace_4, no_op_4 },    { 8, replace_8, no_op_8 },
                 { 16, replace_16, no_op_16 }, { 32, replace_32, no_op_32 } };
    if (op != RT_OP_REPLACE && op != RT_OP_NO_OP)
        return NULL;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].nbytes == nbytes)
            return op == RT_OP_REPLACE ? rows[i].replace : rows[i].no_op;
    return NULL;
}
