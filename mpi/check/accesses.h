/* SPDX-License-Identifier: BSD-3-Clause */
/* WEFT_CHECK: accesses to the memory of a window in one epoch.  Each process collects its own; one
 * process compares those of all.  Under the domain's lock. */
#ifndef WM_CHECK_ACCESSES_H
#define WM_CHECK_ACCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "mpi/check/report.h"

enum check_access_kind {
    CHECK_GET,
    CHECK_PUT,
    CHECK_ACC,
    CHECK_LOAD,  /* of a process in its own memory: a buffer of an operation */
    CHECK_STORE, /* the same, written */
    CHECK_ACCESS_KINDS
};

struct check_access {
    int32_t target;    /* rank whose memory it is */
    uint16_t kind;     /* enum check_access_kind */
    uint16_t place;    /* which of the calls */
    int64_t low, high; /* first byte and end, from the beginning of the window's memory */
};

/* The accesses of this process so far. */
#define CHECK_CALLS 64 /* calls of the program that are distinguished */
struct check_accesses {
    struct check_access *v; /* owned */
    int n, cap;
    struct check_place call[CHECK_CALLS];
    int ncalls;
};

/* An access by the calling procedure.  Beyond a limit, accesses are left out. */
void check_access_add(struct check_accesses *all, int target, enum check_access_kind kind,
                      int64_t low, int64_t high);
/* The accesses as a message, malloc'ed, after `room` bytes that the caller fills in; NULL: there
 * are none.  Empties `all`. */
void *check_accesses_take(struct check_accesses *all, size_t room, size_t *nbytes);
/* Whether accesses of n processes conflict; message i, NULL: none, is of rank i.  Writes how. */
bool check_accesses_conflict(const void *const *message, int n, char *text, size_t len);

#endif
