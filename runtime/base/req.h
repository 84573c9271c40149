/* SPDX-License-Identifier: BSD-3-Clause */
/* The one request base.  Point-to-point requests, collective tasks, generalised requests and I/O
 * embed it as their first member.  The owner completes it exactly once with rt_req_finish(),
 * under the domain's lock; any thread may read `done`. */
#ifndef RT_BASE_REQ_H
#define RT_BASE_REQ_H

#include <stdbool.h>
#include <stdint.h>
#include "runtime/base/atomic.h"
#include "runtime/base/slab.h"

struct rt_status {
    int src, tag; /* rank in the communicator and tag, as the user sees them */
    int64_t len;  /* bytes received */
    bool cancelled;
};

struct rt_req;
struct rt_req_ops {                 /* what differs between kinds of request; NULL: no such thing */
    const char *name;               /* "receive", for messages */
    int (*start)(struct rt_req *r); /* persistent: begin again */
    int (*cancel)(struct rt_req *r);
    void (*release)(struct rt_req *r);      /* last use is over: give the memory back */
    void *(*owner)(const struct rt_req *r); /* communicator whose error handler applies */
    /* Of RT_REQ_USER: these, and `cancel` too, run the user's code, so they are called without the
     * domain's lock, and they return what that code returned, an MPI error code. */
    int (*query)(struct rt_req *r, void *status); /* fills the MPI_Status of a complete request */
    int (*dispose)(struct rt_req *r);             /* before `release` */
    bool no_free_active; /* freeing the handle of a started operation is an error */
};

struct rt_req {
    struct rt_obj obj; /* handle 0 for requests that users never see */
    uint32_t done;     /* 0 pending, 1 complete; release-stored last */
    uint32_t flags;    /* RT_REQ_... */
    int err;           /* 0 or -RT_E...; valid once done */
    const struct rt_req_ops *ops;
    struct rt_status status;
    void (*notify)(struct rt_req *r, void *arg); /* called once by rt_req_finish(), may
                                                  * release r; or NULL */
    void *arg;
};

#define RT_REQ_PERSISTENT 1u /* completion leaves the handle alive */
#define RT_REQ_ACTIVE 2u     /* started; only meaningful with PERSISTENT */
#define RT_REQ_DETACHED 4u   /* the user freed the handle: release on completion */
#define RT_REQ_STATIC 8u     /* shared, always complete, never released */
#define RT_REQ_USER 16u      /* the user completes it: a generalised request */
#define RT_REQ_DEVICE 32u    /* its buffer is device memory */

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
