/* SPDX-License-Identifier: BSD-3-Clause */
/* Cached attributes of communicators, datatypes and windows (MPI-5.0 section 7.7).  An object holds
 * `struct wm_attrs *`, NULL while it has no attributes. */
#ifndef WM_CORE_ATTR_H
#define WM_CORE_ATTR_H

#include "mpi/core/mpi_int.h"

struct wm_attrs;
enum wm_attr_kind { WM_ATTR_COMM, WM_ATTR_TYPE, WM_ATTR_WIN };

/* Copies attributes with their copy functions, in the order they were set.  If a copy function
 * fails, the copies made so far are deleted and the function's error code is returned. */
int wm_attrs_copy(struct wm_attrs *from, void *from_handle, struct wm_attrs **to, void *to_handle);
/* Calls the delete functions, last set first, and frees the list.  Stops at the first function that
 * fails. */
int wm_attrs_delete_all(struct wm_attrs **attrs, void *handle);

#endif
