/* SPDX-License-Identifier: BSD-3-Clause */
/* Lanes: reliable queue pairs to a peer, and the requests posted to them. */
#ifndef BTL_VERBS_LANE_H
#define BTL_VERBS_LANE_H

#include "btl/verbs/peer.h"

/* wr_id of a receive: the address of its verbs_rbuf.  Of a send: bit 0, a lane's id in bits 1 to
 * 31, and in the high half how many requests the lane had posted with it. */
#define VERBS_ID_LANE 1u

/* Whether any rail of `a` can reach any rail of `b`. */
bool verbs_rails_reach(const struct verbs_addr *a, const struct verbs_addr *b);
/* Makes the lanes to a peer.  0; -RT_EUNREACH: no rail reaches it; -RT_ENOMEM; -RT_ESYS, logged. */
int verbs_lanes_make(struct verbs_peer *p);
/* Connects the lanes that do not use rdma_cm.  0; -RT_EPEER: the connection is marked as failed. */
int verbs_lanes_connect(struct verbs_peer *p, const struct verbs_qp_info *theirs);
int verbs_lane_reset(struct verbs_lane *l);  /* to the state after creation; 0 or -RT_ESYS */
void verbs_lanes_stop(struct verbs_peer *p); /* to the error state, which flushes all requests */
void verbs_lanes_free(struct verbs_peer *p);
/* The lane of a queue pair; NULL: none. */
struct verbs_lane *verbs_lane_of(struct verbs *v, const struct verbs_rail *r, uint32_t qpn);
/* Posts a work request; `mark` not NULL: with a completion.  -RT_EAGAIN: the queue is full;
 * -RT_EPEER: the connection is marked as failed. */
int verbs_lane_post(struct verbs_lane *l, struct ibv_send_wr *wr, const struct verbs_mark *mark);
/* Posts an empty write whose completion shows that all earlier requests are done. */
void verbs_lane_flush(struct verbs_lane *l);
bool verbs_lane_has_room(const struct verbs_lane *l, uint32_t n);

#endif
