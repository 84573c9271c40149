/* SPDX-License-Identifier: BSD-3-Clause */
/* A pipeline: the data of a buffer in parts, a few under way at a time, so that one part moves
 * while the next is packed or the last one unpacked.  Messages in pieces, the copies of collectives
 * and files use it.  Under the domain's lock. */
#ifndef WM_P2P_PIPE_H
#define WM_P2P_PIPE_H

#include "mpi/p2p/resolve.h"
#include "mpi/p2p/scattered.h"
#include "mpi/p2p/staging.h"

/* One part: packed (from the user's buffer into its room) and then moved, or moved into its room
 * and then unpacked. */
struct wm_slot {
    struct wm_packing m; /* next() sets it, without `packed` */
    enum wm_memory memory;
    struct rt_gpu *g; /* of the device that holds the user's buffer */
    void *up;         /* the caller's */
    /* Set by the pipeline: */
    bool in_place; /* the part lies in the user's buffer and needs no packing */
    bool by_device, busy;
    int err;
    enum { WM_SLOT_ENDED, WM_SLOT_PACKING, WM_SLOT_MOVING, WM_SLOT_UNPACKING } state;
    struct rt_gpu_op op;
};

/* Starts to pack or unpack the part; it is finished when `busy` is false, with t->err. */
void wm_slot_pack(struct wm_slot *t);

struct wm_pipe;
struct wm_pipe_ops {
    /* Describes the next part; false: there is none now. */
    bool (*next)(struct wm_pipe *p, struct wm_slot *t);
    /* Starts to move the packed data.  1: moved; 0: in progress; -RT_E...: failed, and no
     * further part begins. */
    int (*move)(struct wm_pipe *p, struct wm_slot *t);
    /* Of a move in progress: 1, 0, or -RT_E...; NULL if no move is ever in progress. */
    int (*moved)(struct wm_pipe *p, struct wm_slot *t);
};

struct wm_pipe {
    const struct wm_pipe_ops *ops;
    struct wm_staging rooms; /* taken by the caller; rooms.n without memory: parts in place */
    int oldest, running;     /* slots in use, in the order of their parts */
    int err;                 /* the first */
    bool halt;               /* begins no further part */
    struct wm_slot slot[WM_STAGING_ROOMS];
};

/* wm_pipe_start() begins as many parts as there are rooms; wm_pipe_step() moves the parts on.  Both
 * return the number of steps taken. */
int wm_pipe_start(struct wm_pipe *p);
int wm_pipe_step(struct wm_pipe *p);
/* Keeps the first error.  Later parts are received, but not unpacked. */
void wm_pipe_fail(struct wm_pipe *p, int err);
/* The i-th part under way, the oldest first: i < p->running. */
static inline struct wm_slot *wm_pipe_part(struct wm_pipe *p, int i)
{
    return &p->slot[(p->oldest + i) % p->rooms.n];
}

#endif
