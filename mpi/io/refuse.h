/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective access whose arguments the binding of one rank refuses. */
#ifndef WM_IO_REFUSE_H
#define WM_IO_REFUSE_H

#include "mpi/core/file.h"

enum { WM_REFUSE_WRITE = 1, WM_REFUSE_ORDERED = 2 };

/* Takes part in the agreement of a blocking collective access, so that the other ranks do not wait
 * for this rank: they get the class of `err`.  `f` may be NULL.  Returns err. */
int wm_io_refuse(struct wm_file *f, unsigned flags, int err);

#endif
