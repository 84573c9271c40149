/* SPDX-License-Identifier: BSD-3-Clause */
/* The base of all requests.  Point-to-point requests, collective tasks, generalised requests and
 * I/O have it as their first member.  The owner completes it exactly once with rt_req_finish(),
 * under the domain's lock; any thread may read `done`. */
#ifndef RT_BASE_REQ_H
#define RT_BASE_REQ_H

#include <stdbool.h>
#include <stdint.h>
#include "runtime/base/atomic.h"
#include "runtime/base/slab.h"

struct rt_status {
    int src, tag; /* rank in the communicator, and tag, for the user */
    int64_t len;  /* bytes received */
    bool cancelled;
};

struct rt_req;
struct rt_wait_note;                /* runtime/mem/activity.h */
struct rt_req_ops {                 /* functions of a kind of request; NULL: not needed */
    const char *name;               /* for messages, such as "receive" */
    int (*start)(struct rt_req *r); /* of a persistent request */
    int (*cancel)(struct rt_req *r);
    void (*release)(struct rt_req *r);            /* nothing uses the request any more: frees the
                                                   * memory */
    void *(*owner)(const struct rt_req *r);       /* the communicator whose error handler applies */
    int (*query)(struct rt_req *r, void *status); /* RT_REQ_USER only: fills the MPI_Status of a
                                                   * complete request.  query, dispose and `cancel`
                                                   * run code of the user: they are called without
                                                   * the domain's lock and return the MPI error code
                                                   * of that code */
    int (*dispose)(struct rt_req *r);             /* called before `release` */
    /* Writes what the request waits for. */
    void (*describe)(const struct rt_req *r, struct rt_wait_note *n);
    int (*error)(const struct rt_req *r); /* of a request that has failed: the MPI error
                                           * class, with its text; NULL: the class of
                                           * `err` */
    /* Polls a pending request for some microseconds, before the general wait. */
    void (*poll)(struct rt_req *r);
    bool no_free_active; /* freeing the handle of an active operation is an error */
};

struct rt_req {
    struct rt_obj obj; /* handle 0: a request that users never see */
    uint32_t done;     /* 0: pending, 1: complete; stored last, with release */
    uint32_t flags;    /* RT_REQ_... */
    int err;           /* 0 or -RT_E...; valid when done */
    const struct rt_req_ops *ops;
    struct rt_status status;
    void (*notify)(struct rt_req *r, void *arg); /* called once by rt_req_finish(), may release r;
                                                  * or NULL */
    void *arg;
};

#define RT_REQ_PERSISTENT 1u /* the handle stays valid after completion */
#define RT_REQ_ACTIVE 2u     /* started; only with PERSISTENT */
#define RT_REQ_DETACHED 4u   /* the user has freed the handle: release on completion */
#define RT_REQ_STATIC 8u     /* shared, always complete, never released */
#define RT_REQ_USER 16u      /* a generalised request, which the user completes */
#define RT_REQ_DEVICE 32u    /* its buffer is device memory */
#define RT_REQ_CHECKED 128u  /* WEFT_CHECK watches its buffer: mpi/check */
#define RT_REQ_POLLS 256u    /* has ops->poll */
#define RT_REQ_INNER 64u     /* `arg` is the request that the user holds; this one is part of it */

static inline bool rt_req_done(const struct rt_req *r)
{
    return rt_load_acquire(&r->done) != 0; /* pairs with the release in rt_req_finish() */
}

static inline void rt_req_finish(struct rt_req *r, int err)
{
    void (*notify)(struct rt_req *, void *) = r->notify;
    r->err = err;
    rt_store_release(&r->done, 1u); /* results before done */
    if (notify)
        notify(r, r->arg);
}

#endif
