/* SPDX-License-Identifier: BSD-3-Clause */
/* Connecting: attempts, lanes, and connections that come up or break. */
#ifndef BTL_TCP_CONNECT_H
#define BTL_TCP_CONNECT_H

#include "btl/tcp/conn.h"

/* Starts to connect to p, or tries the next route. */
void tcp_connect(struct tcp_peer *p);
/* Opens lanes to p, or asks p to open them; does nothing if there are lanes. */
void tcp_lanes_open(struct tcp_peer *p);
/* An attempt has failed: tries the next route, or the first one again after RETRY_NS. */
void tcp_attempt_failed(struct tcp_conn *c, int err);
/* The listener has declared this process lost before: it refuses its connections from then on. */
void tcp_given_up(struct tcp_conn *c);
/* Both sides are authenticated: c becomes p's main connection or a lane.  connector: this
 * process has made c. */
void tcp_conn_up(struct tcp_conn *c, struct tcp_peer *p, bool connector);
/* A connection that was up has ended: err is errno; 0: the peer has closed it. */
void tcp_conn_broken(struct tcp_conn *c, int err);

#endif
