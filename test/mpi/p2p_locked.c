/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages longer than the memory that a process may lock, which RDMA would have to register: they
 * still arrive.  `p2p_locked [0] [1]`: the ranks with such a limit. */
#include "test/mpi/locked.h"
#include "test/mpi/mpitest.h"

#define LIMIT (8u << 20) /* the transport's own buffers take 1 to 2 MiB */
#define LEN (12 << 20)

static unsigned char *make(unsigned seed)
{
    unsigned char *p = malloc(LEN);
    for (size_t i = 0; i < LEN; i++)
        p[i] = (unsigned char)(i * 2654435761u >> 13 ^ seed);
    return p;
}

static void check(const unsigned char *got, unsigned seed)
{
    unsigned char *want = make(seed);
    CHECK_MSG(!memcmp(got, want, LEN), "the data differ");
    free(want);
}

/* One way and the other; small messages between, which continue as before. */
static void long_ones(void)
{
    unsigned char *p = make((unsigned)mt_rank);
    for (int from = 0; from < 2; from++) {
        int small = from + 5;
        if (mt_rank == from) {
            OK(MPI_Send(p, LEN, MPI_BYTE, 1 - from, 1, mt_comm));
            OK(MPI_Send(&small, 1, MPI_INT, 1 - from, 2, mt_comm));
            continue;
        }
        unsigned char *in = malloc(LEN);
        MPI_Request r;
        OK(MPI_Irecv(&small, 1, MPI_INT, from, 2, mt_comm, &r));
        OK(MPI_Recv(in, LEN, MPI_BYTE, from, 1, mt_comm, MPI_STATUS_IGNORE));
        OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
        CHECK_EQ(small, from + 5);
        check(in, (unsigned)from);
        free(in);
    }
    free(p);
}

/* Several at once, both ways, of which each alone has room. */
static void many(void)
{
    enum { N = 6, EACH = LEN / N };
    unsigned char *out = make(8), *in = malloc(LEN);
    MPI_Request r[2 * N];
    for (int i = 0; i < N; i++) {
        OK(MPI_Irecv(in + i * EACH, EACH, MPI_BYTE, 1 - mt_rank, i, mt_comm, &r[i]));
        OK(MPI_Isend(out + i * EACH, EACH, MPI_BYTE, 1 - mt_rank, i, mt_comm, &r[N + i]));
    }
    OK(MPI_Waitall(2 * N, r, MPI_STATUSES_IGNORE));
    check(in, 8);
    free(in);
    free(out);
}

/* A receive with gaps for a contiguous message, whose temporary buffer cannot be registered either;
 * and a receive that is too short. */
static void gaps_and_truncation(void)
{
    unsigned char *p = make(3), *in = calloc(2, LEN);
    MPI_Datatype gaps;
    OK(MPI_Type_vector(LEN / 1024, 1024, 2048, MPI_BYTE, &gaps));
    OK(MPI_Type_commit(&gaps));
    if (mt_rank == 0) {
        OK(MPI_Send(p, LEN, MPI_BYTE, 1, 1, mt_comm));
        OK(MPI_Send(p, LEN, MPI_BYTE, 1, 2, mt_comm));
    } else {
        OK(MPI_Recv(in, 1, gaps, 0, 1, mt_comm, MPI_STATUS_IGNORE));
        bool same = true;
        for (size_t i = 0; i < LEN / 1024; i++)
            same = same && !memcmp(in + i * 2048, p + i * 1024, 1024);
        CHECK(same);
        FAILS(MPI_Recv(in, LEN - 5, MPI_BYTE, 0, 2, mt_comm, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
        CHECK(!memcmp(in, p, LEN - 5) && in[LEN - 4] == 0);
    }
    OK(MPI_Type_free(&gaps));
    free(in);
    free(p);
}

int main(int argc, char **argv)
{
    limit_locked_of(argc, argv, LIMIT);
    mt_init(argc, argv);
    MT_RUN(long_ones);
    MT_RUN(many);
    MT_RUN(gaps_and_truncation);
    return mt_end();
}
