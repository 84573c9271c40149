/* SPDX-License-Identifier: BSD-3-Clause */
/* Scans. */
#ifndef COLL_ALGO_SCAN_H
#define COLL_ALGO_SCAN_H

#include "coll/sched.h"

/* The scan or exscan `a` by recursive doubling. */
void coll_build_scan(struct coll_sched *s, const struct coll_team *t, const struct coll_args *a);

#endif
