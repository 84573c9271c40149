/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffered sends.  Under the domain's lock. */
#ifndef WM_P2P_BUFFERED_H
#define WM_P2P_BUFFERED_H

#include "mpi/p2p/p2p.h"

/* Buffered send: the user's buffer is free on return.  0 or -RT_E...; -RT_EBUFFER when the attached
 * buffer has no room. */
int wm_p2p_bsend(const struct wm_msg *m, struct wm_type *type);

#endif
