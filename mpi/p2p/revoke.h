/* SPDX-License-Identifier: BSD-3-Clause */
/* The messages of a communicator that is revoked.  Under the domain's lock. */
#ifndef WM_P2P_REVOKE_H
#define WM_P2P_REVOKE_H

#include "mpi/p2p/domain.h"

/* From now on, calls on `c` fail with -RT_EREVOKED, also those in progress; those whose data are
 * moving at the moment, at their end. */
void wm_revoke_messages(struct wm_comm *c);
/* The context of a communicator that is freed with messages left (wm_failed_taints()): it is never
 * used again.  Drops its messages, also those that come later. */
void wm_revoke_ctx(struct wm_domain *d, uint32_t ctx);

#endif
