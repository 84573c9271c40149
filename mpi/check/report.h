/* SPDX-License-Identifier: BSD-3-Clause */
/* WEFT_CHECK: how a mistake is reported, and where in the program a call was made. */
#ifndef WM_CHECK_REPORT_H
#define WM_CHECK_REPORT_H

#include "mpi/base/comm.h"

/* A call of the program. */
struct check_place {
    uint64_t inner; /* an address in the procedure */
    uint64_t pc;    /* its return address; 0: unknown */
};

/* The call that this thread is in. */
struct check_place check_here(void);
/* "MPI_Isend at ring+0x1234"; the address is for `addr2line -e ring 0x1234`. */
const char *check_place_text(const struct check_place *p, char *buf, size_t len);
/* "communicator "name"". */
const char *check_comm_name(const struct wm_comm *c, char *buf, size_t len);

/* Prints the text and ends the job. */
_Noreturn void check_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void check_no_memory(void);

#endif
