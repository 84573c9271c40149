/* SPDX-License-Identifier: BSD-3-Clause */
/* WEFT_CHECK: the memory that unfinished operations use.  Under the domain's lock. */
#ifndef WM_CHECK_USES_H
#define WM_CHECK_USES_H

#include "mpi/check/report.h"
#include "runtime/layout/layout.h"

/* A buffer of the program. */
struct check_buf {
    const void *buf;
    int64_t count;
    const struct rt_layout *layout; /* lives as long as the use */
};

struct check_use {
    const void *owner; /* the request or window that has it */
    const void *part;  /* the target of the window; NULL: none */
    bool together;     /* not compared with other uses of the owner: of one call */
    struct check_buf at;
    bool writes;              /* the operation writes the buffer; else it reads it */
    bool lasts;               /* longer than the call: the program must not free it meanwhile */
    bool sealed;              /* the program must not change it: compared at the end */
    char what[120];           /* "to rank 1, tag 5" */
    struct check_place place; /* of the call; inner 0: check_here() */
};

/* The calling procedure uses a buffer.  Ends the job if it overlaps one in use and either use
 * writes, or if the buffer leaves its stack frame. */
void check_use_begin(const struct check_use *u);
/* The uses of an owner end, with `part` only those of this part.  `verify`: ends the job if the
 * contents of a sealed buffer have changed, or the memory of one that lasts is free. */
void check_use_end(const void *owner, const void *part, bool verify);
/* ", from MPI_Isend at ring+0x1234": the call that began an operation of the owner; "" if none uses
 * memory. */
const char *check_use_from(const void *owner, char *buf, size_t len);

#endif
