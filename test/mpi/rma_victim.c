/* SPDX-License-Identifier: BSD-3-Clause */
/* The program that rma_fault.py starts: the last rank dies in one way, named by the first argument,
 * and the others must get MPI errors.  Mpirun ends a job at once when a rank dies, so the rank that
 * is to die is a child of the process that mpirun knows, which stays until the others have ended.
 * A survivor prints what the calls that must fail returned. */
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define N 64
#define ROUND 200 /* operations of an epoch */

static int rank, size, victim;
static MPI_Win win;
static int *base;
static const char *mode;

static bool is(const char *name) { return !strcmp(mode, name); }

static double begin; /* of the calls that must fail */

static void report(const char *call, int rc)
{
    char text[MPI_MAX_ERROR_STRING];
    int len;
    MPI_Error_string(rc, text, &len);
    printf("rank %d: %s gave %s, %.2f s\n", rank, call, rc == MPI_SUCCESS ? "success" : text,
           MPI_Wtime() - begin);
    fflush(stdout);
}

static void die(void)
{
    kill(getpid(), SIGKILL);
    pause();
}

/* The part of the rank that dies. */
static void last_words(void)
{
    if (is("lock"))
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    if (is("lock_all"))
        MPI_Win_lock_all(0, win);
    if (is("lock") || is("lock_all"))
        MPI_Put(&rank, 1, MPI_INT, 0, 0, 1, MPI_INT, win);
    if (is("lock") || is("lock_all"))
        MPI_Win_flush(0, win);
    MPI_Barrier(MPI_COMM_WORLD);
    if (is("middle") || is("barrier") || is("allreduce") || is("probe") || is("iprobe") ||
        is("recv"))
        usleep(200000); /* the others sleep by now */
    die();
}

/* Puts and gets until the victim is dead, many at once. */
static int exchange(void)
{
    static int out[ROUND][N], in[ROUND][N];
    int rc = MPI_SUCCESS;
    while (!rc) {
        for (int i = 0; i < ROUND && !rc; i++) {
            rc = MPI_Put(out[i], N / 2, MPI_INT, victim, 0, N / 2, MPI_INT, win);
            if (!rc)
                rc = MPI_Get(in[i], N / 2, MPI_INT, victim, N / 2, N / 2, MPI_INT, win);
        }
        int e = MPI_Win_flush(victim, win);
        rc = rc ? rc : e;
    }
    return rc;
}

/* A post that fails opens no epoch. */
static void post(void)
{
    MPI_Group world, one;
    int flag;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &victim, &one);
    report("Win_post", MPI_Win_post(one, 0, win));
    report("Win_test", MPI_Win_test(win, &flag));
    MPI_Group_free(&one);
    MPI_Group_free(&world);
}

/* Waits for the victim outside of windows. */
static void await_victim(void)
{
    int x = 0, sum, flag, rc = MPI_SUCCESS;
    if (is("barrier"))
        rc = MPI_Barrier(MPI_COMM_WORLD);
    else if (is("allreduce"))
        rc = MPI_Allreduce(&x, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    else if (is("probe"))
        rc = MPI_Probe(victim, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else if (is("recv"))
        rc = MPI_Recv(&x, 1, MPI_INT, victim, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else if (is("iprobe"))
        while (!rc)
            rc = MPI_Iprobe(victim, 7, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    else
        return;
    report(mode, rc);
}

/* The part of the other ranks, after the barrier; an operation that finds the victim gone must not
 * hang. */
static void survive(void)
{
    int rc, x = 0;
    static int big[1 << 20];
    MPI_Group world, one;

    begin = MPI_Wtime();
    await_victim();
    if (is("lock") || is("lock_all")) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        MPI_Put(&rank, 1, MPI_INT, 0, 0, 1, MPI_INT, win);
        report("lock", MPI_Win_unlock(0, win));
    } else if (is("answer") || is("post")) {
        usleep(20000); /* until it is dead: a pointer to its memory would work even then */
        MPI_Win_lock_all(0, win);
        /* A copy that needs no answer reports in its own call. */
        rc = MPI_Get(&x, 1, MPI_INT, victim, 0, 1, MPI_INT, win);
        MPI_Get(big, N, MPI_INT, victim, 0, N, MPI_INT, win);
        MPI_Fetch_and_op(&rank, &x, MPI_INT, victim, 0, MPI_SUM, win);
        rc = rc ? rc : MPI_Win_flush(victim, win);
        report("answer", rc);
        MPI_Win_unlock_all(win);
        if (is("post"))
            post();
    } else if (is("middle")) {
        MPI_Win_lock_all(0, win);
        report("middle", exchange());
        MPI_Win_unlock_all(win);
    } else if (is("notify")) {
        report("notify", MPIX_Notify_wait(0, 1, win));
    } else if (is("fence")) {
        report("fence", MPI_Win_fence(0, win));
    } else if (is("pscw")) {
        MPI_Comm_group(MPI_COMM_WORLD, &world);
        MPI_Group_incl(world, 1, &victim, &one);
        MPI_Win_start(one, 0, win);
        MPI_Put(&rank, 1, MPI_INT, victim, 0, 1, MPI_INT, win);
        report("complete", MPI_Win_complete(win));
        rc = MPI_Win_post(one, 0, win); /* its death may be known already */
        report("wait", rc ? rc : MPI_Win_wait(win));
    }
    report("free", MPI_Win_free(&win));
}

/* ---- a member that dies while the window is created ---- */

/* Ranks of the window's communicator.  In the last agreement, MAKER and OTHER (one host) exchange
 * messages, then MAKER and VICTIM do: OTHER has none for VICTIM, and a connection to it. */
enum { MAKER, OTHER, VICTIM, THIRD };
#define MOMENT_US 1000000 /* the others have sent what they can; OTHER has noticed the death */
static pid_t victim_pid;

/* In place of the C library's: MAKER makes the file of the window, and OTHER waits for that. */
__attribute__((visibility("default"))) int ftruncate(int fd, off_t nbytes)
{
    if (victim_pid) {
        usleep(MOMENT_US);
        kill(victim_pid, SIGKILL);
        usleep(MOMENT_US);
        victim_pid = 0;
    }
    return (int)syscall(SYS_ftruncate, fd, nbytes);
}

static void create_while_one_dies(void)
{
    static const int place[] = { MAKER, OTHER, THIRD, VICTIM };
    MPI_Comm comm;
    MPI_Group all, one;
    int me = place[rank], victim_rank = VICTIM, pid = (int)getpid(), x = 0;

    MPI_Comm_split(MPI_COMM_WORLD, 0, me, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    for (int to = MAKER; to <= OTHER; to++)
        if (me == VICTIM)
            MPI_Send(&pid, 1, MPI_INT, to, 0, comm);
        else if (me == to)
            MPI_Recv(&x, 1, MPI_INT, VICTIM, 0, comm, MPI_STATUS_IGNORE);
    victim_pid = me == MAKER ? x : 0;
    int rc = MPI_Win_allocate(N * sizeof *base, sizeof *base, MPI_INFO_NULL, comm, &base, &win);
    if (me != OTHER)
        return;
    if (rc == MPI_SUCCESS) {
        MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
        MPI_Comm_group(comm, &all);
        MPI_Group_incl(all, 1, &victim_rank, &one);
        rc = MPI_Win_start(one, 0, win);
        MPI_Put(&x, 1, MPI_INT, VICTIM, 0, 1, MPI_INT, win);
        rc = rc ? rc : MPI_Win_complete(win);
    }
    report("complete", rc);
}

/* What mpirun knows as the last rank. */
static void stand_in(void)
{
    const char *r = getenv("PMIX_RANK"), *n = getenv("OMPI_COMM_WORLD_SIZE");
    if (!r || !n || atoi(r) != atoi(n) - 1)
        return;
    pid_t child = fork();
    if (child == 0)
        return;
    waitpid(child, NULL, 0);
    pause(); /* mpirun ends the job when the others have ended without MPI_Finalize */
}

/* The lines of rank 1 come before the end of the job. */
static void leave(void)
{
    int x = 0;
    if (rank == 0 && size > 2)
        MPI_Recv(&x, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else if (rank)
        MPI_Send(&rank, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
    while (rank)
        pause();
}

int main(int argc, char **argv)
{
    int x;
    mode = argc > 1 ? argv[1] : "";
    stand_in();
    MPI_Init(NULL, NULL);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    victim = size - 1;
    if (is("early")) {
        create_while_one_dies();
        leave();
        _exit(3);
    }
    if (argc > 2 && !strcmp(argv[2], "create")) {
        base = calloc(N, sizeof *base);
        MPI_Win_create(base, N * sizeof *base, sizeof *base, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    } else {
        MPI_Win_allocate(N * sizeof *base, sizeof *base, MPI_INFO_NULL, MPI_COMM_WORLD, &base,
                         &win);
    }
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    if (is("fence"))
        MPI_Win_fence(0, win);
    if (rank == victim)
        last_words();
    if (is("answer") || is("post")) { /* the path is chosen while it lives */
        MPI_Win_lock(MPI_LOCK_SHARED, victim, 0, win);
        MPI_Get(&x, 1, MPI_INT, victim, 0, 1, MPI_INT, win);
        MPI_Win_unlock(victim, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    survive();
    leave();
    _exit(3);
}
