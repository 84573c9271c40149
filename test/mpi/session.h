/* SPDX-License-Identifier: BSD-3-Clause */
/* For programs without MPI_COMM_WORLD: cases and checks as in mpitest.h, but nothing is initialized
 * or agreed on; every process prints its own failures, and rank 0 of the job the TAP lines (a
 * launcher's rank, from the environment, because MPI may be down). */
#ifndef TEST_MPI_SESSION_H
#define TEST_MPI_SESSION_H

#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>
#include "test/check.h"

static int st_rank; /* of the job, also while MPI is down */
static __attribute__((unused)) char st_text[MPI_MAX_ERROR_STRING];

#define OK(call) \
    do { \
        int st_rc = (call); \
        CHECK_MSG(st_rc == MPI_SUCCESS, "rank %d: %s gave %d", st_rank, #call, st_rc); \
    } while (0)
#define FAILS(call, errclass) \
    do { \
        int st_rc = (call), st_class = MPI_SUCCESS; \
        if (st_rc != MPI_SUCCESS) \
            MPI_Error_class(st_rc, &st_class); \
        CHECK_MSG(st_class == (errclass), "rank %d: %s gave class %d, expected %s", st_rank, \
                  #call, st_class, #errclass); \
    } while (0)

static void st_alarm(int sig)
{
    static const char text[] = "# ran into its time limit\n";
    (void)sig;
    if (write(1, text, sizeof text - 1) < 0)
        _exit(3);
    _exit(2);
}

static inline void st_begin(void)
{
    const char *rank = getenv("PMIX_RANK");
    st_rank = rank ? atoi(rank) : 0;
    signal(SIGALRM, st_alarm);
    alarm(240);
}

static inline void st_run(void (*fn)(void), const char *name)
{
    check_failed_case = 0;
    fn();
    check_cases++;
    check_failures += check_failed_case;
    if (st_rank == 0 || check_failed_case)
        printf("%sok %d - %s\n", check_failed_case ? "not " : "", check_cases, name);
    fflush(stdout);
}
#define ST_RUN(fn) st_run(fn, #fn)

static inline int st_end(void)
{
    if (st_rank == 0)
        printf("1..%d\n", check_cases);
    return check_failures ? 1 : 0;
}

static inline MPI_Session st_open(void)
{
    MPI_Session s = MPI_SESSION_NULL;
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &s));
    return s;
}

static inline MPI_Comm st_comm(MPI_Session s, const char *pset, const char *tag)
{
    MPI_Group g = MPI_GROUP_NULL;
    MPI_Comm c = MPI_COMM_NULL;
    OK(MPI_Group_from_session_pset(s, pset, &g));
    OK(MPI_Comm_create_from_group(g, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &c));
    OK(MPI_Group_free(&g));
    return c;
}

/* Every process's number reaches all: messages and collectives work on `c`. */
static inline void st_use(MPI_Comm c)
{
    int n = 0, r = -1, sum = -1, right = -1;
    OK(MPI_Comm_size(c, &n));
    OK(MPI_Comm_rank(c, &r));
    OK(MPI_Allreduce(&r, &sum, 1, MPI_INT, MPI_SUM, c));
    CHECK_EQ(sum, n * (n - 1) / 2);
    OK(MPI_Sendrecv(&r, 1, MPI_INT, (r + n - 1) % n, 7, &right, 1, MPI_INT, (r + 1) % n, 7, c,
                    MPI_STATUS_IGNORE));
    CHECK_EQ(right, (r + 1) % n);
}

#endif
