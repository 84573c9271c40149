/* SPDX-License-Identifier: BSD-3-Clause */
/* Persistent point-to-point requests. */
#ifndef WM_P2P_PERSISTENT_H
#define WM_P2P_PERSISTENT_H

struct rt_req;

/* The running send or receive of a persistent request, NULL: none; any other request itself. */
const struct rt_req *wm_persistent_inner(const struct rt_req *r);

#endif
