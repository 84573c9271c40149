/* SPDX-License-Identifier: BSD-3-Clause */
/* Names and sizes that a user has written. */
#ifndef COLL_NAMES_H
#define COLL_NAMES_H

#include "coll/coll.h"

/* Look up names and sizes that a user wrote.  `where` is for the error message, which gives the
 * valid names.  -RT_EINVAL or NULL: logged. */
int coll_kind_find(const char *where, const char *name);
const struct coll_alg *coll_alg_wanted(const char *where, enum coll_kind kind, const char *name);
int coll_bytes_parse(const char *where, const char *text, int64_t *out); /* NULL: not logged */

#endif
