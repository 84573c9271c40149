/* SPDX-License-Identifier: BSD-3-Clause */
/* Cached attributes of communicators, datatypes and windows (MPI-5.0 section 7.7).  An object holds
 * `struct wm_attrs *`, NULL while it has no attributes. */
#ifndef WM_BASE_ATTR_H
#define WM_BASE_ATTR_H

#include "mpi/base/mpi_int.h"

struct wm_attrs;
enum wm_attr_kind { WM_ATTR_COMM, WM_ATTR_TYPE, WM_ATTR_WIN };

/* Copies attributes with their copy functions, in the order they were set.  If a copy function
 * fails, the copies made so far are deleted and the function's error code is returned. */
int wm_attrs_copy(struct wm_attrs *from, void *from_handle, struct wm_attrs **to, void *to_handle);
/* Calls the delete functions, last set first, and frees the list.  Stops at the first function that
 * fails and returns its error code. */
int wm_attrs_delete_all(struct wm_attrs **attrs, void *handle);

/* Keys of attributes.  `copy` and `del` are the user's functions, or the values of the ABI that
 * stand for the predefined ones.  These and the next functions return MPI_SUCCESS or what wm_err()
 * returned. */
int wm_keyval_create(enum wm_attr_kind kind, uintptr_t copy, uintptr_t del, int *keyval,
                     void *extra);
int wm_keyval_free(enum wm_attr_kind kind, int *keyval);
/* For a key that is not in use yet: sets the language (MPIX_ATTR_...) of its functions and of the
 * values they return, and the function that frees `extra`.  That function is called under a lock
 * and must not call MPI. */
int wm_keyval_set_x(int keyval, int lang, MPIX_Destructor_function *destroy);
/* The language of the values that this thread passes and gets in calls about one key, until the
 * next wm_attr_set_language(); C for all other keys. */
void wm_attr_set_language(int keyval, int lang);
int wm_attr_language(int keyval);
/* One attribute of an object. */
int wm_attr_set(enum wm_attr_kind kind, struct wm_attrs **attrs, void *handle, int keyval,
                void *value);
int wm_attr_get(enum wm_attr_kind kind, struct wm_attrs *attrs, int keyval, void *value, int *flag);
int wm_attr_delete(enum wm_attr_kind kind, struct wm_attrs **attrs, void *handle, int keyval);

#endif
