/* SPDX-License-Identifier: BSD-3-Clause */
/* A little of everything, for scripts that run it where something of the system is missing:
 *   fault_sample FILE [SHARED]
 * messages, collectives, windows of each kind, a file; checks all results.  SHARED: how many ranks
 * share memory with this one; 0 or none: any number. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONG = 300000 };

static int rank, size, shared;

static void must(int good, const char *what)
{
    if (good)
        return;
    printf("rank %d: %s: wrong result\n", rank, what);
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 8);
}

/* The first message comes from an unknown rank, and a probe finds it, before any collective. */
static void messages(void)
{
    static int out[LONG], in[LONG];
    int right = (rank + 1) % size, left = (rank + size - 1) % size, found = 0, one = 7;
    MPI_Request r;
    MPI_Status s;
    MPI_Isend(&one, 1, MPI_INT, right, 1, MPI_COMM_WORLD, &r);
    while (!found)
        MPI_Iprobe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &found, &s);
    MPI_Recv(in, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &s);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    must(in[0] == 7 && s.MPI_SOURCE == left, "a short message");
    for (int i = 0; i < LONG; i++)
        out[i] = rank + i;
    MPI_Sendrecv(out, LONG, MPI_INT, right, 2, in, LONG, MPI_INT, left, 2, MPI_COMM_WORLD, &s);
    must(in[0] == left && in[LONG - 1] == left + LONG - 1, "a long message");
}

static void collectives(MPI_Comm comm)
{
    static int v[LONG];
    int n, me, sum = -1;
    MPI_Request r;
    MPI_Comm_size(comm, &n);
    MPI_Comm_rank(comm, &me);
    MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, comm);
    must(sum == n * (n - 1) / 2, "MPI_Allreduce");
    for (int i = 0; i < LONG; i++)
        v[i] = me == n - 1 ? i : -1;
    MPI_Bcast(v, LONG, MPI_INT, n - 1, comm);
    must(v[1] == 1 && v[LONG - 1] == LONG - 1, "MPI_Bcast");
    MPI_Allreduce(MPI_IN_PLACE, v, LONG, MPI_INT, MPI_MAX, comm);
    must(v[LONG - 1] == LONG - 1, "a long MPI_Allreduce");
    MPI_Ibarrier(comm, &r);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
}

static void use_window(MPI_Win win, MPI_Aint at, const int *mine)
{
    int one = 1;
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < size; i++)
        MPI_Accumulate(&one, 1, MPI_INT, i, at, 1, MPI_INT, MPI_SUM, win);
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    must(*mine == size, "accumulates");
    MPI_Win_unlock(rank, win);
    MPI_Win_free(&win);
}

static void windows(void)
{
    static int here;
    int *mine;
    MPI_Win win;
    MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &win);
    *mine = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    use_window(win, 0, mine);
    MPI_Win_create(&here, sizeof here, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    use_window(win, 0, &here);
}

/* Ranks that share memory, by MPI_Comm_split_type and by the process set. */
static void shared_memory(void)
{
    MPI_Comm host;
    MPI_Win win;
    MPI_Aint nbytes;
    MPI_Session session;
    MPI_Group group;
    int n, me, unit, ngroup, *mine, *first;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Comm_size(host, &n);
    MPI_Comm_rank(host, &me);
    must(!shared || n == shared, "MPI_Comm_split_type");
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://SHARED", &group);
    MPI_Group_size(group, &ngroup);
    must(ngroup == n, "mpi://SHARED");
    MPI_Group_free(&group);
    MPI_Session_finalize(&session);
    collectives(host);
    MPI_Win_allocate_shared(sizeof(int), sizeof(int), MPI_INFO_NULL, host, &mine, &win);
    *mine = me;
    MPI_Win_fence(0, win);
    MPI_Win_shared_query(win, n - 1, &nbytes, &unit, &first);
    must(*first == n - 1, "MPI_Win_shared_query");
    MPI_Win_free(&win);
    MPI_Comm_free(&host);
}

static void file(const char *name)
{
    int v[4] = { rank, rank, rank, rank }, got[4] = { -1 };
    MPI_File f;
    MPI_Offset at = (MPI_Offset)((size_t)rank * sizeof v);
    MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                  MPI_INFO_NULL, &f);
    MPI_File_set_errhandler(f, MPI_ERRORS_ARE_FATAL);
    MPI_File_write_at_all(f, at, v, 4, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_sync(f);
    MPI_File_read_at_all(f, at, got, 4, MPI_INT, MPI_STATUS_IGNORE);
    must(!memcmp(v, got, sizeof v), "a file");
    MPI_File_close(&f);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    shared = argc > 2 ? atoi(argv[2]) : 0;
    messages();
    collectives(MPI_COMM_WORLD);
    windows();
    shared_memory();
    file(argv[1]);
    if (rank == 0)
        printf("sample done\n");
    return MPI_Finalize();
}
