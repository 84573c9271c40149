/* SPDX-License-Identifier: BSD-3-Clause */
/* mpirun --ft: random calls (argument seed=N) while ranks die at random times.  All ranks draw the
 * same calls.  A rank whose call fails revokes the communicator and contributes 0 to an agreement;
 * the survivors then shrink the communicator and continue with the call that failed first.  A call
 * that succeeds has right values.  At the end the survivors have no more descriptors and contexts
 * than before.  ft_random.py runs it (in=FOLDER: for files). */
#include "test/descriptors.h"
#include "test/mpi/ft_test.h"

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
    } else if (how == 3) {
        rc = MPIX_Comm_shrink(comm, &c);
    } else {
        rc = wait_for(MPIX_Comm_ishrink(comm, &c, &r), &r);
    }
    int lost = consensus(rc, 0, 0);
    if (!lost) {
        rc = MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, c);
        if (!rc && how < 3)
            CHECK_MSG(sum == n, "turn %d: %d ranks of %d in call %d", turn, sum, n, how);
        if (rc) /* others of this communicator may wait */
            OK(MPIX_Comm_revoke(c));
    }
    if (c != MPI_COMM_NULL) /* nonblocking calls set it when they begin */
        OK(MPI_Comm_free(&c));
    return lost ? LOST : rc;
}

static int abandoned; /* windows and files that only some have */

static int epoch(MPI_Win w, int how)
{
    MPI_Group all;
    int rc;
    switch (how) {
    case 0:
        return MPI_Win_fence(0, w);
    case 1:
        return MPI_Win_lock_all(0, w);
    case 2:
        return MPI_Win_lock(MPI_LOCK_SHARED, (rank + 1) % size, 0, w);
    default:
        OK(MPI_Comm_group(comm, &all));
        rc = MPI_Win_post(all, 0, w);
        rc = rc ? rc : MPI_Win_start(all, 0, w);
        MPI_Group_free(&all);
        return rc;
    }
}

/* All data have arrived if all have returned from the barrier. */
static int epoch_end(MPI_Win w, int how)
{
    int rc;
    switch (how) {
    case 0:
        return MPI_Win_fence(0, w);
    case 1:
        rc = MPI_Win_unlock_all(w);
        return rc ? rc : MPI_Barrier(comm);
    case 2:
        rc = MPI_Win_unlock((rank + 1) % size, w);
        return rc ? rc : MPI_Barrier(comm);
    default:
        rc = MPI_Win_complete(w);
        return rc ? rc : MPI_Win_wait(w);
    }
}

static int window(void)
{
    MPI_Win w = MPI_WIN_NULL;
    static int own[8];
    int *mem = own, v = rank * 1000 + turn, rc, left = (rank + size - 1) % size;
    int kind = draw(3), how = draw(4);
    MPI_Aint at = 1;
    if (kind == 0)
        rc = MPI_Win_allocate(sizeof *mem * 8, sizeof *mem, MPI_INFO_NULL, comm, &mem, &w);
    else if (kind == 1)
        rc = MPI_Win_create(own, sizeof own, sizeof *mem, MPI_INFO_NULL, comm, &w);
    else
        rc = MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &w);
    if (!rc)
        MPI_Win_set_errhandler(w, MPI_ERRORS_RETURN);
    int lost = consensus(rc, 0, 0);
    if (lost) {
        abandoned += w != MPI_WIN_NULL;
        return LOST;
    }
    if (kind == 2) {
        OK(MPI_Win_attach(w, own, sizeof own));
        OK(MPI_Get_address(&own[1], &at));
        rc = MPI_Sendrecv_replace(&at, 1, MPI_AINT, left, TAG, (rank + 1) % size, TAG, comm,
                                  MPI_STATUS_IGNORE);
    }
    if (!rc)
        rc = epoch(w, how);
    if (!rc) {
        rc = MPI_Put(&v, 1, MPI_INT, (rank + 1) % size, at, 1, MPI_INT, w);
        int end = epoch_end(w, how);
        rc = rc ? rc : end;
    }
    if (!rc)
        CHECK_MSG(mem[1] == left * 1000 + turn, "turn %d: %d in the window", turn, mem[1]);
    if (rc) /* others may wait in a barrier */
        OK(MPIX_Comm_revoke(comm));
    if (consensus(rc, 0, 0)) { /* some may be in an epoch, in which no window can be freed */
        abandoned++;
        return LOST;
    }
    if (kind == 2)
        OK(MPI_Win_detach(w, own));
    rc = MPI_Win_free(&w);
    abandoned += rc != MPI_SUCCESS;
    return rc;
}

/* ---- persistent calls: the requests are freed whatever has happened ---- */

static int starts(int n, MPI_Request *r, int times, void (*check)(int n), int len)
{
    int rc = 0;
    for (int i = 0; i < times && !rc; i++) {
        memset(in, 0, sizeof *in * (size_t)len);
        rc = MPI_Startall(n, r);
        if (!rc)
            rc = MPI_Waitall(n, r, MPI_STATUSES_IGNORE);
        if (!rc)
            check(len);
    }
    if (rc)
        OK(MPIX_Comm_revoke(comm));
    for (int i = 0; i < n; i++) {
        MPI_Wait(&r[i], MPI_STATUS_IGNORE); /* an active one ends with the revocation */
        OK(MPI_Request_free(&r[i]));
    }
    return rc;
}

static void check_left(int n) { check_from(in, n, (rank + size - 1) % size); }
static void check_all(int n) { check_sum(in, n); }

static int persistent(void)
{
    MPI_Request r[2];
    int n = length(), times = 1 + draw(3);
    fill(n, rank);
    if (draw(2)) {
        OK(MPI_Send_init(out, n, MPI_INT, (rank + 1) % size, TAG, comm, &r[0]));
        OK(MPI_Recv_init(in, n, MPI_INT, (rank + size - 1) % size, TAG, comm, &r[1]));
        return starts(2, r, times, check_left, n);
    }
    TRY(MPI_Allreduce_init(out, in, n, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &r[0]));
    return starts(1, r, times, check_all, n);
}

static int partitions(void)
{
    enum { PARTS = 4 };
    MPI_Request r[2] = { MPI_REQUEST_NULL, MPI_REQUEST_NULL };
    int n = length() % 5000 + 1, rc;
    fill(n * PARTS, rank);
    rc = MPI_Psend_init(out, PARTS, n, MPI_INT, (rank + 1) % size, TAG, comm, MPI_INFO_NULL, &r[0]);
    if (!rc)
        rc = MPI_Precv_init(in, PARTS, n, MPI_INT, (rank + size - 1) % size, TAG, comm,
                            MPI_INFO_NULL, &r[1]);
    if (!rc)
        rc = MPI_Startall(2, r);
    for (int i = 0; i < PARTS && !rc; i++)
        rc = MPI_Pready(PARTS - 1 - i, r[0]);
    if (!rc)
        rc = MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    if (!rc)
        check_left(n * PARTS);
    else
        OK(MPIX_Comm_revoke(comm));
    for (int i = 0; i < 2; i++) {
        MPI_Wait(&r[i], MPI_STATUS_IGNORE);
        if (r[i] != MPI_REQUEST_NULL)
            OK(MPI_Request_free(&r[i]));
    }
    return rc;
}

/* ---- topologies, sessions, files ---- */

static int topology(void)
{
    MPI_Comm c = MPI_COMM_NULL;
    int left = (rank + size - 1) % size, right = (rank + 1) % size, rc, n = length() % 5000 + 1;
    bool cart = draw(2);
    if (cart)
        rc = MPI_Cart_create(comm, 1, &size, (int[]){ 1 }, 0, &c);
    else
        rc = MPI_Dist_graph_create_adjacent(comm, 2, (int[]){ left, right }, MPI_UNWEIGHTED, 2,
                                            (int[]){ left, right }, MPI_UNWEIGHTED, MPI_INFO_NULL,
                                            0, &c);
    int lost = consensus(rc, 0, 0);
    if (!lost) {
        fill(n, rank);
        rc = MPI_Neighbor_allgather(out, n, MPI_INT, in, n, MPI_INT, c);
        if (rc)
            OK(MPIX_Comm_revoke(c));
        else {
            check_from(in, n, left);
            check_from(in + n, n, right);
        }
    }
    if (c != MPI_COMM_NULL)
        OK(MPI_Comm_free(&c));
    return lost ? LOST : rc;
}

static int session(void)
{
    MPI_Session s;
    MPI_Group g;
    MPI_Comm c;
    int one = 1, sum = 0;
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &s));
    OK(MPI_Group_from_session_pset(s, "mpi://SELF", &g));
    OK(MPI_Comm_create_from_group(g, "ft_random", MPI_INFO_NULL, MPI_ERRORS_RETURN, &c));
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, c));
    CHECK(sum == 1);
    OK(MPI_Group_free(&g));
    OK(MPI_Comm_free(&c));
    OK(MPI_Session_finalize(&s));
    return 0;
}

static const char *folder;
static bool several_hosts;

static int file(void)
{
    char name[4096];
    MPI_File f = MPI_FILE_NULL;
    int n = length(), left = (rank + size - 1) % size, rc;
    snprintf(name, sizeof name, "%s/turn%d", folder, turn);
    rc = MPI_File_open(comm, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f);
    if (consensus(rc, 0, 0)) {
        abandoned += f != MPI_FILE_NULL || several_hosts; /* the shared pointer is a window there */
        return LOST;
    }
    fill(n, rank);
    rc = MPI_File_write_at_all(f, (MPI_Offset)rank * n * (int)sizeof *out, out, n, MPI_INT,
                               MPI_STATUS_IGNORE);
    if (!rc)
        rc = MPI_File_sync(f);
    if (!rc)
        rc = MPI_Barrier(comm);
    if (!rc)
        rc = MPI_File_read_at_all(f, (MPI_Offset)left * n * (int)sizeof *out, in, n, MPI_INT,
                                  MPI_STATUS_IGNORE);
    if (!rc)
        check_from(in, n, left);
    else
        OK(MPIX_Comm_revoke(comm));
    if (consensus(rc, 0, 0)) {
        abandoned++;
        return LOST;
    }
    rc = MPI_File_close(&f);
    abandoned += rc != MPI_SUCCESS;
    return rc;
}

static int (*const calls[])(void) = { ring,      nonblocking, to_one,     broadcast,  reduction,
                                      gathering, exchange,    revocation, agreement,  communicators,
                                      window,    reduction,   persistent, partitions, topology,
                                      session,   file,        window };
enum { NCALLS = sizeof calls / sizeof calls[0] };

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
    int provided;
    MPI_Comm c;
    for (int i = 1; i < argc; i++)
        if (!sscanf(argv[i], "seed=%u", &seed) && !strncmp(argv[i], "in=", 3))
            folder = argv[i] + 3;
    ft_init(argc, argv);
    OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &c));
    MPI_Comm_size(c, &size);
    several_hosts = size < mt_size;
    OK(MPI_Comm_free(&c));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &c));
    take(c);
    session(); /* the first one makes a communicator of the process */
    int before = descriptors(), contexts = (int)ft_level("objects_contexts"),
        comms = (int)ft_level("objects_communicators"), world = size, rc;
    MPI_Barrier(c); /* all have it before one dies or revokes it */
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
            state = (seed * 1000u + (unsigned)turn) * 2654435761u; /* its high bits are mixed */
            state = (state ^ state >> 15) * 2246822519u;
            rc = calls[draw(NCALLS)]();
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
    /* a connection to each other rank; a window or file that was abandoned keeps what it has */
    CHECK_MSG(after <= before + 2 * world + 2 * abandoned,
              "%d descriptors, %d before, %d abandoned", after, before, abandoned);
    after = (int)ft_level("objects_contexts");
    CHECK_MSG(after <= contexts + 3 * abandoned, "%d contexts, %d before, %d abandoned", after,
              contexts, abandoned);
    after = (int)ft_level("objects_communicators");
    CHECK_MSG(after <= comms + 2 * abandoned, "%d communicators, %d before, %d abandoned", after,
              comms, abandoned);
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
