/* SPDX-License-Identifier: BSD-3-Clause */
/* Sending frames on main connections. */
#ifndef BTL_TCP_OUT_H
#define BTL_TCP_OUT_H

#include "btl/tcp/conn.h"

/* Sends or queues one frame; `more` is placed between header and payload.  always: the queue may
 * exceed its limit, for frames that no caller would repeat.  0; -RT_EAGAIN: the queue is full, or a
 * connection has just ended; -RT_EPEER: the peer is lost; -RT_ENOMEM. */
int tcp_frame_send(struct tcp_peer *p, enum tcp_kind kind, const struct btl_hdr *h,
                   const void *more, size_t more_len, const void *buf, size_t len, bool always);
int tcp_out_flush(struct tcp_peer *p); /* returns the number of events */
/* No further long frame follows for now: sends the end of the last one. */
void tcp_burst_end(struct btl_tcp *b);
/* Sends the frames that were collected during this pass. */
void tcp_uncork(struct btl_tcp *b);

#endif
