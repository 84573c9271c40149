/* SPDX-License-Identifier: BSD-3-Clause */
/* Arguments of a poisoned call in place of buffers for which there is no memory.  Algorithms in
 * shared memory access the buffers of poisoned calls, too. */
#ifndef COLL_BLANK_H
#define COLL_BLANK_H

#include "coll/coll.h"

/* Bytes that the layouts and vectors of coll_blank() need: bounded by the number of ranks. */
size_t coll_blank_nbytes(const struct coll_team *t, const struct coll_args *a);
/* Replaces buffers and layouts: with the same signatures, all elements lie in a small buffer of the
 * process.  `room` belongs to the caller and must live as long as the call. */
void coll_blank(const struct coll_team *t, struct coll_args *a, void *room);
/* The address of that buffer, for memory that only steps of a poisoned schedule use. */
extern char coll_nowhere[];

#endif
