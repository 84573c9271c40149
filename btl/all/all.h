/* SPDX-License-Identifier: BSD-3-Clause */
/* The transports of this library. */
#ifndef BTL_ALL_ALL_H
#define BTL_ALL_ALL_H

#include "btl/btl.h"

extern const struct btl_ops *const btl_all[]; /* NULL-terminated, best first */
/* NULL: no transport has this name. */
const struct btl_ops *btl_find(const char *name);
/* Length of a pair region, for rt_node_open(), which is called before open(). */
size_t btl_node_pair_nbytes(void);

#endif
