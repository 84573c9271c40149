/* SPDX-License-Identifier: BSD-3-Clause */
/* WEFT_CHECK: the variable in which a buffer lies, by the program's debug information. */
#ifndef WM_CHECK_VARIABLE_H
#define WM_CHECK_VARIABLE_H

#include "runtime/base/frames.h"
#include "runtime/layout/layout.h"

/* Ends the job if the buffer begins in a variable of the frame `f` and the variable is smaller, or
 * has elements of another kind or size than the datatype; warns if what a pointer of the caller to
 * the buffer points to has.  f: of rt_frame_end().  Nothing is compared without libdw
 * or debug information, nor in a variable whose place or size depends on others. */
void check_variable(const struct rt_frame *f, const void *buf, int64_t count,
                    const struct rt_layout *l);

#endif
