/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective operations: one access of all ranks, as a series of steps.  A step works on this
 * rank's data and ends by starting a collective call, a job, or neither; the next step follows when
 * that has ended.  Blocking, nonblocking and split calls have the same steps (twophase.c).
 *
 * The operations of a file are a queue in each rank: all ranks start them in the same order, so
 * their calls meet on the file's communicator.  All functions: under the file's lock. */
#ifndef WM_IO_COP_H
#define WM_IO_COP_H

#include "mpi/coll/alive.h"
#include "mpi/io/plan.h"

/* What ended an operation; the text is made for the rank that asks. */
enum wm_cop_why {
    WM_COP_FINE,
    WM_COP_OWN,      /* this rank's arguments: wm_err() has the text */
    WM_COP_PEER,     /* an error of another rank */
    WM_COP_MEMORY,   /* no memory */
    WM_COP_MESSAGES, /* a collective call */
    WM_COP_COPY,     /* from or to the user's memory */
    WM_COP_WINDOW,   /* an aggregator's access to [from, to) of the file */
    WM_COP_ALONE,    /* the access of this rank by itself */
    WM_COP_CALLS     /* the ranks are in different calls */
};

struct wm_cop {
    struct wm_file *file;
    struct wm_iop *op; /* NULL: this rank has refused its arguments and only votes */
    bool write, blocking;
    int64_t id;           /* of its call: calls.h */
    struct wm_cop *after; /* in the file's queue */
    struct wm_alive alive;
    void (*next)(struct wm_cop *c); /* NULL: ended */
    struct coll_task call;
    bool calling; /* `call` has not ended */
    struct rt_io_job job;
    int (*work)(struct wm_cop *c); /* of the job */
    bool working;                  /* the job has not ended */
    bool join;                     /* the next step waits for the job */
    int job_err;
    enum wm_cop_why why, job_why;
    int err, rt;      /* MPI error class; what wm_err_rt() describes */
    int64_t from, to; /* WM_COP_WINDOW */
    int64_t v[WM_PLAN_VALUES];
    struct wm_plan plan;
};

/* Puts an operation into the queue of its file.  `err`: of this rank's arguments, which ends the
 * operation on all ranks.  The caller sets the first step. */
void wm_cop_init(struct wm_cop *c, struct wm_file *f, struct wm_iop *op, bool write, int err);
/* Goes as far as possible without waiting.  True: it has ended, and is in no queue.  If a process
 * of the file has died (file->dead), the operation fails and stays in the queue: messages may still
 * arrive, so the memory of `c` is never freed. */
bool wm_cop_advance(struct wm_cop *c);
/* Completes a blocking operation.  MPI_SUCCESS or the error class with its text. */
int wm_cop_wait(struct wm_cop *c);
/* The error class of an operation that has ended, with its text. */
int wm_cop_error(const struct wm_cop *c);

/* ---- for steps ---- */

/* Start a collective call; the largest of n numbers of c->v. */
void wm_cop_call(struct wm_cop *c, const struct coll_args *a);
void wm_cop_max(struct wm_cop *c, int n);
/* All ranks pass their error; `next` finds the largest in c->v[0]. */
void wm_cop_agree(struct wm_cop *c, void (*next)(struct wm_cop *c));
/* Runs work(c), which returns 0 or -RT_E...: in a job thread, or if the caller has nothing else to
 * do, here.  `why`: of its error. */
void wm_cop_work(struct wm_cop *c, int (*work)(struct wm_cop *c), enum wm_cop_why why, bool here);
/* Keeps the first error: a code of -RT_E..., or an error class that the ranks agreed on.  True:
 * there is an error. */
bool wm_cop_fail(struct wm_cop *c, enum wm_cop_why why, int rt);
bool wm_cop_agreed(struct wm_cop *c, int err);
/* The last step; waits for the job. */
void wm_cop_end(struct wm_cop *c);

#endif
