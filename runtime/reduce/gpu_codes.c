/* SPDX-License-Identifier: BSD-3-Clause */
/* Maps host reductions to device kernels.  There are no kernels for operations of the user, long
 * double, the 16-byte types, and complex numbers of 16-bit floats; for MPI_REPLACE and MPI_NO_OP,
 * which no collective takes, there are atomic changes only. */
#include "runtime/reduce/gpu_codes.h"
#include "runtime/base/err.h"
#include "runtime/gpu/gpu.h"
#include "runtime/gpu/kernel.h"

/* One more than the value of the enum, so that a missing entry is 0. */
#define TYPE(elem) [RT_ELEM_##elem] = RT_GPU_##elem + 1
static const uint8_t types[RT_ELEM_COUNT] = {
    TYPE(I8),
    TYPE(U8),
    TYPE(I16),
    TYPE(U16),
    TYPE(I32),
    TYPE(U32),
    TYPE(I64),
    TYPE(U64),
    TYPE(F16),
    TYPE(BF16),
    TYPE(F32),
    TYPE(F64),
    TYPE(C32),
    TYPE(C64),
    TYPE(F32_I32),
    TYPE(F64_I32),
    TYPE(I64_I32),
    TYPE(I32_I32),
    TYPE(I16_I32),
    TYPE(F32_F32),
    TYPE(F64_F64),
    [RT_ELEM_BOOL] = RT_GPU_U8 + 1, /* for logical operations only, which rt_reduce_find() checks */
    [RT_ELEM_BYTE] = RT_GPU_U8 + 1, /* for bitwise operations only */
};
#define CODE(op) [RT_OP_##op] = RT_GPU_FOLD_##op
static const uint8_t codes[RT_OP_COUNT] = {
    /* RT_GPU_FOLD_COPY is 0: no kernel */
    CODE(SUM),  CODE(PROD), CODE(MAX), CODE(MIN),  CODE(LAND),   CODE(LOR),
    CODE(LXOR), CODE(BAND), CODE(BOR), CODE(BXOR), CODE(MINLOC), CODE(MAXLOC),
};
_Static_assert(RT_GPU_FOLD_COPY == 0, "a missing entry of the table of codes is 0");

int rt_reduce_gpu(struct rt_gpu *g, const struct rt_op *op, enum rt_elem elem,
                  struct rt_reduce_gpu *out)
{
    if (!codes[op->code] || !types[elem] || !rt_reduce_find(op->code, elem))
        return -RT_ENOTSUP;
    struct rt_reduce_gpu as = { (uint8_t)(types[elem] - 1), codes[op->code] };
    if ((int64_t)rt_gpu_type_nbytes(as.type) != rt_elem_nbytes(elem))
        return -RT_ENOTSUP; /* pairs of another platform's layout */
    if (g && !rt_gpu_can_fold(g, as.type, as.code))
        return -RT_ENOTSUP;
    *out = as;
    return 0;
}

/* One more than the type of integers of nbytes bytes; 0: there is none. */
static unsigned integer_of(int64_t nbytes)
{
    return nbytes == 1   ? RT_GPU_U8 + 1
           : nbytes == 2 ? RT_GPU_U16 + 1
           : nbytes == 4 ? RT_GPU_U32 + 1
           : nbytes == 8 ? RT_GPU_U64 + 1
                         : 0;
}

int rt_reduce_gpu_atomic(enum rt_opcode op, enum rt_elem elem, int64_t nbytes,
                         struct rt_reduce_gpu *out)
{
    bool moves = op == RT_OP_REPLACE || op == RT_OP_NO_OP;
    unsigned type = elem == RT_ELEM_NONE ? integer_of(nbytes) : types[elem];
    if (!type || type > RT_GPU_F64 + 1 || (int64_t)rt_gpu_type_nbytes(type - 1) != nbytes ||
        (!moves && (!codes[op] || !rt_reduce_find(op, elem))))
        return -RT_ENOTSUP;
    *out = (struct rt_reduce_gpu){ (uint8_t)(type - 1), codes[op] };
    if (op == RT_OP_NO_OP)
        out->code = RT_GPU_ATOMIC_READ;
    return 0;
}

void rt_reduce_gpu_apply(struct rt_gpu *g, struct rt_reduce_gpu r, const void *in, void *inout,
                         int64_t n, const struct rt_layout *l, struct rt_gpu_op *op)
{
    struct rt_gpu_fold f = { .type = r.type, .code = r.code, .nsrc = 2, .ndst = 1 };
    f.count = (size_t)(l->contig ? n * l->size / rt_elem_nbytes((enum rt_elem)l->elem) : n);
    f.src[0] = in;
    f.src[1] = inout;
    f.dst[0] = inout;
    rt_gpu_fold(g, &f, op);
}
