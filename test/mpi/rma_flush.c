/* SPDX-License-Identifier: BSD-3-Clause */
/* One-sided operations by messages over TCP, each with its flush: the origin sends one message for
 * both.  Long puts send no short messages besides the announcement of the data, where these do not
 * fit into a message.  This program puts its own send in front of the C library's and counts. */
#include "test/mpi/mpitest.h"
#include <dlfcn.h>
#include <sys/socket.h>

enum { N = 200, BURST = 20, NLONG = 10, SHORT = 512 }; /* bytes of several short messages */

static int nsends;
static MPI_Win win;
static long mem[2], old, v = 1;
static char from[256 << 10], to[256 << 10];

__attribute__((visibility("default"))) ssize_t send(int fd, const void *buf, size_t len, int flags)
{
    static ssize_t (*real)(int, const void *, size_t, int);
    if (!real) {
        void *found = dlsym(RTLD_NEXT, "send");
        memcpy(&real, &found, sizeof(real));
    }
    nsends += len <= SHORT;
    return real(fd, buf, len, flags);
}

static void put(void) { OK(MPI_Put(&v, 1, MPI_LONG, 1, 0, 1, MPI_LONG, win)); }
static void get(void) { OK(MPI_Get(&old, 1, MPI_LONG, 1, 0, 1, MPI_LONG, win)); }
static void add(void) { OK(MPI_Accumulate(&v, 1, MPI_LONG, 1, 1, 1, MPI_LONG, MPI_SUM, win)); }
static void swap(void) { OK(MPI_Compare_and_swap(&v, &v, &old, MPI_LONG, 1, 0, win)); }
static void fetch(void) { OK(MPI_Fetch_and_op(&v, &old, MPI_LONG, 1, 1, MPI_SUM, win)); }

static void burst(void)
{
    for (int i = 0; i < BURST; i++)
        put();
}

/* The first flushes ask.  Another part of the library may send now and then. */
static void count(void (*operations)(void), const char *what)
{
    int messages = operations == burst ? N * (BURST + 1) : N;
    for (int i = 0; i < 4; i++) {
        operations();
        OK(MPI_Win_flush(1, win));
    }
    nsends = 0;
    for (int i = 0; i < N; i++) {
        operations();
        OK(MPI_Win_flush(1, win));
    }
    CHECK_MSG(nsends <= messages + N / 4, "%s: %d calls of send, expected %d", what, nsends,
              messages);
}

static void flushes(void)
{
    OK(MPI_Win_create(mem, sizeof mem, sizeof *mem, MPI_INFO_NULL, mt_comm, &win));
    if (mt_rank == 0) {
        OK(MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win));
        count(put, "puts");
        count(get, "gets");
        CHECK_EQ(old, 1);
        count(add, "accumulates");
        count(swap, "swaps");
        count(fetch, "fetches");
        CHECK_EQ(old, 2 * (N + 4) - 1);
        count(burst, "bursts of puts");
        count(put, "puts after bursts");
        OK(MPI_Win_unlock(1, win));
    }
    OK(MPI_Win_free(&win));
}

/* Bursts of puts of nbytes bytes; of each put, `each` short messages are expected. */
static void long_puts(int nbytes, int each)
{
    int messages = NLONG * (BURST * each + 1);
    nsends = 0;
    for (int n = 0; n < NLONG; n++) {
        from[0] = from[nbytes - 1] = (char)(n + 1);
        for (int i = 0; i < BURST; i++)
            OK(MPI_Put(from, nbytes, MPI_BYTE, 1, 0, nbytes, MPI_BYTE, win));
        OK(MPI_Win_flush(1, win));
    }
    CHECK_MSG(nsends <= messages + NLONG * BURST / 4,
              "puts of %d bytes: %d short messages, expected %d", nbytes, nsends, messages);
    char got[2] = { 0 };
    OK(MPI_Get(got, 1, MPI_BYTE, 1, 0, 1, MPI_BYTE, win));
    OK(MPI_Get(got + 1, 1, MPI_BYTE, 1, nbytes - 1, 1, MPI_BYTE, win));
    OK(MPI_Win_flush(1, win));
    CHECK_EQ(got[0], NLONG);
    CHECK_EQ(got[1], NLONG);
}

static void bandwidth(void)
{
    OK(MPI_Win_create(to, sizeof to, 1, MPI_INFO_NULL, mt_comm, &win));
    if (mt_rank == 0) {
        OK(MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win));
        long_puts(4096, 0);
        long_puts(64 << 10, 0);
        long_puts(256 << 10, 1);
        OK(MPI_Win_unlock(1, win));
    }
    OK(MPI_Win_free(&win));
}

int main(int argc, char **argv)
{
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    check_skip("a sanitizer has its own send");
#endif
    mt_init(argc, argv);
    MT_RUN(flushes);
    MT_RUN(bandwidth);
    return mt_end();
}
