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
#define KERNEL(op, elem, type, expr) RT_REDUCE_KERNELS(op##_##elem, type, type, ID, (type), expr)
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
#define ROW_BITS(op, v) \
    [RT_ELEM_I8] = op##_U8##v, [RT_ELEM_U8] = op##_U8##v, [RT_ELEM_I16] = op##_U16##v, \
    [RT_ELEM_U16] = op##_U16##v, [RT_ELEM_I32] = op##_U32##v, [RT_ELEM_U32] = op##_U32##v, \
    [RT_ELEM_I64] = op##_U64##v, [RT_ELEM_U64] = op##_U64##v
#define ROW_ORDER(op, v) \
    [RT_ELEM_I8] = op##_I8##v, [RT_ELEM_U8] = op##_U8##v, [RT_ELEM_I16] = op##_I16##v, \
    [RT_ELEM_U16] = op##_U16##v, [RT_ELEM_I32] = op##_I32##v, [RT_ELEM_U32] = op##_U32##v, \
    [RT_ELEM_I64] = op##_I64##v, [RT_ELEM_U64] = op##_U64##v
#define TABLE(v) \
    [RT_OP_MAX] = { ROW_ORDER(max, v) }, [RT_OP_MIN] = { ROW_ORDER(min, v) }, \
    [RT_OP_SUM] = { ROW_BITS(sum, v) }, [RT_OP_PROD] = { ROW_BITS(prod, v) }, \
    [RT_OP_LAND] = { ROW_BITS(land, v), [RT_ELEM_BOOL] = land_U8##v }, \
    [RT_OP_LOR] = { ROW_BITS(lor, v), [RT_ELEM_BOOL] = lor_U8##v }, \
    [RT_OP_LXOR] = { ROW_BITS(lxor, v), [RT_ELEM_BOOL] = lxor_U8##v }, \
    [RT_OP_BAND] = { ROW_BITS(band, v), [RT_ELEM_BYTE] = band_U8##v }, \
    [RT_OP_BOR] = { ROW_BITS(bor, v), [RT_ELEM_BYTE] = bor_U8##v }, \
    [RT_OP_BXOR] = { ROW_BITS(bxor, v), [RT_ELEM_BYTE] = bxor_U8##v }

static rt_reduce_fn *const kernels[][RT_OP_COUNT][RT_ELEM_COUNT] = RT_REDUCE_TABLES(TABLE);
_Static_assert(sizeof(bool) == 1, "logical kernels work on bytes");

rt_reduce_fn *rt_reduce_find_int(enum rt_opcode op, enum rt_elem elem, bool avx2)
{
    return kernels[avx2][op][elem];
}
