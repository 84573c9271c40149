/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs that stop, one for each kind of fault that mpirun explains; hang.py compares the texts.
 * A comment with a name marks the line that a text must give.  Three ranks. */
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
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

/* Rank 2 holds the lock of rank 0. */
static void lock_of_another(void)
{
    MPI_Win win;
    int *base;
    MPI_Win_allocate(64, 4, MPI_INFO_NULL, WORLD, &base, &win);
    if (rank == 2) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        MPI_Put(&one, 1, MPI_INT, 0, 0, 1, MPI_INT, win);
    }
    MPI_Barrier(WORLD);
    if (rank == 1) {
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
        MPI_Get(&other, 1, MPI_INT, 0, 0, 1, MPI_INT, win);
        MPI_Win_unlock(0, win); /* lock_of_another others */
    }
    MPI_Barrier(WORLD); /* lock_of_another */
    ended = 1;
}

static void fence(void)
{
    MPI_Win win;
    int *base;
    MPI_Win_allocate(64, 4, MPI_INFO_NULL, WORLD, &base, &win);
    MPI_Win_fence(0, win);
    if (rank == 1)
        MPI_Barrier(WORLD); /* fence missed */
    MPI_Put(&one, 1, MPI_INT, rank, 0, 1, MPI_INT, win);
    MPI_Win_fence(0, win); /* fence */
    ended = 1;
}

/* Rank 0 leaves the broadcast, which the others do not make, at once. */
static void one_more(void)
{
    if (rank == 0)
        MPI_Bcast(&one, 1, MPI_INT, 0, WORLD);
    MPI_Barrier(WORLD); /* one_more */
    ended = 1;
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

/* Requests of two communicators, which lie on different lanes with MPI_THREAD_MULTIPLE. */
static void lanes(void)
{
    MPI_Comm c[2];
    MPI_Request r[2];
    for (int i = 0; i < 2; i++) {
        MPI_Comm_dup(WORLD, &c[i]);
        MPI_Comm_set_name(c[i], i ? "second" : "first");
    }
    if (rank == 2)
        MPI_Send(&one, 1, MPI_INT, 0, 8, c[1]);
    if (rank)
        MPI_Recv(&other, 1, MPI_INT, 0, 7, c[rank - 1], IGNORE); /* lanes others */
    for (int i = 0; i < 2; i++)
        MPI_Irecv(&other, 1, MPI_INT, i + 1, 5, c[i], &r[i]);
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE); /* lanes */
    ended = 1;
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

/* Rank 1 computes before it calls MPI_Init. */
static void before_init(void)
{
    if (rank == 0)
        MPI_Send(big, 8, MPI_BYTE, 1, 0, WORLD); /* before_init */
    MPI_Barrier(WORLD);                          /* before_init others */
    ended = 1;
}

/* Until there is no room for them: in the ring, or in both sockets. */
static void sends_to_busy(void)
{
    volatile double x = 0;
    if (rank == 1)
        step_chemistry(&x);
    for (; rank == 0;)
        MPI_Send(big, 1000, MPI_BYTE, 1, 0, WORLD); /* sends_to_busy */
    MPI_Barrier(WORLD);                             /* sends_to_busy others */
}

/* The same with requests. */
static void isends_to_busy(void)
{
    enum { MESSAGES = 3000, NBYTES = 8000 };
    static MPI_Request r[MESSAGES];
    volatile double x = 0;
    if (rank == 1)
        step_chemistry(&x);
    for (int i = 0; rank == 0 && i < MESSAGES; i++)
        MPI_Isend(big, NBYTES, MPI_BYTE, 1, 0, WORLD, &r[i]);
    if (rank == 0)
        MPI_Waitall(MESSAGES, r, MPI_STATUSES_IGNORE); /* isends_to_busy */
    MPI_Barrier(WORLD);                                /* isends_to_busy others */
}

/* A file that all ranks open, and that is gone from the directory. */
static MPI_File open_file(void)
{
    MPI_File file;
    char name[] = "/tmp/weft-hang-XXXXXX";
    int fd = rank == 1 ? mkstemp(name) : -1;
    MPI_Bcast(name, sizeof name, MPI_CHAR, 1, WORLD);
    MPI_File_open(WORLD, name, MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    MPI_Barrier(WORLD);
    if (rank == 1) {
        close(fd);
        unlink(name);
    }
    return file;
}

/* A thread of the library waits for the file's collective write meanwhile: it is no wait of the
 * program. */
static void computes_beside_file(void)
{
    volatile double x = 0;
    MPI_File file = open_file();
    MPI_Request write;
    if (rank == 1) {
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

/* Starts 4 partitions of rank 0 to rank 1, which receives them as `n`. */
static MPI_Request start_partitions(int n)
{
    MPI_Request r = MPI_REQUEST_NULL;
    if (rank == 0)
        MPI_Psend_init(big, 4, 8, MPI_BYTE, 1, 5, WORLD, MPI_INFO_NULL, &r);
    if (rank == 1)
        MPI_Precv_init(big, n, 32 / n, MPI_BYTE, 0, 5, WORLD, MPI_INFO_NULL, &r);
    if (rank < 2)
        MPI_Start(&r);
    return r;
}

static void partitions(void)
{
    MPI_Request r = start_partitions(4);
    if (rank == 0) {
        usleep(100000); /* rank 1 has described its wait, for all four */
        MPI_Pready(0, r);
        MPI_Pready(2, r);
    }
    MPI_Wait(&r, IGNORE); /* partitions */
    MPI_Barrier(WORLD);   /* partitions others */
    ended = 1;
}

/* Rank 0 waits for others before it marks the partitions. */
static void partitions_late(void)
{
    MPI_Request r = start_partitions(2);
    if (rank == 0)
        MPI_Pready_range(0, 2, r);
    if (rank == 1)
        MPI_Wait(&r, IGNORE); /* partitions_late */
    MPI_Barrier(WORLD);       /* partitions_late others */
    ended = 1;
}

static void parrived(void)
{
    MPI_Request r = MPI_REQUEST_NULL;
    int there = 0;
    if (rank == 0)
        MPI_Psend_init(big, 4, 8, MPI_BYTE, 1, 5, WORLD, MPI_INFO_NULL, &r);
    if (rank == 1)
        MPI_Precv_init(big, 4, 8, MPI_BYTE, 0, 5, WORLD, MPI_INFO_NULL, &r);
    if (rank < 2)
        MPI_Start(&r);
    while (rank == 1 && !there)
        MPI_Parrived(r, 3, &there); /* parrived */
    MPI_Barrier(WORLD);             /* parrived others */
    ended = 1;
}

static void check_error(int err, int wanted)
{
    int class;
    MPI_Error_class(err, &class);
    if (class != wanted)
        printf("rank %d: error class %d, expected %d\n", rank, class, wanted);
}

/* Without another job. */
static void accepts(void)
{
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm other_job;
    if (rank == 0)
        MPI_Open_port(MPI_INFO_NULL, port);
    MPI_Comm_accept(port, MPI_INFO_NULL, 0, WORLD, &other_job); /* accepts */
    ended = 1;
}

static void connects(void)
{
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm other_job;
    if (rank == 0)
        MPI_Open_port(MPI_INFO_NULL, port);
    MPI_Bcast(port, sizeof port, MPI_CHAR, 0, WORLD);
    if (rank == 1)
        MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other_job); /* connects */
    MPI_Barrier(WORLD);                                                      /* connects others */
    ended = 1;
}

/* Programs that never call MPI_Init. */
static void spawns(void)
{
    char *args[] = { "60", NULL };
    MPI_Comm children;
    MPI_Comm_spawn("/bin/sleep", args, 1, MPI_INFO_NULL, 0, WORLD, &children, /* spawns */
                   MPI_ERRCODES_IGNORE);
    ended = 1;
}

/* On a host whose remote shell does not answer. */
static void spawns_elsewhere(void)
{
    MPI_Info info;
    MPI_Comm children;
    MPI_Info_create(&info);
    MPI_Info_set(info, "add-host", "elsewhere:2");
    MPI_Info_set(info, "host", "elsewhere");
    MPI_Comm_spawn("/bin/true", MPI_ARGV_NULL, 2, info, 0, WORLD, &children, /* spawns_elsewhere */
                   MPI_ERRCODES_IGNORE);
    ended = 1;
}

/* Ends: a collective access that makes no agreement is missed, and MPI_File_close reports it. */
static void file_missed(void)
{
    MPI_File file = open_file();
    if (rank != 1)
        check_error(MPI_File_write_at_all(file, rank * 4, &one, 1, MPI_INT, IGNORE), MPI_SUCCESS);
    check_error(MPI_File_close(&file), MPI_ERR_NOT_SAME);
}

/* The same for an access that the ranks carry out together. */
static void file_missed_joint(void)
{
    MPI_File file = open_file();
    MPI_Datatype view;
    MPI_Type_vector(1024, 1, size, MPI_INT, &view);
    MPI_Type_commit(&view);
    check_error(MPI_File_set_view(file, rank * 4, MPI_INT, view, "native", MPI_INFO_NULL),
                MPI_SUCCESS);
    if (rank != 1)
        check_error(MPI_File_write_all(file, big, 1024, MPI_INT, IGNORE), MPI_ERR_NOT_SAME);
    check_error(MPI_File_close(&file), MPI_ERR_NOT_SAME);
    MPI_Type_free(&view);
}

static void file_other_call(void)
{
    MPI_File file = open_file();
    check_error(rank ? MPI_File_sync(file) : MPI_File_set_size(file, 100), MPI_ERR_NOT_SAME);
    check_error(MPI_File_close(&file), MPI_ERR_NOT_SAME);
}

/* MPI_Finalize names the messages that are unfinished. */
static void left_over(void)
{
    MPI_Request r;
    if (rank == 0)
        MPI_Isend(big, sizeof big, MPI_BYTE, 1, 0, WORLD, &r);
    if (rank == 1)
        MPI_Irecv(big, sizeof big, MPI_BYTE, 0, 1, WORLD, &r);
    MPI_Barrier(WORLD);
}

/* Rank 1 will never receive the message for which rank 0 waits in MPI_Finalize. */
static void left_waiting(void)
{
    MPI_Request r;
    if (rank == 0) {
        MPI_Isend(big, sizeof big, MPI_BYTE, 1, 0, WORLD, &r);
        MPI_Request_free(&r);
    }
    if (rank)
        MPI_Recv(&other, 1, MPI_INT, 3 - rank, 1, WORLD, IGNORE); /* left_waiting */
    ended = 1;
}

/* Correct: everything that MPI_Finalize finds has been freed or cancelled, or is complete. */
static void nothing_left(void)
{
    static char in[4][sizeof big];
    MPI_Request r[4], never;
    MPI_Comm dup;
    MPI_Comm_dup(WORLD, &dup);
    if (rank == 0) {
        MPI_Isend(big, sizeof big, MPI_BYTE, 1, 0, WORLD, &r[0]);
        MPI_Request_free(&r[0]);
        MPI_Isend(big, sizeof big, MPI_BYTE, 1, 1, dup, &r[1]);
        MPI_Request_free(&r[1]);
        MPI_Isend(big, sizeof big, MPI_BYTE, 1, 2, WORLD, &r[2]);
        MPI_Issend(big, 8, MPI_BYTE, 1, 3, WORLD, &r[3]);
        MPI_Request_free(&r[3]);
        MPI_Recv(&other, 1, MPI_INT, 1, 4, WORLD, IGNORE); /* r[2] is complete, but not freed */
        MPI_Isend(big, sizeof big, MPI_BYTE, 1, 9, WORLD, &never);
        MPI_Cancel(&never);
        MPI_Wait(&never, IGNORE);
    } else if (rank == 1) {
        for (int i = 0; i < 4; i++)
            MPI_Irecv(in[i], sizeof in[i], MPI_BYTE, 0, i, i == 1 ? dup : WORLD, &r[i]);
        MPI_Request_free(&r[1]);
        MPI_Irecv(&other, 1, MPI_INT, 0, 8, WORLD, &never);
        MPI_Cancel(&never);
        MPI_Request_free(&never);
        sleep(1);
        MPI_Wait(&r[0], IGNORE);
        MPI_Waitall(2, &r[2], MPI_STATUSES_IGNORE);
        MPI_Send(&one, 1, MPI_INT, 0, 4, WORLD);
    }
    MPI_Comm_free(&dup);
}

/* As lock_of_another, but rank 2 waits on another lane than that of the window. */
static void lock_beside(void)
{
    MPI_Win win;
    MPI_Comm c;
    int *base;
    MPI_Comm_dup(WORLD, &c);
    MPI_Comm_set_name(c, "beside");
    MPI_Win_allocate(64, 4, MPI_INFO_NULL, WORLD, &base, &win);
    if (rank == 2)
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    MPI_Barrier(WORLD);
    if (rank == 1) {
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
        MPI_Get(&other, 1, MPI_INT, 0, 0, 1, MPI_INT, win);
        MPI_Win_unlock(0, win); /* lock_beside others */
    }
    MPI_Recv(&other, 1, MPI_INT, 1, 7, c, IGNORE); /* lock_beside */
    ended = 1;
}

static void roots(void)
{
    int all[8];
    MPI_Gather(&one, 1, MPI_INT, all, 1, MPI_INT, rank == 1, WORLD); /* roots */
    MPI_Barrier(WORLD);                                              /* roots others */
    ended = all[0];
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
              { "lock_of_another", lock_of_another },
              { "fence", fence },
              { "one_more", one_more },
              { "partitions", partitions },
              { "partitions_late", partitions_late },
              { "parrived", parrived },
              { "accepts", accepts },
              { "connects", connects },
              { "spawns", spawns },
              { "spawns_elsewhere", spawns_elsewhere },
              { "file_missed", file_missed },
              { "file_missed_joint", file_missed_joint },
              { "file_other_call", file_other_call },
              { "left_over", left_over },
              { "left_waiting", left_waiting },
              { "nothing_left", nothing_left },
              { "pscw", pscw },
              { "waitall", waitall },
              { "threads", threads },
              { "lanes", lanes },
              { "lock_beside", lock_beside },
              { "roots", roots },
              { "computes", computes },
              { "before_init", before_init },
              { "sends_to_busy", sends_to_busy },
              { "isends_to_busy", isends_to_busy },
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
    const char *name = argc > 1 ? argv[1] : "", *own = getenv("PMIX_RANK");
    volatile double x = 0;
    if (!strcmp(name, "before_init") && own && !strcmp(own, "1"))
        step_chemistry(&x);
    bool multiple = !strcmp(name, "threads") || !strcmp(name, "lanes") ||
                    !strcmp(name, "lock_beside");
    MPI_Init_thread(&argc, &argv, multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
    MPI_Comm_rank(WORLD, &rank);
    MPI_Comm_size(WORLD, &size);
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
        if (!strcmp(modes[i].name, name)) {
            modes[i].run();
            MPI_Finalize(); /* MPI_Finalize */
            return 0;
        }
    fprintf(stderr, "usage: hang MODE\n");
    MPI_Abort(WORLD, 2);
}
