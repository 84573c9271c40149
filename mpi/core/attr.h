/* SPDX-License-Identifier: BSD-3-Clause */
/* Cached attributes of communicators, datatypes and windows (MPI-5.0 section 7.7).  An object holds
 * `struct wm_attrs *`, NULL while it has none. */
#ifndef WM_CORE_ATTR_H
#define WM_CORE_ATTR_H

#include "mpi/core/mpi_int.h"

struct wm_attrs;
enum wm_attr_kind { WM_ATTR_COMM, WM_ATTR_TYPE, WM_ATTR_WIN };

/* Copies attributes by their copy functions, in the order they were set; on an error of a copy
 * function what was copied is deleted again and the function's code is returned. */
int wm_attrs_copy(struct wm_attrs *from, void *from_handle, struct wm_attrs **to, void *to_handle);
/* Calls the delete functions, last set first, and releases the list.  Stops at the first that
 * fails. */
int wm_attrs_delete_all(struct wm_attrs **attrs, void *handle);

#endif
