/* SPDX-License-Identifier: BSD-3-Clause */
/* Type signatures (MPI-5.0 section 3.3.1): sequences of basic datatypes, as hashes that do not
 * depend on how a datatype was made.  No state; any thread. */
#ifndef WM_DATATYPE_SIGNATURE_H
#define WM_DATATYPE_SIGNATURE_H

#include "mpi/datatype/type.h"

/* Of `count` elements; 0: MPI_PACKED, which matches any signature. */
uint64_t wm_sig_hash(const struct wm_type *t, int64_t count);

/* The signature of a message in WM_SIG_BITS bits: either the predefined datatype of all its data,
 * or a part of the hash.  0: unknown, or MPI_PACKED. */
#define WM_SIG_BITS 24
uint32_t wm_sig_brief(const struct wm_type *t, int64_t count);
/* Whether a message of `nbytes` with this signature is the beginning of `count` elements of t. */
bool wm_sig_brief_matches(uint32_t sig, int64_t nbytes, const struct wm_type *t, int64_t count);
/* Writes "4 MPI_INT", or "36 bytes of several datatypes". */
void wm_sig_brief_text(uint32_t sig, int64_t nbytes, char *buf, size_t len);

/* The datatype that has this layout, or NULL.  Slow. */
const struct wm_type *wm_type_of_layout(const struct rt_layout *l);

#endif
