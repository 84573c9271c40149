/* SPDX-License-Identifier: BSD-3-Clause */
/* Rank 0 does not call MPI; the others use its window: put, get, accumulate, locks.  The last word
 * that each of them puts ends the computation of rank 0, so without help it reaches the deadline.
 * Over several hosts a helper thread serves them; it exists only while such a window does. */
#include "test/mpi/mpitest.h"
#include <dirent.h>
#include <sys/resource.h>

#define DEADLINE 20       /* seconds; the others need milliseconds */
enum { SUM, COPY, FLAG }; /* words of rank 0; FLAG and the following: by rank */

static double seconds(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int nthreads(void)
{
    DIR *d = opendir("/proc/self/task");
    int n = -2; /* . and .. */
    while (d && readdir(d))
        n++;
    closedir(d);
    return n;
}

/* The progress threads of the library in this process. */
static int nhelpers(void)
{
    DIR *d = opendir("/proc/self/task");
    struct dirent *e;
    int n = 0;
    while (d && (e = readdir(d))) {
        char path[300], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", e->d_name);
        FILE *f = fopen(path, "r");
        if (f && fgets(name, sizeof name, f))
            n += !strcmp(name, "weft-progress\n");
        if (f)
            fclose(f);
    }
    closedir(d);
    return n;
}

static int nhosts(void)
{
    MPI_Comm host;
    int local, hosts, first;
    OK(MPI_Comm_split_type(mt_comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host));
    OK(MPI_Comm_rank(host, &local));
    first = local == 0;
    OK(MPI_Allreduce(&first, &hosts, 1, MPI_INT, MPI_SUM, mt_comm));
    OK(MPI_Comm_free(&host));
    return hosts;
}

/* No call of MPI. */
static void compute(const volatile int64_t *mem)
{
    double end = seconds(CLOCK_MONOTONIC) + DEADLINE;
    int arrived;
    do {
        arrived = 0;
        for (int i = 1; i < mt_size; i++)
            arrived += mem[FLAG + i] == i;
    } while (arrived < mt_size - 1 && seconds(CLOCK_MONOTONIC) < end);
    CHECK_MSG(arrived == mt_size - 1, "%d of %d ranks were served", arrived, mt_size - 1);
}

static void origin(MPI_Win win, int how)
{
    int64_t one = 1, me = mt_rank, old = -1, back = 0;
    for (int i = 0; i < 20; i++) {
        OK(MPI_Win_lock(how, 0, 0, win));
        OK(MPI_Fetch_and_op(&one, &old, MPI_INT64_T, 0, SUM, MPI_SUM, win));
        OK(MPI_Win_flush(0, win));
        if (how == MPI_LOCK_EXCLUSIVE) { /* not atomic itself */
            OK(MPI_Get(&back, 1, MPI_INT64_T, 0, COPY, 1, MPI_INT64_T, win));
            OK(MPI_Win_flush(0, win));
            CHECK_MSG(back == old, "rank %d: %lld and %lld", mt_rank, (long long)back,
                      (long long)old);
            back++;
            OK(MPI_Put(&back, 1, MPI_INT64_T, 0, COPY, 1, MPI_INT64_T, win));
        }
        OK(MPI_Win_unlock(0, win));
    }
    OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
    OK(MPI_Put(&me, 1, MPI_INT64_T, 0, FLAG + mt_rank, 1, MPI_INT64_T, win));
    OK(MPI_Win_unlock(0, win));
}

static void serves(int how)
{
    int64_t *mem;
    MPI_Win win;
    int before = nthreads();
    OK(MPI_Win_allocate((FLAG + mt_size) * (MPI_Aint)sizeof *mem, sizeof *mem, MPI_INFO_NULL,
                        mt_comm, &mem, &win));
    memset(mem, 0, (size_t)(FLAG + mt_size) * sizeof *mem);
    OK(MPI_Barrier(mt_comm));
    CHECK_MSG(nthreads() == before + (nhosts() > 1), "rank %d: %d threads, %d before the window",
              mt_rank, nthreads(), before);
    if (mt_rank == 0)
        compute(mem);
    else
        origin(win, how);
    OK(MPI_Barrier(mt_comm));
    if (mt_rank == 0)
        CHECK(mem[SUM] == 20 * (mt_size - 1));
    OK(MPI_Win_free(&win));
    CHECK_MSG(nthreads() == before, "rank %d: %d threads, %d before the window", mt_rank,
              nthreads(), before);
}

static void with_shared_locks(void) { serves(MPI_LOCK_SHARED); }
static void with_exclusive_locks(void) { serves(MPI_LOCK_EXCLUSIVE); }

/* An idle window takes no time of the core. */
static void idle(void)
{
    MPI_Win win;
    int64_t *mem;
    OK(MPI_Win_allocate(8, 8, MPI_INFO_NULL, mt_comm, &mem, &win));
    OK(MPI_Barrier(mt_comm));
    nanosleep(&(struct timespec){ .tv_nsec = 100000000 }, NULL); /* connections are set up */
    double used = seconds(CLOCK_PROCESS_CPUTIME_ID);
    nanosleep(&(struct timespec){ .tv_nsec = 500000000 }, NULL);
    used = seconds(CLOCK_PROCESS_CPUTIME_ID) - used;
    CHECK_MSG(used < 0.025, "rank %d used %.3f s of 0.5 s", mt_rank, used);
    OK(MPI_Win_free(&win));
}

/* Windows and files share one thread. */
static void with_a_file(void)
{
    MPI_Win win;
    MPI_File f;
    MPI_Info info;
    MPI_Request q;
    int64_t *mem, x = mt_rank;
    char name[300];
    const char *tmp = getenv("TMPDIR");
    snprintf(name, sizeof name, "%s/rma_helper.%d", tmp ? tmp : "/tmp", mt_size);
    OK(MPI_Win_allocate(8, 8, MPI_INFO_NULL, mt_comm, &mem, &win));
    int serves = nhosts() > 1;
    CHECK(nhelpers() == serves);
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "romio_cb_write", "enable"));
    OK(MPI_File_open(mt_comm, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                     info, &f));
    OK(MPI_Info_free(&info));
    for (int i = 0; i < 3; i++) {
        OK(MPI_File_iwrite_at_all(f, 8 * mt_rank, &x, 1, MPI_INT64_T, &q));
        OK(MPI_Wait(&q, MPI_STATUS_IGNORE));
        CHECK(nhelpers() == (mt_size > 1)); /* one rank accesses its file alone */
        if (i == 1)
            OK(MPI_Win_free(&win));
    }
    OK(MPI_File_close(&f));
    CHECK(nhelpers() == 0);
}

static void without_locks(void)
{
    MPI_Win win;
    MPI_Info info;
    int64_t *mem;
    int before = nthreads();
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "no_locks", "true"));
    OK(MPI_Win_allocate(8, 8, info, mt_comm, &mem, &win));
    CHECK(nthreads() == before);
    OK(MPI_Win_free(&win));
    OK(MPI_Info_free(&info));
}

int main(int argc, char **argv)
{
    mt_init(argc, argv);
    MT_RUN(without_locks);
    MT_RUN(with_shared_locks);
    MT_RUN(with_exclusive_locks);
    MT_RUN(with_a_file);
    MT_RUN(idle);
    return mt_end();
}
