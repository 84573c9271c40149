/* SPDX-License-Identifier: BSD-3-Clause */
/* An MPI program for tests over several hosts: its first argument selects what it does.
 *   where              one line a rank: rank, processor name, ranks on this host
 *   big [return]       rank 0 sends 32 MiB messages to the last rank until it is stopped, all
 *                      checked; "going" after the first.  return: errors are returned, and each of
 *                      the two prints "rank R: CLASS after S s" and ends in order
 *   traffic SECONDS    messages of 8 bytes to 1 MiB in a ring, and sums, all checked
 *   pair SECONDS       rank 0 sends 1 MiB to the last rank and prints "going"; all stay for so long
 *   pass               rank 0 sends 16 MiB and then short messages, which rank 1 answers;
 *                      prints whether the short messages arrived first
 *   barrier RANK       all meet, then RANK kills itself while the others are in MPI_Barrier
 *   late SECONDS       the last rank receives SECONDS after rank 0 has called MPI_Finalize
 *   sleepy             rank 0 waits for a local and for a remote rank, and prints the cost */
#include <mpi.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int rank, size;

static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void fill(unsigned char *p, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++)
        p[i] = (unsigned char)((i * 2654435761u >> 13) + seed);
}

/* Ends the job on the first wrong byte. */
static void verify(const unsigned char *p, size_t len, unsigned seed, const char *what)
{
    for (size_t i = 0; i < len; i++)
        if (p[i] != (unsigned char)((i * 2654435761u >> 13) + seed)) {
            printf("rank %d: WRONG DATA: byte %zu of %zu of %s\n", rank, i, len, what);
            fflush(stdout);
            MPI_Abort(MPI_COMM_WORLD, 66);
        }
}

static void *must(void *p)
{
    if (!p)
        MPI_Abort(MPI_COMM_WORLD, 67);
    return p;
}

static void where(void)
{
    char name[MPI_MAX_PROCESSOR_NAME], line[MPI_MAX_PROCESSOR_NAME + 40];
    int len, local;
    MPI_Comm node;
    MPI_Get_processor_name(name, &len);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &local);
    MPI_Comm_free(&node);
    for (int r = 0; r < size; r++) { /* in order */
        snprintf(line, sizeof line, "rank %d on %s, %d there\n", rank, name, local);
        if (r == 0 && rank == 0)
            fputs(line, stdout);
        else if (r == rank)
            MPI_Send(line, sizeof line, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
        else if (rank == 0) {
            MPI_Recv(line, sizeof line, MPI_CHAR, r, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            fputs(line, stdout);
        }
    }
}

static int tell(int err, double start)
{
    char text[MPI_MAX_ERROR_STRING];
    int class, len;
    MPI_Error_class(err, &class);
    MPI_Error_string(class, text, &len);
    printf("rank %d: class %d after %.1f s: %s\n", rank, class, MPI_Wtime() - start, text);
    return 0;
}

/* `start` is set again with every message that arrives, so the time printed is since the last
 * message. */
static int big(int returns)
{
    size_t len = 32u << 20;
    unsigned char *buf = must(malloc(len));
    double start = MPI_Wtime();

    if (returns)
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (unsigned n = 0; rank == 0 || rank == size - 1; n++) {
        int err;
        if (rank == 0) {
            fill(buf, len, n);
            err = MPI_Send(buf, (int)len, MPI_BYTE, size - 1, 3, MPI_COMM_WORLD);
        } else {
            err = MPI_Recv(buf, (int)len, MPI_BYTE, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (!err)
                verify(buf, len, n, "a long message");
            if (!err && n == 0)
                printf("going\n"), fflush(stdout);
        }
        if (err)
            return tell(err, start);
        start = MPI_Wtime();
    }
    return 0;
}

static void sum_up(unsigned n)
{
    double mine[100], all[100];
    for (int i = 0; i < 100; i++)
        mine[i] = rank + i + (double)n;
    MPI_Allreduce(mine, all, 100, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < 100; i++)
        if (all[i] != size * (size - 1) / 2.0 + size * (i + (double)n)) {
            printf("rank %d: WRONG DATA: sum %d is %g\n", rank, i, all[i]);
            MPI_Abort(MPI_COMM_WORLD, 66);
        }
}

static void traffic(double seconds)
{
    size_t max = 1u << 20;
    unsigned char *out = must(malloc(max)), *in = must(malloc(max));
    unsigned n = 0, rnd = 12345;
    int on = 1, right = (rank + 1) % size, left = (rank + size - 1) % size;
    double start = MPI_Wtime();

    for (; on; n++) {
        rnd = rnd * 1103515245u + 12345u; /* the same on all ranks */
        size_t len = (size_t)8 << (rnd >> 16) % 18;
        MPI_Status status;
        int got;
        fill(out, len, n + (unsigned)rank);
        MPI_Sendrecv(out, (int)len, MPI_BYTE, right, 5, in, (int)max, MPI_BYTE, left, 5,
                     MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_BYTE, &got);
        verify(in, len, n + (unsigned)left, "a message in the ring");
        if (got != (int)len) {
            printf("rank %d: WRONG DATA: %d bytes, expected %zu\n", rank, got, len);
            MPI_Abort(MPI_COMM_WORLD, 66);
        }
        sum_up(n);
        if (n == 0 && rank == 0)
            printf("going\n"), fflush(stdout);
        on = MPI_Wtime() - start < seconds;
        MPI_Bcast(&on, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    if (rank == 0)
        printf("%u rounds right\n", n);
    free(out);
    free(in);
}

static void stay(double seconds)
{
    struct timespec t = { (time_t)seconds, 0 };
    nanosleep(&t, NULL);
}

static void pair(double seconds)
{
    size_t len = 1u << 20;
    unsigned char *buf = must(malloc(len));
    fill(buf, len, 3);
    if (rank == 0)
        MPI_Send(buf, (int)len, MPI_BYTE, size - 1, 6, MPI_COMM_WORLD);
    else if (rank == size - 1)
        MPI_Recv(buf, (int)len, MPI_BYTE, 0, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    verify(buf, len, 3, "the message of a pair");
    if (rank == 0)
        printf("going\n"), fflush(stdout);
    stay(seconds);
    free(buf);
}

static void pass(void)
{
    size_t len = 16u << 20;
    unsigned char *buf = must(malloc(len)), small[8];
    MPI_Request req;
    int done = 1;

    fill(buf, len, 5);
    if (rank == 1) {
        memset(buf, 0, len);
        MPI_Irecv(buf, (int)len, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &req);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        MPI_Isend(buf, (int)len, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &req);
    for (unsigned n = 0; n < 4 && rank < 2; n++) {
        fill(small, sizeof small, n);
        if (rank == 0)
            MPI_Send(small, sizeof small, MPI_BYTE, 1, 2, MPI_COMM_WORLD);
        MPI_Recv(small, sizeof small, MPI_BYTE, !rank, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        verify(small, sizeof small, n, "a short message");
        if (rank == 1)
            MPI_Send(small, sizeof small, MPI_BYTE, 0, 2, MPI_COMM_WORLD);
    }
    if (rank == 1)
        MPI_Test(&req, &done, MPI_STATUS_IGNORE);
    if (rank < 2)
        MPI_Wait(&req, MPI_STATUS_IGNORE);
    verify(buf, len, 5, "the long message");
    if (rank == 1)
        printf("the short ones came %s\n", done ? "behind the long one" : "first");
    free(buf);
}

static void barrier(int victim)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("going\n"), fflush(stdout);
    if (rank == victim) {
        usleep(300000);
        raise(SIGKILL);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Rank 0 is a correct program that leaves early; its messages must still reach the last rank. */
static void late(double seconds)
{
    static unsigned char small[20][1024], large[4u << 20];
    MPI_Request req[21];
    if (rank == 0) {
        for (int i = 0; i < 20; i++) {
            fill(small[i], (size_t)i * 50 + 8, (unsigned)i);
            MPI_Isend(small[i], i * 50 + 8, MPI_BYTE, size - 1, i, MPI_COMM_WORLD, &req[i]);
        }
        fill(large, sizeof large, 77);
        MPI_Isend(large, sizeof large, MPI_BYTE, size - 1, 20, MPI_COMM_WORLD, &req[20]);
        MPI_Waitall(20, req, MPI_STATUSES_IGNORE);
        MPI_Request_free(&req[20]);
    } else if (rank == size - 1) {
        stay(seconds);
        MPI_Recv(large, sizeof large, MPI_BYTE, 0, 20, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        verify(large, sizeof large, 77, "the long message");
        for (int i = 0; i < 20; i++) {
            MPI_Recv(small[i], 1024, MPI_BYTE, 0, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            verify(small[i], (size_t)i * 50 + 8, (unsigned)i, "a short message");
        }
        printf("all arrived\n");
    }
}

/* The hosts of the rig have one clock, so the sender's time can be compared here. */
static void sleepy_wait(int from, double seconds, double *cpu, double *delay)
{
    double sent = 0;
    if (rank == from) {
        struct timespec t = { (time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9) };
        nanosleep(&t, NULL);
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        sent = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
        MPI_Send(&sent, 1, MPI_DOUBLE, 0, 7, MPI_COMM_WORLD);
    } else if (rank == 0) {
        struct timespec now;
        double before = cpu_s();
        MPI_Recv(&sent, 1, MPI_DOUBLE, MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        clock_gettime(CLOCK_MONOTONIC, &now);
        *cpu = cpu_s() - before;
        *delay = (double)now.tv_sec + (double)now.tv_nsec * 1e-9 - sent;
    }
}

static void sleepy(void)
{
    for (int from = 1; from < size; from++) {
        double cpu[2] = { 0 }, delay = 1, again = 0;
        sleepy_wait(from, 0.5, &cpu[0], &delay);
        sleepy_wait(from, 1.5, &cpu[1], &again);
        if (rank == 0)
            printf("from %d: cpu_ms %.0f delay_ms %.1f\n", from, (cpu[1] - cpu[0]) * 1e3,
                   (again < delay ? again : delay) * 1e3);
    }
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "", *arg = argc > 2 ? argv[2] : "";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (!strcmp(what, "where"))
        where();
    else if (!strcmp(what, "big"))
        big(!strcmp(arg, "return"));
    else if (!strcmp(what, "traffic"))
        traffic(strtod(arg, NULL));
    else if (!strcmp(what, "pair"))
        pair(strtod(arg, NULL));
    else if (!strcmp(what, "pass"))
        pass();
    else if (!strcmp(what, "barrier"))
        barrier((int)strtol(arg, NULL, 10));
    else if (!strcmp(what, "late"))
        late(strtod(arg, NULL));
    else if (!strcmp(what, "sleepy"))
        sleepy();
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
