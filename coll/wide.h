/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums and products of 16-bit floats as floats. */
#ifndef COLL_WIDE_H
#define COLL_WIDE_H

#include "coll/coll.h"

/* Whether the call's messages carry floats in place of 16-bit floats, on every rank; such a call
 * must be staged. */
bool coll_is_wide(const struct coll_task *k);
/* Starts such a call.  0 or -RT_E...: not started. */
int coll_start_wide(struct coll_task *k);

#endif
