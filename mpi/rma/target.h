/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks of a window as this process knows them as an origin. */
#ifndef WM_RMA_TARGET_H
#define WM_RMA_TARGET_H

#include "mpi/rma/path.h"
#include "mpi/rma/rma.h"
#include "mpi/p2p/domain.h"

struct wm_rma_types;
struct wm_rma_map;

/* The access epoch with a target: sync.c, epoch.c. */
struct wm_rma_target_epoch {
    bool locked, nocheck;      /* by MPI_Win_lock, and how */
    bool asked, granted;       /* by messages: the lock has been requested; is held */
    bool unlocking;            /* within MPI_Win_unlock_all: an acknowledgement will come */
    bool in_start;             /* in the group of MPI_Win_start */
    bool post_seen;            /* by messages: the target's post has arrived */
    uint32_t posts_seen;       /* posts of the target that earlier epochs have used */
    uint32_t posts, completes; /* of this process for the target: struct wm_rma_from */
    struct wm_rma_want want;   /* the lock through its control block */
};

/* Messages to a target: am.c, flush.c. */
struct wm_rma_target_msg {
    struct wm_peer *peer; /* set once a message has been sent */
    uint32_t sent, acked; /* messages so far; of these known to have been executed */
    uint32_t flushed;     /* messages up to this one will be acknowledged without a request */
    bool acks;            /* the last flush was for a single message: the next one asks itself */
    struct wm_rma_types *types; /* layouts that the target has: type.c */
};

/* Memory of a target that a device of this process accesses: map.c, acc_origin.c, am.c. */
struct wm_rma_target_device {
    struct wm_rma_map *maps;
    struct wm_rma_map *shown; /* the mapping that MPI_Win_shared_query returned */
    uint32_t map_era;         /* rt_gpu_era when `maps` were made */
    unsigned ncopies;         /* operations of a device on `maps` in progress */
    bool streamed;            /* so may streams and graphs of the application be */
    unsigned nfolds;          /* long accumulates that are not complete; others wait */
    unsigned nchanges;        /* the same of short ones by a device of this process */
    unsigned lend_skip;       /* long accumulates before another attempt to lend their data */
};

/* Memory of a target that the transport accesses: net.c. */
struct wm_rma_net {
    uint8_t state; /* enum net_state */
    unsigned nflying;
    struct btl_rmem *rmem; /* NULL until the target has given the key */
    uint64_t nbytes;
    int64_t unit;
};

/* A rank of the window as this process knows it as an origin; made when first used. */
struct wm_rma_target {
    struct wm_rma_target *next; /* hash chain */
    int rank, local;            /* local: local rank on this host, -1: another host */
    uint8_t path;               /* enum wm_rma_path */
    bool by_ctl;                /* locks, posts and completions go through control blocks */
    char *ptr;                  /* DIRECT: the memory; CMA: its address in the other process */
    uint64_t nbytes;            /* UINT64_MAX: not known here, or a dynamic window */
    int64_t unit;               /* 0: not known here */
    struct wm_rma_ctl *ctl;     /* of the target; NULL: another host */
    struct rt_list queue;       /* operations that have not been started (struct wm_rma_op.link) */
    struct rt_list flight;      /* started, not complete at the target */
    unsigned nlocal;            /* operations whose origin buffers are in use */
    int err;                    /* first error of an operation, -RT_E...; reported by the next call
                                   that completes operations */
    struct rt_list busy;        /* link in wm_rma.targets.busy while the queue is not empty */
    struct rt_list active;      /* link in wm_rma.targets.active: not flushed */
    struct wm_rma_target_epoch epoch;
    struct wm_rma_target_msg msg;
    struct wm_rma_target_device device;
    struct wm_rma_net net;
};

/* Whether operations on it are started by queue.c; else wm_rma_execute() carries them out. */
static inline bool wm_rma_sends(const struct wm_rma_target *t)
{
    return t->path == WM_PATH_AM || t->path == WM_PATH_DEVICE || t->path == WM_PATH_RDMA;
}

/* Whether this process has been granted the lock of MPI_Win_lock that it asked for. */
static inline bool wm_rma_holds(const struct wm_rma_target *t)
{
    return t->epoch.granted || t->epoch.want.state == WM_WANT_HELD;
}

bool wm_rma_by_messages(void); /* this process uses no control blocks of others: setting rma_path */
/* The state of a target, made at the first call; NULL: no memory. */
struct wm_rma_target *wm_rma_target_make(struct wm_rma *r, int rank);
static inline struct wm_rma_target *wm_rma_target(struct wm_rma *r, int rank)
{
    return rt_likely(r->targets.last && r->targets.last->rank == rank)
               ? r->targets.last
               : wm_rma_target_make(r, rank);
}
/* For calls that name a rank.  MPI_SUCCESS or MPI_ERR_NO_MEM with its text. */
int wm_rma_named(struct wm_rma *r, int rank, struct wm_rma_target **out);
/* Before an operation on a dynamic window: the target may have attached device memory since.  0 or
 * -RT_E... */
int wm_rma_reach_again(struct wm_rma *r, struct wm_rma_target *t);
/* Sets t->peer.  0 or -RT_E... */
int wm_rma_target_peer(struct wm_rma *r, struct wm_rma_target *t);
void wm_rma_activate(struct wm_rma *r, struct wm_rma_target *t); /* t has to be flushed */
/* Notes an error of an operation, for the next call that completes operations. */
void wm_rma_note(struct wm_rma_target *t, int rt_err);

#endif
