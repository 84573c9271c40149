/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs that stop, one for each kind of fault that mpirun explains; hang.py compares the texts.
 * A comment with a name marks the line that a text must give.  Three ranks. */
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size, one = 1, other;
static char big[1 << 20];
static volatile int ended; /* a function that ends with its MPI call would jump to it */
#define WORLD MPI_COMM_WORLD
#define IGNORE MPI_STATUS_IGNORE

static int next(void) { return (rank + 1) % size; }
static int before(void) { return (rank + size - 1) % size; }

static void recv_cycle(void)
{
    MPI_Recv(&other, 1, MPI_INT, before(), 0, WORLD, IGNORE); /* recv_cycle */
    MPI_Send(&one, 1, MPI_INT, next(), 0, WORLD);
}

static void send_cycle(void)
{
    MPI_Send(big, sizeof big, MPI_BYTE, next(), 0, WORLD); /* send_cycle */
    MPI_Recv(big, sizeof big, MPI_BYTE, before(), 0, WORLD, IGNORE);
}

static void wrong_tag(void)
{
    if (rank == 0)
        MPI_Send(&one, 1, MPI_INT, 1, 8, WORLD);
    if (rank == 1)
        MPI_Recv(&other, 1, MPI_INT, 0, 9, WORLD, IGNORE); /* wrong_tag */
    MPI_Barrier(WORLD);                                    /* wrong_tag others */
    ended = 1;
}

static void wrong_comm(void)
{
    MPI_Comm dup;
    MPI_Comm_dup(WORLD, &dup);
    MPI_Comm_set_name(dup, "halo");
    if (rank == 0)
        MPI_Send(&one, 1, MPI_INT, 1, 3, dup);
    if (rank == 1)
        MPI_Probe(0, 3, WORLD, IGNORE); /* wrong_comm */
    MPI_Barrier(WORLD);                 /* wrong_comm others */
    MPI_Comm_free(&dup);
}

static void missing_call(void)
{
    if (rank)
        MPI_Allreduce(&one, &other, 1, MPI_INT, MPI_SUM, WORLD); /* missing_call */
    else
        MPI_Recv(&other, 1, MPI_INT, 1, 3, WORLD, IGNORE); /* missing_call others */
    ended = 1;
}

static void two_orders(void)
{
    MPI_Comm rows, columns;
    MPI_Comm_dup(WORLD, &rows);
    MPI_Comm_dup(WORLD, &columns);
    MPI_Comm_set_name(rows, "rows");
    MPI_Comm_set_name(columns, "columns");
    MPI_Barrier(rank ? columns : rows); /* two_orders */
    MPI_Barrier(rank ? rows : columns);
}

static void lock(void)
{
    MPI_Win win;
    int *base;
    MPI_Win_allocate(64, 4, MPI_INFO_NULL, WORLD, &base, &win);
    if (rank == 0)
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    MPI_Barrier(WORLD);
    if (rank == 0)
        MPI_Barrier(WORLD); /* lock others */
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    MPI_Put(&one, 1, MPI_INT, 0, 0, 1, MPI_INT, win);
    MPI_Win_unlock(0, win); /* lock */
    MPI_Barrier(WORLD);
}

static void pscw(void)
{
    MPI_Win win;
    MPI_Group all, to;
    int *base, with = rank == 0 ? size - 1 : 0;
    MPI_Win_allocate(64, 4, MPI_INFO_NULL, WORLD, &base, &win);
    MPI_Comm_group(WORLD, &all);
    MPI_Group_incl(all, 1, &with, &to);
    if (rank == 0) {
        MPI_Win_post(to, 0, win);
        MPI_Win_wait(win); /* pscw */
    } else if (rank == 1) {
        MPI_Win_start(to, 0, win);
        MPI_Put(&one, 1, MPI_INT, 0, 0, 1, MPI_INT, win);
        MPI_Win_complete(win); /* pscw others */
    }
    MPI_Win_free(&win); /* pscw free */
}

static void waitall(void)
{
    MPI_Request r[3] = { MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL };
    for (int i = 0; i < size; i++)
        if (i != rank)
            MPI_Irecv(&other, 1, MPI_INT, i, 20 + i, WORLD, &r[i]);
    MPI_Waitall(size, r, MPI_STATUSES_IGNORE); /* waitall */
}

static void *receive(void *arg)
{
    MPI_Recv(&other, 1, MPI_INT, next(), *(int *)arg, WORLD, IGNORE); /* threads */
    return NULL;
}

static void threads(void)
{
    static int tags[2] = { 100, 101 };
    pthread_t t[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&t[i], NULL, receive, &tags[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
}

static __attribute__((noinline)) void step_chemistry(volatile double *x)
{
    for (;;)
        *x += 1; /* computes */
}

static void computes(void)
{
    volatile double x = 0;
    if (rank == 1)
        step_chemistry(&x);
    MPI_Barrier(WORLD); /* computes others */
}

/* A thread of the library waits for the file's collective write meanwhile: it is no wait of the
 * program. */
static void computes_beside_file(void)
{
    volatile double x = 0;
    MPI_File file;
    MPI_Request write;
    char name[] = "/tmp/weft-hang-XXXXXX";
    int fd = rank == 1 ? mkstemp(name) : -1;
    MPI_Bcast(name, sizeof name, MPI_CHAR, 1, WORLD);
    MPI_File_open(WORLD, name, MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    MPI_Barrier(WORLD);
    if (rank == 1) {
        close(fd);
        unlink(name);
        MPI_File_iwrite_at_all(file, 0, big, sizeof big, MPI_BYTE, &write);
        step_chemistry(&x);
    }
    MPI_Barrier(WORLD);
}

static void reads(void)
{
    int p[2];
    if (rank == 1 && pipe(p) == 0)
        (void)!read(p[0], big, 1); /* reads */
    MPI_Barrier(WORLD);            /* reads others */
}

static void stopped(void)
{
    if (rank == 1)
        raise(SIGSTOP);
    MPI_Barrier(WORLD); /* stopped others */
    ended = 1;
}

/* Ends with an error, which names the message that is there. */
static void gone(void)
{
    if (rank == 0)
        MPI_Send(&one, 1, MPI_INT, 1, 5, WORLD);
    if (rank == 1)
        MPI_Recv(&other, 1, MPI_INT, 0, 6, WORLD, IGNORE);
}

static void probed(void)
{
    if (rank == 0)
        MPI_Send(&one, 1, MPI_INT, 1, 5, WORLD);
    if (rank == 1)
        MPI_Probe(0, 6, WORLD, IGNORE);
}

/* Correct: a rank computes for some seconds while the others wait or poll, then all continue. */
static void slow(void)
{
    MPI_Request r;
    int done = 0;
    if (rank == 0)
        sleep(3);
    MPI_Ibarrier(WORLD, &r);
    while (!done)
        MPI_Test(&r, &done, IGNORE);
    for (int i = 0; i < 200;
         i++) { /* each step is shorter than the limit, all together are longer */
        usleep(10000);
        MPI_Allreduce(&one, &other, 1, MPI_INT, MPI_SUM, WORLD);
    }
}

/* Correct: two ranks exchange short messages, and never wait for long, while the third one waits.
 */
static void busy(void)
{
    double end = MPI_Wtime() + 3;
    int go = 1;
    while (rank < 2 && go) {
        go = MPI_Wtime() < end;
        if (rank == 0)
            MPI_Send(&go, 1, MPI_INT, 1, 0, WORLD);
        else
            MPI_Recv(&go, 1, MPI_INT, 0, 0, WORLD, IGNORE);
    }
    MPI_Barrier(WORLD);
}

/* Correct: a long message, which may take longer than the limit. */
static void lengthy(void)
{
    size_t len = (size_t)1 << 30;
    char *buf = rank < 2 ? calloc(len, 1) : NULL;
    if (rank == 0)
        MPI_Send_c(buf, (MPI_Count)len, MPI_BYTE, 1, 0, WORLD);
    if (rank == 1)
        MPI_Recv_c(buf, (MPI_Count)len, MPI_BYTE, 0, 0, WORLD, IGNORE);
    MPI_Barrier(WORLD);
    free(buf);
}

static const struct mode {
    const char *name;
    void (*run)(void);
} modes[] = { { "recv_cycle", recv_cycle },
              { "send_cycle", send_cycle },
              { "wrong_tag", wrong_tag },
              { "wrong_comm", wrong_comm },
              { "missing_call", missing_call },
              { "two_orders", two_orders },
              { "lock", lock },
              { "pscw", pscw },
              { "waitall", waitall },
              { "threads", threads },
              { "computes", computes },
              { "computes_beside_file", computes_beside_file },
              { "reads", reads },
              { "stopped", stopped },
              { "gone", gone },
              { "probed", probed },
              { "slow", slow },
              { "busy", busy },
              { "lengthy", lengthy } };

int main(int argc, char **argv)
{
    int level;
    const char *name = argc > 1 ? argv[1] : "";
    MPI_Init_thread(&argc, &argv, strcmp(name, "threads") ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE,
                    &level);
    MPI_Comm_rank(WORLD, &rank);
    MPI_Comm_size(WORLD, &size);
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
        if (!strcmp(modes[i].name, name)) {
            modes[i].run();
            MPI_Finalize();
            return 0;
        }
    fprintf(stderr, "usage: hang MODE\n");
    MPI_Abort(WORLD, 2);
}
