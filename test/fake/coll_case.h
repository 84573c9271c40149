/* SPDX-License-Identifier: BSD-3-Clause */
/* One collective call on every rank of a fake team: arguments, buffers and the result that a naive
 * reference expects. */
#ifndef TEST_FAKE_COLL_CASE_H
#define TEST_FAKE_COLL_CASE_H

#include "coll/coll.h"

struct coll_case {
    enum coll_kind kind;
    int size, root;
    int64_t count;                /* elements of 8 bytes per rank or pair */
    bool in_place, gaps, user_op; /* layout with gaps; a user operation that is not commutative */
    unsigned salt;                /* different data in every call */
    const bool *excused;          /* [size]: ranks whose buffers are not checked; NULL: none */
};

struct coll_buffers; /* of one case, all ranks */

/* Fills args[0 .. size) and returns the buffers behind them. */
struct coll_buffers *coll_case_make(const struct coll_case *c, struct coll_args *args);
/* 0 if every rank has the reference's result and nothing else was written; prints the
 * differences. */
int coll_case_check(const struct coll_case *c, const struct coll_args *args,
                    const struct coll_buffers *b);
/* Whether rank r's receive buffer, including guards, has these bytes; prints the difference. */
bool coll_case_same(int r, const char *got, const char *want, int64_t len);
/* Calls fn for every buffer, including guards; if args is given, the arguments get the pointer that
 * fn returns.  Not for neighbourhood collectives. */
typedef char *coll_case_fn(char *buf, int64_t len);
void coll_case_each(const struct coll_case *c, struct coll_buffers *b, coll_case_fn *fn,
                    struct coll_args *args);
void coll_case_free(const struct coll_case *c, struct coll_buffers *b);

#endif
