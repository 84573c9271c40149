/* SPDX-License-Identifier: BSD-3-Clause */
/* The tuning table. */
#ifndef COLL_TUNE_H
#define COLL_TUNE_H

#include "coll/coll.h"

/* A row of the tuning table. */
struct coll_tune {
    enum coll_kind kind;
    int mem;
    int min_ranks;
    int64_t min_bytes;
    const char *name, *measured;
};
#define COLL_MEM_ANY (-1)                       /* otherwise an enum rt_memkind, or */
#define COLL_MEM_CUDA_DIRECT (RT_MEM_KINDS + 1) /* CUDA memory of devices with direct links */
#define COLL_MEM_CUDA_SWITCH (RT_MEM_KINDS + 2) /* CUDA memory of all other devices */
/* Row i, for weft_info and tests; NULL past the end. */
const struct coll_tune *coll_tune_at(int i);

/* Puts the rows of a file before those of coll/tune.def.  NULL or "": coll/tune.def only.  All
 * ranks must load the same rows.  -RT_EINVAL, -RT_ESYS: logged with the name of the file;
 * -RT_ENOMEM.  After an error only coll/tune.def is used. */
int coll_tune_load(const char *path);
/* The table with the algorithms looked up.  coll_tune_rows() returns the first row of a
 * kind; a row of another kind follows the last one. */
struct coll_row {
    struct coll_tune tune;
    const struct coll_alg *alg;
};
const struct coll_row *coll_tune_rows(enum coll_kind kind);

#endif
