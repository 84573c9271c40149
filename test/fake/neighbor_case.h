/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of coll_case.h for neighbourhood collectives. */
#ifndef TEST_FAKE_NEIGHBOR_CASE_H
#define TEST_FAKE_NEIGHBOR_CASE_H

#include "test/fake/coll_case.h"

struct neighbor_buffers;

bool neighbor_case_is(enum coll_kind kind);
struct neighbor_buffers *neighbor_case_make(const struct coll_case *c, struct coll_args *args);
int neighbor_case_check(const struct coll_case *c, const struct neighbor_buffers *b);
void neighbor_case_free(const struct coll_case *c, struct neighbor_buffers *b);

#endif
