/* SPDX-License-Identifier: BSD-3-Clause */
/* WEFT_CHECK: the buffers of collective calls. */
#ifndef WM_COLL_CHECK_BUFS_H
#define WM_COLL_CHECK_BUFS_H

#include "mpi/coll/call.h"

/* At the start of a call: whether its buffers can be what it says.  Ends the job if not. */
void check_bufs_look(const struct wm_call *call);
/* The call uses its buffers until check_bufs_end().  The program must not change them if `r` is a
 * request of the program, which then has RT_REQ_CHECKED.  Under the domain's lock. */
void check_bufs_begin(const struct wm_comm *c, const struct coll_args *a, struct rt_req *r);
void check_bufs_end(struct rt_req *r);

#endif
