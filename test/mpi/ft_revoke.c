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

/* The request of a call that has begun after the revocation. */
static void fails_later(MPI_Request *r)
{
    CHECK(*r != MPI_REQUEST_NULL);
    FAILS(MPI_Wait(r, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED);
    CHECK(*r == MPI_REQUEST_NULL);
}

/* A program that does not look at what these calls return, but waits for their requests, gets the
 * same error as one whose calls have begun before the revocation. */
static void nonblocking(MPI_Comm c)
{
    int v[2] = { 0 }, peer = mt_rank ? 0 : 1 % nalive, peers[2] = { MPI_PROC_NULL, peer }, n, flag;
    MPI_Request r, two[2];
    MPI_Status s[2];
    MPI_Comm d;
    for (int i = 0; i < 2; i++) {
        OK(MPI_Isend(v, 1, MPI_INT, peers[i], TAG, c, &r));
        fails_later(&r);
        OK(MPI_Issend(large_out, LARGE, MPI_CHAR, peers[i], TAG, c, &r));
        fails_later(&r);
        OK(MPI_Irsend(v, 1, MPI_INT, peers[i], TAG, c, &r));
        fails_later(&r);
        OK(MPI_Ibsend(v, 0, MPI_INT, peers[i], TAG, c, &r));
        fails_later(&r);
        OK(MPI_Isendrecv(v, 1, MPI_INT, peers[i], TAG, v + 1, 1, MPI_INT, peers[i], TAG, c, &r));
        fails_later(&r);
        OK(MPI_Isendrecv_replace(v, 1, MPI_INT, peers[i], TAG, peers[i], TAG, c, &r));
        fails_later(&r);
        OK(MPI_Irecv(v, 1, MPI_INT, peers[i], TAG, c, &r));
        FAILS(MPI_Test(&r, &flag, s), MPIX_ERR_REVOKED);
        CHECK(r == MPI_REQUEST_NULL && s[0].MPI_SOURCE == peers[i] && s[0].MPI_TAG == TAG);
    }
    OK(MPI_Irecv(v, 1, MPI_INT, MPI_ANY_SOURCE, TAG, c, &two[0]));
    OK(MPI_Ibarrier(c, &two[1]));
    FAILS(MPI_Waitall(2, two, s), MPI_ERR_IN_STATUS);
    CHECK(s[0].MPI_ERROR == MPIX_ERR_REVOKED && s[1].MPI_ERROR == MPIX_ERR_REVOKED);
    OK(MPI_Iallreduce(v, v + 1, 1, MPI_INT, MPI_SUM, c, &r));
    fails_later(&r);
    OK(MPI_Comm_idup(c, &d, &r));
    fails_later(&r);
    OK(MPI_Irecv(v, 1, MPI_INT, peer, TAG, c, &r));
    OK(MPI_Request_free(&r));
    OK(MPI_Irecv(v, 1, MPI_INT, peer, TAG, c, &r));
    OK(MPI_Cancel(&r));
    fails_later(&r);
    OK(MPI_Irecv(v, 1, MPI_INT, peer, TAG, c, &r));
    FAILS(MPI_Waitany(1, &r, &n, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED);
    CHECK(n == 0 && r == MPI_REQUEST_NULL);
}

/* MPI_Start likewise; the request stays, and may be started again. */
static void persistent(MPI_Comm c)
{
    int v = 0, peer = mt_rank ? 0 : 1 % nalive, parts[1] = { 0 };
    MPI_Request r[5];
    OK(MPI_Send_init(&v, 1, MPI_INT, peer, TAG, c, &r[0]));
    OK(MPI_Recv_init(&v, 1, MPI_INT, MPI_ANY_SOURCE, TAG, c, &r[1]));
    OK(MPI_Barrier_init(c, MPI_INFO_NULL, &r[2]));
    OK(MPI_Psend_init(&v, 1, 1, MPI_INT, MPI_PROC_NULL, TAG, c, MPI_INFO_NULL, &r[3]));
    OK(MPI_Precv_init(parts, 1, 1, MPI_INT, MPI_PROC_NULL, TAG, c, MPI_INFO_NULL, &r[4]));
    for (int turn = 0; turn < 2; turn++)
        for (int i = 0; i < 3; i++) {
            OK(MPI_Start(&r[i]));
            FAILS(MPI_Wait(&r[i], MPI_STATUS_IGNORE), MPIX_ERR_REVOKED);
            CHECK(r[i] != MPI_REQUEST_NULL);
        }
    for (int i = 0; i < 5; i++)
        OK(MPI_Request_free(&r[i]));
}

static void check_revoked(MPI_Comm c)
{
    int v = 0, flag = 0, peer = mt_rank ? 0 : 1 % nalive;
    MPI_Comm d = MPI_COMM_NULL;
    FAILS(MPI_Send(&v, 1, MPI_INT, peer, TAG, c), MPIX_ERR_REVOKED);
    FAILS(MPI_Recv(&v, 1, MPI_INT, peer, TAG, c, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED);
    FAILS(MPI_Recv(&v, 1, MPI_INT, MPI_ANY_SOURCE, TAG, c, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED);
    FAILS(MPI_Send(&v, 1, MPI_INT, MPI_PROC_NULL, TAG, c), MPIX_ERR_REVOKED);
    FAILS(MPI_Bsend(&v, 1, MPI_INT, MPI_PROC_NULL, TAG, c), MPIX_ERR_REVOKED);
    FAILS(MPI_Recv(&v, 1, MPI_INT, MPI_PROC_NULL, TAG, c, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED);
    FAILS(MPI_Iprobe(MPI_PROC_NULL, TAG, c, &flag, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED);
    FAILS(MPI_Probe(MPI_ANY_SOURCE, TAG, c, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED);
    FAILS(MPI_Iprobe(peer, TAG, c, &flag, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED);
    FAILS(MPI_Barrier(c), MPIX_ERR_REVOKED);
    FAILS(MPI_Allreduce(MPI_IN_PLACE, &v, 1, MPI_INT, MPI_SUM, c), MPIX_ERR_REVOKED);
    FAILS(MPI_Comm_dup(c, &d), MPIX_ERR_REVOKED);
    FAILS(MPI_Comm_split(c, 0, 0, &d), MPIX_ERR_REVOKED);
    OK(MPIX_Comm_is_revoked(c, &flag));
    CHECK(flag);
    OK(MPIX_Comm_is_revoked(MPI_COMM_WORLD, &flag));
    CHECK(!flag);
    OK(MPIX_Comm_revoke(c));
    nonblocking(c);
    persistent(c);
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
        OK(MPI_Irecv(v, 1, MPI_INT, MPI_ANY_SOURCE, TAG, c, &r[0]));
        OK(MPI_Iallreduce(&v[1], &v[2], 1, MPI_INT, MPI_SUM, c, &r[1]));
        OK(MPI_Issend(v, 1, MPI_INT, peer, TAG + 2, c, &r[2]));
        OK(MPI_Isend(large_out, LARGE, MPI_CHAR, peer, TAG + 3, c, &r[3]));
        for (int i = 0; i < N; i++)
            FAILS(MPI_Wait(&r[i], &s[i]), MPIX_ERR_REVOKED);
    } else if (way == 3) {
        FAILS(MPI_Probe(revoker, TAG, c, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED);
    } else {
        MPI_Request p;
        OK(MPI_Recv_init(v, 1, MPI_INT, revoker, TAG, c, &p));
        OK(MPI_Start(&p));
        FAILS(MPI_Wait(&p, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED);
        OK(MPI_Request_free(&p));
    }
    check_revoked(c);
    OK(MPI_Comm_free(&c));
    /* the others of the parent are not affected */
    OK(MPI_Sendrecv(&mt_rank, 1, MPI_INT, peer, TAG, v, 1, MPI_INT, (mt_rank + nalive - 1) % nalive,
                    TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK(v[0] == (mt_rank + nalive - 1) % nalive);
}

/* The last rank is in a collective of an intercommunicator, and waits for ranks of its own group,
 * which begin theirs after the revocation and so send it nothing. */
static void revoke_between_groups(void)
{
    int half = nalive / 2, low = mt_rank < half, flag = 0;
    MPI_Comm mine, c;
    MPI_Request r;
    if (nalive < 2)
        return;
    OK(MPI_Comm_split(MPI_COMM_WORLD, low, 0, &mine));
    OK(MPI_Intercomm_create(mine, 0, MPI_COMM_WORLD, low ? half : 0, TAG, &c));
    MPI_Comm_set_errhandler(c, MPI_ERRORS_RETURN);
    if (mt_rank == nalive - 1) {
        OK(MPI_Ibarrier(c, &r));
        OK(MPI_Send(NULL, 0, MPI_INT, 0, TAG, MPI_COMM_WORLD));
        fails_later(&r);
    } else if (mt_rank == 0) {
        OK(MPI_Recv(NULL, 0, MPI_INT, nalive - 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        OK(MPIX_Comm_revoke(c));
    }
    while (!flag)
        OK(MPIX_Comm_is_revoked(c, &flag));
    FAILS(MPI_Barrier(c), MPIX_ERR_REVOKED);
    OK(MPI_Comm_free(&c));
    OK(MPI_Barrier(mine));
    OK(MPI_Comm_free(&mine));
}

/* The communicator is made before the death, because that is collective. */
static void revoke_after_death(void)
{
    MPI_Comm c;
    int v;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &c));
    MPI_Comm_set_errhandler(c, MPI_ERRORS_RETURN);
    ft_lose_last(0);
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
        for (int i = 0; i < 10; i++) {
            revoke_in(i % 5, i % nalive);
            revoke_between_groups();
        }
    for (int i = 0; i < nalive && i < 64; i++)
        alive[i] = i;
    return ft_end("revocation", 0, alive, nalive);
}
