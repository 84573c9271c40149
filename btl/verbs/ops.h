/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs transport for the table of transports; also there, and never opens, in a library that
 * was built without the headers of verbs. */
#ifndef BTL_VERBS_OPS_H
#define BTL_VERBS_OPS_H

#include "btl/btl.h"

extern const struct btl_ops btl_verbs_ops;

#endif
