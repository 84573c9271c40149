/* SPDX-License-Identifier: BSD-3-Clause */
/* mpirun --ft: a rank dies in another job: in the one that this one has spawned (argument `child`),
 * in the one that has spawned it (`parent`), or in one that it has met by MPI_Comm_connect, both
 * spawned by a third (`peer`).  Those that wait for it, most without a connection to it, have the
 * error soon.  `print`: each prints after how long. */
#include "test/mpi/dyn_start.h"
#include "test/mpi/ft_test.h"
#include "test/patience.h"

#define TAG 7
#define NCHILDREN 3
#define AHEAD_NS 100000000u  /* from the announcement to the death */
#define LIMIT_NS 1000000000u /* without mpirun's report: 3 s and more */

static bool prints;

/* The last rank of one group of `c` dies at a time that all know; the other group waits for it.
 * Returns the number of ranks of this job that are left. */
static int one_dies(MPI_Comm c, bool announces, bool dies)
{
    int nlocal, nremote, me, v;
    uint64_t at = watch_clock() + AHEAD_NS;
    MPI_Comm_rank(c, &me);
    MPI_Comm_size(c, &nlocal);
    MPI_Comm_remote_size(c, &nremote);
    OK(MPI_Comm_set_errhandler(c, MPI_ERRORS_RETURN));
    if (announces)
        OK(MPI_Bcast(&at, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD));
    OK(MPI_Bcast(&at, 1, MPI_UINT64_T, !announces ? 0 : me ? MPI_PROC_NULL : MPI_ROOT, c));
    if (dies) {
        while (watch_clock() < at)
            usleep(1000);
        if (me == nlocal - 1)
            ft_die();
        return nlocal - 1;
    }
    struct watch w = watch_begin();
    FAILS(MPI_Recv(&v, 1, MPI_INT, nremote - 1, TAG, c, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED);
    uint64_t now = watch_clock(), own = watch_own(w);
    if (prints)
        fprintf(stderr, "rank %d: the error after %.2f ms\n", me, (double)(now - at) / 1e6);
    CHECK_MSG(own < LIMIT_NS, "rank %d had the error after %.0f ms", me, (double)(now - at) / 1e6);
    return nlocal;
}

static int end_child(int nalive)
{
    int alive[64];
    for (int i = 0; i < nalive; i++)
        alive[i] = i;
    int failed = ft_failed(0, alive, nalive);
    MPI_Finalize();
    return failed;
}

static MPI_Comm start(char **args)
{
    MPI_Comm c;
    OK(MPI_Comm_spawn(start_program, args, NCHILDREN, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &c,
                      MPI_ERRCODES_IGNORE));
    return c;
}

static int child(MPI_Comm parent, int argc, char **argv)
{
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm c;
    if (!ft_has(argc, argv, "peer"))
        return end_child(one_dies(parent, false, ft_has(argc, argv, "child")));
    bool accepts = ft_has(argc, argv, "accept");
    if (!accepts) {
        OK(MPI_Comm_connect(argv[argc - 1], MPI_INFO_NULL, 0, MPI_COMM_WORLD, &c));
    } else {
        if (mt_rank == 0) {
            OK(MPI_Open_port(MPI_INFO_NULL, port));
            OK(MPI_Send(port, (int)sizeof port, MPI_CHAR, 0, TAG, parent));
        }
        OK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &c));
    }
    return end_child(one_dies(c, accepts, accepts));
}

int main(int argc, char **argv)
{
    char port[MPI_MAX_PORT_NAME] = "", *word = argv[1];
    bool child_dies;
    MPI_Comm parent;
    int alive[64], n = 0;
    find_program(argv[0]);
    ft_init(argc, argv);
    prints = ft_has(argc, argv, "print");
    child_dies = ft_has(argc, argv, "child");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    OK(MPI_Comm_get_parent(&parent));
    if (parent != MPI_COMM_NULL)
        return child(parent, argc, argv);
    if (!ft_has(argc, argv, "peer")) {
        n = one_dies(start(argv + 1), true, !child_dies);
    } else {
        MPI_Comm c = start((char *[]){ word, "accept", prints ? "print" : NULL, NULL });
        if (mt_rank == 0)
            OK(MPI_Recv(port, (int)sizeof port, MPI_CHAR, 0, TAG, c, MPI_STATUS_IGNORE));
        OK(MPI_Bcast(port, (int)sizeof port, MPI_CHAR, 0, MPI_COMM_WORLD));
        start((char *[]){ word, prints ? "print" : "-", port, NULL });
        n = mt_size;
    }
    for (int i = 0; i < n; i++)
        alive[i] = i;
    return ft_end("death in another job", 0, alive, n);
}
