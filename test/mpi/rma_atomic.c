/* SPDX-License-Identifier: BSD-3-Clause */
/* Accumulates and locks under contention: no update is lost, accumulates of one origin keep their
 * order, an exclusive lock excludes everything else, and no process starves. */
#include "test/mpi/rma_model.h"
#include <sys/mman.h>
#include <unistd.h>

#define N 300 /* rounds of a contended loop */

static MPI_Win win;
static char *mem;

static void open_window(MPI_Aint size)
{
    OK(MPI_Win_allocate(size, 1, MPI_INFO_NULL, mt_comm, &mem, &win));
    memset(mem, 0, (size_t)size);
    MPI_Barrier(mt_comm);
}

static void close_window(void) { OK(MPI_Win_free(&win)); }

/* Every value is handed out once. */
static void counter(void)
{
    int64_t one = 1, got, *seen = calloc((size_t)mt_size * N, sizeof *seen), sum = 0;
    open_window(8);
    OK(MPI_Win_lock_all(0, win));
    for (int i = 0; i < N; i++) {
        OK(MPI_Fetch_and_op(&one, &got, MPI_INT64_T, 0, 0, MPI_SUM, win));
        OK(MPI_Win_flush(0, win));
        if (got >= 0 && got < (int64_t)mt_size * N)
            seen[got]++;
    }
    OK(MPI_Win_unlock_all(win));
    MPI_Allreduce(MPI_IN_PLACE, seen, mt_size * N, MPI_INT64_T, MPI_SUM, mt_comm);
    for (int i = 0; i < mt_size * N; i++)
        sum += seen[i] == 1;
    CHECK_EQ(sum, (int64_t)mt_size * N);
    free(seen);
    close_window();
}

/* A counter made of compare-and-swap, beside sums of another kind on the same place. */
static void swaps(void)
{
    int old, next, got, three = 3;
    open_window(4);
    OK(MPI_Win_lock_all(0, win));
    for (int i = 0; i < N; i++) {
        do {
            OK(MPI_Fetch_and_op(NULL, &old, MPI_INT, 0, 0, MPI_NO_OP, win));
            OK(MPI_Win_flush(0, win));
            next = old + 1;
            OK(MPI_Compare_and_swap(&next, &old, &got, MPI_INT, 0, 0, win));
            OK(MPI_Win_flush(0, win));
        } while (got != old && !check_failed_case);
        if (i % 4 == 0)
            OK(MPI_Accumulate(&three, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, win));
    }
    OK(MPI_Win_unlock_all(win));
    MPI_Barrier(mt_comm);
    if (mt_rank == 0)
        CHECK_EQ(*(int *)mem, mt_size * (N + N / 4 * 3));
    close_window();
}

/* No byte beside an element is read or written: the elements lie at the end of a page, and the next
 * page cannot be accessed. */
static void at_the_end_of_a_page(void)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const MPI_Datatype types[] = { MPI_INT8_T, MPI_INT16_T, MPI_INT32_T, MPI_INT64_T };
    char *p = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED);
    CHECK(!mprotect(p + page, page, PROT_NONE) && !mprotect(p + 3 * page, page, PROT_NONE));
    open_window(8);
    OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
    for (int i = 0, n = 1; i < 4; i++, n *= 2) {
        char *in = p + page - n, *out = p + 3 * page - n, zero[8] = { 0 };
        OK(MPI_Fetch_and_op(in, out, types[i], 0, 0, MPI_SUM, win));
        OK(MPI_Accumulate(in, 1, types[i], 0, 0, 1, types[i], MPI_SUM, win));
        OK(MPI_Get_accumulate(in, 1, types[i], out, 1, types[i], 0, 0, 1, types[i], MPI_BOR, win));
        OK(MPI_Compare_and_swap(in, in, out, types[i], 0, 0, win));
        OK(MPI_Win_flush(0, win));
        CHECK(!memcmp(out, zero, (size_t)n));
    }
    OK(MPI_Win_unlock(0, win));
    close_window();
    munmap(p, 4 * page);
}

/* Sums of single elements by all ranks, and in the middle one of two elements: no update is lost
 * where the library then changes how it makes accumulates atomic. */
static void longer_one_between(void)
{
    enum { WINDOWS = 24, ROUNDS = 120 };
    int64_t ones[2] = { 1, 1 }, got;
    for (int w = 0; w < WINDOWS; w++) {
        open_window(16);
        OK(MPI_Win_lock_all(0, win));
        for (int i = 0; i < ROUNDS; i++) {
            if (i % 2)
                OK(MPI_Fetch_and_op(ones, &got, MPI_INT64_T, 0, 0, MPI_SUM, win));
            else
                OK(MPI_Accumulate(ones, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, MPI_SUM, win));
            OK(MPI_Win_flush(0, win));
            if (mt_rank == w % mt_size && i == w * ROUNDS / WINDOWS)
                OK(MPI_Accumulate(ones, 2, MPI_INT64_T, 0, 0, 2, MPI_INT64_T, MPI_SUM, win));
        }
        OK(MPI_Win_unlock_all(win));
        MPI_Barrier(mt_comm);
        if (mt_rank == 0)
            CHECK_EQ(*(int64_t *)(void *)mem, mt_size * ROUNDS + 1);
        close_window();
    }
}

/* Two ranks count up in each other's memory, and after each flush read what the other has stored:
 * of two flushed changes, at least one rank sees the other's.  `adds`: the change is an atomic
 * operation, else a put; `loads`: the read is a load, else a get. */
static void store_then_read(bool adds, bool loads)
{
    enum { STEPS = 400 };
    int seen[STEPS + 1] = { 0 }, theirs[STEPS + 1], one = 1, other = mt_size - 1 - mt_rank;
    open_window(sizeof(int));
    OK(MPI_Win_lock_all(0, win));
    MPI_Barrier(mt_comm);
    for (int i = 1; i <= STEPS && (mt_rank == 0 || other == 0); i++) {
        if (adds)
            OK(MPI_Accumulate(&one, 1, MPI_INT, other, 0, 1, MPI_INT, MPI_SUM, win));
        else
            OK(MPI_Put(&i, 1, MPI_INT, other, 0, 1, MPI_INT, win));
        OK(MPI_Win_flush(other, win));
        if (loads) {
            seen[i] = *(volatile int *)(void *)mem;
        } else {
            OK(MPI_Get(&seen[i], 1, MPI_INT, mt_rank, 0, 1, MPI_INT, win));
            OK(MPI_Win_flush(mt_rank, win));
        }
    }
    OK(MPI_Win_unlock_all(win));
    if (mt_rank == 0 || other == 0) {
        MPI_Sendrecv(seen, STEPS + 1, MPI_INT, other, 0, theirs, STEPS + 1, MPI_INT, other, 0,
                     mt_comm, MPI_STATUS_IGNORE);
        for (int i = 1; i <= STEPS; i++)
            if (seen[i] < STEPS)
                CHECK_MSG(theirs[seen[i] + 1] >= i, "step %d saw %d, whose next step saw %d", i,
                          seen[i], theirs[seen[i] + 1]);
    }
    close_window();
}

static void flush_orders(void)
{
    if (mt_size < 2) {
        mt_skip("needs two ranks");
        return;
    }
    for (int i = 0; i < 4; i++)
        store_then_read(i & 1, i & 2);
}

/* Sums of all types, also on unaligned elements, by all ranks at once. */
static void sums(void)
{
    const int types[] = { 0, 1, 2, 3, 5, 6, 7, 8 };
    for (unsigned k = 0; k < sizeof types / sizeof types[0]; k++) {
        int type = types[k], bytes = rm_bytes(type);
        enum { M = 700 }; /* several pages of 16-byte elements */
        char *ones = calloc(M, (size_t)bytes), want[32];
        rm_value(type, want, 0);
        for (int i = 0; i < M; i++)
            memcpy(ones + i * bytes, want, (size_t)bytes);
        open_window(M * 32 + 8);
        OK(MPI_Win_fence(0, win));
        for (int i = 0; i < 6; i++) {
            int n = M - i * mt_rank % 5, first = i * mt_rank % 5;
            OK(MPI_Accumulate(ones, n, rm_handle(type), 0, 8 + first * bytes, n, rm_handle(type),
                              MPI_SUM, win));
        }
        OK(MPI_Win_fence(0, win));
        for (int e = 0; e < M && mt_rank == 0; e++) {
            memset(want, 0, sizeof want);
            for (int r = 0; r < mt_size; r++)
                for (int i = 0; i < 6; i++)
                    if (e >= i * r % 5)
                        rm_apply(type, RM_SUM, ones, want);
            if (memcmp(want, mem + 8 + e * bytes, (size_t)bytes) != 0) {
                CHECK_MSG(false, "type %d, element %d", type, e);
                break;
            }
        }
        close_window();
        free(ones);
    }
}

/* Pairs keep their two parts together, whichever datatypes lead to them. */
static void pairs(void)
{
    MPI_Datatype gap, t = MPI_LONG_DOUBLE_INT;
    struct rm_pair_ldbl in[2], *at;
    MPI_Type_vector(2, 1, 2, t, &gap);
    MPI_Type_commit(&gap);
    open_window(sizeof *at * 4);
    OK(MPI_Win_fence(0, win));
    for (int i = 0; i < N; i++) {
        int v = (i * 37 + mt_rank * 11) % 1000;
        for (int k = 0; k < 2; k++) {
            memset(&in[k], 0, sizeof in[k]);
            in[k].v = v;
            in[k].i = v * 3;
        }
        if (i % 2)
            OK(MPI_Accumulate(in, 2, t, 0, 0, 1, gap, MPI_MAXLOC, win));
        else
            OK(MPI_Accumulate(in, 1, t, 0, 0, 1, t, MPI_MAXLOC, win));
        OK(MPI_Win_fence(0, win));
        at = (struct rm_pair_ldbl *)(void *)mem;
        if (mt_rank == 0)
            CHECK_MSG(at->i == (int)at->v * 3, "the index is %d, the value %d", at->i, (int)at->v);
        OK(MPI_Win_fence(0, win));
    }
    close_window();
    MPI_Type_free(&gap);
}

/* Accumulates of one origin on one place happen in the order of the calls, whatever their lengths
 * and datatypes. */
static void order(void)
{
    enum { M = 40000 };
    static int three = 3;
    int *many = malloc(M * sizeof *many), got, right = (mt_rank + 1) % mt_size, last = 0;
    MPI_Datatype odd;
    MPI_Type_vector(M / 4, 1, 2, MPI_INT, &odd);
    MPI_Type_commit(&odd);
    open_window(M * 4);
    OK(MPI_Win_lock_all(0, win));
    for (int i = 1; i <= 30; i++) {
        for (int k = 0; k < M; k++)
            many[k] = i * 10;
        int n = i % 3 == 0 ? M : 1;
        if (i % 5 == 0)
            OK(MPI_Accumulate(many, M / 4, MPI_INT, right, 0, 1, odd, MPI_REPLACE, win));
        else
            OK(MPI_Accumulate(many, n, MPI_INT, right, 0, n, MPI_INT, MPI_REPLACE, win));
        OK(MPI_Fetch_and_op(&three, &got, MPI_INT, right, 0, MPI_SUM, win));
        OK(MPI_Get_accumulate(NULL, 0, MPI_INT, &last, 1, MPI_INT, right, 0, 1, MPI_INT, MPI_NO_OP,
                              win));
        OK(MPI_Win_flush(right, win));
        CHECK_MSG(got == i * 10 && last == i * 10 + 3, "round %d: %d, then %d", i, got, last);
    }
    OK(MPI_Win_unlock_all(win));
    close_window();
    MPI_Type_free(&odd);
    free(many);
}

/* A plain read, add and write under an exclusive lock loses nothing, beside shared locks and
 * MPI_Win_lock_all that look at two words which are always equal outside of the lock. */
static void exclusion(void)
{
    int v[2], wrong = 0;
    open_window(8);
    for (int i = 0; i < N / 3; i++) {
        if ((i + mt_rank) % 4 == 3) {
            OK(MPI_Win_lock_all(0, win));
            OK(MPI_Get(v, 2, MPI_INT, 0, 0, 2, MPI_INT, win));
            OK(MPI_Win_flush(0, win));
            wrong += v[0] != v[1];
            OK(MPI_Win_unlock_all(win));
        } else if ((i + mt_rank) % 4 == 2) {
            OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
            OK(MPI_Get(v, 2, MPI_INT, 0, 0, 2, MPI_INT, win));
            OK(MPI_Win_unlock(0, win));
            wrong += v[0] != v[1];
        }
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
        for (int k = 0; k < 2; k++) {
            OK(MPI_Get(&v[k], 1, MPI_INT, 0, 4 * k, 1, MPI_INT, win));
            OK(MPI_Win_flush(0, win));
            v[k]++;
            OK(MPI_Put(&v[k], 1, MPI_INT, 0, 4 * k, 1, MPI_INT, win));
            OK(MPI_Win_flush(0, win));
        }
        OK(MPI_Win_unlock(0, win));
    }
    MPI_Barrier(mt_comm);
    CHECK_EQ(wrong, 0);
    if (mt_rank == 0)
        CHECK(((int *)(void *)mem)[0] == mt_size * (N / 3) &&
              ((int *)(void *)mem)[1] == mt_size * (N / 3));
    close_window();
}

/* Locks of several targets at once, taken in different orders: the calls do not wait, only their
 * completion does, and operations that wait for a lock are carried out. */
static void many_locks(void)
{
    int one = 1;
    open_window(64);
    for (int i = 0; i < 40; i++) {
        for (int t = 0; t < mt_size; t++)
            OK(MPI_Win_lock(MPI_LOCK_SHARED, (t + mt_rank) % mt_size, 0, win));
        for (int t = 0; t < mt_size; t++)
            OK(MPI_Accumulate(&one, 1, MPI_INT, t, 0, 1, MPI_INT, MPI_SUM, win));
        for (int t = 0; t < mt_size; t++)
            OK(MPI_Win_unlock(t, win));
        int t = (mt_rank + i) % mt_size;
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, t, 0, win));
        OK(MPI_Accumulate(&one, 1, MPI_INT, t, 4, 1, MPI_INT, MPI_SUM, win));
        OK(MPI_Win_unlock(t, win));
    }
    MPI_Barrier(mt_comm);
    CHECK_EQ(((int *)(void *)mem)[0], 40 * mt_size);
    int total = ((int *)(void *)mem)[1];
    MPI_Allreduce(MPI_IN_PLACE, &total, 1, MPI_INT, MPI_SUM, mt_comm);
    CHECK_EQ(total, 40 * mt_size);
    close_window();
}

/* A rank that waits for an exclusive lock gets it although others take locks all the time. */
static void others_lock(int type, int least)
{
    int stop = 0, one = 1;
    if (mt_size < least) {
        mt_skip("needs more processes");
        return;
    }
    open_window(8);
    if (mt_rank == 0) {
        for (int i = 0; i < 20; i++) {
            OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, mt_size - 1, 0, win));
            OK(MPI_Win_unlock(mt_size - 1, win));
        }
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, mt_size - 1, 0, win));
        OK(MPI_Put(&one, 1, MPI_INT, mt_size - 1, 0, 1, MPI_INT, win));
        OK(MPI_Win_unlock(mt_size - 1, win));
    }
    while (!stop && mt_rank > 0) {
        OK(MPI_Win_lock(type, mt_size - 1, 0, win));
        OK(MPI_Get(&stop, 1, MPI_INT, mt_size - 1, 0, 1, MPI_INT, win));
        OK(MPI_Win_unlock(mt_size - 1, win));
    }
    close_window();
}

static void no_starvation(void) { others_lock(MPI_LOCK_SHARED, 3); }
static void no_starvation_by_exclusive(void) { others_lock(MPI_LOCK_EXCLUSIVE, 2); }

/* Epochs of post and start round a ring, with neighbours at different paces. */
static void ring(void)
{
    MPI_Group all, left, right;
    int to = (mt_rank + 1) % mt_size, from = (mt_rank + mt_size - 1) % mt_size, v[2];
    open_window(16);
    MPI_Win_get_group(win, &all);
    MPI_Group_incl(all, 1, &from, &left);
    MPI_Group_incl(all, 1, &to, &right);
    for (int i = 0; i < N; i++) {
        OK(MPI_Win_start(right, 0, win));
        v[0] = i, v[1] = mt_rank;
        OK(MPI_Put(v, 2, MPI_INT, to, 0, 2, MPI_INT, win)); /* does not wait for the post */
        OK(MPI_Win_post(left, 0, win));
        OK(MPI_Win_complete(win));
        OK(MPI_Win_wait(win));
        const int *got = (const int *)(void *)mem;
        CHECK_MSG(got[0] == i && got[1] == from, "round %d: %d of rank %d", i, got[0], got[1]);
    }
    MPI_Group_free(&all);
    MPI_Group_free(&left);
    MPI_Group_free(&right);
    close_window();
}

int main(int argc, char **argv)
{
    mt_init(argc, argv);
    MT_RUN(counter);
    MT_RUN(swaps);
    MT_RUN(at_the_end_of_a_page);
    MT_RUN(longer_one_between);
    MT_RUN(flush_orders);
    MT_RUN(sums);
    MT_RUN(pairs);
    MT_RUN(order);
    MT_RUN(exclusion);
    MT_RUN(many_locks);
    MT_RUN(no_starvation);
    MT_RUN(no_starvation_by_exclusive);
    MT_RUN(ring);
    return mt_end();
}
