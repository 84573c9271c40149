/* SPDX-License-Identifier: BSD-3-Clause */
/* Between the files of coll/: choice and start of algorithms. */
#ifndef COLL_START_H
#define COLL_START_H

#include "coll/coll.h"

/* Starts the task anew with the best algorithm that needs no shared memory; the same on every rank.
 */
int coll_start_messages(struct coll_task *k);
/* The same where coll_is_wide() is true: wide.c. */
int coll_start_wide(struct coll_task *k);
/* The algorithm for a team between two groups. */
const struct coll_alg *coll_inter_alg(enum coll_kind kind);
/* The plans of devices that have names (gpu/algs.c). */
extern const struct coll_alg coll_gpu_algs[];
/* coll_select() for a team that has, or pretends to lack, shared memory. */
const struct coll_alg *coll_choose(const struct coll_team *t, const struct coll_args *a,
                                   bool has_node, const char **why);
/* Whether that is what WEFT_COLL says, which is alike on all ranks: then buffers of any memory go
 * this way. */
bool coll_is_forced(const struct coll_team *t, const struct coll_args *a, bool has_node);
/* Whether WEFT_COLL forces an algorithm over messages, which all ranks take then, whatever memory
 * they pass. */
bool coll_forces_messages(const struct coll_team *t, const struct coll_args *a);

/* The table of choices, with the algorithms looked up: the first row of a kind; its last one is
 * followed by a row of another kind. */
struct coll_row {
    struct coll_tune tune;
    const struct coll_alg *alg;
};
const struct coll_row *coll_tune_rows(enum coll_kind kind);

/* By the name that somebody wrote: `where`, for the error message, which names what would be right.
 * -RT_EINVAL or NULL: logged. */
int coll_kind_find(const char *where, const char *name);
const struct coll_alg *coll_alg_wanted(const char *where, enum coll_kind kind, const char *name);
int coll_bytes_parse(const char *where, const char *text, int64_t *out); /* NULL: not logged */

#endif
