/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations on a target that operations have reached before: the library then takes its shortest
 * path.  That path must do what the first operation did, and must leave every wrong argument and
 * every end of an epoch to the checks.  With the argument "threads" all cases run under
 * MPI_THREAD_MULTIPLE, and one more has several threads. */
#include "test/mpi/mpitest.h"
#include <pthread.h>

enum { N = 8192 };

static MPI_Win win;
static long *mem;
static int last;

static void open_window(void)
{
    OK(MPI_Win_allocate(N, 1, MPI_INFO_NULL, mt_comm, &mem, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    memset(mem, 0, N);
    last = mt_size - 1;
    MPI_Barrier(mt_comm);
}

static void close_window(void)
{
    MPI_Barrier(mt_comm);
    OK(MPI_Win_free(&win));
}

static int put(int rank, long v)
{
    static long value;
    value = v;
    return MPI_Put(&value, 1, MPI_LONG, rank, 0, 1, MPI_LONG, win);
}

static long get(MPI_Win w, int rank)
{
    long v = -1;
    OK(MPI_Get(&v, 1, MPI_LONG, rank, 0, 1, MPI_LONG, w));
    OK(MPI_Win_flush(rank, w));
    return v;
}

static void wrong_puts(void)
{
    long v = 1;
    MPI_Datatype type;
    OK(MPI_Type_vector(2, 1, 2, MPI_LONG, &type)); /* not committed */
    FAILS(MPI_Put(&v, 1, MPI_LONG, last, N, 1, MPI_LONG, win), MPI_ERR_RMA_RANGE);
    FAILS(MPI_Put(&v, 1, MPI_LONG, last, N - 7, 1, MPI_LONG, win), MPI_ERR_RMA_RANGE);
    FAILS(MPI_Put_c(&v, 1, MPI_LONG, last, INT64_MAX, 1, MPI_LONG, win), MPI_ERR_RMA_RANGE);
    FAILS(MPI_Put_c(&v, INT64_MAX / 4, MPI_LONG, last, 0, INT64_MAX / 4, MPI_LONG, win),
          MPI_ERR_COUNT);
    FAILS(MPI_Put_c(&v, INT64_MAX / 8 - 1, MPI_LONG, last, 0, INT64_MAX / 8 - 1, MPI_LONG, win),
          MPI_ERR_RMA_RANGE);
    FAILS(MPI_Put(&v, 1, MPI_LONG, last, -1, 1, MPI_LONG, win), MPI_ERR_DISP);
    FAILS(MPI_Put(&v, -1, MPI_LONG, last, 0, -1, MPI_LONG, win), MPI_ERR_COUNT);
    FAILS(MPI_Put(&v, 1, MPI_LONG, last, 0, 2, MPI_LONG, win), MPI_ERR_TRUNCATE);
    FAILS(MPI_Put(&v, 1, MPI_LONG, last, 0, 1, MPI_INT, win), MPI_ERR_TRUNCATE);
    FAILS(MPI_Put(&v, 1, type, last, 0, 1, type, win), MPI_ERR_TYPE);
    FAILS(MPI_Put(&v, 1, MPI_DATATYPE_NULL, last, 0, 1, MPI_DATATYPE_NULL, win), MPI_ERR_TYPE);
    FAILS(MPI_Put(NULL, 1, MPI_LONG, last, 0, 1, MPI_LONG, win), MPI_ERR_BUFFER);
    FAILS(MPI_Put(&v, 1, MPI_LONG, mt_size, 0, 1, MPI_LONG, win), MPI_ERR_RANK);
    OK(MPI_Put(&v, 1, MPI_LONG, MPI_PROC_NULL, 0, 1, MPI_LONG, win));
    OK(MPI_Put(NULL, 0, MPI_LONG, last, N, 0, MPI_LONG, win));
    OK(MPI_Type_free(&type));
}

static void wrong_changes(void)
{
    long v = 1, old = 5, was_long;
    double d = 1, was;
    FAILS(MPI_Accumulate(&v, 1, MPI_LONG, last, N, 1, MPI_LONG, MPI_SUM, win), MPI_ERR_RMA_RANGE);
    OK(MPI_Fetch_and_op(&v, &was_long, MPI_LONG, last, 0, MPI_NO_OP, win));
    FAILS(MPI_Accumulate(&v, 1, MPI_LONG, last, 0, 1, MPI_LONG, MPI_NO_OP, win), MPI_ERR_OP);
    FAILS(MPI_Accumulate(&v, 1, MPI_LONG, last, 0, 1, MPI_LONG, MPI_OP_NULL, win), MPI_ERR_OP);
    OK(MPI_Accumulate(&d, 0, MPI_DOUBLE, last, 0, 0, MPI_DOUBLE, MPI_BAND, win));
    FAILS(MPI_Accumulate(&d, 1, MPI_DOUBLE, last, 0, 1, MPI_DOUBLE, MPI_BAND, win), MPI_ERR_OP);
    FAILS(MPI_Accumulate(&v, 1, MPI_LONG, last, 0, 1, MPI_DOUBLE, MPI_SUM, win), MPI_ERR_TYPE);
    FAILS(MPI_Fetch_and_op(&v, NULL, MPI_LONG, last, 0, MPI_SUM, win), MPI_ERR_BUFFER);
    FAILS(MPI_Fetch_and_op(&v, &old, MPI_LONG, last, N - 1, MPI_SUM, win), MPI_ERR_RMA_RANGE);
    FAILS(MPI_Compare_and_swap(&v, &v, NULL, MPI_LONG, last, 0, win), MPI_ERR_BUFFER);
    FAILS(MPI_Compare_and_swap(&d, &d, &was, MPI_DOUBLE, last, 0, win), MPI_ERR_TYPE);
    FAILS(MPI_Compare_and_swap(&v, &v, &old, MPI_LONG, last, N, win), MPI_ERR_RMA_RANGE);
    OK(MPI_Win_flush(last, win)); /* the result is on this stack */
    CHECK_EQ(old, 5);
}

static void arguments(void)
{
    open_window();
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, last, 0, win));
    OK(put(last, 7));
    OK(put(last, 7));
    wrong_puts();
    wrong_changes();
    CHECK_EQ(get(win, last), 7);
    OK(MPI_Win_unlock(last, win));
    close_window();
}

/* Each kind of epoch, entered twice: its end ends the path. */
static void epochs(void)
{
    long v = 1;
    MPI_Group all;
    open_window();
    OK(MPI_Win_get_group(win, &all));
    for (int i = 0; i < 2; i++) {
        OK(MPI_Win_lock(MPI_LOCK_SHARED, last, 0, win));
        OK(put(last, v));
        FAILS(MPI_Win_lock(MPI_LOCK_SHARED, last, 0, win), MPI_ERR_RMA_SYNC);
        OK(MPI_Win_unlock(last, win));
        FAILS(put(last, v), MPI_ERR_RMA_SYNC);
        FAILS(MPI_Win_flush(last, win), MPI_ERR_RMA_SYNC);
        FAILS(MPI_Win_unlock(last, win), MPI_ERR_RMA_SYNC);
        OK(MPI_Win_lock_all(0, win));
        OK(put(last, v));
        OK(MPI_Win_flush_local(last, win));
        FAILS(MPI_Win_lock(MPI_LOCK_SHARED, last, 0, win), MPI_ERR_RMA_SYNC);
        FAILS(MPI_Win_unlock(last, win), MPI_ERR_RMA_SYNC);
        OK(MPI_Win_unlock_all(win));
        FAILS(put(last, v), MPI_ERR_RMA_SYNC);
        OK(MPI_Win_post(all, 0, win));
        OK(MPI_Win_start(all, 0, win));
        OK(put(last, v));
        OK(put(last, v));
        FAILS(MPI_Win_flush(last, win), MPI_ERR_RMA_SYNC);
        OK(MPI_Win_complete(win));
        OK(MPI_Win_wait(win));
        FAILS(put(last, v), MPI_ERR_RMA_SYNC);
        OK(MPI_Win_fence(0, win));
        OK(put(last, v));
        OK(put(last, v));
        FAILS(MPI_Win_flush(last, win), MPI_ERR_RMA_SYNC);
        OK(MPI_Win_fence(0, win));
        OK(put(last, v)); /* opens the next epoch */
        FAILS(MPI_Win_lock(MPI_LOCK_SHARED, last, 0, win), MPI_ERR_RMA_SYNC);
        OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
        FAILS(put(last, v), MPI_ERR_RMA_SYNC);
        OK(MPI_Win_fence(0, win));
        OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    }
    OK(MPI_Group_free(&all));
    close_window();
}

/* More windows than the table has rows; each has its own memory, also when all are new. */
static void many_windows(void)
{
    enum { W = 70 };
    MPI_Win w[W];
    long *m, number[W + 64];
    for (int i = 0; i < W + 64; i++)
        number[i] = i;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < W; i++) {
            OK(MPI_Win_allocate(64, sizeof(long), MPI_INFO_NULL, mt_comm, &m, &w[i]));
            OK(MPI_Win_lock_all(0, w[i]));
            *m = 0;
        }
        MPI_Barrier(mt_comm);
        for (int turn = 0; turn < 3; turn++)
            for (int i = 0; i < W; i++)
                for (int r = 0; r < mt_size; r++)
                    OK(MPI_Accumulate(&number[i + r], 1, MPI_LONG, r, 0, 1, MPI_LONG, MPI_SUM,
                                      w[i]));
        for (int i = 0; i < W; i++)
            OK(MPI_Win_flush_all(w[i]));
        MPI_Barrier(mt_comm);
        for (int i = 0; i < W; i++)
            for (int r = 0; r < mt_size; r++)
                CHECK_EQ(get(w[i], r), 3L * mt_size * (i + r));
        MPI_Barrier(mt_comm);
        for (int i = 0; i < W; i++) {
            OK(MPI_Win_unlock_all(w[i]));
            OK(MPI_Win_free(&w[i]));
        }
    }
}

/* An operation that the first one has not carried out, on memory of the caller alone. */
static void one_change(MPI_Op op, int32_t start, int32_t by, int32_t after)
{
    int32_t *own = (int32_t *)(void *)mem + 5, old = -1;
    MPI_Aint at = 5 * sizeof *own;
    for (int i = 0; i < 3; i++) {
        *own = start;
        OK(MPI_Win_sync(win));
        OK(MPI_Fetch_and_op(&by, &old, MPI_INT32_T, mt_rank, at, op, win));
        OK(MPI_Win_flush(mt_rank, win));
        CHECK_EQ(old, start);
        CHECK_EQ(*own, after);
        *own = start;
        OK(MPI_Win_sync(win));
        OK(MPI_Get_accumulate(&by, 1, MPI_INT32_T, &old, 1, MPI_INT32_T, mt_rank, at, 1,
                              MPI_INT32_T, op, win));
        OK(MPI_Win_flush(mt_rank, win));
        CHECK_EQ(old, start);
        CHECK_EQ(*own, after);
    }
}

static void one_swap(int64_t start, int64_t compare, int64_t by, int64_t after)
{
    int64_t *own = (int64_t *)mem + 3, old = -1;
    int32_t small[3] = { (int32_t)by, (int32_t)compare, -1 };
    for (int i = 0; i < 3; i++) {
        *own = start;
        OK(MPI_Win_sync(win));
        OK(MPI_Compare_and_swap(&by, &compare, &old, MPI_INT64_T, mt_rank, 3 * sizeof *own, win));
        OK(MPI_Win_flush(mt_rank, win));
        CHECK_EQ(old, start);
        CHECK_EQ(*own, after);
        *own = start;
        OK(MPI_Win_sync(win));
        OK(MPI_Compare_and_swap(&small[0], &small[1], &small[2], MPI_INT32_T, mt_rank,
                                3 * sizeof *own, win));
        OK(MPI_Win_flush(mt_rank, win));
        CHECK_EQ(small[2], (int32_t)start);
    }
}

static void values(void)
{
    open_window();
    OK(MPI_Win_lock_all(0, win));
    one_change(MPI_SUM, 5, 7, 12);
    one_change(MPI_MAX, 5, 7, 7);
    one_change(MPI_MIN, 5, 7, 5);
    one_change(MPI_BXOR, 5, 7, 2);
    one_change(MPI_REPLACE, 5, 7, 7);
    one_change(MPI_NO_OP, 5, 7, 5);
    one_swap(1L << 40, 1L << 40, 9, 9);
    one_swap(1L << 40, 0, 9, 1L << 40);
    OK(MPI_Win_unlock_all(win));
    close_window();
}

/* All ranks change elements of one target, some of which lie across pages or are not aligned. */
static void contended(void)
{
    double one[600];
    long old, total = 0;
    const long by = 1;
    open_window();
    for (int i = 0; i < 600; i++)
        one[i] = 1;
    OK(MPI_Win_lock_all(0, win));
    for (int i = 0; i < 200; i++) {
        OK(MPI_Accumulate(one, 600, MPI_DOUBLE, last, 2048, 600, MPI_DOUBLE, MPI_SUM, win));
        OK(MPI_Accumulate(one, 3, MPI_DOUBLE, last, 4096 - 8, 3, MPI_DOUBLE, MPI_SUM, win));
        OK(MPI_Accumulate(one, 1, MPI_DOUBLE, last, 4, 1, MPI_DOUBLE, MPI_SUM, win));
        OK(MPI_Fetch_and_op(&by, &old, MPI_LONG, last, 16, MPI_SUM, win));
        OK(MPI_Win_flush(last, win));
        total += old;
    }
    OK(MPI_Allreduce(MPI_IN_PLACE, &total, 1, MPI_LONG, MPI_SUM, mt_comm));
    long all = 200L * mt_size;
    CHECK_EQ(total, all * (all - 1) / 2); /* each old value once */
    if (mt_rank == last) {
        double at4;
        OK(MPI_Win_sync(win));
        memcpy(&at4, (char *)mem + 4, sizeof at4);
        CHECK_EQ((long)at4, all);
        CHECK_EQ(mem[2], all);
        for (int i = 0; i < 600; i++) {
            bool twice = i * 8 + 2048 >= 4096 - 8 && i * 8 + 2048 < 4096 + 16;
            CHECK_EQ((long)((double *)(void *)mem)[256 + i], twice ? 2 * all : all);
        }
    }
    OK(MPI_Win_unlock_all(win));
    close_window();
}

/* Exclusive locks count up without atomic operations. */
static void exclusive(void)
{
    long v;
    open_window();
    for (int i = 0; i < 300; i++) {
        OK(MPI_Win_lock(i % 7 ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, last, 0, win));
        OK(MPI_Get(&v, 1, MPI_LONG, last, 0, 1, MPI_LONG, win));
        OK(MPI_Win_flush(last, win));
        v++;
        if (i % 7)
            OK(put(last, v));
        OK(MPI_Win_unlock(last, win));
    }
    MPI_Barrier(mt_comm);
    OK(MPI_Win_lock(MPI_LOCK_SHARED, last, 0, win));
    CHECK_EQ(get(win, last), (300L - 43) * mt_size);
    OK(MPI_Win_unlock(last, win));
    close_window();
}

/* ---- threads ---- */

enum { THREADS = 4, ROUNDS = 10, ADDS = 60 };

struct thread {
    pthread_t id;
    MPI_Comm comm; /* its own */
    int number;
    long total;
};

/* Windows of this thread come and go beside those of other threads. */
static void own_window(const struct thread *t)
{
    long *m, old, v = 1 + t->number;
    MPI_Win w;
    OK(MPI_Win_allocate((MPI_Aint)sizeof(long), 1, MPI_INFO_NULL, t->comm, &m, &w));
    OK(MPI_Win_lock_all(0, w));
    *m = 0;
    MPI_Barrier(t->comm);
    for (int i = 0; i < 2; i++)
        for (int r = 0; r < mt_size; r++) {
            OK(MPI_Fetch_and_op(&v, &old, MPI_LONG, r, 0, MPI_SUM, w));
            OK(MPI_Win_flush(r, w));
            CHECK_EQ(old % v, 0);
        }
    MPI_Barrier(t->comm);
    for (int r = 0; r < mt_size; r++)
        CHECK_EQ(get(w, r), 2 * v * mt_size);
    OK(MPI_Win_unlock_all(w));
    OK(MPI_Win_free(&w));
}

/* The window `win`, which all threads use in one epoch. */
static void shared_window(struct thread *t)
{
    MPI_Aint own = 64 * (1 + t->number + THREADS * (MPI_Aint)mt_rank);
    long old, v;
    for (int i = 0; i < ADDS; i++) {
        v = 1;
        OK(MPI_Fetch_and_op(&v, &old, MPI_LONG, last, 0, MPI_SUM, win));
        OK(MPI_Win_flush(last, win));
        t->total += old;
        v = i + 1;
        OK(MPI_Put(&v, 1, MPI_LONG, last, own, 1, MPI_LONG, win));
        OK(MPI_Win_flush(last, win));
        old = -1;
        OK(MPI_Get(&old, 1, MPI_LONG, last, own, 1, MPI_LONG, win));
        OK(MPI_Win_flush(last, win));
        CHECK_EQ(old, v);
    }
}

static void *run_thread(void *arg)
{
    struct thread *t = arg;
    for (int i = 0; i < ROUNDS; i++) {
        own_window(t);
        shared_window(t);
    }
    return NULL;
}

static void threads(void)
{
    struct thread t[THREADS] = { 0 };
    long total = 0, all = (long)ROUNDS * ADDS * THREADS * mt_size;
    open_window();
    OK(MPI_Win_lock_all(0, win));
    for (int i = 0; i < THREADS; i++) {
        t[i].number = i;
        OK(MPI_Comm_dup(mt_comm, &t[i].comm));
    }
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&t[i].id, NULL, run_thread, &t[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(t[i].id, NULL);
        total += t[i].total;
        OK(MPI_Comm_free(&t[i].comm));
    }
    OK(MPI_Allreduce(MPI_IN_PLACE, &total, 1, MPI_LONG, MPI_SUM, mt_comm));
    CHECK_EQ(total, all * (all - 1) / 2); /* each old value once */
    OK(MPI_Win_unlock_all(win));
    close_window();
}

int main(int argc, char **argv)
{
    bool multiple = argc > 1 && !strcmp(argv[1], "threads");
    int provided;
    MPI_Init_thread(&argc, &argv, multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    mt_setup();
    MT_RUN(arguments);
    MT_RUN(epochs);
    MT_RUN(many_windows);
    MT_RUN(values);
    MT_RUN(contended);
    MT_RUN(exclusive);
    if (multiple)
        MT_RUN(threads);
    return mt_end();
}
