/* SPDX-License-Identifier: BSD-3-Clause */
/* Receiving: posted receives, delivery, unexpected messages.  Under the domain's lock. */
#ifndef WM_P2P_RECV_H
#define WM_P2P_RECV_H

#include "mpi/p2p/request.h"

/* Starts a receive; *out is a request to wait for and release, with a handle in wm_request_slab.  0
 * or -RT_E... */
int wm_p2p_irecv(const struct wm_msg *m, struct rt_req **out);

/* A message that a receive matches, now or later, has arrived. */
void wm_on_message(struct wm_domain *d, struct btl_peer *from, const struct btl_hdr *h,
                   const void *data, size_t len);
/* The process at the other end, which may have sent its first message. */
struct wm_peer *wm_sender(struct wm_domain *d, struct btl_peer *bp);
/* Delivers a message to a matching receive; from storage or straight from the transport. */
void wm_deliver(struct wm_preq *q, struct wm_peer *from, uint32_t kind, const struct wm_key *k,
                const void *data, size_t len);
void wm_stored_free(struct wm_domain *d, struct wm_stored *s);
/* Whether a receive waits for this peer, by its rank. */
bool wm_recv_names_peer(const struct wm_domain *d, const struct wm_peer *p);
/* The sender of a receive whose request the user has freed and whose message has not come: one that
 * may still send, else one that is in MPI_Finalize; NULL: no such receive, or no sender is left. */
struct wm_peer *wm_recv_freed(const struct wm_domain *d);
/* Ends the receives that wait for a lost peer; not `all`: without those of collectives. */
void wm_recv_fail_peer(struct wm_domain *d, const struct wm_peer *p, int err, bool all);

/* Resolves the buffer of a new receive, unless it is host memory; mem: as wm_msg.mem.  0 or
 * -RT_E... */
static inline int wm_dev_resolve(struct wm_preq *q, const struct wm_mem *mem)
{
    struct wm_mem found;
    if (rt_likely(!mem))
        mem = wm_resolve_now(q->buf, q->count, q->layout, q->nbytes, &found);
    return rt_unlikely(mem && mem->kind != WM_MEMORY_HOST) ? wm_dev_open(q, mem) : 0;
}

#endif
