/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of a peer, orderly or not. */
#ifndef BTL_TCP_DISCONNECT_H
#define BTL_TCP_DISCONNECT_H

#include "btl/tcp/conn.h"

/* Marks the peer as lost, logs the reason, and notifies the engine. */
void tcp_peer_lost(struct tcp_peer *p, const char *why);
/* The peer has sent its goodbye, and its connection has ended. */
void tcp_peer_left(struct tcp_peer *p);
void tcp_peer_notify(struct tcp_peer *p); /* notifies the engine once that the peer is lost */
/* A connection has ended without a goodbye: starts the timer after which the peer is lost. */
void tcp_peer_losing(struct tcp_peer *p, int err);

#endif
