/* SPDX-License-Identifier: BSD-3-Clause */
/* Ports, accept, connect and join within one job (MPI-5.0 sections 11.9 and 11.10): wrong names,
 * two halves of a job that meet, roots other than 0.  Two jobs: dyn_meet.py. */
#include "test/mpi/dyn_meet.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

static void ports(void)
{
    char a[MPI_MAX_PORT_NAME], b[MPI_MAX_PORT_NAME];
    OK(MPI_Open_port(MPI_INFO_NULL, a));
    OK(MPI_Open_port(MPI_INFO_NULL, b));
    CHECK(strcmp(a, b));
    CHECK(memchr(a, 0, sizeof a));
    OK(MPI_Close_port(a));
    FAILS(MPI_Close_port(a), MPI_ERR_PORT);
    OK(MPI_Close_port(b));
    FAILS(MPI_Close_port("x"), MPI_ERR_PORT);
}

/* At all ranks, though the name counts at the root only. */
static void wrong_names(void)
{
    static const char *const names[] = {
        "",
        "x",
        "weft1:",
        "weft1:00112233445566778899aabbccddeeff",
        "weft1:00112233445566778899aabbccddeeff@",
        "weft1:00112233445566778899aabbccddeeff@127.0.0.1",
        "weft1:00112233445566778899aabbccddeeff@127.0.0.1:1",
        "weft1:00112233445566778899aabbccddeeff@127.0.0.1:1,[::1]:1",
        "weft1:0011223344556677889-aabbccddeefg@127.0.0.1:1",
        "weft1:00112233445566778899aabbccddeeff@127.0.0.1:70000",
        "tag#0$connentry#0F00$",
    };
    char closed[MPI_MAX_PORT_NAME];
    MPI_Comm c = MPI_COMM_NULL;
    int root = mt_size - 1;
    OK(MPI_Open_port(MPI_INFO_NULL, closed));
    OK(MPI_Close_port(closed));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        FAILS(MPI_Comm_connect(mt_rank == root ? names[i] : NULL, MPI_INFO_NULL, root, mt_comm, &c),
              MPI_ERR_PORT);
    FAILS(MPI_Comm_connect(closed, MPI_INFO_NULL, root, mt_comm, &c), MPI_ERR_PORT);
    FAILS(MPI_Comm_accept(closed, MPI_INFO_NULL, root, mt_comm, &c), MPI_ERR_PORT);
    FAILS(MPI_Comm_accept("x", MPI_INFO_NULL, mt_size, mt_comm, &c), MPI_ERR_ROOT);
    OK(MPI_Barrier(mt_comm));
}

static void no_parent(void)
{
    MPI_Comm c = MPI_COMM_SELF;
    OK(MPI_Comm_get_parent(&c));
    CHECK(c == MPI_COMM_NULL);
}

/* Even ranks accept, odd ranks connect; the highest rank of each side is its root. */
static void halves(void)
{
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm half, c, inter;
    int odd = mt_rank % 2, root;
    if (mt_size < 2)
        return;
    OK(MPI_Comm_split(mt_comm, odd, mt_rank, &half));
    OK(MPI_Comm_size(half, &root));
    root--;
    for (int i = 0; i < 3; i++) {
        if (mt_rank == (mt_size - 1) / 2 * 2)
            OK(MPI_Open_port(MPI_INFO_NULL, port));
        OK(MPI_Bcast(port, sizeof port, MPI_CHAR, (mt_size - 1) / 2 * 2, mt_comm));
        if (odd)
            OK(MPI_Comm_connect(port, MPI_INFO_NULL, root, half, &c));
        else
            OK(MPI_Comm_accept(port, MPI_INFO_NULL, root, half, &c));
        if (i == 0) {
            OK(MPI_Comm_dup(c, &inter));
            OK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
            FAILS(MPI_Comm_accept(port, MPI_INFO_NULL, 0, inter, &half), MPI_ERR_COMM);
            FAILS(MPI_Comm_connect(port, MPI_INFO_NULL, 0, inter, &half), MPI_ERR_COMM);
            OK(MPI_Comm_free(&inter));
        }
        use(c, !odd);
        if (mt_rank == (mt_size - 1) / 2 * 2)
            OK(MPI_Close_port(port));
    }
    OK(MPI_Comm_free(&half));
}

/* A connected pair of sockets between ranks 0 and 1. */
static int socket_to(int other)
{
    struct sockaddr_in a = { .sin_family = AF_INET };
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (other == 1) {
        CHECK_EQ(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
        CHECK_EQ(listen(fd, 1), 0);
        CHECK_EQ(getsockname(fd, (struct sockaddr *)&a, &len), 0);
        OK(MPI_Send(&a, sizeof a, MPI_BYTE, other, 1, mt_comm));
        int got = accept(fd, NULL, NULL);
        close(fd);
        return got;
    }
    OK(MPI_Recv(&a, sizeof a, MPI_BYTE, other, 1, mt_comm, MPI_STATUS_IGNORE));
    CHECK_EQ(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    return fd;
}

static void join(void)
{
    MPI_Comm c;
    int in = -1, out = mt_rank;
    FAILS(MPI_Comm_join(-1, &c), MPI_ERR_ARG);
    FAILS(MPI_Comm_join(STDOUT_FILENO, &c), MPI_ERR_ARG);
    if (mt_size < 2 || mt_rank > 1)
        return;
    int fd = socket_to(!mt_rank);
    OK(MPI_Comm_join(fd, &c));
    OK(MPI_Sendrecv(&out, 1, MPI_INT, 0, 3, &in, 1, MPI_INT, 0, 3, c, MPI_STATUS_IGNORE));
    CHECK_EQ(in, !mt_rank);
    OK(MPI_Comm_disconnect(&c));
    /* the socket is quiet and still usable */
    CHECK_EQ(send(fd, &out, sizeof out, 0), sizeof out);
    CHECK_EQ(recv(fd, &in, sizeof in, MSG_WAITALL), sizeof in);
    CHECK_EQ(in, !mt_rank);
    close(fd);
}

int main(int argc, char **argv)
{
    mt_init(argc, argv);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MT_RUN(ports);
    MT_RUN(wrong_names);
    MT_RUN(no_parent);
    MT_RUN(halves);
    MT_RUN(join);
    return mt_end();
}
