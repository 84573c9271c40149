/* SPDX-License-Identifier: BSD-3-Clause */
/* The arrival of messages. */
#ifndef WM_P2P_ARRIVE_H
#define WM_P2P_ARRIVE_H

#include "mpi/p2p/domain.h"

/* The transports' upcall: a message has arrived.  Under the domain's lock. */
void wm_on_recv(void *arg, struct btl_peer *from, const struct btl_hdr *h, const void *data,
                size_t len);

#endif
