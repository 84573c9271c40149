/* SPDX-License-Identifier: BSD-3-Clause */
/* What this build implements, as data: `weft_info --api` prints it.  Needs nothing but itself, so
 * that a program links it without the library. */
#ifndef WM_API_TABLE_H
#define WM_API_TABLE_H

#include <stdbool.h>

struct wm_api_entry {
    const char *name;    /* "MPI_Comm_dup" */
    const char *chapter; /* "7 Groups/Contexts/Communicators/Caching", of MPI-5.0 */
    bool implemented;    /* false: the call raises MPI_ERR_UNSUPPORTED_OPERATION */
};

/* All procedures of the standard in the order of the table; *n of them. */
const struct wm_api_entry *wm_api_entries(int *n);

#endif
