/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of WEFT_CHECK in MPI_Finalize. */
#ifndef WM_COLL_CHECK_END_H
#define WM_COLL_CHECK_END_H

#include "mpi/p2p/domain.h"

/* Reports what the world model leaves over in this process; under the lock. */
void check_report_leaks(struct wm_domain *d);
/* Receives whose requests the user has freed, before this process makes progress. */
void check_report_freed(void);
/* The messages that no receive has taken, once. */
void check_report_messages(struct wm_domain *d);

#endif
