/* SPDX-License-Identifier: BSD-3-Clause */
/* The choice between put and get for large messages.  Under the domain's lock. */
#ifndef WM_P2P_CHOOSE_H
#define WM_P2P_CHOOSE_H

#include "mpi/p2p/domain.h"

/* A message of this length starts: which way it goes.  *counts: wm_choice_end() must be called when
 * it has arrived, or failed. */
enum wm_way wm_choice_begin(struct wm_domain *d, int64_t len, bool *counts);
void wm_choice_end(struct wm_domain *d, int64_t len, bool failed);
/* Whether put alone has won here: a sender expects that the receiver has chosen alike, and a
 * receiver reports it. */
bool wm_choice_put_alone(struct wm_domain *d);
/* The same, without a look at how old the decision is. */
static inline bool wm_choice_is_put(const struct wm_domain *d)
{
    return d->choice.decided && d->choice.way == WM_WAY_PUT;
}

#endif
