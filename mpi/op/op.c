/* SPDX-License-Identifier: BSD-3-Clause */
/* Reduction operations as objects: the predefined ones and the users' (MPI-5.0 section 6.9).  The
 * predefined table is filled once, before main().  Any thread; references are atomic.  A user's
 * function is called by the code that reduces. */
#include "mpi/op/op.h"
#include "mpi/api/bodies.h"
#include "mpi/datatype/type.h"
#include <limits.h>

struct rt_slab wm_op_slab = RT_SLAB(WM_OP, "operation", struct wm_op);
struct wm_op *wm_op_predefined[32];
static struct wm_op storage[32];

static const struct {
    MPI_Op handle;
    enum rt_opcode code;
} rows[] = {
    { MPI_SUM, RT_OP_SUM },         { MPI_MIN, RT_OP_MIN },       { MPI_MAX, RT_OP_MAX },
    { MPI_PROD, RT_OP_PROD },       { MPI_BAND, RT_OP_BAND },     { MPI_BOR, RT_OP_BOR },
    { MPI_BXOR, RT_OP_BXOR },       { MPI_LAND, RT_OP_LAND },     { MPI_LOR, RT_OP_LOR },
    { MPI_LXOR, RT_OP_LXOR },       { MPI_MINLOC, RT_OP_MINLOC }, { MPI_MAXLOC, RT_OP_MAXLOC },
    { MPI_REPLACE, RT_OP_REPLACE }, { MPI_NO_OP, RT_OP_NO_OP },
};

/* Fills the table of predefined operations. */
__attribute__((constructor)) static void before_main(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        unsigned k = (unsigned)(uintptr_t)rows[i].handle & 0x1f;
        storage[k] = (struct wm_op){
            .obj = { (uint32_t)(uintptr_t)rows[i].handle, 1 },
            .op = { .code = rows[i].code,
                    .commutes = rows[i].code != RT_OP_REPLACE && rows[i].code != RT_OP_NO_OP },
            .predefined = true,
        };
        wm_op_predefined[k] = &storage[k];
    }
}

MPI_Op wm_op_handle(const struct wm_op *o)
{
    return o ? (MPI_Op)(uintptr_t)o->obj.handle : MPI_OP_NULL;
}

void wm_op_ref(struct wm_op *o)
{
    if (!o->predefined)
        rt_fetch_add(&o->obj.refs, 1);
}

void wm_op_unref(struct wm_op *o)
{
    if (o->predefined || rt_fetch_add(&o->obj.refs, -1) != 1)
        return;
    if (o->destroy)
        o->destroy(o->state);
    rt_slab_free(&wm_op_slab, o);
}

bool wm_op_allows(const struct wm_op *o, const struct wm_type *t)
{
    return !o->predefined || (t->predefined && (t->ops & 1u << o->op.code));
}

/* The layout given to a reduction is always the one inside a datatype: the type whose handle the
 * user's function gets. */
static MPI_Datatype type_of(const struct rt_layout *l)
{
    return wm_type_handle(
        (const struct wm_type *)((const char *)l - offsetof(struct wm_type, layout)));
}

/* The plain form counts with int: longer vectors are given to it in parts. */
static void call_plain(const struct rt_op *op, const void *in, void *inout, int64_t n,
                       const struct rt_layout *l)
{
    const struct wm_op *o = op->arg;
    MPI_Datatype type = type_of(l);
    while (n > 0) {
        int part = n < INT_MAX ? (int)n : INT_MAX;
        o->fn.plain((void *)(uintptr_t)in, inout, &part, &type);
        int64_t step = (n < INT_MAX ? n : INT_MAX) * l->extent;
        in = (const char *)in + step;
        inout = (char *)inout + step;
        n -= INT_MAX;
    }
}

static void call_large(const struct rt_op *op, const void *in, void *inout, int64_t n,
                       const struct rt_layout *l)
{
    const struct wm_op *o = op->arg;
    MPI_Datatype type = type_of(l);
    MPI_Count count = n;
    o->fn.large((void *)(uintptr_t)in, inout, &count, &type);
}

static void call_extra(const struct rt_op *op, const void *in, void *inout, int64_t n,
                       const struct rt_layout *l)
{
    const struct wm_op *o = op->arg;
    o->fn.extra((void *)(uintptr_t)in, inout, n, type_of(l), o->state);
}

void wm_op_set_x(struct wm_op *o, MPIX_User_function_x *fn, MPIX_Destructor_function *destroy,
                 void *state)
{
    o->fn.extra = fn;
    o->op.user = call_extra;
    o->destroy = destroy;
    o->state = state;
}

static int op_create(int commute, struct wm_op **out)
{
    struct wm_op *o = rt_slab_alloc(&wm_op_slab);
    if (!o)
        return wm_err(MPI_ERR_NO_MEM, "no memory for another operation");
    o->op.code = RT_OP_USER;
    o->op.commutes = commute != 0;
    o->op.arg = o;
    *out = o;
    return MPI_SUCCESS;
}

int wm_api_op_create(MPI_User_function *user_fn, int commute, struct wm_op **op)
{
    int err = op_create(commute, op);
    if (!err) {
        (*op)->fn.plain = user_fn;
        (*op)->op.user = call_plain;
    }
    return err;
}

int wm_api_op_create_c(MPI_User_function_c *user_fn, int commute, struct wm_op **op)
{
    int err = op_create(commute, op);
    if (!err) {
        (*op)->fn.large = user_fn;
        (*op)->op.user = call_large;
    }
    return err;
}

int wm_api_op_free(struct wm_op *op)
{
    if (op->predefined)
        return wm_err(MPI_ERR_OP, "a predefined operation cannot be freed");
    op->freed = true;
    wm_op_unref(op);
    return MPI_SUCCESS;
}

int wm_api_op_commutative(struct wm_op *op, int *commute)
{
    *commute = op->op.commutes;
    return MPI_SUCCESS;
}
