/* SPDX-License-Identifier: BSD-3-Clause */
/* Connection setup by datagrams. */
#ifndef BTL_VERBS_HANDSHAKE_H
#define BTL_VERBS_HANDSHAKE_H

#include "btl/verbs/peer.h"

/* Makes the key of this process, and a datagram port on each rail.  0; -RT_ENOMEM; -RT_ESYS,
 * logged. */
int verbs_handshake_open(struct verbs *v);
void verbs_handshake_close(struct verbs *v);
/* Makes the queue pairs and sends the first HELLO; a failure is in p->err. */
void verbs_handshake_start(struct verbs_peer *p);
/* A message has arrived on the peer's queue pair, so the peer has this process's queue pairs. */
void verbs_handshake_confirmed(struct verbs_peer *p);
void verbs_handshake_lane_up(struct verbs_peer *p); /* one more lane is connected */
int verbs_handshake_arm(struct verbs *v,
                        int rail);             /* enables events for datagrams; 0 or an errno */
int verbs_handshake_progress(struct verbs *v); /* returns the number of events */

#endif
