/* SPDX-License-Identifier: BSD-3-Clause */
/* Frame of the MPI test programs.  A program is a list of cases; every rank runs every case:
 *     int main(int argc, char **argv)
 *     {
 *         mt_init(argc, argv);
 *         MT_RUN(case_a);
 *         return mt_end();
 *     }
 * Each case gets a fresh communicator `mt_comm` whose error handler returns, so that messages that
 * a failed case leaves behind cannot be matched by the next.  Rank 0 prints TAP, the others only
 * failures; the exit status of each rank is 1 when a check of its own failed.  A case that runs
 * into the time limit prints that and ends the program: no test can hang. Only MPI-3.1 is used
 * unless guarded by MPI_VERSION, so that the same programs run over other MPI implementations. */
#ifndef TEST_MPI_MPITEST_H
#define TEST_MPI_MPITEST_H

#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include "test/check.h"
#include "test/mpi/mt_jobs.h"

/* A case takes under a second.  This limit guards against a hang where nothing else does: the limit
 * of runtests is shorter unless the machine is busy.  TEST_TIMEOUT_SCALE multiplies this limit, as
 * it does the limit of the whole program. */
#define MT_CASE_SECONDS 240
#define MT_TAG_RESULT 32000

static int mt_rank, mt_size;
static MPI_Comm mt_comm;
static __attribute__((unused)) int mt_peer;   /* rank ^ 1; MPI_PROC_NULL for the one left over */
static __attribute__((unused)) bool mt_first; /* the even rank of a pair that exists */
static const char *mt_case = "start", *mt_skipped;
static unsigned mt_seed = 20261120;

static inline void mt_report(const char *file, int line, const char *what, int rc)
{
    char text[MPI_MAX_ERROR_STRING];
    int len;

    if (MPI_Error_string(rc, text, &len) != MPI_SUCCESS)
        strcpy(text, "code without text");
    check_failed_case = 1;
    printf("# %s:%d: failed on rank %d: %s gave %d: %s\n", file, line, mt_rank, what, rc, text);
    fflush(stdout);
}

#define OK(call) \
    do { \
        int mt_rc = (call); \
        if (mt_rc != MPI_SUCCESS) \
            mt_report(__FILE__, __LINE__, #call, mt_rc); \
    } while (0)

/* The call must give this error class. */
#define FAILS(call, errclass) \
    do { \
        int mt_rc = (call), mt_class = MPI_SUCCESS; \
        if (mt_rc != MPI_SUCCESS) \
            MPI_Error_class(mt_rc, &mt_class); \
        CHECK_MSG(mt_class == (errclass), "rank %d: %s gave class %d, expected %s, %d", mt_rank, \
                  #call, mt_class, #errclass, (errclass)); \
    } while (0)

static inline unsigned mt_limit(void)
{
    const char *scale = getenv("TEST_TIMEOUT_SCALE");
    return (unsigned)(MT_CASE_SECONDS * (scale && atof(scale) > 1 ? atof(scale) : 1));
}

static inline void mt_alarm(int sig)
{
    char line[160];
    int n = snprintf(line, sizeof(line), "# rank %d: case %s ran into its time limit of %u s\n",
                     mt_rank, mt_case, mt_limit());

    (void)sig;
    if (write(1, line, (size_t)n) < 0)
        _exit(3);
    _exit(2);
}

static inline void mt_setup(void)
{
    mt_join_jobs();
    MPI_Comm_rank(mt_world, &mt_rank);
    MPI_Comm_size(mt_world, &mt_size);
    mt_peer = (mt_rank ^ 1) < mt_size ? mt_rank ^ 1 : MPI_PROC_NULL;
    mt_first = mt_peer > mt_rank;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF,
                            MPI_ERRORS_RETURN); /* for errors that belong to no communicator */
    signal(SIGALRM, mt_alarm);
    alarm(mt_limit());
}

static inline void mt_init(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    mt_setup();
}

/* Called by a case that cannot run here, on all ranks alike. */
static inline void mt_skip(const char *why) { mt_skipped = why; }

/* Reports to rank 0 whether the case passed everywhere; done with plain sends because collectives
 * are under test too.  Cases leave mt_world alone, so no wildcard of theirs can take these
 * messages. */
static inline int mt_gather_result(int failed)
{
    int i, other;

    if (mt_rank != 0) {
        MPI_Send(&failed, 1, MPI_INT, 0, MT_TAG_RESULT, mt_world);
        return failed;
    }
    for (i = 1; i < mt_size; i++) {
        other = 1;
        MPI_Recv(&other, 1, MPI_INT, i, MT_TAG_RESULT, mt_world, MPI_STATUS_IGNORE);
        failed |= other;
    }
    return failed;
}

static inline void mt_run(void (*fn)(void), const char *name)
{
    int failed;

    mt_case = name;
    mt_skipped = NULL;
    check_failed_case = 0;
    alarm(mt_limit());
    if (MPI_Comm_dup(mt_world, &mt_comm) != MPI_SUCCESS) {
        printf("# rank %d: could not duplicate the communicator of case %s\n", mt_rank, name);
        exit(1);
    }
    MPI_Comm_set_errhandler(mt_comm, MPI_ERRORS_RETURN);
    fn();
    failed = mt_gather_result(check_failed_case);
    check_cases++;
    check_failures += check_failed_case;
    if (mt_rank == 0) {
        printf("%sok %d - %s%s%s\n", failed ? "not " : "", check_cases, name,
               mt_skipped ? " # SKIP " : "", mt_skipped ? mt_skipped : "");
        fflush(stdout);
    }
    if (check_failed_case)
        printf("# rank %d of %d: case %s failed, seed %u\n", mt_rank, mt_size, name, mt_seed);
    fflush(stdout);
    MPI_Comm_free(&mt_comm);
    alarm(mt_limit());
}
#define MT_RUN(fn) mt_run(fn, #fn)

static inline int mt_end(void)
{
    mt_case = "MPI_Finalize";
    if (mt_rank == 0)
        printf("1..%d\n", check_cases);
    fflush(stdout);
    mt_part_jobs();
    MPI_Finalize();
    return check_failures ? 1 : 0;
}

/* A barrier made of plain messages. */
static inline void mt_sync(void)
{
    int step;

    for (step = 1; step < mt_size; step *= 2)
        MPI_Sendrecv(NULL, 0, MPI_BYTE, (mt_rank + step) % mt_size, MT_TAG_RESULT + 1, NULL, 0,
                     MPI_BYTE, (mt_rank - step + mt_size) % mt_size, MT_TAG_RESULT + 1, mt_world,
                     MPI_STATUS_IGNORE);
}

/* Whether all ranks are on one host: the same on all.  Collective. */
static inline int mt_one_host(void)
{
    MPI_Comm host;
    int n;

    MPI_Comm_split_type(mt_comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Comm_size(host, &n);
    MPI_Comm_free(&host);
    return n == mt_size;
}

static inline void mt_sleep_ms(int ms)
{
    struct timespec t = { ms / 1000, ms % 1000 * 1000000L };

    nanosleep(&t, NULL);
}

/* The same sequence on every rank when called alike. */
static inline unsigned mt_random(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static inline unsigned char mt_byte(size_t i, unsigned key)
{
    return (unsigned char)(i * 7 + (i >> 8) * 13 + (i >> 16) * 31 + key * 101 + 5);
}

static inline void mt_fill(void *buf, size_t n, unsigned key)
{
    unsigned char *p = buf;
    size_t i;

    for (i = 0; i < n; i++)
        p[i] = mt_byte(i, key);
}

/* Index of the first byte that mt_fill(key) would have written differently; n when all agree. */
static inline size_t mt_differs(const void *buf, size_t n, unsigned key)
{
    const unsigned char *p = buf;
    size_t i = 0;

    while (i < n && p[i] == mt_byte(i, key))
        i++;
    return i;
}

#define CHECK_DATA(buf, n, key) \
    do { \
        size_t mt_n = (n), mt_at = mt_differs(buf, mt_n, key); \
        CHECK_MSG(mt_at == mt_n, "rank %d: byte %zu of %zu is wrong (key %u)", mt_rank, mt_at, \
                  mt_n, (unsigned)(key)); \
    } while (0)

/* Buffers with a guard of 64 bytes behind them that no receive may touch. */
#define MT_GUARD 64
static inline unsigned char *mt_alloc(size_t n)
{
    unsigned char *p = malloc(n + MT_GUARD);

    if (!p) {
        printf("# rank %d: out of memory for %zu bytes\n", mt_rank, n);
        exit(1);
    }
    memset(p, 0xee, n + MT_GUARD);
    return p;
}

static inline bool mt_guard_intact(const unsigned char *p, size_t n)
{
    int i;

    for (i = 0; i < MT_GUARD; i++)
        if (p[n + (size_t)i] != 0xee)
            return false;
    return true;
}

static inline void mt_check_status(const MPI_Status *st, int source, int tag, int nbytes)
{
    int n = -1;

    CHECK_EQ(st->MPI_SOURCE, source);
    CHECK_EQ(st->MPI_TAG, tag);
    OK(MPI_Get_count(st, MPI_BYTE, &n));
    CHECK_EQ(n, nbytes);
}

#endif
