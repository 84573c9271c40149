/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI_MINLOC and MPI_MAXLOC: pairs of a value and an index.  Of equal values, the one with the
 * smaller index is the result (MPI-5.0 6.9.4).  Pure functions: any thread. */
#include "runtime/reduce/kernel.h"

#define ID(v) (v)
#define PICK(better) (x.v better y.v ? x : y.v better x.v ? y : x.i <= y.i ? x : y)
#define PAIR(elem, type) \
    RT_REDUCE_KERNEL(minloc_##elem, struct type, struct type, ID, ID, PICK(<)) \
    RT_REDUCE_KERNEL(maxloc_##elem, struct type, struct type, ID, ID, PICK(>))

PAIR(F32_I32, rt_pair_f32)
PAIR(F64_I32, rt_pair_f64)
PAIR(I64_I32, rt_pair_i64)
PAIR(I32_I32, rt_pair_i32)
PAIR(I16_I32, rt_pair_i16)
PAIR(LDBL_I32, rt_pair_ldbl)
PAIR(F32_F32, rt_pair_2f32)
PAIR(F64_F64, rt_pair_2f64)

#define ROW(op) \
    [RT_ELEM_F32_I32] = op##_F32_I32, [RT_ELEM_F64_I32] = op##_F64_I32, \
    [RT_ELEM_I64_I32] = op##_I64_I32, [RT_ELEM_I32_I32] = op##_I32_I32, \
    [RT_ELEM_I16_I32] = op##_I16_I32, [RT_ELEM_LDBL_I32] = op##_LDBL_I32, \
    [RT_ELEM_F32_F32] = op##_F32_F32, [RT_ELEM_F64_F64] = op##_F64_F64

static rt_reduce_fn *const kernels[RT_OP_COUNT][RT_ELEM_COUNT] = {
    [RT_OP_MINLOC] = { ROW(minloc) },
    [RT_OP_MAXLOC] = { ROW(maxloc) },
};

rt_reduce_fn *rt_reduce_find_pair(enum rt_opcode op, enum rt_elem elem)
{
    return kernels[op][elem];
}
