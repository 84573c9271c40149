/* SPDX-License-Identifier: BSD-3-Clause */
/* Flow control of unexpected messages: bounds the memory that one sender can take at a receiver.
 *
 * The receiver does the counting.  It adds up the unexpected messages of each sender, payload and
 * WM_FLOW_EACH bytes of bookkeeping a message.  When the sum exceeds the limit, the receiver sends
 * WM_FLOW_STOP.  From then on the sender announces every message, short ones too, by a rendezvous
 * request on the same connection, so order and matching stay as they are; the data follow when the
 * receive is posted.  When receives have reduced the sum to half of
 * the limit, the receiver sends WM_FLOW_GO.  Expected messages cost nothing.
 *
 * A blocking send of an eager message makes no progress, so a sender that only sends would not see
 * the stop; and a receiver that does not call MPI counts nothing, while socket buffers hold very
 * many empty messages.  So each peer has a budget of eager bytes.  When the budget is used up, the
 * sender polls that peer once, sends WM_FLOW_MARK and renews the budget.  The receiver acknowledges
 * a mark when it has read all that was sent before.  While 32 marks are not acknowledged, the
 * sender announces its messages as after a stop.
 *
 * With M = cfg.unexpected_max, S = M/32 + 1 (the budget, at most 512 KiB) plus one message, and F =
 * what the transport holds in flight (its ring or socket buffers), unexpected eager messages of one
 * sender take at most
 *     B = M + min(F, M + S) + S,
 * and a sender can have M bytes of them at a receiver that calls MPI before it must wait.  When all
 * senders together take more than 4 M, the limit of each falls from M to M/256, so n senders take
 * at most
 *     4 M + n (M/256 + min(F, M + S) + S):
 * 1.2 GB for 1000 senders over shared memory with the default, if the receiver matches none of
 * them.  Payload counts as it is; an empty message counts as WM_FLOW_EACH bytes, which is 0.6
 * to 1.2 times the memory that it takes, depending on the size of the matching tables. The default
 * has room for 100,000 short messages: programs send this number before they receive another tag,
 * and other libraries store them.
 *
 * Outside the bound: one rendezvous request for each send that has not completed, and a sender
 * may have many nonblocking sends; requests are counted but never held back, because a receive may
 * be waiting for the last of them.  Eager messages of nonblocking sends that wait for
 * room in a socket use up no budget, so those that leave before the stop arrives are outside, too.
 * Messages of a process to itself are counted and never stopped: a blocking send of a short message
 * to oneself stays buffered.  Messages of collectives are stopped like others.  Internal messages
 * marked `prompt` are not; each of their kinds has a bound of its own.
 *
 * Stop and go need no answer.  Both travel in order on the connection of the messages, so the
 * last one that arrives is right, also for a peer that leaves MPI and comes back.  Called under
 * the domain's lock. */
#ifndef WM_P2P_FLOW_H
#define WM_P2P_FLOW_H

#include "mpi/p2p/engine.h"

#define WM_STOPPED_TOLD 1u   /* by WM_FLOW_STOP */
#define WM_STOPPED_UNREAD 2u /* too many marks are not acknowledged */

/* A node with room for a short payload, its share of the matching tables, malloc's own. */
#define WM_FLOW_EACH 320

/* An eager message has been sent. */
static inline void wm_flow_sent(struct wm_peer *p, int64_t nbytes)
{
    p->budget -= (int32_t)nbytes + WM_FLOW_EACH;
}

int32_t wm_flow_budget(void); /* a whole one */

/* Renews a budget that is used up.  A user's send polls the peer, which only code outside of
 * progress may do.  Messages of collectives may be sent inside progress; the next collective call
 * then polls for them. */
void wm_flow_renew(struct wm_domain *d, struct wm_peer *p, bool coll);
static inline void wm_flow_before_send(struct wm_domain *d, struct wm_peer *p, bool coll)
{
    if (rt_unlikely(p->budget <= 0))
        wm_flow_renew(d, p, coll);
}

/* Receiver: an unexpected message of `len` bytes has been stored; its memory is given back. */
void wm_flow_stored(struct wm_domain *d, struct wm_peer *from, size_t len);
void wm_flow_freed(struct wm_domain *d, struct wm_peer *from, size_t len);

/* A WM_CONTROL of these kinds has arrived. */
void wm_flow_on(struct wm_domain *d, struct wm_peer *from, int what);

#endif
