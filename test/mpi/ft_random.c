/* SPDX-License-Identifier: BSD-3-Clause */
/* mpirun --ft: random calls (argument seed=N) while ranks die at random times.  All ranks draw the
 * same calls.  A rank whose call fails revokes the communicator and contributes 0 to an agreement;
 * the survivors then shrink the communicator and continue with the call that failed first.  A call
 * that succeeds has right values.  At the end the survivors have no more descriptors than before.
 * ft_random.py runs it. */
#include "test/mpi/ft_test.h"

#include <dirent.h>
#include <time.h>

#define TAG (3 + 4 * turn) /* messages of a fast rank are not those of an earlier turn */
#define TURNS 60
#define LARGE 40000
#define WINDOW_US 30000 /* deaths happen within this time after MPI_Init */

static MPI_Comm comm;
static int rank, size, turn;
static unsigned state; /* of the random numbers of this turn, the same in all ranks */
static int out[LARGE], in[LARGE * 8];

static int draw(int n) { return (int)(mt_random(&state) % (unsigned)n); }

#define TRY(call) \
    do { \
        int try_rc = (call); \
        if (try_rc) \
            return try_rc; \
    } while (0)

/* Lengths from nothing to long messages. */
static int length(void)
{
    static const int max[] = { 1, 20, 1000, LARGE };
    return draw(max[draw(4)]) + 1;
}

static void fill(int n, int from)
{
    for (int i = 0; i < n; i++)
        out[i] = from * 1000 + turn + i;
}

static void check_from(const int *v, int n, int from)
{
    for (int i = 0; i<n; i += n> 100 ? 97 : 1)
        if (v[i] != from * 1000 + turn + i) {
            CHECK_MSG(0, "rank %d, turn %d: element %d from %d is %d", rank, turn, i, from, v[i]);
            return;
        }
}

static void check_sum(const int *v, int n)
{
    int ranks = 1000 * (size * (size - 1) / 2);
    for (int i = 0; i<n; i += n> 100 ? 97 : 1)
        if (v[i] != ranks + size * (turn + i)) {
            CHECK_MSG(0, "rank %d, turn %d: element %d of a sum is %d, expected %d", rank, turn, i,
                      v[i], ranks + size * (turn + i));
            return;
        }
}

/* ---- calls; each returns what failed first ---- */

static int ring(void)
{
    int n = length(), step = 1 + draw(size), to = (rank + step) % size,
        from = (rank + size - step % size) % size;
    fill(n, rank);
    TRY(MPI_Sendrecv(out, n, MPI_INT, to, TAG, in, n, MPI_INT, from, TAG, comm, MPI_STATUS_IGNORE));
    check_from(in, n, from);
    return 0;
}

/* After an error some requests may be active; they end with the revocation. */
static int finish(int n, MPI_Request *r)
{
    int rc = MPI_Waitall(n, r, MPI_STATUSES_IGNORE);
    if (rc)
        OK(MPIX_Comm_revoke(comm));
    for (int i = 0; i < n && rc; i++) {
        MPI_Wait(&r[i], MPI_STATUS_IGNORE);
        CHECK(r[i] == MPI_REQUEST_NULL);
    }
    return rc;
}

static int nonblocking(void)
{
    MPI_Request r[16];
    int n = length() % 5000 + 1, k = 0;
    bool any = draw(2), sync = draw(2);
    fill(n, rank);
    for (int i = 0; i < size; i++) {
        int from = any ? MPI_ANY_SOURCE : i;
        OK(MPI_Irecv(in + i * 5000, 5000, MPI_INT, from, TAG + 1, comm, &r[k++]));
    }
    for (int i = 0; i < size; i++)
        OK((sync ? MPI_Issend : MPI_Isend)(out, n, MPI_INT, i, TAG + 1, comm, &r[k++]));
    TRY(finish(k, r));
    int sum = 0;
    for (int i = 0; i < size; i++) {
        int from = (in[i * 5000] - turn) / 1000;
        check_from(in + i * 5000, n, any ? from : i);
        sum += from;
    }
    CHECK(sum == size * (size - 1) / 2);
    return 0;
}

static int to_one(void)
{
    int root = draw(size), v = rank * 1000 + turn;
    bool probes = draw(2);
    MPI_Status s;
    if (rank != root)
        return MPI_Send(&v, 1, MPI_INT, root, TAG + 2, comm);
    for (int i = 1; i < size; i++) {
        MPI_Message m;
        if (probes) {
            TRY(MPI_Mprobe(MPI_ANY_SOURCE, TAG + 2, comm, &m, &s));
            TRY(MPI_Mrecv(in, 1, MPI_INT, &m, &s));
        } else {
            TRY(MPI_Recv(in, 1, MPI_INT, MPI_ANY_SOURCE, TAG + 2, comm, &s));
        }
        check_from(in, 1, s.MPI_SOURCE);
    }
    return 0;
}

static int wait_for(int rc, MPI_Request *r) { return rc ? rc : MPI_Wait(r, MPI_STATUS_IGNORE); }

static int broadcast(void)
{
    int n = length(), root = draw(size);
    MPI_Request r;
    fill(n, root);
    if (rank != root)
        memset(out, 0, (size_t)n * sizeof *out);
    if (draw(2))
        TRY(MPI_Bcast(out, n, MPI_INT, root, comm));
    else
        TRY(wait_for(MPI_Ibcast(out, n, MPI_INT, root, comm, &r), &r));
    check_from(out, n, root);
    return 0;
}

static int reduction(void)
{
    int n = length(), root = draw(size), how = draw(4);
    MPI_Request r;
    fill(n, rank);
    if (how == 0)
        TRY(MPI_Allreduce(out, in, n, MPI_INT, MPI_SUM, comm));
    else if (how == 1)
        TRY(wait_for(MPI_Iallreduce(out, in, n, MPI_INT, MPI_SUM, comm, &r), &r));
    else if (how == 2)
        TRY(MPI_Reduce(out, in, n, MPI_INT, MPI_SUM, root, comm));
    else
        TRY(wait_for(MPI_Ireduce(out, in, n, MPI_INT, MPI_SUM, root, comm, &r), &r));
    if (how < 2 || rank == root)
        check_sum(in, n);
    return 0;
}

static int gathering(void)
{
    int n = length() % 4000 + 1, root = draw(size), how = draw(4);
    fill(n, rank);
    if (how == 0)
        TRY(MPI_Allgather(out, n, MPI_INT, in, n, MPI_INT, comm));
    else if (how == 1)
        TRY(MPI_Gather(out, n, MPI_INT, in, n, MPI_INT, root, comm));
    else if (how == 2)
        TRY(MPI_Barrier(comm));
    else
        TRY(MPI_Scan(out, in, n, MPI_INT, MPI_SUM, comm));
    for (int i = 0; i < size && (how == 0 || (how == 1 && rank == root)); i++)
        check_from(in + i * n, n, i);
    if (how == 3)
        CHECK(in[0] == 1000 * (rank * (rank + 1) / 2) + (rank + 1) * turn);
    return 0;
}

static int exchange(void)
{
    int n = length() % 2000 + 1;
    for (int i = 0; i < size; i++)
        for (int j = 0; j < n; j++)
            out[i * n + j] = (rank * 10 + i) * 1000 + turn + j;
    if (draw(2))
        TRY(MPI_Alltoall(out, n, MPI_INT, in, n, MPI_INT, comm));
    else
        TRY(MPI_Alltoallv(out, (int[]){ n, n, n, n, n, n, n, n },
                          (int[]){ 0, n, 2 * n, 3 * n, 4 * n, 5 * n, 6 * n, 7 * n }, MPI_INT, in,
                          (int[]){ n, n, n, n, n, n, n, n },
                          (int[]){ 0, n, 2 * n, 3 * n, 4 * n, 5 * n, 6 * n, 7 * n }, MPI_INT,
                          comm));
    for (int i = 0; i < size; i++)
        check_from(in + i * n, n, i * 10 + rank);
    return 0;
}

static int revocation(void)
{
    if (rank == draw(size))
        OK(MPIX_Comm_revoke(comm));
    int rc = MPI_Barrier(comm);
    CHECK(rc != MPI_SUCCESS);
    turn++; /* not again */
    return rc;
}

/* ---- calls that end with an agreement on their success ---- */

enum { GOOD = 1, IN_STEP = 2, LOST = -1 };

/* 0: all have succeeded; LOST: not, or some have failed in another call. */
static int consensus(int rc, int bits, int expected)
{
    int flag = (rc == 0 ? GOOD : 0) | IN_STEP | bits << 2;
    rc = MPIX_Comm_agree(comm, &flag);
    if (rc && rc != MPIX_ERR_PROC_FAILED)
        FAILS(rc, MPIX_ERR_PROC_FAILED);
    if (rc || (flag & 3) != (GOOD | IN_STEP))
        return LOST;
    CHECK_MSG(flag >> 2 == expected, "turn %d: agreed on %x, not %x", turn, flag >> 2, expected);
    return 0;
}

static int agreement(void)
{
    int all = ~0 >> 2 & 0xffff, mine = 0;
    for (int i = 0; i < size; i++) {
        int v = draw(0x10000) | draw(0x10000);
        mine = i == rank ? v : mine;
        all &= v;
    }
    return consensus(0, mine, all);
}

static int communicators(void)
{
    int how = draw(5), one = 1, sum = 0, rc, n = size, colour = rank % 2;
    MPI_Comm c = MPI_COMM_NULL;
    MPI_Request r;
    if (how >= 3 && consensus(0, 0, 0)) /* shrinking agrees, too */
        return LOST;
    if (how == 0) {
        rc = MPI_Comm_dup(comm, &c);
    } else if (how == 1) {
        rc = MPI_Comm_split(comm, colour, 0, &c);
        n = colour ? size / 2 : (size + 1) / 2;
    } else if (how == 2) {
        rc = wait_for(MPI_Comm_idup(comm, &c, &r), &r);
        c = rc ? MPI_COMM_NULL : c;
    } else if (how == 3) {
        rc = MPIX_Comm_shrink(comm, &c);
    } else {
        rc = wait_for(MPIX_Comm_ishrink(comm, &c, &r), &r);
        c = rc ? MPI_COMM_NULL : c;
    }
    int lost = consensus(rc, 0, 0);
    if (!lost) {
        rc = MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, c);
        if (!rc && how < 3)
            CHECK_MSG(sum == n, "turn %d: %d ranks of %d in call %d", turn, sum, n, how);
        if (rc) /* others of this communicator may wait */
            OK(MPIX_Comm_revoke(c));
    }
    if (c != MPI_COMM_NULL)
        OK(MPI_Comm_free(&c));
    return lost ? LOST : rc;
}

static int window(void)
{
    MPI_Win w = MPI_WIN_NULL;
    int *mem, v = rank * 1000 + turn, rc, left = (rank + size - 1) % size;
    rc = MPI_Win_allocate(sizeof *mem * 8, sizeof *mem, MPI_INFO_NULL, comm, &mem, &w);
    if (!rc)
        MPI_Win_set_errhandler(w, MPI_ERRORS_RETURN);
    int lost = consensus(rc, 0, 0);
    if (!lost)
        rc = MPI_Win_fence(0, w);
    if (!lost && !rc)
        rc = MPI_Put(&v, 1, MPI_INT, (rank + 1) % size, 1, 1, MPI_INT, w);
    if (!lost) {
        int end = MPI_Win_fence(0, w);
        rc = rc ? rc : end;
    }
    if (!lost && !rc)
        CHECK_MSG(mem[1] == left * 1000 + turn, "turn %d: %d in the window", turn, mem[1]);
    if (!lost) /* else some may have none */
        MPI_Win_free(&w);
    return lost ? LOST : rc;
}

static int (*const calls[])(void) = { ring,      nonblocking,   to_one,   broadcast,
                                      reduction, gathering,     exchange, revocation,
                                      agreement, communicators, window,   reduction };

/* ---- recovery ---- */

static void take(MPI_Comm c)
{
    comm = c;
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
}

static void recover(int rc)
{
    do {
        MPI_Comm smaller;
        int flag = 0;
        if (rc != LOST) {
            OK(MPIX_Comm_revoke(comm));
            MPIX_Comm_agree(comm, &flag);
        }
        rc = MPIX_Comm_shrink(comm, &smaller);
        CHECK_MSG(rc == MPI_SUCCESS, "turn %d: shrink gave %d", turn, rc);
        OK(MPI_Comm_free(&comm));
        take(smaller);
        rc = MPI_Allreduce(MPI_IN_PLACE, &turn, 1, MPI_INT, MPI_MAX, comm);
    } while (rc);
}

static int descriptors(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

/* This process dies after that time, wherever it is. */
static timer_t die_after(int us)
{
    struct sigevent e = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL };
    struct itimerspec t = { .it_value.tv_nsec = us * 1000 + 1 };
    timer_t timer = 0;
    CHECK(!timer_create(CLOCK_MONOTONIC, &e, &timer) && !timer_settime(timer, 0, &t, NULL));
    return timer;
}

int main(int argc, char **argv)
{
    unsigned seed = 1, deaths;
    timer_t timer = 0;
    bool dies = false;
    MPI_Comm c;
    for (int i = 1; i < argc; i++)
        sscanf(argv[i], "seed=%u", &seed);
    ft_init(argc, argv);
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &c));
    take(c);
    MPI_Barrier(c); /* all have it before one dies */
    int before = descriptors(), world = size, rc;
    deaths = seed * 2654435761u | 1;
    for (int n = (int)(mt_random(&deaths) % (unsigned)size), i = 0; i < n; i++) {
        int victim = (int)(mt_random(&deaths) % (unsigned)size),
            us = (int)(mt_random(&deaths) % WINDOW_US);
        if (victim != mt_rank || dies)
            continue;
        dies = true;
        timer = die_after(us);
    }
    do {
        while (turn < TURNS) {
            state = (seed * 1000u + (unsigned)turn) * 2654435761u | 1;
            rc = calls[draw(12)]();
            if (rc)
                recover(rc);
            else
                turn++;
        }
        if (dies)
            timer_delete(timer);
        dies = false;
        rc = consensus(0, 0, 0);
        if (rc)
            recover(rc);
    } while (rc);
    int failed = check_failed_case, all = 0, after = descriptors();
    CHECK_MSG(after <= before + 2 * world, "%d descriptors, %d before", after, before);
    failed |= check_failed_case;
    OK(MPI_Allreduce(&failed, &all, 1, MPI_INT, MPI_MAX, comm));
    if (rank == 0)
        printf("%sok 1 - seed %u, %d of %d ranks are left\n1..1\n", all ? "not " : "", seed, size,
               world);
    fflush(stdout);
    OK(MPI_Comm_free(&comm));
    MPI_Finalize();
    return failed;
}
