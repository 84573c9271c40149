/* SPDX-License-Identifier: BSD-3-Clause */
/* One-sided communication (MPI-5.0 chapter 12): the window.  README.md describes the files of
 * mpi/rma. All state is used under the domain's lock; ctl.h has the state that processes of a host
 * share. */
#ifndef WM_RMA_RMA_H
#define WM_RMA_RMA_H

#include "mpi/base/comm.h"
#include "mpi/core/win.h"
#include "mpi/p2p/domain.h"
#include "mpi/p2p/resolve.h"
#include "mpi/rma/ctl.h"
#include "runtime/mem/activity.h"
#include "runtime/mem/share.h"

struct wm_rma_target;
struct wm_rma_origin;
struct wm_rma_fold;

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
    struct rt_list link; /* in wm_rma.task.wants while neither idle nor held */
    struct wm_rma_ctl *ctl;
    uint8_t kind, state;
    uint32_t node; /* its place in a queue; 0: none */
    /* The lock is held: called by the task of the window (windows.c), not by wm_rma_want(). */
    void (*granted)(struct wm_rma *r, struct wm_rma_want *w);
};

/* Epochs of this process: epoch.c, sync.c. */
#define WM_RMA_FEW 8 /* ranks of a group for which no memory is allocated */
struct wm_rma_epoch {
    uint8_t access; /* enum wm_rma_access */
    bool exposed;   /* between MPI_Win_post and MPI_Win_wait */
    bool nocheck;   /* MPI_Win_lock_all or MPI_Win_start with MPI_MODE_NOCHECK */
    bool begun;     /* WEFT_CHECK: the last fence had no MPI_MODE_NOSUCCEED */
    bool fenced;    /* WEFT_CHECK: and it can have ended no epoch */
    bool mixed;     /* WEFT_CHECK: and operations under a lock have followed it */
    int nlocks;     /* targets locked by MPI_Win_lock */
    int nasked;     /* targets asked for a lock by messages */
    int *started;   /* ranks of the group of MPI_Win_start; owned, or `few` */
    int few[WM_RMA_FEW];
    int nstarted;
    int nexposed;                        /* ranks of the group of MPI_Win_post */
    int first_exposed[RT_ACTIVITY_REQS]; /* the first of these, to describe a wait */
    uint32_t ncompleted;                 /* completions by messages so far */
    uint32_t nwaited_for; /* completions of earlier exposure epochs, of either kind */
};

/* The own window memory. */
struct wm_rma_region { /* attached to a dynamic window */
    uint64_t base, nbytes;
};
struct wm_rma_memory {
    char *base; /* NULL for dynamic windows */
    uint64_t nbytes;
    int64_t unit;
    int64_t same_unit, same_nbytes; /* of all ranks; -1: they differ */
    struct wm_rma_region *region;   /* sorted by address; owned */
    int nregions, cap_regions;
};

/* The own memory, if it is device memory that other processes may map: map.c. */
struct wm_rma_device {
    struct wm_mem own; /* wm_rma_own() */
    uint32_t own_era;  /* rt_gpu_era then */
    void *taken;       /* device memory that the library has allocated; NULL */
    struct btl_mem *mem;
    const struct btl_ops *mem_ops;
};

/* The own memory, if it is host memory, registered for RDMA: net.c. */
struct wm_rma_registered {
    struct btl *btl;
    const struct btl_ops *ops; /* NULL: not registered */
    struct btl_mem *mem;
    int err; /* it cannot be registered */
};

/* State shared with the processes of the host: the window's file. */
struct wm_rma_shared {
    struct rt_share file;
    size_t ctl_nbytes; /* of a block */
    int leader;        /* local rank of the process that created the file */
    int *members;      /* local ranks that are in the window; owned */
    int nmembers;
    /* local rank of the other process, where the window has two processes, both of this host, and
     * no path is forced; else -1 */
    int pair;
    int nnotes;             /* numbers of notifications; the same at all ranks */
    uint32_t nfences;       /* of this process, as in its block */
    struct wm_rma_ctl *ctl; /* own block */
    struct wm_rma_want all; /* of MPI_Win_lock_all */
};

#define WM_RMA_BUCKETS 64

/* What this process knows as an origin: target.h. */
struct wm_rma_targets {
    struct wm_rma_target *bucket[WM_RMA_BUCKETS], *last; /* last: the one used last */
    uint64_t quick;                                      /* their rows of wm_rma_quick */
    struct rt_list busy;                                 /* with queued operations */
    struct rt_list active;                               /* not flushed */
};

/* What this process does for others: serve.c, acc_bulk.c. */
struct wm_rma_service {
    struct wm_rma_origin *bucket[WM_RMA_BUCKETS];
    bool serves;                 /* other processes may need messages to reach this one's memory */
    bool helped;                 /* by the thread of mpi/core/helper.h */
    unsigned nserving;           /* transfers that have been started here and have not ended */
    struct rt_list folds;        /* long accumulates that may start: acc_bulk.c */
    struct wm_rma_fold *folding; /* the one whose kernel runs; NULL */
    struct rt_list deferred;     /* messages that have come meanwhile: serve.c */
};

/* The window as a task of the domain: progress.c, windows.c. */
struct wm_rma_task {
    struct rt_list wants; /* locks that are being acquired, in order */
    bool pumping;         /* `pump` is among the domain's tasks */
    struct coll_task pump;
    int (*run)(struct coll_task *pump); /* its step: windows.c */
};

struct wm_rma {
    struct wm_win *win;
    struct wm_comm *comm; /* hidden duplicate of the user's communicator */
    struct wm_domain *dom;
    struct wm_rma *next; /* hash chain by context */
    struct wm_info *hints;
    int dead; /* rank + 1 of a process of the window that has gone; 0: none */
    struct wm_rma_epoch epoch;
    struct wm_rma_memory memory;
    struct wm_rma_device device;
    struct wm_rma_registered registered;
    struct wm_rma_shared shared;
    struct wm_rma_targets targets;
    struct wm_rma_service service;
    struct wm_rma_task task;
    struct coll_task barrier; /* of sync.c */
};

static inline struct wm_rma_ctl *wm_rma_ctl_at(const struct wm_rma *r, int local)
{
    return (struct wm_rma_ctl *)(void *)(r->shared.file.base +
                                         (size_t)local * r->shared.ctl_nbytes);
}
static inline struct wm_rma_ctl *wm_rma_leader(const struct wm_rma *r)
{
    return wm_rma_ctl_at(r, r->shared.leader);
}
/* Whether a process of this host has passed the barrier of MPI_Win_free.  All that others need from
 * the process has been sent, and the process may end. */
static inline bool wm_rma_has_left(const struct wm_rma *r, int local)
{
    return rt_load_acquire(&wm_rma_ctl_at(r, local)->left);
}

#endif
