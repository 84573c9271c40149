/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes of two jobs on one host: messages of all kinds over a merged communicator, in shared
 * memory or without it, and windows.  The program is also the children. */
#include "test/mpi/dyn_path.h"
#include "test/mpi/dyn_start.h"

enum { CHILDREN = 3, ROUNDS = 300, LONGEST = 300000 };

static MPI_Comm inter, merged;
static int me, all;

static uint32_t next(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static unsigned char byte_at(int round, int i)
{
    return (unsigned char)(round * 31 + i * 7 + i / 256);
}

static void send_round(unsigned char *b, int round, int n, int to, uint32_t how)
{
    MPI_Request q;
    for (int i = 0; i < n; i++)
        b[i] = byte_at(round, i);
    if (how % 3 == 0)
        OK(MPI_Send(b, n, MPI_BYTE, to, round, merged));
    else if (how % 3 == 1)
        OK(MPI_Issend(b, n, MPI_BYTE, to, round, merged, &q));
    else
        OK(MPI_Isend(b, n, MPI_BYTE, to, round, merged, &q));
    if (how % 3)
        OK(MPI_Wait(&q, MPI_STATUS_IGNORE));
}

static void recv_round(unsigned char *b, int round, int n, int from, uint32_t how)
{
    MPI_Status s;
    int got, wrong = 0;
    if (how & 8)
        OK(MPI_Probe(how & 4 ? MPI_ANY_SOURCE : from, round, merged, &s));
    OK(MPI_Recv(b, LONGEST, MPI_BYTE, how & 4 ? MPI_ANY_SOURCE : from, round, merged, &s));
    OK(MPI_Get_count(&s, MPI_BYTE, &got));
    CHECK_EQ(got, n);
    CHECK_EQ(s.MPI_SOURCE, from);
    for (int i = 0; i < n; i++)
        wrong += b[i] != byte_at(round, i);
    CHECK_EQ(wrong, 0);
}

/* All processes draw the same messages. */
static void random_messages(void)
{
    unsigned char *b = malloc(LONGEST);
    uint32_t state = 25;
    for (int round = 0; round < ROUNDS; round++) {
        int from = (int)(next(&state) % (uint32_t)all), to = (int)(next(&state) % (uint32_t)all);
        int n = (int)(next(&state) % (1u << next(&state) % 19));
        uint32_t how = next(&state);
        if (from == to)
            continue;
        if (me == from)
            send_round(b, round, n, to, how);
        if (me == to)
            recv_round(b, round, n, from, how);
    }
    free(b);
    OK(MPI_Barrier(merged));
}

/* More short messages than a ring holds, before the first is received. */
static void full_ring(void)
{
    enum { N = 1000 };
    int x, *sent = malloc(N * sizeof *sent);
    MPI_Request *q = malloc(N * sizeof *q);
    for (int i = 0; i < N && me == 0; i++) {
        sent[i] = i;
        OK(MPI_Isend(&sent[i], 1, MPI_INT, all - 1, 1, merged, &q[i]));
    }
    if (me == 0)
        OK(MPI_Waitall(N, q, MPI_STATUSES_IGNORE));
    for (int i = 0; i < N && me == all - 1; i++) {
        OK(MPI_Recv(&x, 1, MPI_INT, 0, 1, merged, MPI_STATUS_IGNORE));
        CHECK_EQ(x, i);
    }
    free(sent);
    free(q);
    OK(MPI_Barrier(merged));
}

/* A receive and a send that no process matches. */
static void cancelled(void)
{
    MPI_Request q;
    MPI_Status s;
    int x = 0, flag = 0, other = (me + all / 2) % all;
    OK(MPI_Irecv(&x, 1, MPI_INT, other, 9, merged, &q));
    OK(MPI_Cancel(&q));
    OK(MPI_Wait(&q, &s));
    OK(MPI_Test_cancelled(&s, &flag));
    CHECK(flag);
    OK(MPI_Isend(&x, 1, MPI_INT, other, 10, merged, &q));
    OK(MPI_Cancel(&q));
    OK(MPI_Wait(&q, &s));
    OK(MPI_Barrier(merged));
    OK(MPI_Test_cancelled(&s, &flag));
    OK(MPI_Sendrecv(&flag, 1, MPI_INT, other, 11, &x, 1, MPI_INT, (me + all - all / 2) % all, 11,
                    merged, MPI_STATUS_IGNORE));
    if (!x) /* then the message is there */
        OK(MPI_Recv(&x, 1, MPI_INT, (me + all - all / 2) % all, 10, merged, MPI_STATUS_IGNORE));
}

/* A file's shared pointer is a word in the segment of one job only. */
static void file(void)
{
    char name[64] = "";
    MPI_File f;
    MPI_Offset at = -1;
    int one = 1;
    if (me == 0)
        snprintf(name, sizeof name, "/tmp/weft-dyn-%d", (int)getpid());
    OK(MPI_Bcast(name, sizeof name, MPI_CHAR, 0, merged));
    OK(MPI_File_open(merged, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                     MPI_INFO_NULL, &f));
    OK(MPI_File_write_shared(f, &one, 1, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_Barrier(merged));
    OK(MPI_File_get_position_shared(f, &at));
    CHECK_EQ((int)at, all * (int)sizeof one);
    OK(MPI_Barrier(merged));
    OK(MPI_File_close(&f));
}

static void window(void)
{
    int *base, right = (me + 1) % all, one = 1, got = -1;
    MPI_Win win;
    OK(MPI_Win_allocate(100 * (MPI_Aint)sizeof *base, sizeof *base, MPI_INFO_NULL, merged, &base,
                        &win));
    for (int i = 0; i < 100; i++)
        base[i] = 0;
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put(&me, 1, MPI_INT, right, me, 1, MPI_INT, win));
    OK(MPI_Accumulate(&one, 1, MPI_INT, 0, 99, 1, MPI_INT, MPI_SUM, win));
    OK(MPI_Win_fence(0, win));
    CHECK_EQ(base[(me + all - 1) % all], (me + all - 1) % all);
    OK(MPI_Get(&got, 1, MPI_INT, 0, 99, 1, MPI_INT, win));
    OK(MPI_Win_fence(0, win));
    CHECK_EQ(got, all);
    OK(MPI_Win_free(&win));
}

static void collectives(void)
{
    enum { N = 100000 };
    int *a = malloc(N * sizeof *a), *b = malloc(N * sizeof *b), wrong = 0;
    MPI_Comm again;
    MPI_Request q;
    OK(MPI_Comm_idup(merged, &again, &q));
    OK(MPI_Wait(&q, MPI_STATUS_IGNORE));
    for (int n = 1; n <= N; n *= 10)
        for (int k = 0; k < 3; k++) {
            for (int i = 0; i < n; i++)
                a[i] = me + i + k;
            OK(MPI_Allreduce(a, b, n, MPI_INT, MPI_SUM, k == 2 ? again : merged));
            for (int i = 0; i < n; i++)
                wrong += b[i] != all * (all - 1) / 2 + all * (i + k);
            OK(MPI_Bcast(a, n, MPI_INT, k % all, merged));
            for (int i = 0; i < n; i++)
                wrong += a[i] != k % all + i + k;
            OK(MPI_Barrier(again));
        }
    CHECK_EQ(wrong, 0);
    OK(MPI_Comm_free(&again));
    free(a);
    free(b);
}

static void talk(int far, bool parent)
{
    OK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
    check_path(far);
    OK(MPI_Intercomm_merge(inter, !parent, &merged));
    OK(MPI_Comm_rank(merged, &me));
    OK(MPI_Comm_size(merged, &all));
    random_messages();
    full_ring();
    cancelled();
    collectives();
    window();
    file();
    OK(MPI_Comm_free(&merged));
    OK(MPI_Comm_disconnect(&inter));
}

static void spawned(void)
{
    char *argv[] = { "child", NULL };
    OK(MPI_Comm_spawn(start_program, argv, CHILDREN, MPI_INFO_NULL, 0, mt_comm, &inter,
                      MPI_ERRCODES_IGNORE));
    talk(CHILDREN, true);
}

/* Children that have ended leave no segment behind. */
static void many(void)
{
    char *argv[] = { "quiet", NULL };
    int first = 0;
    for (int i = 0; i < 10; i++) {
        OK(MPI_Comm_spawn(start_program, argv, 1, MPI_INFO_NULL, 0, mt_comm, &inter,
                          MPI_ERRCODES_IGNORE));
        OK(MPI_Barrier(inter));
        if (i == 0)
            first = segments();
        OK(MPI_Comm_disconnect(&inter));
    }
    CHECK_MSG(segments() <= first + 3, "%d segments, then %d", first, segments());
}

static int child(int argc, char **argv)
{
    int far;
    MPI_Init(&argc, &argv);
    OK(MPI_Comm_get_parent(&inter));
    OK(MPI_Comm_remote_size(inter, &far));
    if (!strcmp(argv[1], "quiet")) {
        OK(MPI_Barrier(inter));
        OK(MPI_Comm_disconnect(&inter));
    } else {
        talk(far, false);
    }
    MPI_Finalize();
    return check_failed_case;
}

int main(int argc, char **argv)
{
    find_program(argv[0]);
    if (argc > 1)
        return child(argc, argv);
    mt_init(argc, argv);
    MT_RUN(spawned);
    MT_RUN(many);
    return mt_end();
}
