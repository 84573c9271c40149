/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs transport for the table of transports.  A library built without the headers of verbs
 * has it, too, but there it never opens. */
#ifndef BTL_VERBS_OPS_H
#define BTL_VERBS_OPS_H

#include "btl/btl.h"

extern const struct btl_ops btl_verbs_ops;

#endif
