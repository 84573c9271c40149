/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective access whose arguments the binding of one rank refuses. */
#ifndef WM_IO_REFUSE_H
#define WM_IO_REFUSE_H

#include "mpi/core/file.h"

/* LATER: a nonblocking call, or the first half of a split one. */
enum { WM_REFUSE_WRITE = 1, WM_REFUSE_ORDERED = 2, WM_REFUSE_LATER = 4 };

/* Takes part in the agreement of a collective access, so that the other ranks do not wait for this
 * rank: they get the class of `err`.  `f` may be NULL.  Returns err. */
int wm_io_refuse(struct wm_file *f, unsigned flags, int err);

#endif
