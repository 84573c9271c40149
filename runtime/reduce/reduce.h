/* SPDX-License-Identifier: BSD-3-Clause */
/* Reduction kernels for host memory (SIMD): all predefined operations on all basic types.  Device
 * kernels are in runtime/gpu. */
#ifndef RT_REDUCE_REDUCE_H
#define RT_REDUCE_REDUCE_H

#include <stdbool.h>
#include <stdint.h>
#include "runtime/layout/layout.h"

enum rt_opcode {
    RT_OP_NONE,
    RT_OP_MAX,
    RT_OP_MIN,
    RT_OP_SUM,
    RT_OP_PROD,
    RT_OP_LAND,
    RT_OP_BAND,
    RT_OP_LOR,
    RT_OP_BOR,
    RT_OP_LXOR,
    RT_OP_BXOR,
    RT_OP_MINLOC,
    RT_OP_MAXLOC,
    RT_OP_REPLACE,
    RT_OP_NO_OP,
    RT_OP_USER,
    RT_OP_COUNT
};

/* out[i] = a[i] op b[i] for n basic elements; out may be a or b.  a is the lower-ranked operand. */
typedef void rt_reduce_fn(const void *a, const void *b, void *out, int64_t n);

struct rt_op {
    enum rt_opcode code;
    bool commutes;
    /* RT_OP_USER: calls the user's function on n elements of the layout: inout = in op inout as MPI
     * defines it. */
    void (*user)(const struct rt_op *op, const void *in, void *inout, int64_t n,
                 const struct rt_layout *l);
    void *arg; /* owned by the creator of the op */
};

/* Size in bytes of the C type behind a basic element, 0 for RT_ELEM_NONE and for a type that the
 * compiler lacks; and whether its packed form is
 * that C type, so that kernels work on packed data (false for pairs with a hole). */
int64_t rt_elem_nbytes(enum rt_elem elem);
bool rt_elem_packs(enum rt_elem elem);

/* Kernel for this operation and type; NULL: MPI does not allow the combination (MPI-5.0 section
 * 6.9.2). */
rt_reduce_fn *rt_reduce_find(enum rt_opcode op, enum rt_elem elem);
/* Whether data of several ranks are combined by rt_reduce_wide() instead of in pairs: sums and
 * products of 16-bit floats. */
static inline bool rt_reduce_is_wide(enum rt_opcode op, enum rt_elem elem)
{
    return (op == RT_OP_SUM || op == RT_OP_PROD) && (elem == RT_ELEM_F16 || elem == RT_ELEM_BF16);
}
/* out = source 0 op source 1 op ..., n basic elements of each, in this order, computed in float and
 * rounded once: the same bits as from a device's kernel.  `source` returns the address of source i;
 * `out` may be one of the sources. */
typedef const void *rt_reduce_source_fn(const void *arg, int i);
void rt_reduce_wide(enum rt_opcode op, enum rt_elem elem, rt_reduce_source_fn *source,
                    const void *arg, int nsources, void *out, int64_t n);
/* Only the first step, widening, and the last step, rounding. */
void rt_reduce_widen(enum rt_elem elem, const void *in, float *out, int64_t n);
void rt_reduce_narrow(enum rt_elem elem, const float *in, void *out, int64_t n);
/* inout = in op inout on n elements of any layout that the op allows, including derived layouts of
 * one basic type.  -RT_EINVAL: there is no kernel for this operation and type. */
int rt_reduce_apply(const struct rt_op *op, const void *in, void *inout, int64_t n,
                    const struct rt_layout *l);

#endif
