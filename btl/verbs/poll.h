/* SPDX-License-Identifier: BSD-3-Clause */
/* Completions. */
#ifndef BTL_VERBS_POLL_H
#define BTL_VERBS_POLL_H

#include "btl/verbs/rail.h"

int verbs_rail_poll(struct verbs_rail *r); /* returns the number of completions handled */

#endif
