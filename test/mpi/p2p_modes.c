/* SPDX-License-Identifier: BSD-3-Clause */
/* The four send modes, blocking and nonblocking, over all sizes at which a path changes (MPI-5.0
 * sections 3.4 to 3.7). Ranks work in pairs (0,1), (2,3), ... all at once; each size travels in
 * both directions. */
#include "test/mpi/mpitest.h"

#define KIB 1024
#define MIB (1024 * 1024)
#define BIGGEST (3 * MIB + 1)
enum { TAG_DATA = 7, TAG_GO = 8 };
enum mode { STANDARD, SYNCHRONOUS, BUFFERED, READY, MODES };

/* Slot payload (48), cache line (64), eager limits in use (8 and 16 KiB), chunk of the stream (8
 * KiB), huge copies. */
static const int sizes[] = { 0,
                             1,
                             7,
                             8,
                             47,
                             48,
                             49,
                             63,
                             64,
                             65,
                             KIB,
                             4 * KIB - 1,
                             4 * KIB,
                             4 * KIB + 1,
                             8 * KIB - 13,
                             8 * KIB - 1,
                             8 * KIB,
                             8 * KIB + 1,
                             16 * KIB - 1,
                             16 * KIB,
                             16 * KIB + 1,
                             64 * KIB - 1,
                             64 * KIB,
                             64 * KIB + 1,
                             MIB - 1,
                             MIB,
                             MIB + 1,
                             BIGGEST };
#define NSIZES ((int)(sizeof(sizes) / sizeof(sizes[0])))

static int send_by(enum mode m, const void *buf, int n, int to, int tag)
{
    switch (m) {
    case SYNCHRONOUS:
        return MPI_Ssend(buf, n, MPI_BYTE, to, tag, mt_comm);
    case BUFFERED:
        return MPI_Bsend(buf, n, MPI_BYTE, to, tag, mt_comm);
    case READY:
        return MPI_Rsend(buf, n, MPI_BYTE, to, tag, mt_comm);
    default:
        return MPI_Send(buf, n, MPI_BYTE, to, tag, mt_comm);
    }
}

static int isend_by(enum mode m, const void *buf, int n, int to, int tag, MPI_Request *r)
{
    switch (m) {
    case SYNCHRONOUS:
        return MPI_Issend(buf, n, MPI_BYTE, to, tag, mt_comm, r);
    case BUFFERED:
        return MPI_Ibsend(buf, n, MPI_BYTE, to, tag, mt_comm, r);
    case READY:
        return MPI_Irsend(buf, n, MPI_BYTE, to, tag, mt_comm, r);
    default:
        return MPI_Isend(buf, n, MPI_BYTE, to, tag, mt_comm, r);
    }
}

static void send_one(enum mode m, bool nonblocking, int n)
{
    unsigned char *buf = mt_alloc((size_t)n);
    MPI_Request r = MPI_REQUEST_NULL;
    MPI_Status st;

    mt_fill(buf, (size_t)n, (unsigned)n);
    if (m == READY)
        OK(MPI_Recv(NULL, 0, MPI_BYTE, mt_peer, TAG_GO, mt_comm, MPI_STATUS_IGNORE));
    if (nonblocking) {
        OK(isend_by(m, buf, n, mt_peer, TAG_DATA, &r));
        OK(MPI_Wait(&r, &st));
        CHECK(r == MPI_REQUEST_NULL);
    } else {
        OK(send_by(m, buf, n, mt_peer, TAG_DATA));
    }
    CHECK_DATA(buf, (size_t)n, (unsigned)n); /* a send leaves its buffer alone */
    free(buf);
}

static void recv_one(enum mode m, bool nonblocking, int n)
{
    unsigned char *buf = mt_alloc((size_t)n);
    MPI_Request r = MPI_REQUEST_NULL;
    MPI_Status st;

    if (m == READY || nonblocking) {
        OK(MPI_Irecv(buf, n, MPI_BYTE, mt_peer, TAG_DATA, mt_comm, &r));
        if (m == READY)
            OK(MPI_Send(NULL, 0, MPI_BYTE, mt_peer, TAG_GO, mt_comm));
        OK(MPI_Wait(&r, &st));
    } else {
        OK(MPI_Recv(buf, n, MPI_BYTE, mt_peer, TAG_DATA, mt_comm, &st));
    }
    mt_check_status(&st, mt_peer, TAG_DATA, n);
    CHECK_DATA(buf, (size_t)n, (unsigned)n);
    CHECK_MSG(mt_guard_intact(buf, (size_t)n), "rank %d: %d bytes wrote behind the buffer", mt_rank,
              n);
    free(buf);
}

static void all_sizes(enum mode m, bool nonblocking)
{
    int i, turn, room = BIGGEST + MPI_BSEND_OVERHEAD, got = 0;
    void *space = malloc((size_t)room), *back = NULL;

    if (mt_peer == MPI_PROC_NULL) {
        free(space);
        return;
    }
    if (m == BUFFERED)
        OK(MPI_Buffer_attach(space, room));
    for (i = 0; i < NSIZES; i++)
        for (turn = 0; turn < 2; turn++) {
            if (m == BUFFERED &&
                i > 0) { /* the room is for one largest message: detaching empties it */
                OK(MPI_Buffer_detach(&back, &got));
                OK(MPI_Buffer_attach(space, room));
            }
            if (mt_first == (turn == 0))
                send_one(m, nonblocking, sizes[i]);
            else
                recv_one(m, nonblocking, sizes[i]);
        }
    if (m == BUFFERED) {
        OK(MPI_Buffer_detach(&back, &got));
        CHECK(back == space);
        CHECK_EQ(got, room);
    }
    free(space);
}

static void standard(void) { all_sizes(STANDARD, false); }
static void synchronous(void) { all_sizes(SYNCHRONOUS, false); }
static void buffered(void) { all_sizes(BUFFERED, false); }
static void ready(void) { all_sizes(READY, false); }
static void nb_standard(void) { all_sizes(STANDARD, true); }
static void nb_synchronous(void) { all_sizes(SYNCHRONOUS, true); }
static void nb_buffered(void) { all_sizes(BUFFERED, true); }
static void nb_ready(void) { all_sizes(READY, true); }

/* The message is there before the receive is posted, whatever its size. */
static void unexpected_sizes(void)
{
    unsigned char *buf = mt_alloc(BIGGEST);
    MPI_Request r;
    int i;

    for (i = 0; i < NSIZES && mt_peer != MPI_PROC_NULL; i++) {
        size_t n = (size_t)sizes[i];
        if (mt_first) {
            mt_fill(buf, n, (unsigned)i);
            OK(MPI_Isend(buf, sizes[i], MPI_BYTE, mt_peer, TAG_DATA, mt_comm, &r));
            OK(MPI_Send(NULL, 0, MPI_BYTE, mt_peer, TAG_GO, mt_comm));
            OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
        } else {
            memset(buf, 0xee, n + MT_GUARD);
            OK(MPI_Recv(NULL, 0, MPI_BYTE, mt_peer, TAG_GO, mt_comm, MPI_STATUS_IGNORE));
            OK(MPI_Recv(buf, sizes[i], MPI_BYTE, mt_peer, TAG_DATA, mt_comm, MPI_STATUS_IGNORE));
            CHECK_DATA(buf, n, (unsigned)i);
            CHECK(mt_guard_intact(buf, n));
        }
    }
    free(buf);
}

/* A synchronous send must not finish before its receive has started. */
static void synchronous_waits(void)
{
    static const int ns[] = { 0, 8, 1000, 100000, MIB };
    unsigned char *buf = mt_alloc(MIB);
    MPI_Request r;
    double end;
    int i, flag;

    for (i = 0; i < 5 && mt_peer != MPI_PROC_NULL; i++) {
        if (mt_first) {
            OK(MPI_Issend(buf, ns[i], MPI_BYTE, mt_peer, TAG_DATA, mt_comm, &r));
            flag = 0;
            for (end = MPI_Wtime() + 0.02; !flag && MPI_Wtime() < end;)
                OK(MPI_Test(&r, &flag, MPI_STATUS_IGNORE));
            CHECK_MSG(!flag, "synchronous send of %d bytes finished before its receive was posted",
                      ns[i]);
            OK(MPI_Send(NULL, 0, MPI_BYTE, mt_peer, TAG_GO, mt_comm));
            OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
        } else {
            OK(MPI_Recv(NULL, 0, MPI_BYTE, mt_peer, TAG_GO, mt_comm, MPI_STATUS_IGNORE));
            OK(MPI_Recv(buf, ns[i], MPI_BYTE, mt_peer, TAG_DATA, mt_comm, MPI_STATUS_IGNORE));
        }
    }
    free(buf);
}

/* A buffered send is local: it returns without a receive, and detach delivers everything. */
static void buffered_is_local(void)
{
    enum { N = 10, LEN = 300000 };
    int room = N * (LEN + MPI_BSEND_OVERHEAD), got, i;
    unsigned char *buf = mt_alloc(LEN), *space = malloc((size_t)room);
    void *back;

    if (mt_first) {
        OK(MPI_Buffer_attach(space, room));
        for (i = 0; i < N; i++) {
            mt_fill(buf, LEN, (unsigned)i);
            OK(MPI_Bsend(buf, LEN, MPI_BYTE, mt_peer, TAG_DATA, mt_comm));
        }
        OK(MPI_Send(NULL, 0, MPI_BYTE, mt_peer, TAG_GO, mt_comm));
        OK(MPI_Buffer_detach(&back, &got));
        CHECK(back == space);
    } else if (mt_peer != MPI_PROC_NULL) {
        OK(MPI_Recv(NULL, 0, MPI_BYTE, mt_peer, TAG_GO, mt_comm, MPI_STATUS_IGNORE));
        for (i = 0; i < N; i++) {
            OK(MPI_Recv(buf, LEN, MPI_BYTE, mt_peer, TAG_DATA, mt_comm, MPI_STATUS_IGNORE));
            CHECK_DATA(buf, LEN, (unsigned)i);
        }
    }
    free(buf);
    free(space);
}

/* Without room a buffered send is an error, unless the message could leave at once: then it must
 * arrive. */
static void send_without_room(int n)
{
    char data[2000] = "";
    int rc = MPI_Bsend(data, n, MPI_BYTE, mt_rank, TAG_DATA, mt_comm);

    if (rc == MPI_SUCCESS)
        OK(MPI_Recv(data, n, MPI_BYTE, mt_rank, TAG_DATA, mt_comm, MPI_STATUS_IGNORE));
    else
        FAILS(rc, MPI_ERR_BUFFER);
}

static void buffered_errors(void)
{
    char data[1000] = "", space[1000 + MPI_BSEND_OVERHEAD];
    void *back;
    int got;

    send_without_room(8);
    OK(MPI_Buffer_attach(space, (int)sizeof(space)));
    FAILS(MPI_Buffer_attach(data, (int)sizeof(data)), MPI_ERR_BUFFER); /* one at a time */
    send_without_room(2000);
    OK(MPI_Bsend(data, 1000, MPI_BYTE, mt_rank, TAG_DATA, mt_comm));
    OK(MPI_Recv(data, 1000, MPI_BYTE, mt_rank, TAG_DATA, mt_comm, MPI_STATUS_IGNORE));
    OK(MPI_Buffer_detach(&back, &got));
    CHECK_EQ(got, sizeof(space));
}

int main(int argc, char **argv)
{
    mt_init(argc, argv);
    MT_RUN(standard);
    MT_RUN(synchronous);
    MT_RUN(buffered);
    MT_RUN(ready);
    MT_RUN(nb_standard);
    MT_RUN(nb_synchronous);
    MT_RUN(nb_buffered);
    MT_RUN(nb_ready);
    MT_RUN(unexpected_sizes);
    MT_RUN(synchronous_waits);
    MT_RUN(buffered_is_local);
    MT_RUN(buffered_errors);
    return mt_end();
}
