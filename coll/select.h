/* SPDX-License-Identifier: BSD-3-Clause */
/* Selecting the algorithm of a call. */
#ifndef COLL_SELECT_H
#define COLL_SELECT_H

#include "coll/coll.h"

/* Notes with which row of each kind the search begins: the first ones may be for more ranks.
 * Without this it begins with the first. */
void coll_select_prepare(struct coll_team *t);

/* The algorithm that coll_start() would choose, and why (rule text), for weft_info --coll. */
const struct coll_alg *coll_select(const struct coll_team *t, const struct coll_args *a,
                                   const char **why);
/* coll_select() for a team whose shared memory is used (has_node) or ignored.  coll_choose_for():
 * for a caller that knows coll_args_bytes(), which is not used on an intercommunicator. */
const struct coll_alg *coll_choose(const struct coll_team *t, const struct coll_args *a,
                                   bool has_node, const char **why);
const struct coll_alg *coll_choose_for(const struct coll_team *t, const struct coll_args *a,
                                       int64_t bytes, bool has_node, const char **why);
/* Whether WEFT_COLL forces the choice of coll_choose().  The answer is the same on all ranks;
 * buffers of any memory then use this algorithm. */
bool coll_is_forced(const struct coll_team *t, const struct coll_args *a, bool has_node);
/* Whether WEFT_COLL forces an algorithm over messages; all ranks then use it, whatever memory they
 * pass. */
bool coll_forces_messages(const struct coll_team *t, const struct coll_args *a);

/* The device plan (in coll_gpu_algs) for buffers that need no staging, as forced by WEFT_COLL or
 * given by a row for CUDA memory; NULL: neither applies.  direct: the devices have direct links to
 * each other. */
const struct coll_alg *coll_choose_gpu(enum coll_kind kind, int nranks, int64_t bytes, bool direct,
                                       const char **why);
/* Parses WEFT_COLL.  0; -RT_EINVAL: an invalid entry, logged with the nearest valid name;
 * -RT_ENOMEM. */
int coll_configure(const char *spec);
/* All algorithms, for weft_info and tests; NULL past the end. */
const struct coll_alg *coll_alg_at(int i);
int coll_alg_index(const struct coll_alg *alg); /* the i of coll_alg_at(); -1 for NULL */
/* Finds an algorithm by kind and name; NULL if there is none. */
const struct coll_alg *coll_alg_find(enum coll_kind kind, const char *name);
/* The tables of algorithms, NULL at the end, and the table for intercommunicators; each table ends
 * with a row without a name.  Defined by coll/start/algs.c, which knows all folders. */
extern const struct coll_alg *const coll_alg_tables[], *const coll_alg_inter;

#endif
