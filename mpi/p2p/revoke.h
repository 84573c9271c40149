/* SPDX-License-Identifier: BSD-3-Clause */
/* The messages of a communicator that is revoked.  Under the domain's lock. */
#ifndef WM_P2P_REVOKE_H
#define WM_P2P_REVOKE_H

#include "mpi/p2p/domain.h"

/* From now on, calls on `c` fail with -RT_EREVOKED, also those in progress; those whose data are
 * moving at the moment, at their end.  0 or -RT_ENOMEM: nothing has changed. */
int wm_revoke_messages(struct wm_comm *c);

#endif
