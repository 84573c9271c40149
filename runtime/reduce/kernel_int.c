/* SPDX-License-Identifier: BSD-3-Clause */
/* Reduction kernels for integers, bytes and logicals.  Pure functions: any thread.  Sums
 * and products of signed types use the unsigned kernels: the bits are the same and overflow is
 * defined. */
#include "runtime/reduce/kernel.h"

#include <stdbool.h>

#define ID(v) (v)
#define SIGNED_TYPES(M, op, expr) \
    M(op, I8, int8_t, expr) \
    M(op, I16, int16_t, expr) M(op, I32, int32_t, expr) M(op, I64, int64_t, expr)
#define UNSIGNED_TYPES(M, op, expr) \
    M(op, U8, uint8_t, expr) \
    M(op, U16, uint16_t, expr) M(op, U32, uint32_t, expr) M(op, U64, uint64_t, expr)
#define KERNEL(op, elem, type, expr) RT_REDUCE_KERNEL(op##_##elem, type, type, ID, (type), expr)
/* (type) truncates after integer promotion; 1u keeps products of 16-bit values unsigned */

SIGNED_TYPES(KERNEL, max, (x > y ? x : y))
UNSIGNED_TYPES(KERNEL, max, (x > y ? x : y))
SIGNED_TYPES(KERNEL, min, (x < y ? x : y))
UNSIGNED_TYPES(KERNEL, min, (x < y ? x : y))
UNSIGNED_TYPES(KERNEL, sum, (1u * x + y))
UNSIGNED_TYPES(KERNEL, prod, (1u * x * y))
UNSIGNED_TYPES(KERNEL, band, (x & y))
UNSIGNED_TYPES(KERNEL, bor, (x | y))
UNSIGNED_TYPES(KERNEL, bxor, (x ^ y))
UNSIGNED_TYPES(KERNEL, land, (x && y))
UNSIGNED_TYPES(KERNEL, lor, (x || y))
UNSIGNED_TYPES(KERNEL, lxor, (!x != !y))

/* Row of an operation that does not depend on the sign: signed and unsigned types share a
 * kernel. */
#define ROW_BITS(op) \
    [RT_ELEM_I8] = op##_U8, [RT_ELEM_U8] = op##_U8, [RT_ELEM_I16] = op##_U16, \
    [RT_ELEM_U16] = op##_U16, [RT_ELEM_I32] = op##_U32, [RT_ELEM_U32] = op##_U32, \
    [RT_ELEM_I64] = op##_U64, [RT_ELEM_U64] = op##_U64
#define ROW_ORDER(op) \
    [RT_ELEM_I8] = op##_I8, [RT_ELEM_U8] = op##_U8, [RT_ELEM_I16] = op##_I16, \
    [RT_ELEM_U16] = op##_U16, [RT_ELEM_I32] = op##_I32, [RT_ELEM_U32] = op##_U32, \
    [RT_ELEM_I64] = op##_I64, [RT_ELEM_U64] = op##_U64

static rt_reduce_fn *const kernels[RT_OP_COUNT][RT_ELEM_COUNT] = {
    [RT_OP_MAX] = { ROW_ORDER(max) },
    [RT_OP_MIN] = { ROW_ORDER(min) },
    [RT_OP_SUM] = { ROW_BITS(sum) },
    [RT_OP_PROD] = { ROW_BITS(prod) },
    [RT_OP_LAND] = { ROW_BITS(land), [RT_ELEM_BOOL] = land_U8 },
    [RT_OP_LOR] = { ROW_BITS(lor), [RT_ELEM_BOOL] = lor_U8 },
    [RT_OP_LXOR] = { ROW_BITS(lxor), [RT_ELEM_BOOL] = lxor_U8 },
    [RT_OP_BAND] = { ROW_BITS(band), [RT_ELEM_BYTE] = band_U8 },
    [RT_OP_BOR] = { ROW_BITS(bor), [RT_ELEM_BYTE] = bor_U8 },
    [RT_OP_BXOR] = { ROW_BITS(bxor), [RT_ELEM_BYTE] = bxor_U8 },
};
_Static_assert(sizeof(bool) == 1, "logical kernels work on bytes");

rt_reduce_fn *rt_reduce_find_int(enum rt_opcode op, enum rt_elem elem) { return kernels[op][elem]; }
