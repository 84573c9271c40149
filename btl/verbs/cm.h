/* SPDX-License-Identifier: BSD-3-Clause */
/* Lanes of rails that connect by rdma_cm.  cm_none.c takes the place of cm.c in a library built
 * without the headers of rdma_cm. */
#ifndef BTL_VERBS_CM_H
#define BTL_VERBS_CM_H

#include "btl/verbs/lane.h"

/* Whether the queue pairs of this rail are connected by rdma_cm. */
bool verbs_cm_wanted(const struct rt_ib_rail *ib);
/* 0, also if no rail uses rdma_cm; -RT_ENOTSUP, -RT_ESYS: logged; -RT_ENOMEM. */
int verbs_cm_open(struct verbs *v);
void verbs_cm_close(struct verbs *v);
int verbs_cm_fd(const struct verbs *v); /* readable when there are events; -1: no rail uses
                                         * rdma_cm */
void verbs_cm_lanes_close(struct verbs_peer *p);
int verbs_cm_progress(struct verbs *v); /* returns the number of events */

#endif
