/* SPDX-License-Identifier: BSD-3-Clause */
/* The transport of a process to itself. */
#ifndef BTL_SELF_SELF_H
#define BTL_SELF_SELF_H

#include "btl/btl.h"

extern const struct btl_ops btl_self_ops;

#endif
