/* SPDX-License-Identifier: BSD-3-Clause */
/* The message engine: matching, eager, rendezvous and pipelines over the transports (design:
 * docs/ARCHITECTURE.md). All calls take ranks in a communicator and layouts; bodies of chapter 3
 * and the collectives' team are its users. Called under the domain's lock unless said otherwise. */
#ifndef WM_P2P_P2P_H
#define WM_P2P_P2P_H

#include "mpi/base/comm.h"
#include "mpi/p2p/domain.h"
#include "runtime/base/req.h"
#include "runtime/layout/layout.h"

enum wm_mode { WM_STANDARD, WM_SYNCHRONOUS, WM_READY, WM_BUFFERED };

extern struct rt_slab wm_request_slab;

/* What a point-to-point call names; layout must live until completion (callers hold the datatype).
 */
struct wm_msg {
    const void *buf;
    int64_t count;
    const struct rt_layout *layout;
    struct wm_comm *comm;
    int peer;       /* rank, MPI_ANY_SOURCE for receives; MPI_PROC_NULL is handled by the engine */
    int tag;        /* MPI_ANY_TAG for receives */
    bool coll;      /* collective context */
    bool on_device; /* buf has just been found to be device memory; false: not looked at */
    bool prompt;    /* internal and few: short ones leave eagerly even to a peer that has asked to
                       stop (flow.h), because this process may not poll again before the receiver
                       needs the data */
};

/* Start; *out is a request to wait for and release, with a handle in wm_request_slab. */
int wm_p2p_isend(const struct wm_msg *m, enum wm_mode mode, struct rt_req **out);
int wm_p2p_irecv(const struct wm_msg *m, struct rt_req **out);
/* In place of a message of a collective, whose data are void: the receive ends with -RT_EREMOTE. */
int wm_p2p_tell_void(const struct wm_msg *m);
/* Completes a request; gives one back that the user has freed. */
void wm_req_end(struct rt_req *r, int err);
/* Give a completed (or detached) request back. */
void wm_req_release(struct rt_req *r);
static inline MPI_Request wm_req_handle(const struct rt_req *r)
{
    return (MPI_Request)(uintptr_t)r->obj.handle;
}
/* NULL for MPI_REQUEST_NULL and for wrong handles. */
static inline struct rt_req *wm_req_get(MPI_Request h)
{
    return rt_slab_get(&wm_request_slab, (uintptr_t)h);
}
/* Allocates a request of `nbytes` <= WM_REQ_MAX from the request slab, for other kinds
 * (generalised, collective tasks). */
#define WM_REQ_MAX 448
void *wm_req_alloc(const struct rt_req_ops *ops);
/* Always complete requests, never released: of a small send (MPI_Isend of an eager message), and of
 * a receive from MPI_PROC_NULL. */
extern struct rt_req *wm_req_complete, *wm_req_proc_null;
int wm_req_init(void);
void wm_req_fini(void);

/* For bodies: waits for r, fills the status, gives r back; returns MPI_SUCCESS or what wm_err()
 * returned. */
int wm_req_wait(struct wm_domain *d, struct rt_req *r, MPI_Status *status);
/* The MPI error of a completed request, with its text. */
int wm_req_error(const struct rt_req *r);
/* Buffered send: completes at once, or -RT_EBUFFER when the attached buffer has no room. */
int wm_p2p_bsend(const struct wm_msg *m, struct wm_type *type);

#endif
