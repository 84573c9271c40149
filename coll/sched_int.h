/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of a schedule, for sched.c and sched_gpu.c. */
#ifndef COLL_SCHED_INT_H
#define COLL_SCHED_INT_H

#include "coll/sched.h"
#include "runtime/reduce/gpu_codes.h"

enum step_kind { STEP_SEND, STEP_RECV, STEP_COPY, STEP_REDUCE, STEP_CALL, STEP_ROUND };

struct step {
    enum step_kind kind;
    int peer; /* messages: the peer; calls: index into s->calls */
    struct coll_team *team;
    const void *src; /* source of a send, copy or reduction */
    void *dst;       /* destination of a receive, copy or reduction */
    int64_t src_n, dst_n;
    const struct rt_layout *src_l, *dst_l;
};

struct tmp {
    struct tmp *next;
};                  /* header of every temporary buffer */
#define TMP_HEAD 64 /* aligns buffers to cache lines */
struct gpu_tmp;     /* a temporary buffer in device memory */
struct gpu_op;      /* a local step on a device */

struct coll_sched {
    struct coll_task *task;
    struct coll_team *team; /* team of the steps being written */
    struct step *steps;
    int nsteps, room;
    int err; /* the last error while the schedule was written; 0: none */
    struct tmp *tmps;
    int at;                   /* first step of the current round */
    bool posted;              /* the messages of the current round have been posted */
    int round_msgs, max_msgs; /* messages of the round being written; most in any round */
    struct rt_req **reqs;     /* of the current round */
    int nreqs, next_req;      /* requests before next_req are complete and released */
    struct rt_list waiting;   /* the task, while it waits for request next_req only */
    struct coll_task *calls; /* on sub-teams that share memory; those before next_call have ended */
    int ncalls, calls_room, next_call;
    bool begun;                   /* the calls have been numbered */
    struct coll_sched *abandoned; /* the one that was abandoned before */
    /* If temporaries are in device memory and a device does the local steps: */
    struct rt_gpu *gpu; /* NULL: the fields below are not used */
    struct gpu_tmp *gpu_tmps;
    struct gpu_op *ops; /* [nsteps] */
    int nops;           /* in progress */
    int first, next;    /* steps from `first` on may be in progress, steps from `next` on have not
                         * started */
    int gpu_err;        /* of a device step that has ended */
    struct rt_reduce_gpu reduce;
};

/* Goes to the round after the one that ends with `end`. */
void coll_sched_next_round(struct coll_sched *s, const struct step *end);
bool coll_sched_in_place(const void *src, const struct rt_layout *src_l, const void *dst,
                         const struct rt_layout *dst_l);

#endif
