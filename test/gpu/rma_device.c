/* SPDX-License-Identifier: BSD-3-Clause */
/* One-sided communication with device memory: windows, origins and results in memory of all kinds,
 * in random operations against a model (rma_random.h); accumulates of all ranks on one place;
 * buffers and windows that are not all memory of a device.  Arguments: seed, number of windows; or
 * "broken": copies fail in the target of messages (fake driver only); "mapped": the
 * ranks map each other's windows, and no target helps. */
#include "test/gpu/gputest.h"
#include "test/mpi/mpitest.h"
#include <dlfcn.h>

#define RR_KINDS (2 * GT_KINDS) /* of two devices */
static int first_device;

static int device_of(int kind) { return (first_device + kind / GT_KINDS) % gt_ndevices(); }
static char *rr_take(int kind, size_t n)
{
    return (char *)gt_alloc((enum gt_kind)(kind % GT_KINDS), device_of(kind), n, 0);
}
static void rr_give(char *p)
{
    CHECK(gt_guards_intact((unsigned char *)p));
    gt_free((unsigned char *)p);
}
static void rr_write(void *p, const void *host, size_t n) { gt_write(p, host, n); }
static void rr_read(void *host, const void *p, size_t n) { gt_read(host, p, n); }

#include "test/mpi/rma_random.h"

#define N 60 /* rounds of a contended loop */

static void open_device_window(size_t n)
{
    mem = rr_take(GT_CUDA, n);
    gt_set(mem, 0, n);
    OK(MPI_Win_create(mem, (MPI_Aint)n, 1, MPI_INFO_NULL, mt_comm, &win));
}

static void close_device_window(void)
{
    OK(MPI_Win_free(&win));
    rr_give(mem);
}

static int int_at(const char *p)
{
    int v;
    gt_read(&v, p, sizeof v);
    return v;
}

/* Each value of a counter is handed out once; operands in device memory in every second round. */
static void counter(void)
{
    int one = 1, total = N * mt_size, sum = 0, got;
    int *seen = calloc((size_t)total, sizeof *seen);
    char *value = rr_take(GT_CUDA, sizeof one), *result = rr_take(GT_VMM, sizeof one);
    gt_write(value, &one, sizeof one);
    open_device_window(sizeof one);
    OK(MPI_Win_lock_all(0, win));
    for (int i = 0; i < N; i++) {
        bool device = i % 2;
        OK(MPI_Fetch_and_op(device ? (void *)value : &one, device ? (void *)result : &got, MPI_INT,
                            0, 0, MPI_SUM, win));
        OK(MPI_Win_flush(0, win));
        got = device ? int_at(result) : got;
        CHECK_MSG(got >= 0 && got < total, "the counter was %d", got);
        if (got >= 0 && got < total)
            seen[got]++;
    }
    OK(MPI_Win_unlock_all(win));
    MPI_Allreduce(MPI_IN_PLACE, seen, total, MPI_INT, MPI_SUM, mt_comm);
    for (int i = 0; i < total; i++)
        sum += seen[i] == 1;
    CHECK_EQ(sum, total);
    close_device_window();
    rr_give(value);
    rr_give(result);
    free(seen);
}

/* A counter made of compare-and-swap, beside sums of another kind on the same place, and sums of
 * several messages on what follows. */
static void swaps_and_sums(void)
{
    enum { M = 6000 };
    int old, next, got, three = 3, *many = malloc(M * sizeof *many);
    for (int i = 0; i < M; i++)
        many[i] = i % 7 + 1;
    open_device_window((M + 1) * sizeof old);
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
        if (i % 12 == 0)
            OK(MPI_Accumulate(many, M, MPI_INT, 0, 4, M, MPI_INT, MPI_SUM, win));
    }
    OK(MPI_Win_unlock_all(win));
    MPI_Barrier(mt_comm);
    if (mt_rank == 0) {
        CHECK_EQ(int_at(mem), mt_size * (N + N / 4 * 3));
        int *sums = malloc(M * sizeof *sums), wrong = 0;
        gt_read(sums, mem + 4, M * sizeof *sums);
        for (int i = 0; i < M; i++)
            wrong += sums[i] != mt_size * (N / 12) * many[i];
        CHECK_EQ(wrong, 0);
        free(sums);
    }
    close_device_window();
    free(many);
}

/* Long accumulates beside short ones and swaps on the same elements: those of an origin in order,
 * those of all origins atomic. */
static void long_accumulates(void)
{
    enum { M = 20000, ROUNDS = 3 };
    int *v = malloc(M * sizeof *v), got, two = 2, wrong = 0;
    int *host = malloc(M * sizeof *host);
    char *device = rr_take(GT_CUDA, M * sizeof *v), *old = rr_take(GT_CUDA, M * sizeof *v);
    open_device_window(((size_t)mt_size + 1) * M * sizeof *v);
    MPI_Aint own = (mt_rank + 1) * M * (MPI_Aint)sizeof *v;
    OK(MPI_Win_lock_all(0, win));
    for (int round = 0; round < ROUNDS; round++) {
        bool where = (round + mt_rank) % 2;
        const void *from = where ? (void *)device : v;
        for (int i = 0; i < M; i++)
            v[i] = i % 5 + round;
        gt_write(device, v, M * sizeof *v);
        OK(MPI_Accumulate(from, M, MPI_INT, 0, own, M, MPI_INT, MPI_REPLACE, win));
        OK(MPI_Accumulate(&two, 1, MPI_INT, 0, own, 1, MPI_INT, MPI_PROD, win));
        OK(MPI_Accumulate(from, M, MPI_INT, 0, own, M, MPI_INT, MPI_SUM, win));
        OK(MPI_Accumulate(from, M, MPI_INT, 0, 0, M, MPI_INT, MPI_SUM, win));
        OK(MPI_Accumulate(&two, 1, MPI_INT, 0, 4, 1, MPI_INT, MPI_SUM, win));
        OK(MPI_Fetch_and_op(&two, &got, MPI_INT, 0, own, MPI_SUM, win));
        OK(MPI_Win_flush(0, win));
        CHECK_EQ(got, 3 * round);
        for (int reads = 0; reads < 2; reads++) { /* adds once more, then only reads */
            void *to = where ? (void *)old : host;
            OK(MPI_Get_accumulate(from, M, MPI_INT, to, M, MPI_INT, 0, own, M, MPI_INT,
                                  reads ? MPI_NO_OP : MPI_SUM, win));
            OK(MPI_Win_flush_local(0, win));
            if (where)
                gt_read(host, old, M * sizeof *host);
            for (int i = 0; i < M; i++)
                wrong += host[i] != (2 + reads) * v[i] + (i ? 0 : round + two);
        }
        CHECK_EQ(wrong, 0);
    }
    OK(MPI_Win_unlock_all(win));
    MPI_Barrier(mt_comm);
    for (int r = 0; r <= mt_size && mt_rank == 0; r++) {
        gt_read(v, mem + (size_t)r * M * sizeof *v, M * sizeof *v);
        for (int i = 0; i < M; i++) {
            int last = i % 5 + ROUNDS - 1, sum = ROUNDS * (i % 5) + ROUNDS * (ROUNDS - 1) / 2;
            int right = r ? 3 * last + (i ? 0 : last + two)
                          : mt_size * (sum + (i == 1 ? two * ROUNDS : 0));
            wrong += v[i] != right;
        }
    }
    CHECK_EQ(wrong, 0);
    close_device_window();
    rr_give(device);
    rr_give(old);
    free(host);
    free(v);
}

/* A dynamic window that has been used with host memory, and then gets device memory: operations go
 * another way from then on, in order. */
static void attached_later(void)
{
    enum { M = 3000 };
    int to = (mt_rank + 1) % mt_size, from = (mt_rank + mt_size - 1) % mt_size;
    int *host = calloc(M, sizeof *host), v[M];
    char *device = rr_take(GT_CUDA, sizeof v);
    MPI_Aint mine[2], right[2];
    gt_set(device, 0, sizeof v);
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, mt_comm, &win));
    OK(MPI_Win_attach(win, host, sizeof v));
    MPI_Get_address(host, &mine[0]);
    MPI_Get_address(device, &mine[1]);
    MPI_Sendrecv(mine, 2, MPI_AINT, from, 0, right, 2, MPI_AINT, to, 0, mt_comm, MPI_STATUS_IGNORE);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < M; i++)
            v[i] = mt_rank * 10 + round + 1;
        OK(MPI_Win_fence(0, win));
        OK(MPI_Accumulate(v, M, MPI_INT, to, right[0], M, MPI_INT, MPI_SUM, win));
        if (round == 1)
            OK(MPI_Put(v, M, MPI_INT, to, right[1], M, MPI_INT, win));
        OK(MPI_Win_fence(0, win));
        if (round == 0)
            OK(MPI_Win_attach(win, device, sizeof v));
        MPI_Barrier(mt_comm);
    }
    int wrong = 0;
    gt_read(v, device, sizeof v);
    for (int i = 0; i < M; i++)
        wrong += host[i] != 2 * from * 10 + 3 || v[i] != from * 10 + 2;
    CHECK_EQ(wrong, 0);
    OK(MPI_Win_detach(win, device));
    OK(MPI_Win_detach(win, host));
    OK(MPI_Win_free(&win));
    rr_give(device);
    free(host);
}

/* Memory that ends too early is an error of the call, and of all processes where the call is
 * collective. */
static void bad_memory(void)
{
    enum { LEN = 4096, FAR = 1 << 30 };
    int class = MPI_SUCCESS;
    char *small = rr_take(GT_CUDA, LEN), *w = rr_take(GT_CUDA, LEN);
    MPI_Comm_set_errhandler(mt_comm, MPI_ERRORS_RETURN);
    int err = MPI_Win_create(small, mt_rank == 0 ? FAR : LEN, 1, MPI_INFO_NULL, mt_comm, &win);
    MPI_Error_class(err, &class);
    CHECK_EQ(class, MPI_ERR_BUFFER);
    OK(MPI_Win_create(w, LEN, 1, MPI_INFO_NULL, mt_comm, &win));
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Datatype far;
    MPI_Type_create_hvector(2, 8, FAR, MPI_BYTE, &far);
    MPI_Type_commit(&far);
    OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
    MPI_Error_class(MPI_Put(small, 1, far, 0, 0, 16, MPI_BYTE, win), &class);
    CHECK_EQ(class, MPI_ERR_BUFFER);
    MPI_Error_class(MPI_Get(small, 1, far, 0, 0, 16, MPI_BYTE, win), &class);
    CHECK_EQ(class, MPI_ERR_BUFFER);
    OK(MPI_Put(small, LEN, MPI_BYTE, 0, 0, LEN, MPI_BYTE, win));
    OK(MPI_Win_unlock(0, win));
    OK(MPI_Win_free(&win));
    MPI_Type_free(&far);
    rr_give(small);
    rr_give(w);
}

/* ---- mapped windows ---- */

static const int lens[] = { 8, 5000, 32 << 10, 1 << 20 };
enum { NLENS = 4, MOST = 1 << 20, PATIENCE = 20 };

/* Rank 0 puts to the memory of rank 1 and gets it back. */
static void put_and_get(char *out, char *in, bool device)
{
    for (int i = 0; i < NLENS && (device || i < 3); i++) {
        int n = lens[i], at = MOST - n;
        gt_fill((unsigned char *)out, (size_t)n, (uint64_t)(i + 1));
        gt_set(in, 0, (size_t)n);
        OK(MPI_Put(out, n, MPI_BYTE, 1, at, n, MPI_BYTE, win));
        OK(MPI_Win_flush(1, win));
        OK(MPI_Get(in, n, MPI_BYTE, 1, at, n, MPI_BYTE, win));
        OK(MPI_Win_flush(1, win));
        GT_CHECK_DATA((unsigned char *)in, (size_t)n, (uint64_t)(i + 1));
    }
}

static void without_the_target(void)
{
    volatile int *done;
    MPI_Aint n;
    int unit;
    MPI_Win words;
    if (mt_size < 2)
        return;
    open_device_window(MOST);
    OK(MPI_Win_allocate_shared(sizeof *done, 1, MPI_INFO_NULL, mt_comm, &n, &words));
    OK(MPI_Win_shared_query(words, 1, &n, &unit, &done));
    if (mt_rank == 1)
        *done = 0;
    MPI_Barrier(mt_comm);
    OK(MPI_Win_lock_all(0, win));
    if (mt_rank == 0) {
        char *out = rr_take(GT_CUDA, MOST), *in = rr_take(GT_CUDA, MOST);
        char *host = malloc(MOST), *host_in = malloc(MOST);
        put_and_get(out, in, true);
        put_and_get(host, host_in, false);
        *done = 1;
        rr_give(out);
        rr_give(in);
        free(host);
        free(host_in);
    }
    double end = MPI_Wtime() + PATIENCE;
    while (mt_rank == 1 && !*done && MPI_Wtime() < end)
        ;
    CHECK_MSG(mt_rank != 1 || *done, "the origin waited for this process");
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Win_free(&words));
    close_device_window();
}

/* Memory of MPI_Win_allocate on devices.  Each rank writes to the memory of the next through the
 * address that MPI_Win_shared_query gives, and the next finds it. */
static void addresses(void)
{
    enum { LEN = 3 << 20, PART = 70000 };
    int next = (mt_rank + 1) % mt_size, prev = (mt_rank + mt_size - 1) % mt_size, unit, flag;
    char *base, *theirs, text[32];
    MPI_Aint n;
    MPI_Info info, used;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "weft_memory_kind", "cuda:device"));
    OK(MPI_Win_allocate(LEN, 4, info, mt_comm, &base, &win));
    OK(MPI_Win_get_info(win, &used));
    OK(MPI_Info_get(used, "weft_memory_kind", 31, text, &flag));
    CHECK(flag && !strcmp(text, "cuda:device"));
    OK(MPI_Info_free(&used));
    OK(MPI_Win_shared_query(win, next, &n, &unit, &theirs));
    CHECK(n == LEN && unit == 4 && theirs && (next == mt_rank) == (theirs == base));
    OK(MPI_Win_lock_all(0, win));
    cu_stream s;
    char *from = rr_take(GT_CUDA, PART);
    gt_fill((unsigned char *)from, PART, (uint64_t)mt_rank);
    CHECK_EQ(cu.stream_create(&s, CU_STREAM_NON_BLOCKING), CU_OK);
    CHECK_EQ(cu.memcpy_async((cu_ptr)(uintptr_t)theirs, (cu_ptr)(uintptr_t)from, PART, s), CU_OK);
    CHECK_EQ(cu.stream_synchronize(s), CU_OK);
    mt_sync();
    GT_CHECK_DATA((unsigned char *)base, PART, (uint64_t)prev);
    OK(MPI_Get(base + LEN / 2, PART, MPI_BYTE, next, 0, PART, MPI_BYTE, win));
    OK(MPI_Win_unlock_all(win));
    GT_CHECK_DATA((unsigned char *)base + LEN / 2, PART, (uint64_t)mt_rank);
    OK(MPI_Win_free(&win));
    rr_give(from);
    OK(MPI_Win_allocate_shared(8, 1, info, mt_comm, &base, &win)); /* the hint is not for these */
    memset(base, 0, 8);
    OK(MPI_Win_free(&win));
    OK(MPI_Info_free(&info));
}

/* A copy of the origin fails: an error, and the next operation works. */
static void broken_mapping(void)
{
    fake_cuda_fail_fn *fail = (fake_cuda_fail_fn *)(uintptr_t)dlsym(RTLD_DEFAULT, "fake_cuda_fail");
    enum { FOUR_MIB = 4 << 20 };
    char *buf = rr_take(GT_CUDA, FOUR_MIB);
    open_device_window(FOUR_MIB);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    for (int put = 0; put < 2 && mt_rank == 1; put++) {
        OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
        for (int again = 0; again < 2; again++) {
            if (!again)
                fail("cuMemcpyAsync:1:1");
            OK(put ? MPI_Put(buf, FOUR_MIB, MPI_BYTE, 0, 0, FOUR_MIB, MPI_BYTE, win)
                   : MPI_Get(buf, FOUR_MIB, MPI_BYTE, 0, 0, FOUR_MIB, MPI_BYTE, win));
            CHECK_EQ(MPI_Win_flush(0, win) == MPI_SUCCESS, again);
        }
        OK(MPI_Win_unlock(0, win));
    }
    MPI_Barrier(mt_comm);
    close_device_window();
    rr_give(buf);
}

/* The target's device reads the data of a long accumulate where they lie: one kernel, no copy. */
static void read_in_place(void)
{
    fake_cuda_fail_fn *fail = (fake_cuda_fail_fn *)(uintptr_t)dlsym(RTLD_DEFAULT, "fake_cuda_fail");
    fake_cuda_seen_fn *seen = (fake_cuda_seen_fn *)(uintptr_t)dlsym(RTLD_DEFAULT, "fake_cuda_seen");
    enum { COUNT = MOST / 4 };
    int *v = calloc(COUNT, sizeof *v), wrong = 0;
    char *buf = rr_take(GT_CUDA, MOST);
    if (mt_rank == 1)
        for (int i = 0; i < COUNT; i++)
            v[i] = i;
    gt_write(buf, v, MOST);
    open_device_window(MOST);
    fail("kernel:1000000000,cuMemcpyAsync:1000000000"); /* counts */
    long kernels = seen("kernel"), copies = seen("cuMemcpyAsync");
    MPI_Barrier(mt_comm);
    if (mt_rank == 1) {
        OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
        OK(MPI_Accumulate(buf, COUNT, MPI_INT, 0, 0, COUNT, MPI_INT, MPI_SUM, win));
        OK(MPI_Win_unlock(0, win));
    }
    MPI_Barrier(mt_comm);
    CHECK_EQ(seen("cuMemcpyAsync") - copies, 0);
    CHECK_EQ(seen("kernel") - kernels, mt_rank == 0 && mt_size > 1);
    gt_read(v, mem, MOST);
    for (int i = 0; i < COUNT; i++)
        wrong += v[i] != (mt_rank == 0 && mt_size > 1 ? i : 0);
    CHECK_EQ(wrong, 0);
    close_device_window();
    rr_give(buf);
    free(v);
}

/* ---- copies that fail ---- */

enum { LONG = 100000, BULK = 4 << 20 };

static void one_operation(int which, char *host, int *result)
{
    int one = 1;
    if (which == PUT)
        OK(MPI_Put(host, 8, MPI_BYTE, 0, 0, 8, MPI_BYTE, win));
    else if (which == GET)
        OK(MPI_Get(host, 8, MPI_BYTE, 0, 0, 8, MPI_BYTE, win));
    else if (which == ACC)
        OK(MPI_Accumulate(host, BULK / 4, MPI_INT, 0, 0, BULK / 4, MPI_INT, MPI_REPLACE, win));
    else if (which == GET_ACC)
        OK(MPI_Get_accumulate(host, BULK / 8, MPI_INT, host + BULK / 2, BULK / 8, MPI_INT, 0, 0,
                              BULK / 8, MPI_INT, MPI_REPLACE, win));
    else if (which == FETCH)
        OK(MPI_Fetch_and_op(&one, result, MPI_INT, 0, 0, MPI_REPLACE, win));
    else
        OK(MPI_Compare_and_swap(&one, &one, result, MPI_INT, 0, 0, win));
}

/* Where there are kernels, they do sums. */
static void sums_by_kernels(const char *host)
{
    fake_cuda_fail_fn *fail = (fake_cuda_fail_fn *)(uintptr_t)dlsym(RTLD_DEFAULT, "fake_cuda_fail");
    fake_cuda_seen_fn *seen = (fake_cuda_seen_fn *)(uintptr_t)dlsym(RTLD_DEFAULT, "fake_cuda_seen");
    fail("kernel:1000000000"); /* counts */
    MPI_Barrier(mt_comm);
    if (mt_rank == 1) {
        OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
        OK(MPI_Accumulate(host, LONG / 4, MPI_INT, 0, 0, LONG / 4, MPI_INT, MPI_SUM, win));
        OK(MPI_Win_unlock(0, win));
    }
    MPI_Barrier(mt_comm);
    if (mt_rank == 0 && gt_kernels())
        CHECK(seen("kernel") > 0);
}

/* Whichever copy of the target fails, the origin gets an error, and the next operation works.  No
 * operation runs a kernel: the library makes copies of its own beside kernels. */
static void broken(void)
{
    fake_cuda_fail_fn *fail = (fake_cuda_fail_fn *)(uintptr_t)dlsym(RTLD_DEFAULT, "fake_cuda_fail");
    static _Alignas(16) char host[BULK];
    int result;
    open_device_window(BULK);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    for (int which = PUT; which <= CAS; which++) {
        if (mt_rank == 0)
            fail("cuMemcpyAsync:1:1");
        MPI_Barrier(mt_comm);
        if (mt_rank == 1) {
            OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
            one_operation(which, host, &result);
            CHECK_MSG(MPI_Win_flush(0, win), "operation %d: no error", which);
            one_operation(which, host, &result);
            OK(MPI_Win_unlock(0, win));
        }
        MPI_Barrier(mt_comm);
    }
    sums_by_kernels(host);
    close_device_window();
}

int main(int argc, char **argv)
{
    gt_need(1);
    mt_init(argc, argv);
    windows = 8;
    bool breaks = argc > 1 && !strcmp(argv[1], "broken");
    bool maps = argc > 1 && !strcmp(argv[1], "mapped");
    if (!breaks && !maps)
        rr_arguments(argc, argv);
    first_device = mt_rank % gt_ndevices();
    gt_use(first_device);
    if (breaks)
        MT_RUN(broken);
    if (maps) {
        MT_RUN(without_the_target);
        MT_RUN(addresses);
        if (gt_is_fake())
            MT_RUN(broken_mapping);
        if (gt_is_fake() && gt_kernels())
            MT_RUN(read_in_place);
    }
    if (breaks || maps)
        return mt_end();
    MT_RUN(random_windows);
    MT_RUN(counter);
    MT_RUN(swaps_and_sums);
    MT_RUN(long_accumulates);
    MT_RUN(attached_later);
    MT_RUN(bad_memory);
    return mt_end();
}
