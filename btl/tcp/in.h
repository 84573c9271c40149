/* SPDX-License-Identifier: BSD-3-Clause */
/* Receiving frames on main connections. */
#ifndef BTL_TCP_IN_H
#define BTL_TCP_IN_H

#include "btl/tcp/conn.h"

int tcp_main_read(struct tcp_conn *c); /* returns the number of events */

#endif
