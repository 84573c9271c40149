/* SPDX-License-Identifier: BSD-3-Clause */
/* Revocation of communicators.  Under the domain's lock. */
#ifndef WM_FT_REVOKE_H
#define WM_FT_REVOKE_H

#include "mpi/ft/ft.h"

/* Calls on `c` fail from now on, in all its processes.  0, -RT_ENOMEM. */
int wm_ft_revoke(struct wm_comm *c);
/* Ends the calls on `c` in this process alone, also those that no request of the user is for. */
void wm_ft_end_calls(struct wm_comm *c);
/* A new communicator, which another process may have revoked already. */
void wm_ft_created(struct wm_comm *c);

void wm_ft_on_revoke(struct wm_domain *d, const struct wm_ft_head *h, const void *data, size_t len);
void wm_ft_revoke_deaths(struct wm_domain *d); /* after deaths */

#endif
