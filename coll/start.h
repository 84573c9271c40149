/* SPDX-License-Identifier: BSD-3-Clause */
/* Interfaces between the files of coll/: selecting and starting algorithms. */
#ifndef COLL_START_H
#define COLL_START_H

#include "coll/coll.h"

/* Starts the task again with the best algorithm that needs no shared memory; the same on every
 * rank. */
int coll_start_messages(struct coll_task *k);
/* The same if coll_is_wide() is true: wide.c. */
int coll_start_wide(struct coll_task *k);
/* The algorithm for an intercommunicator. */
const struct coll_alg *coll_inter_alg(enum coll_kind kind);
/* Device plans that have names (gpu/algs.c). */
extern const struct coll_alg coll_gpu_algs[];
/* coll_select() for a team whose shared memory is used (has_node) or ignored. */
const struct coll_alg *coll_choose(const struct coll_team *t, const struct coll_args *a,
                                   bool has_node, const char **why);
/* Whether WEFT_COLL forces that choice, which is the same on all ranks; buffers of any memory then
 * use this algorithm. */
bool coll_is_forced(const struct coll_team *t, const struct coll_args *a, bool has_node);
/* Whether WEFT_COLL forces an algorithm over messages; all ranks then use it, whatever memory they
 * pass. */
bool coll_forces_messages(const struct coll_team *t, const struct coll_args *a);

/* The tuning table, with the algorithms looked up.  coll_tune_rows() returns the first row of a
 * kind; a row of another kind follows the last one. */
struct coll_row {
    struct coll_tune tune;
    const struct coll_alg *alg;
};
const struct coll_row *coll_tune_rows(enum coll_kind kind);

/* Look up names and sizes that a user wrote.  `where` is for the error message, which gives the
 * valid names.  -RT_EINVAL or NULL: logged. */
int coll_kind_find(const char *where, const char *name);
const struct coll_alg *coll_alg_wanted(const char *where, enum coll_kind kind, const char *name);
int coll_bytes_parse(const char *where, const char *text, int64_t *out); /* NULL: not logged */

#endif
