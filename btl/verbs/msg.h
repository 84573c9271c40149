/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages by SEND and by ring. */
#ifndef BTL_VERBS_MSG_H
#define BTL_VERBS_MSG_H

#include "btl/verbs/lane.h"

int verbs_send(struct btl_peer *peer, const struct btl_hdr *h, const void *buf, size_t len);
/* Sends a control message.  0; -RT_EAGAIN: no room; -RT_EPEER. */
int verbs_send_ctl(struct verbs_peer *p, enum verbs_ctl ctl, const void *buf, size_t len);
/* A message of len bytes, with its header, has arrived by SEND in b. */
void verbs_arrived(struct verbs_lane *l, struct verbs_rbuf *b, size_t len);
/* Delivers up to max records of the peer's ring; returns their number. */
int verbs_ring_drain(struct verbs_peer *p, int max);
/* Between the two calls, records for a peer's ring are collected; the second call writes them at
 * once. */
static inline void verbs_hold(struct verbs *v) { v->holding = true; }
void verbs_release(struct verbs *v);
/* Sends an event to the peer if it sleeps and has not been sent one. */
void verbs_wake_step(struct verbs_peer *p);
/* Asks the peer for an event after its next write into this process's ring.  True: the peer has
 * been notified. */
bool verbs_arm(struct verbs_peer *p);
void verbs_event_in(struct verbs_lane *l); /* an event of the peer has arrived */
/* Whether the peer has taken all messages by SEND, as far as this process knows. */
bool verbs_all_taken(struct verbs_peer *p);
/* Whether credits must be returned to the peer; returns them. */
bool verbs_credits_due(const struct verbs_peer *p);
void verbs_credits_step(struct verbs_peer *p);
/* Whether the offer or the acceptance of a ring waits for room; sends it. */
bool verbs_ring_due(const struct verbs_peer *p);
void verbs_ring_step(struct verbs_peer *p);

#endif
