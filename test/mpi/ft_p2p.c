/* SPDX-License-Identifier: BSD-3-Clause */
/* mpirun --ft: the last rank dies.  Messages with it end with MPIX_ERR_PROC_FAILED, receives from
 * any source as their rules say, and messages among the others continue.  Arguments: `spoken`, the
 * victim has had messages with all before it dies; `exit`, it dies by an exit code; `early`, it
 * dies before MPI_Init; `late`, the others call MPI_Init after its death. */
#include "test/mpi/ft_test.h"

#define TAG 7
#define LARGE 300000

static int victim;
static char large_out[LARGE], large_in[LARGE];

static void speak(void)
{
    int v = mt_rank, w = -1;
    if (mt_rank != victim) {
        OK(MPI_Send(&v, 1, MPI_INT, victim, TAG, MPI_COMM_WORLD));
        OK(MPI_Recv(&w, 1, MPI_INT, victim, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK(w == v + 1000);
        return;
    }
    for (int i = 0; i < victim; i++) {
        OK(MPI_Recv(&v, 1, MPI_INT, i, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        v += 1000;
        OK(MPI_Send(&v, 1, MPI_INT, i, TAG, MPI_COMM_WORLD));
    }
}

static void named(void)
{
    int v = 0, flag;
    MPI_Request r[3], p;
    MPI_Status s[3];
    OK(MPI_Irecv(&v, 1, MPI_INT, victim, TAG, MPI_COMM_WORLD, &r[0]));
    OK(MPI_Irecv(large_in, LARGE, MPI_CHAR, victim, TAG + 1, MPI_COMM_WORLD, &r[1]));
    OK(MPI_Isend(large_out, 0, MPI_CHAR, mt_rank, TAG + 2, MPI_COMM_WORLD, &r[2]));
    FAILS(MPI_Waitall(3, r, s), MPI_ERR_IN_STATUS);
    CHECK(s[0].MPI_ERROR == MPIX_ERR_PROC_FAILED && s[1].MPI_ERROR == MPIX_ERR_PROC_FAILED);
    CHECK(s[2].MPI_ERROR == MPI_SUCCESS);
    CHECK(r[0] == MPI_REQUEST_NULL && r[1] == MPI_REQUEST_NULL);
    OK(MPI_Recv(large_in, 0, MPI_CHAR, mt_rank, TAG + 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));

    FAILS(MPI_Recv(&v, 1, MPI_INT, victim, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
          MPIX_ERR_PROC_FAILED);
    FAILS(MPI_Send(&v, 1, MPI_INT, victim, TAG, MPI_COMM_WORLD), MPIX_ERR_PROC_FAILED);
    FAILS(MPI_Ssend(&v, 1, MPI_INT, victim, TAG, MPI_COMM_WORLD), MPIX_ERR_PROC_FAILED);
    FAILS(MPI_Send(large_out, LARGE, MPI_CHAR, victim, TAG, MPI_COMM_WORLD), MPIX_ERR_PROC_FAILED);
    FAILS(MPI_Probe(victim, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED);
    FAILS(MPI_Iprobe(victim, TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED);
    FAILS(MPI_Sendrecv(&v, 1, MPI_INT, MPI_PROC_NULL, TAG, &v, 1, MPI_INT, victim, TAG,
                       MPI_COMM_WORLD, MPI_STATUS_IGNORE),
          MPIX_ERR_PROC_FAILED);

    OK(MPI_Recv_init(&v, 1, MPI_INT, victim, TAG, MPI_COMM_WORLD, &p));
    OK(MPI_Start(&p));
    FAILS(MPI_Wait(&p, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED);
    OK(MPI_Request_free(&p));
}

/* The request stays active and takes a message later. */
static void check_pending(MPI_Request *r, const int *got, int expected)
{
    int flag = -1, index, n, indices[2];
    MPI_Status s[2];
    MPI_Request two[2];
    FAILS(MPI_Wait(r, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED_PENDING);
    CHECK(*r != MPI_REQUEST_NULL);
    FAILS(MPI_Test(r, &flag, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED_PENDING);
    CHECK(!flag && *r != MPI_REQUEST_NULL);
    two[0] = MPI_REQUEST_NULL;
    two[1] = *r;
    FAILS(MPI_Waitany(2, two, &index, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED_PENDING);
    CHECK(index == 1 && two[1] == *r);
    FAILS(MPI_Testany(2, two, &index, &flag, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED_PENDING);
    FAILS(MPI_Testall(2, two, &flag, s), MPIX_ERR_PROC_FAILED_PENDING);
    CHECK(!flag);
    FAILS(MPI_Waitsome(2, two, &n, indices, s), MPI_ERR_IN_STATUS);
    CHECK(n == 1 && indices[0] == 1 && s[0].MPI_ERROR == MPIX_ERR_PROC_FAILED_PENDING);
    FAILS(MPI_Waitall(2, two, s), MPI_ERR_IN_STATUS);
    CHECK(s[0].MPI_ERROR == MPI_SUCCESS && s[1].MPI_ERROR == MPIX_ERR_PROC_FAILED_PENDING);
    CHECK(two[1] == *r);
    OK(MPI_Send(&expected, 1, MPI_INT, mt_rank, TAG + 3, MPI_COMM_WORLD));
    OK(MPI_Wait(r, &s[0]));
    CHECK(s[0].MPI_SOURCE == mt_rank && *got == expected);
}

static void wildcards(void)
{
    int v = 0, flag;
    MPI_Request r, p;
    FAILS(MPI_Recv(&v, 1, MPI_INT, MPI_ANY_SOURCE, TAG + 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
          MPIX_ERR_PROC_FAILED);
    FAILS(MPI_Recv(large_in, LARGE, MPI_CHAR, MPI_ANY_SOURCE, TAG + 6, MPI_COMM_WORLD,
                   MPI_STATUS_IGNORE),
          MPIX_ERR_PROC_FAILED);
    FAILS(MPI_Probe(MPI_ANY_SOURCE, TAG + 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
          MPIX_ERR_PROC_FAILED);
    FAILS(MPI_Iprobe(MPI_ANY_SOURCE, TAG + 3, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE),
          MPIX_ERR_PROC_FAILED);
    OK(MPI_Irecv(&v, 1, MPI_INT, MPI_ANY_SOURCE, TAG + 3, MPI_COMM_WORLD, &r));
    check_pending(&r, &v, 4711);
    CHECK(r == MPI_REQUEST_NULL);
    OK(MPI_Recv_init(&v, 1, MPI_INT, MPI_ANY_SOURCE, TAG + 3, MPI_COMM_WORLD, &p));
    OK(MPI_Start(&p));
    check_pending(&p, &v, 4712);
    OK(MPI_Request_free(&p));

    /* a message that is there is received */
    v = 5;
    OK(MPI_Send(&v, 1, MPI_INT, mt_rank, TAG + 3, MPI_COMM_WORLD));
    OK(MPI_Probe(MPI_ANY_SOURCE, TAG + 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPI_Recv(&v, 1, MPI_INT, MPI_ANY_SOURCE, TAG + 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

/* A ring of the survivors, with short and long messages. */
static void survivors_go_on(void)
{
    int next = (mt_rank + 1) % victim, prev = (mt_rank + victim - 1) % victim, v;
    for (int i = 0; i < 20; i++) {
        memset(large_out, mt_rank + i, LARGE);
        OK(MPI_Sendrecv(&mt_rank, 1, MPI_INT, next, TAG + 4, &v, 1, MPI_INT, prev, TAG + 4,
                        MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK(v == prev);
        OK(MPI_Sendrecv(large_out, LARGE, MPI_CHAR, next, TAG + 5, large_in, LARGE, MPI_CHAR, prev,
                        TAG + 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK(large_in[0] == (char)(prev + i) && large_in[LARGE - 1] == (char)(prev + i));
    }
}

int main(int argc, char **argv)
{
    int alive[64], err;
    bool last = atoi(getenv("RANK")) == atoi(getenv("WORLD_SIZE")) - 1;
    ft_exits = ft_has(argc, argv, "exit");
    if (last && ft_has(argc, argv, "early"))
        ft_die();
    if (!last && ft_has(argc, argv, "late"))
        usleep(500000);
    ft_init(argc, argv);
    victim = mt_size - 1;
    if (ft_has(argc, argv, "spoken"))
        speak();
    if (mt_rank == victim)
        ft_die();
    named();
    wildcards();
    survivors_go_on();
    MPI_Error_class(MPIX_ERR_PROC_FAILED, &err);
    CHECK(err == MPIX_ERR_PROC_FAILED);
    for (int i = 0; i < victim && i < 64; i++)
        alive[i] = i;
    return ft_end("messages and a dead process", 0, alive, victim);
}
