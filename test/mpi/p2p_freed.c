/* SPDX-License-Identifier: BSD-3-Clause */
/* Receives whose requests are freed before their messages are sent: MPI_Finalize completes them
 * (MPI-5.0 section 3.7.3), however late rank 0 sends.
 *   p2p_freed [ms]    a correct program; rank 0 sends after this time
 *   p2p_freed unsent  an erroneous one: rank 0 never sends */
#include "test/mpi/mpitest.h"

enum { LONG = 1 << 20, SHORT = 8, AWAY_MS = 500 };
/* A kind is the message's tag. */
enum { NAMED, ANY_SOURCE, ANY_TAG, EMPTY, PERSISTENT, PAIR, OF_COMM, KINDS };

static const int lengths[KINDS] = { LONG, LONG, SHORT, 0, LONG, LONG, SHORT };
static unsigned char out[KINDS][LONG], in[KINDS][LONG];

static void post(int kind, MPI_Comm comm)
{
    MPI_Request r;
    int len = lengths[kind];

    if (kind == PERSISTENT) {
        OK(MPI_Recv_init(in[kind], len, MPI_BYTE, 0, kind, comm, &r));
        OK(MPI_Start(&r));
    } else if (kind == PAIR) {
        OK(MPI_Isendrecv(NULL, 0, MPI_BYTE, MPI_PROC_NULL, 0, in[kind], len, MPI_BYTE, 0, kind,
                         comm, &r));
    } else {
        OK(MPI_Irecv(in[kind], len, MPI_BYTE, kind == ANY_SOURCE ? MPI_ANY_SOURCE : 0,
                     kind == ANY_TAG ? MPI_ANY_TAG : kind, comm, &r));
    }
    OK(MPI_Request_free(&r));
    CHECK(r == MPI_REQUEST_NULL);
}

/* In the order of the kinds: the message for any tag comes when the receives before have theirs. */
static void send_all(MPI_Comm comms[])
{
    for (int to = 0; to < mt_size; to++)
        for (int kind = 0; kind < KINDS; kind++)
            OK(MPI_Send(out[kind], lengths[kind], MPI_BYTE, to, kind, comms[kind]));
}

int main(int argc, char **argv)
{
    bool unsent = argc > 1 && !strcmp(argv[1], "unsent");
    MPI_Comm comms[KINDS], dup;

    mt_init(argc, argv);
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &dup));
    for (int kind = 0; kind < KINDS; kind++) {
        comms[kind] = kind == OF_COMM ? dup : MPI_COMM_WORLD;
        mt_fill(out[kind], sizeof(out[kind]), (unsigned)kind);
        post(kind, comms[kind]);
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mt_rank == 0 && !unsent) {
        mt_sleep_ms(argc > 1 ? atoi(argv[1]) : AWAY_MS);
        send_all(comms);
    }
    OK(MPI_Comm_free(&dup));
    mt_case = "MPI_Finalize";
    MPI_Finalize();
    for (int kind = 0; kind < KINDS && !unsent; kind++)
        CHECK_MSG(!memcmp(in[kind], out[kind], (size_t)lengths[kind]), "rank %d, kind %d: no data",
                  mt_rank, kind);
    if (mt_rank == 0)
        printf("%sok 1 - p2p_freed\n1..1\n", check_failed_case ? "not " : "");
    return check_failed_case;
}
