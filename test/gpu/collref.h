/* SPDX-License-Identifier: BSD-3-Clause */
/* Expected results of reductions: every predefined type and operation computed one element after
 * the other, in rank order, by code that shares nothing with the library's.  Contents are chosen so
 * that results are exact in any order (small numbers for floats).  They repeat after CR_PERIOD
 * elements, a prime, so that expectations for long vectors are cheap. */
#ifndef TEST_GPU_COLLREF_H
#define TEST_GPU_COLLREF_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CR_PERIOD 1021

enum cr_class {
    CR_INT,
    CR_UINT,
    CR_BYTE,
    CR_BOOL,
    CR_FLOAT,
    CR_COMPLEX,
    CR_PAIR, /* a value and an index */
    CR_USER  /* two uint32 for a test function that is not commutative */
};
enum cr_rep { CR_1, CR_2, CR_4, CR_8, CR_F16, CR_BF16, CR_F32, CR_F64, CR_LDBL };
struct cr_type {
    const char *name;
    MPI_Datatype h;
    enum cr_class class;
    enum cr_rep rep, rep2; /* of the first part, and of a second part at off2 */
    int off, off2, extent;
};
extern struct cr_type cr_types[]; /* handles are valid after cr_init() */
extern int cr_ntypes;

enum cr_code {
    CR_SUM,
    CR_PROD,
    CR_MAX,
    CR_MIN,
    CR_BAND,
    CR_BOR,
    CR_BXOR,
    CR_LAND,
    CR_LOR,
    CR_LXOR,
    CR_MINLOC,
    CR_MAXLOC,
    CR_COMPOSE, /* user-defined, not commutative */
    CR_ADD,     /* user-defined, commutative: int only */
    CR_CODES
};
struct cr_op {
    const char *name;
    MPI_Op h;
};
extern struct cr_op cr_ops[CR_CODES];

void cr_init(void);
void cr_fini(void);
bool cr_allowed(const struct cr_type *t, enum cr_code op);
const struct cr_type *cr_type_named(const char *name);
/* Writes elements [first, first + n) of the contents of `key`; holes become GT_POISON. */
void cr_fill(const struct cr_type *t, enum cr_code op, uint64_t key, size_t first, size_t n,
             void *out);
/* Combines the contents of nkeys keys, in this order; holes are not changed. */
void cr_expect(const struct cr_type *t, enum cr_code op, const uint64_t *keys, int nkeys,
               size_t first, size_t n, void *out);
/* Bytes of elements that are undefined are set to those of `want`. */
void cr_forgive(const struct cr_type *t, const void *want, void *got, size_t n);
uint64_t cr_mix(uint64_t a, uint64_t b);
/* As numbers, for messages and for inexact sums. */
long double cr_load(enum cr_rep rep, const void *p);
void cr_store(enum cr_rep rep, long double v, void *p);

#endif
