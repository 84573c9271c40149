/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of a file. */
#ifndef WM_IO_OPEN_H
#define WM_IO_OPEN_H

#include "mpi/core/file.h"

/* References, under the lock.  The last one frees the object; the descriptor has been closed. */
void wm_file_ref(struct wm_file *f);
void wm_file_unref(struct wm_file *f);

#endif
