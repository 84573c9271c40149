/* SPDX-License-Identifier: BSD-3-Clause */
/* Timers: connection attempts, unauthenticated connections, lost peers. */
#ifndef BTL_TCP_TIMERS_H
#define BTL_TCP_TIMERS_H

#include "btl/tcp/tcp.h"

void tcp_timers(struct btl_tcp *b);         /* handles the timers that are due */
int tcp_timers_us(const struct btl_tcp *b); /* microseconds until the next timer is due */

#endif
