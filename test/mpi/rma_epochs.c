/* SPDX-License-Identifier: BSD-3-Clause */
/* Which synchronisation calls are legal when (MPI-5.0 section 12.5): each state of a window against
 * each call.  Wrong calls must be MPI_ERR_RMA_SYNC and leave the window as it was. */
#include "test/mpi/mpitest.h"

static MPI_Win win;
static MPI_Group all, none;
static int *mem, value;

static void open_window(void)
{
    OK(MPI_Win_allocate(64, sizeof(int), MPI_INFO_NULL, mt_comm, &mem, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    OK(MPI_Win_get_group(win, &all));
    none = MPI_GROUP_EMPTY;
    memset(mem, 0, 64);
    MPI_Barrier(mt_comm);
}

static void close_window(void)
{
    OK(MPI_Win_free(&win));
    CHECK(win == MPI_WIN_NULL);
    OK(MPI_Group_free(&all));
}

#define SYNC(call) FAILS(call, MPI_ERR_RMA_SYNC)
static int get(void) { return MPI_Get(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, win); }
static int rget(MPI_Request *q) { return MPI_Rget(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, win, q); }

static void wrong_flushes(void)
{
    MPI_Request q;
    SYNC(MPI_Win_flush(0, win));
    SYNC(MPI_Win_flush_all(win));
    SYNC(MPI_Win_flush_local(0, win));
    SYNC(MPI_Win_flush_local_all(win));
    SYNC(rget(&q));
}

static void wrong_ends(bool started, bool locked, bool locked_all)
{
    if (!started)
        SYNC(MPI_Win_complete(win));
    if (!locked)
        SYNC(MPI_Win_unlock(0, win));
    if (!locked_all)
        SYNC(MPI_Win_unlock_all(win));
}

static void wrong_waits(void)
{
    int flag;
    SYNC(MPI_Win_wait(win));
    SYNC(MPI_Win_test(win, &flag));
}

/* Nothing can begin an access epoch, and the window cannot be freed. */
static void wrong_begins(bool may_lock)
{
    SYNC(MPI_Win_fence(0, win));
    SYNC(MPI_Win_start(all, 0, win));
    SYNC(MPI_Win_lock_all(0, win));
    if (!may_lock)
        SYNC(MPI_Win_lock(MPI_LOCK_SHARED, mt_size - 1, 0, win));
    MPI_Win w = win;
    SYNC(MPI_Win_free(&w));
    CHECK(w == win);
}

static void outside_of_epochs(void)
{
    open_window();
    SYNC(get());
    SYNC(MPI_Put(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, win));
    SYNC(MPI_Accumulate(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, win));
    wrong_flushes();
    wrong_ends(false, false, false);
    wrong_waits();
    close_window();
}

static void after_a_fence(void)
{
    open_window();
    OK(MPI_Win_fence(MPI_MODE_NOPRECEDE, win));
    wrong_flushes();
    wrong_ends(false, false, false);
    wrong_waits();
    OK(get());
    SYNC(MPI_Win_start(all, 0, win)); /* the epoch of the fence has begun now */
    SYNC(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
    SYNC(MPI_Win_lock_all(0, win));
    SYNC(MPI_Win_post(all, 0, win));
    MPI_Win w = win;
    SYNC(MPI_Win_free(&w));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    SYNC(get());
    OK(MPI_Win_fence(0, win));
    /* Without an operation a fence has opened nothing. */
    OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
    OK(get());
    OK(MPI_Win_unlock(0, win));
    SYNC(get());
    OK(MPI_Win_fence(0, win));
    OK(MPI_Win_lock_all(0, win));
    OK(MPI_Win_unlock_all(win));
    SYNC(get());
    OK(MPI_Win_fence(0, win));
    close_window();
}

static void within_start(void)
{
    open_window();
    OK(MPI_Win_post(all, 0, win));
    OK(MPI_Win_start(all, 0, win));
    OK(get());
    wrong_begins(false);
    SYNC(MPI_Win_post(all, 0, win));
    wrong_flushes();
    wrong_ends(true, false, false);
    OK(MPI_Win_complete(win));
    SYNC(MPI_Win_complete(win));
    SYNC(get());
    SYNC(MPI_Win_fence(0, win)); /* still exposed */
    MPI_Win w = win;
    SYNC(MPI_Win_free(&w));
    OK(MPI_Win_wait(win));
    SYNC(MPI_Win_wait(win));
    close_window();
}

/* Only targets in the group may be named. */
static void within_start_of_nobody(void)
{
    open_window();
    OK(MPI_Win_start(none, 0, win));
    SYNC(get());
    OK(MPI_Win_post(none, 0, win));
    OK(MPI_Win_complete(win));
    int flag = 0;
    OK(MPI_Win_test(win, &flag));
    CHECK(flag);
    SYNC(MPI_Win_test(win, &flag));
    close_window();
}

static void within_a_lock(void)
{
    open_window();
    OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
    SYNC(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
    SYNC(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
    wrong_begins(true);
    wrong_ends(false, true, false);
    wrong_waits();
    OK(get());
    OK(MPI_Win_flush(0, win));
    if (mt_size > 1) {
        int last = mt_size - 1;
        SYNC(MPI_Get(&value, 1, MPI_INT, last, 0, 1, MPI_INT, win));
        SYNC(MPI_Win_flush(last, win));
        SYNC(MPI_Win_unlock(last, win));
        OK(MPI_Win_lock(MPI_LOCK_SHARED, last, 0, win));
        OK(MPI_Get(&value, 1, MPI_INT, last, 0, 1, MPI_INT, win));
        OK(MPI_Win_unlock(last, win));
        SYNC(MPI_Win_unlock(last, win));
    }
    OK(MPI_Win_flush_all(win));
    OK(MPI_Win_unlock(0, win));
    SYNC(MPI_Win_unlock(0, win));
    SYNC(get());
    close_window();
}

static void within_lock_all(void)
{
    MPI_Request q;
    open_window();
    OK(MPI_Win_lock_all(0, win));
    wrong_begins(false);
    wrong_ends(false, false, true);
    OK(rget(&q));
    OK(MPI_Wait(&q, MPI_STATUS_IGNORE));
    OK(MPI_Win_unlock_all(win));
    SYNC(MPI_Win_unlock_all(win));
    SYNC(get());
    close_window();
}

/* An exposure epoch and locks at other processes do not concern each other. */
static void exposed_with_locks(void)
{
    open_window();
    OK(MPI_Win_post(none, 0, win));
    OK(MPI_Win_lock_all(MPI_MODE_NOCHECK, win));
    OK(get());
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Win_wait(win));
    close_window();
}

/* MPI_PROC_NULL has no effect anywhere. */
static void nobody(void)
{
    const int n = MPI_PROC_NULL;
    MPI_Request q[4];
    int one = 1, two = 2;
    open_window();
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, n, 0, win));
    OK(MPI_Win_flush(n, win));
    OK(MPI_Win_flush_local(n, win));
    OK(MPI_Win_unlock(n, win));
    OK(MPI_Win_lock_all(0, win));
    value = 7;
    OK(MPI_Put(&one, 1, MPI_INT, n, 0, 1, MPI_INT, win));
    OK(MPI_Get(&value, 1, MPI_INT, n, -5, 1, MPI_INT, win));
    OK(MPI_Accumulate(&one, 1, MPI_INT, n, 0, 1, MPI_INT, MPI_SUM, win));
    OK(MPI_Get_accumulate(&one, 1, MPI_INT, &value, 1, MPI_INT, n, 0, 1, MPI_INT, MPI_SUM, win));
    OK(MPI_Fetch_and_op(&one, &value, MPI_INT, n, 0, MPI_SUM, win));
    OK(MPI_Compare_and_swap(&one, &two, &value, MPI_INT, n, 0, win));
    OK(MPI_Rput(&one, 1, MPI_INT, n, 0, 1, MPI_INT, win, &q[0]));
    OK(MPI_Rget(&value, 1, MPI_INT, n, 0, 1, MPI_INT, win, &q[1]));
    OK(MPI_Raccumulate(&one, 1, MPI_INT, n, 0, 1, MPI_INT, MPI_SUM, win, &q[2]));
    OK(MPI_Rget_accumulate(&one, 1, MPI_INT, &value, 1, MPI_INT, n, 0, 1, MPI_INT, MPI_SUM, win,
                           &q[3]));
    for (int i = 0; i < 4; i++)
        CHECK(q[i] != MPI_REQUEST_NULL);
    OK(MPI_Waitall(4, q, MPI_STATUSES_IGNORE));
    CHECK_EQ(value, 7);
    OK(MPI_Win_unlock_all(win));
    close_window();
}

static void wrong_arguments(void)
{
    open_window();
    FAILS(MPI_Win_fence(MPI_MODE_NOCHECK, win), MPI_ERR_ASSERT);
    FAILS(MPI_Win_start(all, MPI_MODE_NOPUT, win), MPI_ERR_ASSERT);
    FAILS(MPI_Win_post(all, MPI_MODE_NOPRECEDE, win), MPI_ERR_ASSERT);
    FAILS(MPI_Win_lock(MPI_LOCK_SHARED, 0, MPI_MODE_NOPUT, win), MPI_ERR_ASSERT);
    FAILS(MPI_Win_lock_all(MPI_MODE_NOSTORE, win), MPI_ERR_ASSERT);
    FAILS(MPI_Win_lock(99, 0, 0, win), MPI_ERR_LOCKTYPE);
    FAILS(MPI_Win_lock(MPI_LOCK_SHARED, mt_size, 0, win), MPI_ERR_RANK);
    FAILS(MPI_Win_fence(0, MPI_WIN_NULL), MPI_ERR_WIN);
    MPI_Group world, few;
    MPI_Win self;
    int where = 0;
    OK(MPI_Win_create(&where, sizeof where, 1, MPI_INFO_NULL, MPI_COMM_SELF, &self));
    OK(MPI_Win_set_errhandler(self, MPI_ERRORS_RETURN));
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, (int[]){ (mt_rank + 1) % mt_size }, &few);
    if (mt_size > 1) {
        FAILS(MPI_Win_start(few, 0, self), MPI_ERR_GROUP);
        FAILS(MPI_Win_post(few, 0, self), MPI_ERR_GROUP);
    }
    MPI_Group_free(&few);
    MPI_Group_free(&world);
    OK(MPI_Win_free(&self));
    close_window();
}

int main(int argc, char **argv)
{
    mt_init(argc, argv);
    MT_RUN(outside_of_epochs);
    MT_RUN(after_a_fence);
    MT_RUN(within_start);
    MT_RUN(within_start_of_nobody);
    MT_RUN(within_a_lock);
    MT_RUN(within_lock_all);
    MT_RUN(exposed_with_locks);
    MT_RUN(nobody);
    MT_RUN(wrong_arguments);
    return mt_end();
}
