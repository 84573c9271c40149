/* SPDX-License-Identifier: BSD-3-Clause */
/* Layouts as bytes, to send one to a process that has no datatype for it: one-sided communication.
 * Both processes have the same byte order.  Pure functions: any thread. */
#ifndef RT_LAYOUT_SERIALIZE_H
#define RT_LAYOUT_SERIALIZE_H

#include "runtime/layout/layout.h"

/* Number of bytes that rt_layout_serialize() writes. */
size_t rt_layout_serial_nbytes(const struct rt_layout *l);
/* Writes the layout; the address `out` is a multiple of 8. */
void rt_layout_serialize(const struct rt_layout *l, void *out);
/* Fills caller's storage, to be released with rt_layout_fini().  -RT_ENOMEM; -RT_EINVAL: the bytes
 * are not a whole layout. */
int rt_layout_deserialize(struct rt_layout *l, const void *in, size_t nbytes);

#endif
