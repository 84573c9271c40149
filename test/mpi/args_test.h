/* SPDX-License-Identifier: BSD-3-Clause */
/* What the generated calls of args_cases.c and their frame args_test.c share. */
#ifndef TEST_MPI_ARGS_TEST_H
#define TEST_MPI_ARGS_TEST_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include "mpi.h"

struct args_case {
    const char *name; /* procedure; NULL ends the list */
    void (*run)(void);
};
extern const struct args_case args_cases[];

/* Valid arguments.  `room` takes any output, `comm` is the communicator of this pass. */
extern MPI_Comm comm;
extern MPI_Group group;
extern MPI_Info info;
extern MPI_Session session;
extern MPI_Win win;
extern MPI_File file;
extern MPI_Errhandler comm_handler, session_handler;
extern int size, rank;
extern char buffer[4096], room[4096], text[4096];
/* Invalid arguments. */
extern MPI_Comm stale_comm;
extern MPI_Group stale_group;
extern MPI_Datatype stale_type, uncommitted, absent;
extern MPI_Info stale_info;
extern const uintptr_t garbage;
extern const int negative[64];
extern const MPI_Count negative_large[64];
void any_function(void);
MPI_Request *request_at(MPI_Request value);

void args_begin(void);
/* The call must have failed with `errclass` and, when `arg` is not "", named this argument. */
void args_expect(int errclass, const char *arg, int got, const char *call);

#define EXPECT(errclass, arg, call) \
    do { \
        args_begin(); \
        args_expect((errclass), (arg), (call), #call); \
    } while (0)
/* Arguments that are significant at the root, rank 0, only. */
#define AT_ROOT(errclass, arg, call) \
    do { \
        if (rank == 0) \
            EXPECT(errclass, arg, call); \
    } while (0)
/* The same, where the root looks at it after the call has begun in all processes. */
#define BY_ROOT(errclass, arg, call) \
    EXPECT(errclass, rank == 0 ? (arg) : "rank 0, the root, could not spawn", call)

#endif
