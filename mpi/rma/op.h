/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations: as the user has called them, and those that are not finished within their call. */
#ifndef WM_RMA_OP_H
#define WM_RMA_OP_H

#include "mpi/datatype/type.h"
#include "mpi/p2p/resolve.h"
#include "mpi/rma/rma.h"
#include "mpi/rma/target.h"
#include "runtime/base/slab.h"

/* What an operation is. */
enum wm_rma_what {
    WM_RMA_DO_PUT,
    WM_RMA_DO_GET,
    WM_RMA_DO_ACC, /* accumulate, get_accumulate and fetch_and_op */
    WM_RMA_DO_CAS
};

/* One side of an operation in the origin's memory. */
struct wm_rma_side {
    char *buf;
    int64_t count;
    struct wm_type *type;
};

enum { WM_RMA_ORIGIN = 1, WM_RMA_RESULT = 2, WM_RMA_COMPARE = 4, WM_RMA_BUFFERS = 3 };

/* An operation as the user has called it. */
struct wm_rma_args {
    uint8_t what;   /* enum wm_rma_what */
    uint8_t opcode; /* enum rt_opcode of an accumulate */
    bool fetches;   /* the old value goes to `result` */
    /* buffers in device memory: WM_RMA_ORIGIN ...; always 0 without a device */
    uint8_t on_device;
    struct wm_mem *mem; /* [WM_RMA_BUFFERS]: of these */
    int rank;
    /* of a put: the target's notification to send when the data are there (notify.c); 0: none */
    int note;
    MPI_Aint disp;
    struct wm_rma_side origin, result, target; /* target.buf is not used */
    const void *compare;
    int64_t nbytes; /* of data at the target, packed */
};
static inline const struct wm_mem *wm_rma_mem(const struct wm_rma_args *a, int which)
{
    return a->on_device & which ? &a->mem[which >> 1] : &wm_mem_host;
}

/* Memory of an origin's device that the target's device may read until the operation ends. */
struct wm_rma_lent {
    const struct btl_ops *ops;
    struct btl_mem *mem; /* NULL: nothing is lent */
};

/* An operation that is not finished within its call. */
struct wm_rma_op {
    struct rt_obj obj; /* the handle is in the messages */
    struct rt_list link;
    struct wm_rma *rma;
    struct wm_rma_target *t;
    struct wm_rma_args a;
    struct wm_mem mem[WM_RMA_BUFFERS]; /* a.mem */
    char value[2][16];                 /* operands of compare-and-swap in host memory */
    int64_t pos;                       /* bytes whose messages have been sent */
    int64_t back;                      /* bytes whose answers have arrived */
    bool local;                        /* the origin's buffers are still in use */
    bool answered;                     /* WM_RMA_DONE has arrived */
    bool acks;                         /* its answer acknowledges messages up to `seq` */
    uint32_t seq;
    struct rt_req *bulk_req;   /* the ordinary message that carries its data */
    struct rt_req *result_req; /* that carries the result of an accumulate */
    struct rt_req *req;        /* of the request-based forms; NULL */
    bool folds;                /* a long accumulate that a kernel of the target carries out */
    bool flying;               /* a transport has borrowed `net`: net.c */
    struct btl_op net;
    bool copying; /* `copy` is in progress: map.c, acc_origin.c */
    struct rt_gpu_op copy;
    struct rt_gpu_stage *stage; /* pinned memory in place of buffers in host memory; NULL */
    struct wm_rma_lent lent;    /* its data, which the target's device reads */
    int err;
};

extern struct rt_slab wm_rma_op_slab;

/* An operation with its own copy of `a` and of the operands, and references to the datatypes; NULL:
 * no memory. */
struct wm_rma_op *wm_rma_op_new(struct wm_rma *r, struct wm_rma_target *t,
                                const struct wm_rma_args *a);
struct rt_req *wm_rma_req_new(struct wm_comm *c); /* NULL: no memory */
/* The origin's buffers are free; with err, the operation has failed. */
void wm_rma_op_local(struct wm_rma_op *op, int err);
/* The operation is complete at the target, too; frees it. */
void wm_rma_op_done(struct wm_rma_op *op, int err);
void wm_rma_op_unlend(struct wm_rma_op *op); /* its data, which it may have lent (map.h) */

#endif
