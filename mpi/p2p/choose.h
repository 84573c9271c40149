/* SPDX-License-Identifier: BSD-3-Clause */
/* The choice between put and get for large messages.  Under the domain's lock. */
#ifndef WM_P2P_CHOOSE_H
#define WM_P2P_CHOOSE_H

#include "mpi/p2p/domain.h"

/* A message of this length starts: which way it goes.  *counts: wm_choice_end() must be called when
 * it has arrived, or failed. */
enum wm_way wm_choice_begin(struct wm_domain *d, int64_t len, bool *counts);
void wm_choice_end(struct wm_domain *d, int64_t len, bool failed);
/* For a sender: put alone has won here, so the receiver will have chosen alike. */
bool wm_choice_put_alone(struct wm_domain *d);

#endif
