/* SPDX-License-Identifier: BSD-3-Clause */
/* Bodies of the communication calls (MPI-5.0 section 12.3): arguments, epoch, path.  Operations on
 * memory that this process can reach are carried out in the call; others become an operation
 * (struct wm_rma_op) in the target's queue.  No call waits for another process. */
#include "mpi/rma/api.h"
#include "mpi/api/bodies.h"
#include "mpi/op/op.h"
#include "mpi/p2p/engine.h"
#include "mpi/p2p/pack_any.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/send.h"
#include "mpi/rma/acc.h"
#include "mpi/rma/acc_device.h"
#include "mpi/rma/checked.h"
#include "mpi/rma/direct.h"
#include "mpi/rma/epoch.h"
#include "mpi/rma/op.h"
#include "mpi/rma/progress.h"
#include "mpi/rma/queue.h"
#include "mpi/rma/quick.h"
#include "mpi/rma/range.h"
#include "mpi/rma/target.h"
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include <string.h>

/* ---- arguments ---- */

static int out_of_range(const struct wm_rma_target *t, const struct wm_rma_args *a)
{
    return wm_err(MPI_ERR_RMA_RANGE,
                  "displacement %lld with %lld bytes of data is outside of the window of rank %d, "
                  "which has %llu bytes and displacement unit %lld",
                  (long long)a->disp, (long long)a->nbytes, t->rank, (unsigned long long)t->nbytes,
                  (long long)t->unit);
}

static int check_range(const struct wm_rma *r, const struct wm_rma_target *t,
                       const struct wm_rma_args *a)
{
    const struct rt_layout *l = &a->target.type->layout;
    bool dynamic = r->win->flavor == MPI_WIN_FLAVOR_DYNAMIC;
    int64_t at, low = 0, high = a->nbytes;
    if (!a->nbytes || !t->unit)
        return MPI_SUCCESS; /* the target checks the rest */
    if (!l->contig)
        wm_rma_span(l, a->target.count, &low, &high);
    if (__builtin_mul_overflow(a->disp, t->unit, &at) || __builtin_add_overflow(at, low, &low) ||
        __builtin_add_overflow(at, high, &high))
        return out_of_range(t, a);
    if (dynamic)
        return t->rank != r->comm->rank || wm_rma_in_window(r, low, high) ||
                       (!l->contig && wm_rma_pieces_in_window(r, l, a->target.count, at))
                   ? MPI_SUCCESS
                   : out_of_range(t, a);
    return low >= 0 && (uint64_t)high <= t->nbytes ? MPI_SUCCESS : out_of_range(t, a);
}

static int check_sizes(struct wm_rma_args *a, bool dynamic)
{
    const struct wm_rma_side *o = &a->origin, *res = &a->result, *t = &a->target;
    if (rt_unlikely(a->disp < 0 && !dynamic))
        return wm_err(MPI_ERR_DISP, "displacement %lld is negative", (long long)a->disp);
    a->nbytes = wm_nbytes(t->count, &t->type->layout);
    int64_t given = o->type ? wm_nbytes(o->count, &o->type->layout) : a->nbytes;
    int64_t room = res->type ? wm_nbytes(res->count, &res->type->layout) : a->nbytes;
    if (rt_unlikely(a->nbytes < 0 || given < 0 || room < 0))
        return wm_err(MPI_ERR_COUNT, "the data have more than 2^63 bytes");
    if (rt_unlikely(given != a->nbytes))
        return wm_err(MPI_ERR_TRUNCATE,
                      "the origin's count and datatype are %lld bytes of data, the target's are "
                      "%lld",
                      (long long)given, (long long)a->nbytes);
    if (rt_unlikely(room != a->nbytes))
        return wm_err(MPI_ERR_TRUNCATE,
                      "the result's count and datatype are %lld bytes of data, the target's are "
                      "%lld",
                      (long long)room, (long long)a->nbytes);
    return MPI_SUCCESS;
}

/* Accumulates: a predefined operation, one predefined type below all datatypes. */
static int check_op(const struct wm_rma_args *a, const struct wm_op *op, bool may_read)
{
    const struct wm_type *basic = a->target.type->basic;
    if (!op->predefined)
        return wm_err(MPI_ERR_OP, "only predefined operations are allowed in one-sided calls");
    if (op->op.code == RT_OP_NO_OP && !may_read)
        return wm_err(MPI_ERR_OP, "MPI_NO_OP is allowed in MPI_Get_accumulate, MPI_Rget_accumulate "
                                  "and MPI_Fetch_and_op only");
    if (!a->nbytes)
        return MPI_SUCCESS;
    if (!basic)
        return wm_err(MPI_ERR_TYPE, "the target's datatype is not made of one predefined datatype");
    if (a->origin.type && a->origin.type->basic != basic)
        return wm_err(MPI_ERR_TYPE, "the origin's datatype is not made of %s, as the target's is",
                      basic->name);
    if (a->result.type && a->result.type->basic != basic)
        return wm_err(MPI_ERR_TYPE, "the result's datatype is not made of %s, as the target's is",
                      basic->name);
    if (op->op.code != RT_OP_NO_OP && op->op.code != RT_OP_REPLACE && !wm_op_allows(op, basic))
        return wm_err(MPI_ERR_OP, "the operation is not defined for %s", basic->name);
    return MPI_SUCCESS;
}

/* ---- buffers in device memory ---- */

/* Resolves the buffer `which`, and marks it in a->on_device. */
static int look_at(struct wm_rma_args *a, int which, const void *buf, int64_t count,
                   const struct rt_layout *l)
{
    struct wm_mem *mem = &a->mem[which >> 1];
    int err = wm_resolve(buf, count, l, a->nbytes, mem);
    if (err < 0)
        return wm_any_error(err);
    a->on_device |= (uint8_t)(mem->kind != WM_MEMORY_HOST ? which : 0);
    return MPI_SUCCESS;
}

/* An operand of compare-and-swap.  One in device memory is copied to `to`, and *at set to the copy,
 * unless it may stay there. */
static int look_at_operand(struct wm_rma_args *a, int which, const void **at, char *to, bool stays)
{
    const struct rt_layout *l = &a->target.type->layout;
    int err = look_at(a, which, *at, 1, l);
    if (err || stays || !(a->on_device & which))
        return err;
    err = wm_rma_pack(wm_rma_mem(a, which), l, 1, *at, 0, to, a->nbytes);
    *at = to;
    a->on_device &= (uint8_t)~which;
    return err < 0 ? wm_any_error(err) : MPI_SUCCESS;
}

/* Sets a->on_device and a->mem; `values` has room for the operands of compare-and-swap. */
static int look_at_buffers(const struct wm_rma_target *t, struct wm_rma_args *a, char values[2][16])
{
    const struct wm_rma_side *o = &a->origin, *res = &a->result;
    bool stays = wm_rma_changes(t);
    int err = MPI_SUCCESS;
    if (a->what == WM_RMA_DO_CAS) {
        const void *origin = o->buf;
        err = look_at_operand(a, WM_RMA_COMPARE, &a->compare, values[0], stays);
        if (!err)
            err = look_at_operand(a, WM_RMA_ORIGIN, &origin, values[1], stays);
        a->origin.buf = (char *)(uintptr_t)origin;
    } else if (o->type) {
        err = look_at(a, WM_RMA_ORIGIN, o->buf, o->count, &o->type->layout);
    }
    if (!err && res->type)
        err = look_at(a, WM_RMA_RESULT, res->buf, res->count, &res->type->layout);
    return err;
}

/* ---- start ---- */

static int no_memory(void) { return wm_err(MPI_ERR_NO_MEM, "no memory for another operation"); }

static int enqueue(struct wm_rma *r, struct wm_rma_target *t, const struct wm_rma_args *a,
                   MPI_Request *request)
{
    int err = wm_rma_sends(t) ? wm_rma_target_peer(r, t) : 0;
    if (err < 0)
        return wm_err_rt(err, "rank %d cannot be reached", t->rank);
    struct wm_rma_op *op = wm_rma_op_new(r, t, a);
    struct rt_req *q = op && request ? wm_rma_req_new(r->comm) : NULL;
    if (!op || (request && !q)) {
        if (op)
            wm_rma_op_done(op, 0);
        return no_memory();
    }
    op->req = q;
    if (request)
        *request = wm_req_handle(q);
    wm_rma_queue(r, t, op);
    return MPI_SUCCESS;
}

/* Before an operation starts: resolves its buffers, and looks at the
 * target of a dynamic window again. */
static int prepare(struct wm_rma *r, struct wm_rma_target *t, struct wm_rma_args *a,
                   struct wm_mem mem[WM_RMA_BUFFERS], char values[2][16])
{
    int err = MPI_SUCCESS;
    if (rt_unlikely(rt_gpu_watch)) {
        a->mem = mem;
        err = look_at_buffers(t, a, values);
    }
    if (rt_unlikely(r->win->flavor == MPI_WIN_FLAVOR_DYNAMIC) && !err) {
        int e = wm_rma_reach_again(r, t);
        err = e < 0 ? wm_err_rt(e, "rank %d cannot be reached", t->rank) : MPI_SUCCESS;
    }
    return err;
}

static int start_locked(struct wm_rma *r, struct wm_rma_args *a, MPI_Request *request)
{
    struct wm_rma_target *t;
    struct wm_mem mem[WM_RMA_BUFFERS];
    char values[2][16];
    int err = wm_rma_named(r, a->rank, &t);
    if (rt_likely(!err))
        err = wm_rma_may_with(r, request ? WM_MOVE_REQUEST : WM_MOVE_OPERATION, t);
    if (rt_likely(!err))
        err = check_range(r, t, a);
    if (rt_likely(!err))
        err = prepare(r, t, a, mem, values);
    if (rt_unlikely(err))
        return err;
    bool ready = !wm_rma_sends(t) && rt_list_empty(&t->queue) && wm_rma_ready(r, t);
    if (rt_likely(ready) || (!a->nbytes && !a->note)) {
        int e = rt_likely(a->nbytes || a->note) ? wm_rma_execute(r, t, a) : 0;
        if (rt_unlikely(e < 0))
            return wm_err_rt(e, "memory of rank %d", t->rank);
        if (request)
            *request = wm_req_handle(wm_req_complete);
        if (rt_unlikely(cfg.check) && !request)
            wm_rma_checked_op(r, a, true);
        if (rt_likely(ready))
            wm_rma_quick_open(r, t);
        return MPI_SUCCESS;
    }
    err = enqueue(r, t, a, request);
    if (rt_unlikely(cfg.check) && !err && !request)
        wm_rma_checked_op(r, a, false);
    return err;
}

static int start(struct wm_win *win, struct wm_rma_args *a, MPI_Request *request)
{
    struct wm_rma *r = win->rma;
    rt_lock(&r->dom->lock);
    int err = start_locked(r, a, request);
    rt_unlock(&r->dom->lock);
    return err;
}

static int to_proc_null(MPI_Request *request)
{
    if (request)
        *request = wm_req_handle(wm_req_complete);
    return MPI_SUCCESS;
}

static struct wm_rma_side side(const void *buf, MPI_Count count, struct wm_type *type)
{
    return (struct wm_rma_side){ (char *)(uintptr_t)buf, count, type };
}

/* All fields of a plain operation, one by one: an initialiser would have the compiler clear the
 * whole struct first, by an instruction that takes half the time of a short put. */
static inline void describe(struct wm_rma_args *a, enum wm_rma_what what, int rank, MPI_Aint disp,
                            struct wm_rma_side origin, struct wm_rma_side result, MPI_Count count,
                            struct wm_type *type)
{
    a->what = (uint8_t)what;
    a->opcode = 0;
    a->fetches = result.type != NULL;
    a->on_device = 0;
    a->rank = rank;
    a->note = 0;
    a->disp = disp;
    a->origin = origin;
    a->result = result;
    a->target = side(NULL, count, type);
    a->compare = NULL;
    a->nbytes = 0;
}

static bool is_dynamic(const struct wm_win *win) { return win->flavor == MPI_WIN_FLAVOR_DYNAMIC; }

static int put_or_get(struct wm_win *win, struct wm_rma_args *a, MPI_Request *request)
{
    if (a->rank == MPI_PROC_NULL)
        return to_proc_null(request);
    int err = check_sizes(a, is_dynamic(win));
    return rt_unlikely(err) ? err : start(win, a, request);
}

static int accumulate(struct wm_win *win, struct wm_rma_args *a, const struct wm_op *op,
                      MPI_Request *request)
{
    if (a->rank == MPI_PROC_NULL)
        return to_proc_null(request);
    a->opcode = (uint8_t)op->op.code;
    if (op->op.code == RT_OP_NO_OP)
        a->origin = (struct wm_rma_side){ 0 };
    int err = check_sizes(a, is_dynamic(win));
    if (!err)
        err = check_op(a, op, a->fetches);
    if (rt_unlikely(err))
        return err;
    if (rt_likely(a->nbytes)) /* else neither has been checked */
        wm_rma_quick_learn(op, a->target.type);
    return start(win, a, request);
}

/* The origin's arguments of a call that may only read (MPI_NO_OP): the binding has not checked
 * them. */
static int check_origin(const void *buf, MPI_Count count, const struct wm_type *type,
                        const struct wm_op *op)
{
    if (op->op.code == RT_OP_NO_OP)
        return MPI_SUCCESS;
    if (count < 0)
        return wm_err(MPI_ERR_COUNT, "argument 2 (origin_count) is %lld", (long long)count);
    if (!type || !type->committed || type->absent)
        return wm_err(MPI_ERR_TYPE, "argument 3 (origin_datatype) is not a committed datatype");
    if ((uintptr_t)buf <= 2 && count > 0 && (buf || type->predefined))
        return wm_err(MPI_ERR_BUFFER, "argument 1 (origin_addr) is %p", buf);
    return MPI_SUCCESS;
}

/* ---- bodies ---- */

int wm_api_put(const void *origin_addr, MPI_Count origin_count, struct wm_type *origin_datatype,
               int target_rank, MPI_Aint target_disp, MPI_Count target_count,
               struct wm_type *target_datatype, struct wm_win *win)
{
    return wm_api_rput(origin_addr, origin_count, origin_datatype, target_rank, target_disp,
                       target_count, target_datatype, win, NULL);
}

int wm_api_rput(const void *origin_addr, MPI_Count origin_count, struct wm_type *origin_datatype,
                int target_rank, MPI_Aint target_disp, MPI_Count target_count,
                struct wm_type *target_datatype, struct wm_win *win, MPI_Request *request)
{
    struct wm_rma_args a;
    describe(&a, WM_RMA_DO_PUT, target_rank, target_disp,
             side(origin_addr, origin_count, origin_datatype), side(NULL, 0, NULL), target_count,
             target_datatype);
    return put_or_get(win, &a, request);
}

void wm_rma_put_args(struct wm_rma_args *a, const void *origin_addr, MPI_Count origin_count,
                     struct wm_type *origin_datatype, int target_rank, MPI_Aint target_disp,
                     MPI_Count target_count, struct wm_type *target_datatype)
{
    describe(a, WM_RMA_DO_PUT, target_rank, target_disp,
             side(origin_addr, origin_count, origin_datatype), side(NULL, 0, NULL), target_count,
             target_datatype);
}

/* Other hosts, and a setting that forces messages, get their locks with the first operation. */
int wm_rma_put_check(struct wm_rma *r, struct wm_rma_args *a, struct wm_rma_target **out)
{
    int err = check_sizes(a, is_dynamic(r->win));
    if (!err)
        err = wm_rma_named(r, a->rank, out);
    if (!err)
        err = wm_rma_may_with(r, WM_MOVE_ENQUEUE, *out);
    if (!err)
        err = check_range(r, *out, a);
    return err || !(*out)->by_ctl ? err : wm_rma_await_ready(r, *out);
}

int wm_rma_put_start(struct wm_rma *r, struct wm_rma_args *a) { return start_locked(r, a, NULL); }

int wm_rma_put(const void *origin_addr, MPI_Count origin_count, struct wm_type *origin_datatype,
               int target_rank, MPI_Aint target_disp, MPI_Count target_count,
               struct wm_type *target_datatype, struct wm_win *win, int note)
{
    struct wm_rma_args a;
    wm_rma_put_args(&a, origin_addr, origin_count, origin_datatype, target_rank, target_disp,
                    target_count, target_datatype);
    a.note = note;
    return put_or_get(win, &a, NULL);
}

int wm_api_get(void *origin_addr, MPI_Count origin_count, struct wm_type *origin_datatype,
               int target_rank, MPI_Aint target_disp, MPI_Count target_count,
               struct wm_type *target_datatype, struct wm_win *win)
{
    return wm_api_rget(origin_addr, origin_count, origin_datatype, target_rank, target_disp,
                       target_count, target_datatype, win, NULL);
}

int wm_api_rget(void *origin_addr, MPI_Count origin_count, struct wm_type *origin_datatype,
                int target_rank, MPI_Aint target_disp, MPI_Count target_count,
                struct wm_type *target_datatype, struct wm_win *win, MPI_Request *request)
{
    struct wm_rma_args a;
    describe(&a, WM_RMA_DO_GET, target_rank, target_disp,
             side(origin_addr, origin_count, origin_datatype), side(NULL, 0, NULL), target_count,
             target_datatype);
    return put_or_get(win, &a, request);
}

int wm_api_accumulate(const void *origin_addr, MPI_Count origin_count,
                      struct wm_type *origin_datatype, int target_rank, MPI_Aint target_disp,
                      MPI_Count target_count, struct wm_type *target_datatype, struct wm_op *op,
                      struct wm_win *win)
{
    return wm_api_raccumulate(origin_addr, origin_count, origin_datatype, target_rank, target_disp,
                              target_count, target_datatype, op, win, NULL);
}

int wm_api_raccumulate(const void *origin_addr, MPI_Count origin_count,
                       struct wm_type *origin_datatype, int target_rank, MPI_Aint target_disp,
                       MPI_Count target_count, struct wm_type *target_datatype, struct wm_op *op,
                       struct wm_win *win, MPI_Request *request)
{
    struct wm_rma_args a;
    describe(&a, WM_RMA_DO_ACC, target_rank, target_disp,
             side(origin_addr, origin_count, origin_datatype), side(NULL, 0, NULL), target_count,
             target_datatype);
    return accumulate(win, &a, op, request);
}

int wm_api_get_accumulate(const void *origin_addr, MPI_Count origin_count,
                          struct wm_type *origin_datatype, void *result_addr,
                          MPI_Count result_count, struct wm_type *result_datatype, int target_rank,
                          MPI_Aint target_disp, MPI_Count target_count,
                          struct wm_type *target_datatype, struct wm_op *op, struct wm_win *win)
{
    return wm_api_rget_accumulate(origin_addr, origin_count, origin_datatype, result_addr,
                                  result_count, result_datatype, target_rank, target_disp,
                                  target_count, target_datatype, op, win, NULL);
}

int wm_api_rget_accumulate(const void *origin_addr, MPI_Count origin_count,
                           struct wm_type *origin_datatype, void *result_addr,
                           MPI_Count result_count, struct wm_type *result_datatype, int target_rank,
                           MPI_Aint target_disp, MPI_Count target_count,
                           struct wm_type *target_datatype, struct wm_op *op, struct wm_win *win,
                           MPI_Request *request)
{
    struct wm_rma_args a;
    describe(&a, WM_RMA_DO_ACC, target_rank, target_disp,
             side(origin_addr, origin_count, origin_datatype),
             side(result_addr, result_count, result_datatype), target_count, target_datatype);
    int err = check_origin(origin_addr, origin_count, origin_datatype, op);
    return err ? err : accumulate(win, &a, op, request);
}

static int check_value(const void *p, int number, const char *name)
{
    return (uintptr_t)p > 2 ? MPI_SUCCESS
                            : wm_err(MPI_ERR_BUFFER, "argument %d (%s) is %p", number, name, p);
}

int wm_api_fetch_and_op(const void *origin_addr, void *result_addr, struct wm_type *datatype,
                        int target_rank, MPI_Aint target_disp, struct wm_op *op, struct wm_win *win)
{
    struct wm_rma_args a;
    describe(&a, WM_RMA_DO_ACC, target_rank, target_disp, side(origin_addr, 1, datatype),
             side(result_addr, 1, datatype), 1, datatype);
    int err = op->op.code == RT_OP_NO_OP ? 0 : check_value(origin_addr, 1, "origin_addr");
    if (!err)
        err = check_value(result_addr, 2, "result_addr");
    if (!err && !datatype->predefined)
        err = wm_err(MPI_ERR_TYPE, "argument 3 (datatype) must be a predefined datatype");
    return rt_unlikely(err) ? err : accumulate(win, &a, op, NULL);
}

/* C and Fortran integers, logical, multi-language types and bytes (MPI-5.0 section 12.3.4). */
static bool can_compare(const struct wm_type *t)
{
    return t->predefined && t->nelems == 1 && t->layout.size <= 16 &&
           (t->ops & (1u << RT_OP_BAND | 1u << RT_OP_LAND) || t->layout.size == 1);
}

int wm_api_compare_and_swap(const void *origin_addr, const void *compare_addr, void *result_addr,
                            struct wm_type *datatype, int target_rank, MPI_Aint target_disp,
                            struct wm_win *win)
{
    struct wm_rma_args a;
    describe(&a, WM_RMA_DO_CAS, target_rank, target_disp, side(origin_addr, 1, datatype),
             side(result_addr, 1, datatype), 1, datatype);
    a.compare = compare_addr;
    if (!can_compare(datatype))
        return wm_err(MPI_ERR_TYPE, "argument 4 (datatype): %s is no integer, logical or byte type",
                      datatype->name);
    int err = check_value(origin_addr, 1, "origin_addr");
    if (!err)
        err = check_value(compare_addr, 2, "compare_addr");
    if (!err)
        err = check_value(result_addr, 3, "result_addr");
    return rt_unlikely(err) ? err : put_or_get(win, &a, NULL);
}
