/* SPDX-License-Identifier: BSD-3-Clause */
/* Puts with notification: the data are there when the notification is, over all kinds of windows,
 * lengths and epochs, and under contention; counters, hints and wrong arguments. */
#include <string.h>
#include <sys/resource.h>
#include "test/mpi/mpitest.h"

enum { ROUNDS = 60, SHORT = 9, LONG = 70000, NUMBERS = 64 };

static MPI_Win win;
static int *mem;

static MPI_Win allocated(MPI_Aint n, const char *numbers)
{
    MPI_Info info = MPI_INFO_NULL;
    if (numbers) {
        OK(MPI_Info_create(&info));
        OK(MPI_Info_set(info, "weft_notifications", numbers));
    }
    OK(MPI_Win_allocate(n * (MPI_Aint)sizeof(int), sizeof(int), info, mt_comm, &mem, &win));
    memset(mem, 0, (size_t)n * sizeof(int));
    if (numbers)
        OK(MPI_Info_free(&info));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    OK(MPI_Barrier(mt_comm));
    return win;
}

static int *filled(int n, int value)
{
    int *p = malloc((size_t)n * sizeof *p);
    for (int i = 0; i < n; i++)
        p[i] = value + i;
    return p;
}

static int nwrong(const int *p, int n, int value)
{
    int bad = 0;
    for (int i = 0; i < n; i++)
        bad += p[i] != value + i;
    return bad;
}

/* Every rank puts to every rank, n elements each, and counts what comes. */
static void to_all(int n, MPI_Aint base_of[])
{
    int number = n % NUMBERS;
    MPI_Count left;
    for (int i = 0; i < mt_size; i++) {
        int *data = filled(n, 1000 * mt_rank);
        MPI_Aint disp = (base_of ? base_of[i] : 0) + (MPI_Aint)mt_rank * n * (base_of ? 4 : 1);
        OK(MPIX_Put_notify(data, n, MPI_INT, i, disp, n, MPI_INT, number, win));
        OK(MPI_Win_flush(i, win));
        free(data);
    }
    OK(MPIX_Notify_wait(number, mt_size, win));
    for (int i = 0; i < mt_size; i++)
        CHECK_EQ(nwrong(mem + i * n, n, 1000 * i), 0);
    OK(MPIX_Notify_get(number, &left, win));
    CHECK_EQ(left, 0);
    OK(MPI_Barrier(mt_comm));
}

static void in_epoch(MPI_Aint base_of[])
{
    const int lengths[] = { 1, SHORT, 300, 5000, LONG };
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    OK(MPI_Win_lock_all(0, win));
    OK(MPI_Barrier(mt_comm));
    for (unsigned i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
        to_all(lengths[i], base_of);
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Win_free(&win));
}

static void allocate(void)
{
    allocated((MPI_Aint)mt_size * LONG, NULL);
    in_epoch(NULL);
}

static void create(void)
{
    int *p = calloc((size_t)mt_size * LONG, sizeof *p);
    OK(MPI_Win_create(p, (MPI_Aint)mt_size * LONG * 4, 4, MPI_INFO_NULL, mt_comm, &win));
    mem = p;
    in_epoch(NULL);
    free(p);
}

static void dynamic(void)
{
    int *p = calloc((size_t)mt_size * LONG, sizeof *p);
    MPI_Aint *base_of = calloc((size_t)mt_size, sizeof *base_of);
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, mt_comm, &win));
    OK(MPI_Win_attach(win, p, (MPI_Aint)mt_size * LONG * 4));
    OK(MPI_Get_address(p, &base_of[mt_rank]));
    OK(MPI_Allgather(MPI_IN_PLACE, 1, MPI_AINT, base_of, 1, MPI_AINT, mt_comm));
    mem = p;
    in_epoch(base_of);
    free(base_of);
    free(p);
}

/* All ranks overwrite their place at rank 0 again and again; each waits for an answer. */
static void contended(void)
{
    allocated((MPI_Aint)mt_size * 600, NULL);
    OK(MPI_Win_lock_all(0, win));
    for (int i = 0; i < ROUNDS; i++) {
        int n = i % 3 == 2 ? 600 : SHORT + i % 3, *data = filled(n, 7 * i + mt_rank);
        OK(MPIX_Put_notify(data, n, MPI_INT, 0, mt_rank * 600, n, MPI_INT, mt_rank % NUMBERS, win));
        for (int k = 0; k < mt_size && mt_rank == 0; k++) {
            OK(MPIX_Notify_wait(k % NUMBERS, 1, win));
            CHECK_EQ(nwrong(mem + k * 600, n, 7 * i + k), 0);
            OK(MPIX_Put_notify(NULL, 0, MPI_INT, k, 0, 0, MPI_INT, NUMBERS - 1, win));
        }
        OK(MPIX_Notify_wait(NUMBERS - 1, 1, win));
        OK(MPI_Win_flush(0, win));
        free(data);
    }
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Win_free(&win));
}

/* Gaps on both sides. */
static void gaps(void)
{
    int right = (mt_rank + 1) % mt_size, left = (mt_rank + mt_size - 1) % mt_size;
    MPI_Datatype every2, every3;
    allocated(3 * 1000, NULL);
    OK(MPI_Type_vector(1000, 1, 2, MPI_INT, &every2));
    OK(MPI_Type_vector(1000, 1, 3, MPI_INT, &every3));
    OK(MPI_Type_commit(&every2));
    OK(MPI_Type_commit(&every3));
    int *data = filled(2000, mt_rank), bad = 0;
    OK(MPI_Win_lock_all(0, win));
    OK(MPIX_Put_notify_c(data, 1, every2, right, 0, 1, every3, 5, win));
    OK(MPIX_Notify_wait(5, 1, win));
    for (int i = 0; i < 1000; i++)
        bad += mem[3 * i] != left + 2 * i;
    CHECK_EQ(bad, 0);
    OK(MPIX_Put_notify(data, 0, every2, right, 1, 0, every3, 6, win)); /* no data */
    OK(MPIX_Notify_wait(6, 1, win));
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Type_free(&every2));
    OK(MPI_Type_free(&every3));
    OK(MPI_Win_free(&win));
    free(data);
}

/* Puts that wait in the origin's queue: for a lock, for a post; and in an epoch of a fence. */
static void epochs(void)
{
    int right = (mt_rank + 1) % mt_size, left = (mt_rank + mt_size - 1) % mt_size, flag = 0;
    MPI_Group world, to, from;
    allocated(8, NULL);
    OK(MPI_Comm_group(mt_comm, &world));
    OK(MPI_Group_incl(world, 1, &right, &to));
    OK(MPI_Group_incl(world, 1, &left, &from));
    OK(MPI_Win_fence(0, win));
    OK(MPIX_Put_notify(&mt_rank, 1, MPI_INT, right, 0, 1, MPI_INT, 1, win));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    OK(MPIX_Notify_test(1, 1, &flag, win));
    CHECK_EQ(flag, 1);
    CHECK_EQ(mem[0], left);

    OK(MPI_Win_start(to, 0, win));
    OK(MPIX_Put_notify(&mt_rank, 1, MPI_INT, right, 1, 1, MPI_INT, 2, win));
    OK(MPI_Win_post(from, 0, win));
    OK(MPI_Win_complete(win));
    OK(MPIX_Notify_wait(2, 1, win));
    CHECK_EQ(mem[1], left);
    OK(MPI_Win_wait(win));

    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win)); /* all at once */
    OK(MPIX_Put_notify(&mt_rank, 1, MPI_INT, 0, 2, 1, MPI_INT, 3, win));
    OK(MPIX_Put_notify(MPI_BOTTOM, 0, MPI_INT, 0, 0, 0, MPI_INT, 3, win));
    OK(MPI_Win_unlock(0, win));
    if (mt_rank == 0)
        OK(MPIX_Notify_wait(3, 2 * mt_size, win));
    OK(MPI_Group_free(&to));
    OK(MPI_Group_free(&from));
    OK(MPI_Group_free(&world));
    OK(MPI_Win_free(&win));
}

static void counts(void)
{
    MPI_Count n = -1;
    int flag = 1, last = mt_size - 1, value = 1;
    allocated(4, NULL);
    OK(MPI_Win_lock_all(0, win));
    OK(MPIX_Notify_test(0, 1, &flag, win));
    CHECK_EQ(flag, 0);
    OK(MPIX_Notify_test(0, 0, &flag, win));
    CHECK_EQ(flag, 1);
    OK(MPIX_Notify_wait(0, 0, win));
    OK(MPI_Barrier(mt_comm));
    for (int i = 0; i < 3; i++)
        OK(MPIX_Put_notify(&value, 1, MPI_INT, last, 0, 1, MPI_INT, 0, win));
    OK(MPIX_Put_notify(&flag, 1, MPI_INT, MPI_PROC_NULL, 99, 1, MPI_INT, 0, win));
    OK(MPI_Win_flush_all(win));
    OK(MPI_Barrier(mt_comm));
    OK(MPIX_Notify_get(0, &n, win));
    CHECK_EQ(n, mt_rank == last ? 3 * mt_size : 0);
    if (mt_rank == last) {
        OK(MPIX_Notify_test(0, 3 * mt_size + 1, &flag, win));
        CHECK_EQ(flag, 0);
        OK(MPIX_Notify_wait(0, 2, win));
        while (flag == 0)
            OK(MPIX_Notify_test(0, 3 * mt_size - 2, &flag, win));
        OK(MPIX_Notify_get(0, &n, win));
        CHECK_EQ(n, 0);
    }
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Win_free(&win));
}

static int in_use(void)
{
    char value[32] = "";
    MPI_Info info;
    int found = 0;
    OK(MPI_Win_get_info(win, &info));
    OK(MPI_Info_get(info, "weft_notifications", sizeof value - 1, value, &found));
    OK(MPI_Info_free(&info));
    return found ? atoi(value) : -1;
}

static void hints(void)
{
    int x = 0;
    allocated(1, NULL);
    CHECK_EQ(in_use(), NUMBERS);
    OK(MPI_Win_free(&win));
    allocated(1, "zero"); /* ignored, as is what is out of range */
    CHECK_EQ(in_use(), NUMBERS);
    OK(MPI_Win_free(&win));
    allocated(1, "1025");
    CHECK_EQ(in_use(), NUMBERS);
    OK(MPI_Win_free(&win));
    allocated(1, mt_rank == mt_size - 1 ? "8" : "1024"); /* the smallest */
    CHECK_EQ(in_use(), 8);
    OK(MPI_Win_lock_all(0, win));
    FAILS(MPIX_Put_notify(&x, 1, MPI_INT, 0, 0, 1, MPI_INT, 8, win), MPI_ERR_ARG);
    OK(MPIX_Put_notify(&x, 1, MPI_INT, mt_rank, 0, 1, MPI_INT, 7, win));
    OK(MPIX_Notify_wait(7, 1, win));
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Win_free(&win));
    allocated(1, "1024");
    CHECK_EQ(in_use(), 1024);
    OK(MPI_Win_lock_all(0, win));
    OK(MPIX_Put_notify(&x, 1, MPI_INT, (mt_rank + 1) % mt_size, 0, 1, MPI_INT, 1023, win));
    OK(MPIX_Notify_wait(1023, 1, win));
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Win_free(&win));
}

static void wrong(void)
{
    int x = 0, flag;
    allocated(4, NULL);
    FAILS(MPIX_Put_notify(&x, 1, MPI_INT, 0, 0, 1, MPI_INT, 0, win), MPI_ERR_RMA_SYNC);
    OK(MPI_Win_lock_all(0, win));
    FAILS(MPIX_Put_notify(&x, 1, MPI_INT, 0, 0, 1, MPI_INT, -1, win), MPI_ERR_ARG);
    FAILS(MPIX_Put_notify(&x, 1, MPI_INT, 0, 0, 1, MPI_INT, NUMBERS, win), MPI_ERR_ARG);
    FAILS(MPIX_Put_notify(&x, -1, MPI_INT, 0, 0, 1, MPI_INT, 0, win), MPI_ERR_COUNT);
    FAILS(MPIX_Put_notify(&x, 1, MPI_INT, 0, 0, -1, MPI_INT, 0, win), MPI_ERR_COUNT);
    FAILS(MPIX_Put_notify(&x, 1, MPI_DATATYPE_NULL, 0, 0, 1, MPI_INT, 0, win), MPI_ERR_TYPE);
    FAILS(MPIX_Put_notify(&x, 1, MPI_INT, 0, 0, 1, MPI_DATATYPE_NULL, 0, win), MPI_ERR_TYPE);
    FAILS(MPIX_Put_notify(&x, 1, MPI_INT, mt_size, 0, 1, MPI_INT, 0, win), MPI_ERR_RANK);
    FAILS(MPIX_Put_notify(&x, 1, MPI_INT, 0, -1, 1, MPI_INT, 0, win), MPI_ERR_DISP);
    FAILS(MPIX_Put_notify(&x, 1, MPI_INT, 0, 4, 1, MPI_INT, 0, win), MPI_ERR_RMA_RANGE);
    FAILS(MPIX_Put_notify(&x, 1, MPI_INT, 0, 0, 2, MPI_INT, 0, win), MPI_ERR_TRUNCATE);
    FAILS(MPIX_Put_notify(NULL, 1, MPI_INT, 0, 0, 1, MPI_INT, 0, win), MPI_ERR_BUFFER);
    FAILS(MPIX_Notify_wait(NUMBERS, 1, win), MPI_ERR_ARG);
    FAILS(MPIX_Notify_wait(0, -1, win), MPI_ERR_COUNT);
    FAILS(MPIX_Notify_wait(0, (MPI_Count)1 << 31, win), MPI_ERR_COUNT);
    FAILS(MPIX_Notify_test(-1, 1, &flag, win), MPI_ERR_ARG);
    FAILS(MPIX_Notify_test(0, 1, NULL, win), MPI_ERR_ARG);
    FAILS(MPIX_Notify_get(0, NULL, win), MPI_ERR_ARG);
    FAILS(MPIX_Notify_get(NUMBERS, NULL, win), MPI_ERR_ARG);
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Win_free(&win));
    FAILS(MPIX_Notify_wait(0, 1, MPI_WIN_NULL), MPI_ERR_WIN);
    FAILS(MPIX_Put_notify(&x, 1, MPI_INT, 0, 0, 1, MPI_INT, 0, MPI_WIN_NULL), MPI_ERR_WIN);
}

static double cpu_seconds(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* Processor seconds of this rank in a wait of 0.6 s; of rank 0, which it waits for: 0. */
static double waited(void)
{
    double begin = cpu_seconds();
    OK(MPI_Barrier(mt_comm));
    if (mt_rank != 0) {
        OK(MPIX_Notify_wait(0, 1, win));
        return cpu_seconds() - begin;
    }
    usleep(600000);
    for (int i = 1; i < mt_size; i++)
        OK(MPIX_Put_notify(&mt_rank, 1, MPI_INT, i, 0, 1, MPI_INT, 0, win));
    return 0;
}

/* A process that waits long uses no processor.  The least of several waits counts: a virtual
 * machine charges a running process for the time in which the host runs other work. */
static void idle(void)
{
    double least = 1, used, most = 1;
    allocated(1, NULL);
    OK(MPI_Win_lock_all(0, win));
    for (int i = 0; i < 4 && most >= 0.3; i++) {
        used = waited();
        least = used < least ? used : least;
        OK(MPI_Allreduce(&least, &most, 1, MPI_DOUBLE, MPI_MAX, mt_comm));
    }
    CHECK_MSG(least < 0.3, "rank %d used %.3f s of processor time or more in each wait of 0.6 s",
              mt_rank, least);
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Win_free(&win));
}

int main(int argc, char **argv)
{
    mt_init(argc, argv);
    MT_RUN(allocate);
    MT_RUN(create);
    MT_RUN(dynamic);
    MT_RUN(contended);
    MT_RUN(gaps);
    MT_RUN(epochs);
    MT_RUN(counts);
    MT_RUN(hints);
    MT_RUN(wrong);
    MT_RUN(idle);
    return mt_end();
}
