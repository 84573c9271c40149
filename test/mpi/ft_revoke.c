/* SPDX-License-Identifier: BSD-3-Clause */
/* mpirun --ft: lists of the dead, acknowledgement, revocation.  With argument `die` the last rank
 * dies first; else all live and one rank revokes. */
#include "test/mpi/ft_test.h"

#define TAG 7
#define LARGE 300000

static int nalive;
static bool dies;
static char large_out[LARGE];

/* Until the death is in the list. */
static MPI_Group await_failed(MPI_Comm c, int n)
{
    MPI_Group g;
    int size;
    for (;;) {
        OK(MPIX_Comm_get_failed(c, &g));
        MPI_Group_size(g, &size);
        if (size >= n)
            return g;
        MPI_Group_free(&g);
        MPI_Iprobe(MPI_ANY_SOURCE, TAG + 9, MPI_COMM_SELF, &size, MPI_STATUS_IGNORE);
    }
}

static void acknowledgement(void)
{
    MPI_Group g, world;
    MPI_Request r;
    int n = -1, zero = 0, at, v = 0;
    OK(MPIX_Comm_failure_get_acked(MPI_COMM_WORLD, &g));
    MPI_Group_size(g, &n);
    CHECK(n == 0 && g == MPI_GROUP_EMPTY);
    g = await_failed(MPI_COMM_WORLD, 1);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_translate_ranks(g, 1, &zero, world, &at);
    CHECK(at == mt_size - 1);
    MPI_Group_free(&g);
    MPI_Group_free(&world);
    OK(MPIX_Comm_get_failed(MPI_COMM_SELF, &g));
    CHECK(g == MPI_GROUP_EMPTY);

    OK(MPI_Irecv(&v, 1, MPI_INT, MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &r));
    FAILS(MPI_Wait(&r, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED_PENDING);
    OK(MPIX_Comm_ack_failed(MPI_COMM_WORLD, 0, &n));
    CHECK(n == 0);
    OK(MPIX_Comm_ack_failed(MPI_COMM_WORLD, 5, &n));
    CHECK(n == 1);
    OK(MPI_Test(&r, &n, MPI_STATUS_IGNORE)); /* no error any more */
    CHECK(n == 0);
    n = 8;
    OK(MPI_Send(&n, 1, MPI_INT, mt_rank, TAG, MPI_COMM_WORLD));
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    CHECK(v == 8);
    OK(MPI_Send(&n, 1, MPI_INT, mt_rank, TAG, MPI_COMM_WORLD));
    OK(MPI_Recv(&v, 1, MPI_INT, MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPIX_Comm_failure_get_acked(MPI_COMM_WORLD, &g));
    MPI_Group_size(g, &n);
    CHECK(n == 1);
    MPI_Group_free(&g);
    FAILS(MPIX_Comm_ack_failed(MPI_COMM_WORLD, -1, &n), MPI_ERR_COUNT);
    FAILS(MPIX_Comm_ack_failed(MPI_COMM_WORLD, 1, NULL), MPI_ERR_ARG);
    FAILS(MPIX_Comm_get_failed(MPI_COMM_NULL, &g), MPI_ERR_COMM);
}

static void check_revoked(MPI_Comm c)
{
    int v = 0, flag = 0, peer = mt_rank ? 0 : 1 % nalive;
    MPI_Comm d = MPI_COMM_NULL;
    MPI_Request r = MPI_REQUEST_NULL;
    FAILS(MPI_Send(&v, 1, MPI_INT, peer, TAG, c), MPIX_ERR_REVOKED);
    FAILS(MPI_Recv(&v, 1, MPI_INT, peer, TAG, c, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED);
    FAILS(MPI_Recv(&v, 1, MPI_INT, MPI_ANY_SOURCE, TAG, c, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED);
    FAILS(MPI_Send(&v, 1, MPI_INT, MPI_PROC_NULL, TAG, c), MPIX_ERR_REVOKED);
    FAILS(MPI_Bsend(&v, 1, MPI_INT, MPI_PROC_NULL, TAG, c), MPIX_ERR_REVOKED);
    FAILS(MPI_Isend(&v, 1, MPI_INT, MPI_PROC_NULL, TAG, c, &r), MPIX_ERR_REVOKED);
    FAILS(MPI_Recv(&v, 1, MPI_INT, MPI_PROC_NULL, TAG, c, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED);
    FAILS(MPI_Irecv(&v, 1, MPI_INT, MPI_PROC_NULL, TAG, c, &r), MPIX_ERR_REVOKED);
    FAILS(MPI_Iprobe(MPI_PROC_NULL, TAG, c, &flag, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED);
    FAILS(MPI_Probe(MPI_ANY_SOURCE, TAG, c, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED);
    FAILS(MPI_Iprobe(peer, TAG, c, &flag, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED);
    FAILS(MPI_Barrier(c), MPIX_ERR_REVOKED);
    FAILS(MPI_Allreduce(MPI_IN_PLACE, &v, 1, MPI_INT, MPI_SUM, c), MPIX_ERR_REVOKED);
    FAILS(MPI_Ibarrier(c, &r), MPIX_ERR_REVOKED);
    FAILS(MPI_Comm_dup(c, &d), MPIX_ERR_REVOKED);
    FAILS(MPI_Comm_split(c, 0, 0, &d), MPIX_ERR_REVOKED);
    OK(MPIX_Comm_is_revoked(c, &flag));
    CHECK(flag);
    OK(MPIX_Comm_is_revoked(MPI_COMM_WORLD, &flag));
    CHECK(!flag);
    OK(MPIX_Comm_revoke(c));
}

/* Rank `revoker` revokes while the others wait in call number `way`. */
static void revoke_in(int way, int revoker)
{
    enum { N = 4 };
    MPI_Comm c;
    MPI_Request r[N];
    MPI_Status s[N];
    int v[N] = { 0 }, peer = (mt_rank + 1) % nalive, token = 0;
    OK(MPI_Comm_split(MPI_COMM_WORLD, mt_rank < nalive ? 0 : MPI_UNDEFINED, 0, &c));
    MPI_Comm_set_errhandler(c, MPI_ERRORS_RETURN);
    if (mt_rank == revoker) {
        if (way == 4) /* a message that no process receives */
            OK(MPI_Send(&token, 1, MPI_INT, peer, TAG + 1, c));
        OK(MPIX_Comm_revoke(c));
    } else if (way == 0) {
        FAILS(MPI_Recv(v, 1, MPI_INT, revoker, TAG, c, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED);
    } else if (way == 1) {
        FAILS(MPI_Barrier(c), MPIX_ERR_REVOKED);
    } else if (way == 2) {
        r[0] = r[1] = r[2] = r[3] = MPI_REQUEST_NULL;
        int rc = MPI_Irecv(v, 1, MPI_INT, MPI_ANY_SOURCE, TAG, c, &r[0]);
        if (rc == MPI_SUCCESS)
            rc = MPI_Iallreduce(&v[1], &v[2], 1, MPI_INT, MPI_SUM, c, &r[1]);
        if (rc == MPI_SUCCESS)
            rc = MPI_Issend(v, 1, MPI_INT, peer, TAG + 2, c, &r[2]);
        if (rc == MPI_SUCCESS)
            rc = MPI_Isend(large_out, LARGE, MPI_CHAR, peer, TAG + 3, c, &r[3]);
        if (rc != MPI_SUCCESS)
            FAILS(rc, MPIX_ERR_REVOKED);
        for (int i = 0; i < N; i++)
            if (r[i] != MPI_REQUEST_NULL)
                FAILS(MPI_Wait(&r[i], &s[i]), MPIX_ERR_REVOKED);
    } else if (way == 3) {
        FAILS(MPI_Probe(revoker, TAG, c, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED);
    } else {
        MPI_Request p;
        OK(MPI_Recv_init(v, 1, MPI_INT, revoker, TAG, c, &p));
        int rc = MPI_Start(&p);
        FAILS(rc ? rc : MPI_Wait(&p, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED);
        OK(MPI_Request_free(&p));
    }
    check_revoked(c);
    OK(MPI_Comm_free(&c));
    /* the others of the parent are not affected */
    OK(MPI_Sendrecv(&mt_rank, 1, MPI_INT, peer, TAG, v, 1, MPI_INT, (mt_rank + nalive - 1) % nalive,
                    TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK(v[0] == (mt_rank + nalive - 1) % nalive);
}

/* The communicator is made before the death, because that is collective. */
static void revoke_after_death(void)
{
    MPI_Comm c;
    int v;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &c));
    MPI_Comm_set_errhandler(c, MPI_ERRORS_RETURN);
    if (mt_rank == mt_size - 1)
        ft_die();
    if (mt_rank == 0) {
        FAILS(MPI_Recv(&v, 1, MPI_INT, mt_size - 1, TAG, c, MPI_STATUS_IGNORE),
              MPIX_ERR_PROC_FAILED);
        OK(MPIX_Comm_revoke(c));
    } else {
        /* rank 0 lives: only the revocation ends this */
        FAILS(MPI_Recv(&v, 1, MPI_INT, 0, TAG, c, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED);
    }
    check_revoked(c);
    OK(MPI_Comm_free(&c));
    acknowledgement();
}

int main(int argc, char **argv)
{
    int alive[64];
    ft_init(argc, argv);
    dies = ft_has(argc, argv, "die");
    nalive = mt_size - dies;
    if (dies)
        revoke_after_death();
    else
        for (int i = 0; i < 10; i++)
            revoke_in(i % 5, i % nalive);
    for (int i = 0; i < nalive && i < 64; i++)
        alive[i] = i;
    return ft_end("revocation", 0, alive, nalive);
}
