/* SPDX-License-Identifier: BSD-3-Clause */
/* One-sided communication (MPI-5.0 chapter 12): types shared by the files of mpi/rma, which
 * README.md describes.  All state is used under the domain's lock; ctl.h has the state that
 * processes of a host share. */
#ifndef WM_RMA_RMA_H
#define WM_RMA_RMA_H

#include "mpi/base/comm.h"
#include "mpi/core/win.h"
#include "mpi/datatype/type.h"
#include "mpi/p2p/domain.h"
#include "mpi/p2p/p2p.h"
#include "mpi/p2p/resolve.h"
#include "mpi/rma/ctl.h"
#include "mpi/rma/format.h"
#include "mpi/rma/path.h"
#include "runtime/gpu/gpu.h"
#include "runtime/mem/share.h"

/* Access epochs of this process; OPEN: after a fence, no operation since. */
enum wm_rma_access {
    WM_ACCESS_NONE,
    WM_ACCESS_OPEN,
    WM_ACCESS_FENCE,
    WM_ACCESS_START,
    WM_ACCESS_LOCK,
    WM_ACCESS_LOCK_ALL,
    WM_ACCESSES
};

/* A lock that this process acquires through control blocks, for itself or for a process of another
 * host: first the host's word where the mode is exclusive, then the target's. */
enum wm_want_kind { WM_WANT_SHARED, WM_WANT_EXCLUSIVE, WM_WANT_ALL };
enum wm_want_state { WM_WANT_NOTHING, WM_WANT_FIRST, WM_WANT_SECOND, WM_WANT_HELD };
struct wm_rma_want {
    struct rt_list link; /* in wm_rma.wants while neither idle nor held */
    struct wm_rma_ctl *ctl;
    uint8_t kind, state;
    uint32_t node; /* its place in a queue; 0: none */
    /* The lock is held: called by wm_rma_pump(), not by wm_rma_want() itself. */
    void (*granted)(struct wm_rma *r, struct wm_rma_want *w);
};

/* Layouts that a target keeps for an origin. */
#define WM_RMA_SLOTS 32
#define WM_RMA_NO_SLOT 0xffffu /* the target's data are contiguous */

/* RDMA: memory of a target that the transport accesses (net.c). */
struct wm_rma_net {
    uint8_t state; /* enum net_state */
    unsigned nflying;
    struct btl_rmem *rmem; /* NULL until the target has given the key */
    uint64_t nbytes;
    int64_t unit;
};

/* The own memory, registered for that. */
struct wm_rma_memory {
    struct btl *btl;
    const struct btl_ops *ops; /* NULL: not registered */
    struct btl_mem *mem;
    int err; /* it cannot be registered */
};

/* A rank of the window as this process knows it as an origin; made when first used. */
struct wm_rma_target {
    struct wm_rma_target *next;      /* hash chain */
    int rank, local;                 /* local: local rank on this host, -1: another host */
    uint8_t path;                    /* enum wm_rma_path */
    bool by_ctl;                     /* locks, posts and completions go through control blocks */
    bool locked, exclusive, nocheck; /* by MPI_Win_lock, and how */
    bool asked, granted;             /* by messages: the lock has been requested; is held */
    bool unlocking;                  /* within MPI_Win_unlock_all: an acknowledgement will come */
    bool in_start;                   /* in the group of MPI_Win_start */
    bool post_seen;                  /* by messages: the target's post has arrived */
    uint32_t posts_seen;             /* posts of the target that earlier epochs have used */
    uint32_t posts, completes;       /* of this process for the target: struct wm_rma_from */
    char *ptr;                       /* DIRECT: the memory; CMA: its address in the other process */
    uint64_t nbytes;                 /* UINT64_MAX: not known here, or a dynamic window */
    int64_t unit;                    /* 0: not known here */
    struct wm_rma_ctl *ctl;          /* of the target; NULL: another host */
    struct wm_peer *peer;            /* set once a message has been sent */
    struct rt_list queue;  /* operations that have not been started (struct wm_rma_op.link) */
    struct rt_list flight; /* started, not complete at the target */
    unsigned nlocal;       /* operations whose origin buffers are in use */
    uint32_t sent, acked;  /* messages so far; of these known to have been executed */
    uint32_t flushed;      /* messages up to this one will be acknowledged without a request */
    bool acks;             /* the last flush was for a single message: the next one asks itself */
    int err;               /* first error of an operation, -RT_E...; reported by the next call that
                              completes operations */
    struct wm_rma_want want;
    struct rt_list busy;        /* link in wm_rma.busy while the queue is not empty */
    struct rt_list active;      /* link in wm_rma.active: not flushed */
    struct wm_rma_types *types; /* layouts that the target has: type.c */
    struct wm_rma_net net;
    struct wm_rma_map *maps;  /* DEVICE: map.c */
    struct wm_rma_map *shown; /* DEVICE: the mapping that MPI_Win_shared_query returned */
    uint32_t map_era;         /* rt_gpu_era when `maps` were made */
    unsigned ncopies;         /* operations of a device on `maps` in progress */
    bool streamed;            /* so may streams and graphs of the application be */
    unsigned nfolds;          /* long accumulates that are not complete; others wait */
    unsigned nchanges;        /* the same of short ones by a device of this process: acc_origin.c */
    unsigned lend_skip;       /* long accumulates before another attempt to lend their data */
};

/* A rank of the window as an origin, as the target knows it; made by its first message. */
struct wm_rma_origin {
    struct wm_rma_origin *next; /* hash chain */
    int rank;
    struct wm_peer *peer;
    struct wm_rma_want want; /* the lock of this process's memory that it holds or waits for */
    struct rt_layout *slot[WM_RMA_SLOTS];
    char *partial; /* a layout that arrives in parts */
    int64_t npartial;
};

#define WM_RMA_BUCKETS 64

#define WM_RMA_FEW 8 /* ranks of a group for which no memory is allocated */

struct wm_rma_region { /* memory attached to a dynamic window */
    uint64_t base, nbytes;
};

struct wm_rma {
    struct wm_win *win;
    struct wm_comm *comm; /* hidden duplicate of the user's communicator */
    struct wm_domain *dom;
    struct wm_rma *next; /* hash chain by context */

    /* Epochs. */
    uint8_t access; /* enum wm_rma_access */
    bool exposed;   /* between MPI_Win_post and MPI_Win_wait */
    bool nocheck;   /* MPI_Win_lock_all or MPI_Win_start with MPI_MODE_NOCHECK */
    int nlocks;     /* targets locked by MPI_Win_lock */
    int nasked;     /* targets asked for a lock by messages */
    int *started;   /* ranks of the group of MPI_Win_start; owned, or `few` */
    int few[WM_RMA_FEW];
    int nstarted;
    int nexposed;         /* ranks of the group of MPI_Win_post */
    uint32_t ncompleted;  /* completions by messages so far */
    uint32_t nwaited_for; /* completions of earlier exposure epochs, of either kind */
    int dead;             /* rank + 1 of a process of the window that has gone; 0: none */

    /* Memory. */
    char *base; /* own window memory; NULL for dynamic windows */
    uint64_t nbytes;
    int64_t unit;
    int64_t same_unit, same_nbytes; /* of all ranks; -1: they differ */
    int nnotes;                     /* numbers of notifications; the same at all ranks */
    struct wm_rma_region *region;   /* sorted by address; owned */
    int nregions, cap_regions;

    /* Shared with the host. */
    struct rt_share file;
    size_t ctl_nbytes; /* of a block */
    int leader;        /* local rank of the process that created the file */
    int *members;      /* local ranks that are in the window; owned */
    int nmembers;
    /* local rank of the other process, where the window has two processes, both of this host, and
     * no path is forced; else -1 */
    int pair;
    uint32_t nfences;       /* of this process, as in its block */
    struct wm_rma_ctl *ctl; /* own block */
    struct wm_rma_want all; /* of MPI_Win_lock_all */

    struct wm_rma_target *target[WM_RMA_BUCKETS], *last; /* last: the one used last */
    struct wm_rma_origin *origin[WM_RMA_BUCKETS];
    uint64_t quick;        /* rows of wm_rma_quick that are its targets' */
    struct rt_list wants;  /* locks that are being acquired, in order */
    struct rt_list busy;   /* targets with queued operations */
    struct rt_list active; /* targets that are not flushed */
    bool pumping;          /* `pump` is among the domain's tasks */
    struct coll_task pump, barrier;
    bool serves;                 /* other processes may need messages to reach this one's memory */
    bool helped;                 /* counted by helper.c */
    unsigned nserving;           /* transfers that serve.c has started and that have not ended */
    struct rt_list folds;        /* long accumulates that may start: acc_bulk.c */
    struct wm_rma_fold *folding; /* the one whose kernel runs; NULL */
    struct rt_list deferred;     /* messages that have come meanwhile: serve.c */

    /* The own memory, if it is device memory that other processes may map: map.c. */
    struct wm_mem own; /* wm_rma_own() */
    uint32_t own_era;  /* rt_gpu_era then */
    void *taken;       /* device memory that the library has allocated; NULL */
    struct btl_mem *mem;
    const struct btl_ops *mem_ops;
    struct wm_rma_memory registered; /* host memory: net.c */

    /* Hints. */
    struct wm_info *hints;
};

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

static inline struct wm_rma_ctl *wm_rma_ctl_at(const struct wm_rma *r, int local)
{
    return (struct wm_rma_ctl *)(void *)(r->file.base + (size_t)local * r->ctl_nbytes);
}
static inline struct wm_rma_ctl *wm_rma_leader(const struct wm_rma *r)
{
    return wm_rma_ctl_at(r, r->leader);
}

/* Whether operations on it go by wm_rma_send_op(); else by wm_rma_execute(). */
static inline bool wm_rma_sends(const struct wm_rma_target *t)
{
    return t->path == WM_PATH_AM || t->path == WM_PATH_DEVICE || t->path == WM_PATH_RDMA;
}

/* create.c */
struct wm_rma *wm_rma_of_ctx(uint32_t ctx); /* NULL: no such window */

/* target.c */
bool wm_rma_by_messages(void); /* this process uses no control blocks of others: setting rma_path */
/* The state of a target, made at the first call; NULL: no memory. */
struct wm_rma_target *wm_rma_target_make(struct wm_rma *r, int rank);
static inline struct wm_rma_target *wm_rma_target(struct wm_rma *r, int rank)
{
    return rt_likely(r->last && r->last->rank == rank) ? r->last : wm_rma_target_make(r, rank);
}
/* For calls that name a rank.  MPI_SUCCESS or MPI_ERR_NO_MEM with its text. */
int wm_rma_named(struct wm_rma *r, int rank, struct wm_rma_target **out);
void wm_rma_targets_free(struct wm_rma *r);
/* Before an operation on a dynamic window: the target may have attached device memory since.  0 or
 * -RT_E... */
int wm_rma_reach_again(struct wm_rma *r, struct wm_rma_target *t);
/* Sets t->peer.  0 or -RT_E... */
int wm_rma_target_peer(struct wm_rma *r, struct wm_rma_target *t);

/* map.c: window memory on a device, mapped by the other processes of the host. */
/* The own memory of a window with a base, if it is device memory; else, or if the device has been
 * lost, NULL.  Resolved when first used, and again when a context has been released since. */
const struct wm_mem *wm_rma_own(struct wm_rma *r);
/* The owner, at creation: publishes a key of its memory to these ranks, if that is possible. */
void wm_rma_map_offer(struct wm_rma *r, const int *ranks);
void wm_rma_map_withdraw(struct wm_rma *r);
/* Starts a put or get by a mapping.  0, or -RT_ENOTSUP: it has to go by messages. */
int wm_rma_map_start(struct wm_rma_op *op);
/* The memory of a target as the device of the own memory addresses it, until the window ends; NULL:
 * that is not possible. */
char *wm_rma_map_address(struct wm_rma *r, struct wm_rma_target *t);
void wm_rma_maps_free(struct wm_rma_target *t);
/* The memory of a target as the device of `near` addresses it, until the device's context is
 * released; NULL: that is not possible.  *atomic: the device's atomic operations are atomic with
 * those of the target's device. */
char *wm_rma_map_reach(struct wm_rma *r, struct wm_rma_target *t, const struct rt_gpu_ptr *near,
                       bool *atomic);

/* Lets the target's device read the data of a long accumulate, and writes their key.  False: they
 * have to be sent. */
bool wm_rma_lend(struct wm_rma_op *op, char key[WM_RMA_KEY]);
void wm_rma_lend_end(struct wm_rma_op *op);
void wm_rma_lend_refused(struct wm_rma_op *op); /* the target cannot read them */
/* The target: the data that `rank` has lent, as the device of `near` addresses them, until
 * ops->detach(); NULL: it cannot read them. */
struct btl_rmem *wm_rma_borrow(struct wm_rma *r, int rank, const char *key,
                               const struct rt_gpu_ptr *near, const struct btl_ops **ops);
/* The same for the data of a put by a stream of the application, until the window ends. */
char *wm_rma_map_for_stream(struct wm_rma *r, struct wm_rma_target *t, const struct wm_rma_args *a,
                            const struct rt_gpu_ptr *near);

/* acc_origin.c: accumulates of a few elements by a device of the origin. */
/* Whether a device of the origin may carry out accumulates on this target.  Their operands then may
 * stay in device memory. */
static inline bool wm_rma_changes(const struct wm_rma_target *t)
{
    return t->path == WM_PATH_DEVICE && t->ctl->atomic;
}
/* Starts an accumulate or compare-and-swap.  0; -RT_ENOTSUP: it has to go by a message; -RT_EAGAIN:
 * it has to wait for another one. */
int wm_rma_change_start(struct wm_rma_op *op);

/* epoch.c: MPI_SUCCESS, or MPI_ERR_RMA_SYNC with a text. */
enum wm_rma_move {
    WM_MOVE_FENCE,
    WM_MOVE_START,
    WM_MOVE_COMPLETE,
    WM_MOVE_POST,
    WM_MOVE_WAIT,
    WM_MOVE_LOCK,
    WM_MOVE_UNLOCK,
    WM_MOVE_LOCK_ALL,
    WM_MOVE_UNLOCK_ALL,
    WM_MOVE_FLUSH,
    WM_MOVE_OPERATION,
    WM_MOVE_REQUEST, /* an operation with a request */
    WM_MOVE_ENQUEUE, /* a call that puts work on the window's stream */
    WM_MOVE_FREE,
    WM_MOVES
};
int wm_rma_may(const struct wm_rma *r, enum wm_rma_move move);
/* For calls that name a rank; t is its target.  The first operation after a fence also opens the
 * fence's epoch. */
int wm_rma_may_with(struct wm_rma *r, enum wm_rma_move move, const struct wm_rma_target *t);

/* lock.c */
/* Starts to acquire; true: held now.  False: wm_rma_pump() continues. */
bool wm_rma_want(struct wm_rma *r, struct wm_rma_want *w, enum wm_want_kind kind,
                 struct wm_rma_ctl *ctl);
/* The same for a lock of a target that no process holds in the other mode.  False: nothing has been
 * acquired. */
bool wm_rma_want_now(struct wm_rma *r, struct wm_rma_want *w, enum wm_want_kind kind,
                     struct wm_rma_ctl *ctl);
/* wm_rma_want() for the caller's own epoch: looks for a few microseconds first whether the lock is
 * released, unless ranks outnumber cores. */
bool wm_rma_want_soon(struct wm_rma *r, struct wm_rma_want *w, enum wm_want_kind kind,
                      struct wm_rma_ctl *ctl);
/* Continues without waiting; true: held now. */
bool wm_rma_want_step(struct wm_rma *r, struct wm_rma_want *w);
/* Stores to the target's memory are ordered before the release. */
void wm_rma_release(struct wm_rma *r, struct wm_rma_want *w);

/* acc.c: inout (the target's memory) = origin op inout, old values to `result`, all atomic element
 * by element with regard to all accumulates on this target.  0 or -RT_E... */
struct wm_rma_acc {
    const struct wm_rma *rma;
    struct wm_rma_ctl *ctl; /* of the target */
    int cma;                /* local rank of the process to whose memory `base` belongs; -1: ours */
    char *zero;             /* where the window's memory begins, in the address space of `base` */
    char *base;             /* where the target's elements begin */
    int64_t count;
    const struct rt_layout *layout; /* of an element */
    const struct wm_mem *mem;       /* of the target's elements in device memory of ours; NULL */
    bool atomic;                    /* devices of other processes may change them, too */
    enum rt_opcode op;
    enum rt_elem elem;
    int64_t esize;      /* packed bytes of a basic element */
    int64_t pos, len;   /* this part of the packed form */
    const char *origin; /* packed, len bytes; NULL with RT_OP_NO_OP */
    char *result;       /* packed, len bytes; NULL: not wanted */
};
int wm_rma_acc(const struct wm_rma_acc *a);
/* Compare-and-swap of one element; 0 or -RT_E... */
int wm_rma_cas(const struct wm_rma_acc *a, const void *compare);

/* element.c */
/* Carries out an accumulate or compare-and-swap on one element by an atomic operation; `c` has its
 * ctl, cma, base, layout, elem and esize.  False: it needs wm_rma_acc() or wm_rma_cas(). */
bool wm_rma_element_try(const struct wm_rma *r, const struct wm_rma_acc *c,
                        const struct wm_rma_args *a);
/* From here on, accumulates on the target with this block take stripes.  Waits for a change of an
 * element that another process has begun. */
void wm_rma_stripes_begin(const struct wm_rma *r, struct wm_rma_ctl *c);

/* acc_device.c: wm_rma_acc() for a part of at most 32 KiB of device memory, whose stripes the
 * caller holds.  -RT_ENOTSUP: there is no kernel for it, and nothing has been changed. */
int wm_rma_acc_device(const struct wm_rma_acc *a, int64_t done, int64_t len);
/* wm_rma_acc() of a part, and wm_rma_cas(), by atomic operations of the device.  -RT_ENOTSUP: such
 * elements are not changed by atomic operations, and nothing has been changed. */
int wm_rma_acc_atomic(const struct wm_rma_acc *a, int64_t done, int64_t len);
int wm_rma_cas_atomic(const struct wm_rma_acc *a, const void *compare);

/* wm_pack_now() and wm_unpack_now() for buffers that are known to be device memory; faster for
 * short ones.  0 or -RT_E...  Not from a callback of runtime/gpu. */
int wm_rma_pack(const struct wm_mem *mem, const struct rt_layout *l, int64_t count, const void *buf,
                int64_t pos, void *out, int64_t n);
int wm_rma_unpack(const struct wm_mem *mem, const struct rt_layout *l, int64_t count, void *buf,
                  int64_t pos, const void *in, int64_t n);

/* acc_bulk.c: long accumulates on device memory. */
/* Answers when it is complete.  The data lie in memory of the origin with this key, or, if it is
 * NULL, are received. */
void wm_rma_fold_begin(struct wm_rma *r, struct wm_rma_origin *o, uint32_t id,
                       const struct wm_rma_acc *a, bool fetches, const char *key);
/* From the window's task: executes messages that were deferred, and starts what may start. */
void wm_rma_folds_run(struct wm_rma *r);

/* direct.c: operations on memory that this process can reach.  0 or -RT_E... */
/* A put or get. */
int wm_rma_copy(const struct wm_rma_target *t, const struct wm_rma_args *a);

/* Any operation. */
int wm_rma_execute(struct wm_rma *r, struct wm_rma_target *t, const struct wm_rma_args *a);

/* op.c */
/* The arguments of a put. */
void wm_rma_put_args(struct wm_rma_args *a, const void *origin_addr, MPI_Count origin_count,
                     struct wm_type *origin_datatype, int target_rank, MPI_Aint target_disp,
                     MPI_Count target_count, struct wm_type *target_datatype);
/* Checks a put that a stream of this process is to carry out, and waits until its lock is held.
 * MPI_SUCCESS or an error class. */
int wm_rma_put_check(struct wm_rma *r, struct wm_rma_args *a, struct wm_rma_target **out);
/* Starts a put whose sizes have been checked.  MPI_SUCCESS or an error class. */
int wm_rma_put_start(struct wm_rma *r, struct wm_rma_args *a);
/* MPI_Put; `note` as in struct wm_rma_args. */
int wm_rma_put(const void *origin_addr, MPI_Count origin_count, struct wm_type *origin_datatype,
               int target_rank, MPI_Aint target_disp, MPI_Count target_count,
               struct wm_type *target_datatype, struct wm_win *win, int note);
/* Where the elements at a target begin and end: bytes relative to the first element's address. */
void wm_rma_span(const struct rt_layout *l, int64_t count, int64_t *low, int64_t *high);
/* The origin's buffers are free; with err, the operation has failed. */
void wm_rma_op_local(struct wm_rma_op *op, int err);
/* The operation is complete at the target, too; frees it. */
void wm_rma_op_done(struct wm_rma_op *op, int err);

/* am.c: the origin's side of messages. */
/* Sends the messages of an operation, or starts it by a device.  0: all have been sent; -RT_EAGAIN:
 * call again later; else -RT_E... */
int wm_rma_send_op(struct wm_rma_op *op);
/* A message without data. */
void wm_rma_send(struct wm_rma *r, struct wm_peer *p, int code, uint32_t id, int64_t value);
struct btl_hdr wm_rma_hdr(const struct wm_rma *r);
/* The tag of the ordinary message that carries the data of an operation. */
int wm_rma_tag(uint32_t id, bool to_origin);
/* Most bytes of data that a message carries behind its struct wm_rma_msg. */
size_t wm_rma_room(const struct wm_peer *p);
char *
wm_rma_scratch(size_t nbytes); /* of this process; valid until the next call; NULL: no memory */
/* Requests a lock from the target, once. */
void wm_rma_ask(struct wm_rma *r, struct wm_rma_target *t, enum wm_want_kind kind);

void wm_rma_scratch_free(void);
/* An answer of a target, or its post. */
void wm_rma_on_answer(struct wm_rma *r, int rank, const struct wm_rma_msg *m, const char *data);

/* net.c: puts and gets by a transport that accesses the target's memory. */
/* Whether the transport of this peer does so. */
bool wm_rma_net_offers(const struct wm_peer *p);
/* Starts a put or get.  0; -RT_ENOTSUP: it has to go by messages; -RT_EAGAIN: call again later; or
 * -RT_EPEER. */
int wm_rma_net_start(struct wm_rma_op *op);
void wm_rma_net_detach(struct wm_rma_target *t);
/* The target: an origin asks for the key of the memory. */
void wm_rma_net_on_ask(struct wm_rma *r, struct wm_peer *p);
void wm_rma_net_close(struct wm_rma *r);
/* The answer. */
void wm_rma_net_on_key(struct wm_rma *r, struct wm_rma_target *t, const struct wm_rma_msg *m,
                       const char *key);

/* type.c: the slot in which the target has this layout; the layout is sent first if the target does
 * not have it.  WM_RMA_NO_SLOT for contiguous layouts; -RT_E... */
int wm_rma_slot(struct wm_rma *r, struct wm_rma_target *t, const struct rt_layout *l);
void wm_rma_types_free(struct wm_rma_target *t);
/* A part of a layout has arrived.  0 or -RT_E... */
int wm_rma_on_type(struct wm_rma_origin *o, const struct wm_rma_msg *m, const char *data);
void wm_rma_slots_free(struct wm_rma_origin *o);

/* serve.c: the target's side of messages. */
void wm_rma_on_recv(struct wm_domain *d, struct wm_peer *from, const struct btl_hdr *h,
                    const void *data, size_t len);
void wm_rma_deferred_run(struct wm_rma *r); /* messages deferred while a kernel ran */
/* A process is lost. */
void wm_rma_peer_gone(struct wm_rma *r, const struct wm_peer *p);
void wm_rma_origins_free(struct wm_rma *r);
/* Whether [low, high) of this process's window, or of its address space for a dynamic window, may
 * be accessed. */
bool wm_rma_in_window(const struct wm_rma *r, int64_t low, int64_t high);
/* The same for the data of elements at `at` without their gaps: regions that are attached to a
 * dynamic window need not adjoin. */
bool wm_rma_pieces_in_window(const struct wm_rma *r, const struct rt_layout *l, int64_t count,
                             int64_t at);

/* progress.c: progress of what waits. */
void wm_rma_pump_need(struct wm_rma *r); /* something waits: makes the window a task */
/* Whether operations may be carried out now in the current epoch: the target has posted, the lock
 * is held. */
bool wm_rma_ready(const struct wm_rma *r, const struct wm_rma_target *t);
/* Appends an operation to the target's queue, and starts what may start. */
void wm_rma_queue(struct wm_rma *r, struct wm_rma_target *t, struct wm_rma_op *op);
/* At the end of a synchronisation call that may have found everything in memory: makes progress, in
 * case this process only makes such calls.  Always for origins that need messages, else once in a
 * few calls. */
void wm_rma_poll(struct wm_rma *r);
/* Starts the operations that may start for a target. */
void wm_rma_target_run(struct wm_rma *r, struct wm_rma_target *t);
/* Waits until cond(r, t); MPI_SUCCESS or what wm_err() returned, if a process that takes part has
 * gone. */
typedef bool wm_rma_cond(struct wm_rma *r, struct wm_rma_target *t);
int wm_rma_wait(struct wm_rma *r, struct wm_rma_target *t, wm_rma_cond *cond);
/* The same where a process of this host makes the condition true by a store. */
int wm_rma_wait_near(struct wm_rma *r, struct wm_rma_target *t, wm_rma_cond *cond);
/* Waits so far, in any window: the helper leaves progress to a program that waits again and again.
 */
extern unsigned wm_rma_nwaits;
/* The same until cond(arg). */
int wm_rma_until(struct wm_rma *r, bool (*cond)(void *arg), void *arg);
/* Until wm_rma_ready(). */
int wm_rma_await_ready(struct wm_rma *r, struct wm_rma_target *t);
int wm_rma_dead(const struct wm_rma *r); /* the error class of that, with its text */
/* Whether a process of this host has passed the barrier of MPI_Win_free.  All that others need from
 * the process has been sent, and the process may end. */
static inline bool wm_rma_has_left(const struct wm_rma *r, int local)
{
    return rt_load_acquire(&wm_rma_ctl_at(r, local)->left);
}

/* flush.c */
enum wm_rma_until {
    WM_UNTIL_ORIGIN, /* the origin's buffers are free, results are there */
    /* operations that need an answer are complete at the target; the others have been sent */
    WM_UNTIL_EXECUTED,
    WM_UNTIL_TARGET /* all is complete at the target */
};
/* Waits for the operations of this target; NULL: of all targets.  MPI_SUCCESS, or the error class
 * of the first operation that failed. */
int wm_rma_flush(struct wm_rma *r, struct wm_rma_target *t, enum wm_rma_until until);
void wm_rma_activate(struct wm_rma *r, struct wm_rma_target *t); /* t has to be flushed */
/* Notes an error of an operation, for the next call that completes operations. */
void wm_rma_note(struct wm_rma_target *t, int rt_err);

/* notify.c: puts with notification. */
/* struct wm_rma_args.note */
enum wm_rma_note_kind { WM_RMA_NOTE_HERE, WM_RMA_NOTE_ON_STREAM };
static inline int wm_rma_note_of(int number, enum wm_rma_note_kind kind)
{
    return 1 + 2 * number + (int)kind;
}
/* The data of a put are in the memory of the process with this control block: counts there. */
void wm_rma_notify(struct wm_rma_ctl *ctl, int note);
/* The same for a target of this host; wakes it. */
void wm_rma_notify_target(struct wm_rma *r, const struct wm_rma_target *t, int note);
/* Checks a number that the user gave.  MPI_SUCCESS or an error class. */
int wm_rma_note_check(const struct wm_rma *r, const char *arg, int number);
/* Notifications that have arrived at this process and have not been taken. */
uint32_t wm_rma_note_count(const struct wm_rma *r, int note);
/* Waits until `count` of them have arrived, and takes them; or takes them if they have arrived.
 * MPI_SUCCESS, or an error class if a process of the window has gone. */
int wm_rma_note_await(struct wm_rma *r, int note, uint32_t count);
int wm_rma_note_poll(struct wm_rma *r, int note, uint32_t count, bool *came);

/* quick.c: the table of targets on the shortest path (quick.h). */
/* An operation on the target has been carried out in memory, or its lock is held. */
void wm_rma_quick_open(struct wm_rma *r, struct wm_rma_target *t);
/* The epoch with the target, or with all targets, ends. */
void wm_rma_quick_close(const struct wm_rma *r, const struct wm_rma_target *t);
void wm_rma_quick_close_all(const struct wm_rma *r);
/* An accumulate with this operation and type of the target is allowed. */
struct wm_op;
void wm_rma_quick_learn(const struct wm_op *o, const struct wm_type *t);
void wm_rma_quick_forget(const struct wm_rma *r); /* the targets are about to be freed */

/* sync.c */
int wm_rma_barrier(struct wm_rma *r); /* MPI_SUCCESS or an error class */

/* helper.c */
void wm_rma_helper_join(struct wm_rma *r); /* after the hints are set */
void wm_rma_helper_leave(struct wm_rma *r);

/* info.c */
int wm_rma_notes_wanted(const struct wm_info *info); /* hint weft_notifications, or the default */
/* MPI_SUCCESS or an error class. */
int wm_rma_set_hints(struct wm_rma *r, const struct wm_info *info);
bool wm_rma_is_device_kind(const char *v); /* a value of the hint weft_memory_kind */

#endif
