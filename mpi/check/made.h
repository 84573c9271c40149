/* SPDX-License-Identifier: BSD-3-Clause */
/* WEFT_CHECK: which call of the program has made an object.  Any thread. */
#ifndef WM_CHECK_MADE_H
#define WM_CHECK_MADE_H

#include <stdbool.h>
#include <stddef.h>

/* In the call that makes the object, or a further handle of it; NULL: none. */
void wm_check_made(const void *obj);
/* The object has no handle any more.  Needed if the library makes such objects for itself, too. */
void wm_check_unmade(const void *obj);
bool wm_check_is_made(const void *obj);
/* "; the first is from MPI_Type_vector at ring+0x1234", or "" if that is unknown. */
const char *wm_check_made_by(const void *obj, char *buf, size_t len);

#endif
