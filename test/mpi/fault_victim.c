/* SPDX-License-Identifier: BSD-3-Clause */
/* The program that the fault_*.py scripts start: each mode goes wrong in one way, or does ordinary
 * work while something around it is wrong.  It prints nothing itself unless its data are wrong. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define GIB ((size_t)1 << 30)
static int rank, size;

/* Prints the time for the script, which measures how soon the job ends. */
static void say_when(void)
{
    char line[64];
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    int n = snprintf(line, sizeof(line), "fault at %lld.%09ld\n", (long long)t.tv_sec, t.tv_nsec);
    if (write(1, line, (size_t)n) < 0)
        _exit(9);
}

static void die(int sig)
{
    (void)sig;
    say_when();
    kill(getpid(), SIGKILL);
}

/* Kills this process while it executes the code that follows. */
static void die_in_ms(int ms)
{
    struct itimerval t = { { 0, 0 }, { 0, ms * 1000 } };

    signal(SIGALRM, die);
    setitimer(ITIMER_REAL, &t, NULL);
}

static int truncated(int len)
{
    static char buf[1 << 20];

    if (rank == 0)
        MPI_Send(buf, len ? len : 4096, MPI_BYTE, 1, 5, MPI_COMM_WORLD);
    if (rank == 1)
        say_when();
    MPI_Recv(buf, 10, MPI_BYTE, rank == 1 ? 0 : 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return 0;
}

/* Waits for something from rank `who` that never comes, in the call that `way` names. */
static const char *way = "MPI_Recv";
static int wait_for(int who)
{
    int x, done;
    MPI_Message m;
    MPI_Request r;

    if (!strcmp(way, "MPI_Barrier"))
        return MPI_Barrier(MPI_COMM_WORLD);
    if (!strcmp(way, "MPI_Bcast"))
        return MPI_Bcast(&x, 1, MPI_INT, who, MPI_COMM_WORLD);
    if (!strcmp(way, "MPI_Probe"))
        return MPI_Probe(who, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (!strcmp(way, "MPI_Mprobe"))
        return MPI_Mprobe(who, 5, MPI_COMM_WORLD, &m, MPI_STATUS_IGNORE);
    if (!strcmp(way, "MPI_Parrived")) {
        MPI_Precv_init(&x, 1, 1, MPI_INT, who, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &r);
        MPI_Start(&r);
        for (done = 0; !done;)
            MPI_Parrived(r, 0, &done);
        return MPI_Wait(&r, MPI_STATUS_IGNORE);
    }
    return MPI_Recv(&x, 1, MPI_INT, who, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Rank 1 leaves, the others wait for it. */
static int leave(int code)
{
    if (rank == 1) {
        say_when();
        exit(code);
    }
    return wait_for(1);
}

/* Rank 1 is killed while the others wait for it. */
static int die_waited_for(void)
{
    if (rank == 1)
        die_in_ms(50);
    return wait_for(rank == 1 ? 0 : 1);
}

static int die_in_transfer(int who)
{
    char *buf = malloc(GIB);

    if (!buf)
        return 9;
    memset(buf, 1, GIB / 64);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == who)
        die_in_ms(30);
    if (rank == 0)
        MPI_Send(buf, (int)GIB, MPI_BYTE, 1, 5, MPI_COMM_WORLD);
    else if (rank == 1)
        MPI_Recv(buf, (int)GIB, MPI_BYTE, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Recv(buf, 1, MPI_BYTE, MPI_ANY_SOURCE, 6, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE); /* no rank sends this */
    return 0;
}

static void fill(unsigned char *p, int n, int key)
{
    int i;

    for (i = 0; i < n; i++)
        p[i] = (unsigned char)(i * 13 + (i >> 9) + key);
}

/* All ranks exchange with all ranks, small and large; the sizes take all paths. */
static int work(void)
{
    static const int sizes[] = { 8, 3000, 100000, 4000000 };
    unsigned char *out = malloc(4000000), *in = malloc(4000000), *want = malloc(4000000);
    int i, k, to, from;

    for (i = 0; i < 4; i++)
        for (k = 1; k < size; k++) {
            to = (rank + k) % size;
            from = (rank - k + size) % size;
            fill(out, sizes[i], rank);
            fill(want, sizes[i], from);
            MPI_Sendrecv(out, sizes[i], MPI_BYTE, to, 1, in, sizes[i], MPI_BYTE, from, 1,
                         MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (memcmp(in, want, (size_t)sizes[i])) {
                printf("wrong data: %d bytes from rank %d\n", sizes[i], from);
                return 8;
            }
        }
    free(out);
    free(in);
    free(want);
    return 0;
}

static void path_in_shm_dir(char *path, size_t len, const char *name)
{
    const char *dir = getenv("WEFT_SHM_DIR");

    snprintf(path, len, "%s/%s", dir ? dir : ".", name);
}

/* Fills the file system to the last byte, then creates a file whose name reports that. */
static void fill_file_system(void)
{
    static char block[65536], path[4096];
    size_t n = sizeof(block);
    FILE *f;

    path_in_shm_dir(path, sizeof(path), "filler");
    f = fopen(path, "w");
    setvbuf(f, NULL, _IONBF, 0);
    while (n > 0)
        if (fwrite(block, 1, n, f) != n)
            n /= 2;
    fclose(f);
    path_in_shm_dir(path, sizeof(path), "full");
    mkdir(path, 0700);
}

static void wait_until_full(void)
{
    static char path[4096];

    path_in_shm_dir(path, sizeof(path), "full");
    while (access(path, F_OK))
        usleep(1000);
}

/* Sends the first large message of the job.  Before that, rank `who` fills the file system: then
 * rank 0 cannot send the message, or rank 1, which has received a small message, cannot answer
 * it. */
static int first_message(int who)
{
    enum { LEN = 1 << 20 };
    unsigned char *buf = malloc(LEN), *want = malloc(LEN);

    fill(want, LEN, 7);
    memcpy(buf, want, LEN);
    if (rank == 0) {
        if (who == 1)
            MPI_Send(buf, 8, MPI_BYTE, 1, 4, MPI_COMM_WORLD);
        if (who == 0)
            fill_file_system();
        if (who == 1)
            wait_until_full();
        MPI_Send(buf, LEN, MPI_BYTE, 1, 5, MPI_COMM_WORLD);
    } else if (rank == 1) {
        memset(buf, 0, LEN);
        if (who == 1) {
            MPI_Recv(buf, 8, MPI_BYTE, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            fill_file_system();
        }
        MPI_Recv(buf, LEN, MPI_BYTE, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (memcmp(buf, want, LEN)) {
            printf("wrong data in the first message\n");
            return 8;
        }
    }
    free(buf);
    free(want);
    return 0;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "work";
    int arg = argc > 2 ? atoi(argv[2]) : 0, rc = 2;

    if (!strcmp(mode, "noinit") && getenv("PMIX_RANK") && atoi(getenv("PMIX_RANK")) == 1) {
        say_when();
        return arg;
    }
    if (argc > 3)
        way = argv[3];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (!strcmp(mode, "work"))
        rc = work();
    else if (!strcmp(mode, "truncated"))
        rc = truncated(arg);
    else if (!strcmp(mode, "first"))
        rc = first_message(arg);
    else if (!strcmp(mode, "leave") || !strcmp(mode, "noinit"))
        rc = leave(arg);
    else if (!strcmp(mode, "die"))
        rc = die_in_transfer(arg);
    else if (!strcmp(mode, "killed"))
        rc = die_waited_for();
    else if (!strcmp(mode, "abort") && rank == size - 1) {
        say_when();
        MPI_Abort(MPI_COMM_WORLD, arg);
    } else if (!strcmp(mode, "abort"))
        rc = wait_for(size - 1);
    MPI_Finalize();
    return rc;
}
