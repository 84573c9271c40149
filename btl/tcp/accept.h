/* SPDX-License-Identifier: BSD-3-Clause */
/* The listener, and connections in setup. */
#ifndef BTL_TCP_ACCEPT_H
#define BTL_TCP_ACCEPT_H

#include "btl/tcp/conn.h"

int tcp_listen(struct btl_tcp *b); /* 0 or -RT_ESYS, logged */
/* Closes an unauthenticated connection, and logs the reason. */
void tcp_reject(struct tcp_conn *c, const char *what);
/* Handles events of the listener and of connections in setup; returns their number.  Makes no
 * upward calls. */
int tcp_half_pass(struct btl_tcp *b, int wait_ms);
/* Starts to connect to a peer, and waits a short time for the connection, so that the first message
 * is sent even if the process then does not call MPI. */
void tcp_connect_first(struct tcp_peer *p);

#endif
