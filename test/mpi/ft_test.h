/* SPDX-License-Identifier: BSD-3-Clause */
/* Frame of the programs of fault tolerance: the last rank, or ranks that a case names, die; the
 * others check what they get.  No barrier and no collective of the frame, because ranks die. */
#ifndef TEST_MPI_FT_TEST_H
#define TEST_MPI_FT_TEST_H

#include "test/mpi/mpitest.h"

static bool ft_exits; /* argument `exit`: a victim ends with a code instead of a signal */

static inline bool ft_has(int argc, char **argv, const char *word)
{
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], word))
            return true;
    return false;
}

static inline void ft_init(int argc, char **argv)
{
    ft_exits = ft_has(argc, argv, "exit");
    mt_init(argc, argv);
}

static inline void ft_die(void)
{
    if (ft_exits)
        _exit(7);
    raise(SIGKILL);
}

/* The last rank dies, `late_us` after all others have called this too: a call from which it has
 * returned may else continue in others, and fail there. */
static inline void ft_lose_last(unsigned late_us)
{
    enum { FT_TAG = 31000 };
    int last = mt_size - 1;
    if (mt_rank != last) {
        OK(MPI_Send(NULL, 0, MPI_INT, last, FT_TAG, MPI_COMM_WORLD));
        return;
    }
    for (int i = 0; i < last; i++)
        OK(MPI_Recv(NULL, 0, MPI_INT, i, FT_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    usleep(late_us);
    ft_die();
}

/* An MPI_T variable of class LEVEL: what there is now. */
static inline size_t ft_level(const char *name)
{
    unsigned long long v = 0;
    int index, count;
    MPI_T_pvar_session session;
    MPI_T_pvar_handle handle;
    OK(MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_LEVEL, &index));
    OK(MPI_T_pvar_session_create(&session));
    OK(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count));
    OK(MPI_T_pvar_read(session, handle, &v));
    OK(MPI_T_pvar_session_free(&session));
    return v;
}

/* Whether one of these ranks has failed, at `lowest`. */
static inline int ft_failed(int lowest, const int *alive, int nalive)
{
    int failed = check_failed_case, other;
    for (int i = 0; i < nalive && mt_rank == lowest; i++) {
        if (alive[i] == lowest)
            continue;
        other = 1;
        MPI_Recv(&other, 1, MPI_INT, alive[i], MT_TAG_RESULT, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        failed |= other;
    }
    if (mt_rank != lowest)
        MPI_Send(&failed, 1, MPI_INT, lowest, MT_TAG_RESULT, MPI_COMM_WORLD);
    return failed;
}

/* Of this rank alone.  The exit code of mpirun is that of the lowest rank that lives, so rank 0, or
 * the lowest survivor, prints the result of the program; failures of others are in their exit
 * codes, which the survivors give to the lowest one. */
static inline int ft_end(const char *name, int lowest, const int *alive, int nalive)
{
    int failed = ft_failed(lowest, alive, nalive);
    if (mt_rank == lowest)
        printf("%sok 1 - %s\n1..1\n", failed ? "not " : "", name);
    fflush(stdout);
    MPI_Finalize();
    return failed;
}

#endif
