/* SPDX-License-Identifier: BSD-3-Clause */
/* WEFT_CHECK: whether memory that the program names can be what it says. */
#ifndef WM_CHECK_MEMORY_H
#define WM_CHECK_MEMORY_H

#include <stdbool.h>
#include "runtime/layout/layout.h"

/* Ends the job if the buffer begins in a stack frame of the program and leaves it; if no memory is
 * mapped at its first or last byte; or if it is `written` and its entries overlap. */
void check_memory(const void *buf, int64_t count, const struct rt_layout *l, bool written);
/* Why memory of the program is none, or none any more: not mapped, freed, or in the frame of a
 * function that has returned; NULL: nothing is wrong with it. */
const char *check_memory_gone(const void *base, size_t nbytes);

#endif
