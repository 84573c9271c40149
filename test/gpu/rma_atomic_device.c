/* SPDX-License-Identifier: BSD-3-Clause */
/* Accumulates on device memory by devices of the origins, beside those that the target carries out:
 * no update is lost, whatever the path, the type and the place of the buffers; accumulates of an
 * origin keep their order; a target need not call MPI. */
#include "test/gpu/gputest.h"
#include "test/mpi/mpitest.h"

enum { ROUNDS = 24, LONG = 9000, PATIENCE = 20 };

static MPI_Win win;
static char *mem; /* of this rank's window */

static void open_window(size_t n)
{
    mem = (char *)gt_alloc(GT_CUDA, mt_rank % gt_ndevices(), n, 0);
    gt_set(mem, 0, n);
    OK(MPI_Win_create(mem, (MPI_Aint)n, 1, MPI_INFO_NULL, mt_comm, &win));
}

static void close_window(void)
{
    OK(MPI_Win_free(&win));
    CHECK(gt_guards_intact((unsigned char *)mem));
    gt_free((unsigned char *)mem);
}

/* Operands and a result, in host memory and on the device. */
static struct {
    char host[3][16];
    char *device[3];
} buf;
enum { VALUE, COMPARE, RESULT };

static void *place(int which, const void *value, size_t n, bool device)
{
    if (value && device)
        gt_write(buf.device[which], value, n);
    else if (value)
        memcpy(buf.host[which], value, n);
    return device ? (void *)buf.device[which] : buf.host[which];
}

static void result(void *to, size_t n, bool device)
{
    if (device)
        gt_read(to, buf.device[RESULT], n);
    else
        memcpy(to, buf.host[RESULT], n);
}

/* ---- types ---- */

struct type {
    MPI_Datatype t;
    size_t nbytes;
    bool swaps; /* MPI_Compare_and_swap is allowed */
};

static void number(const struct type *k, int v, void *to)
{
    if (k->t == MPI_FLOAT)
        *(float *)to = (float)v;
    else if (k->t == MPI_DOUBLE)
        *(double *)to = v;
    else if (k->nbytes == 8)
        *(int64_t *)to = v;
    else if (k->nbytes == 4)
        *(int32_t *)to = v;
    else if (k->nbytes == 2)
        *(uint16_t *)to = (uint16_t)v;
    else
        *(uint8_t *)to = (uint8_t)v;
}

/* ---- tests ---- */

/* Adds 1 by compare-and-swap. */
static void add_by_swaps(const struct type *k, MPI_Aint at, bool device)
{
    char old[8] = { 0 }, got[8] = { 0 }, next[8];
    void *to = place(RESULT, NULL, 0, device);
    OK(MPI_Fetch_and_op(NULL, to, k->t, 0, at, MPI_NO_OP, win));
    OK(MPI_Win_flush(0, win));
    result(got, k->nbytes, device);
    do {
        int64_t v = 0;
        memcpy(old, got, k->nbytes);
        memcpy(&v, old, k->nbytes);
        number(k, (int)v + 1, next);
        OK(MPI_Compare_and_swap(place(VALUE, next, k->nbytes, device),
                                place(COMPARE, old, k->nbytes, !device), to, k->t, 0, at, win));
        OK(MPI_Win_flush(0, win));
        result(got, k->nbytes, device);
    } while (memcmp(old, got, k->nbytes) && !check_failed_case);
}

/* What a rank adds to each element in ROUNDS rounds; element 0 gets more. */
static void add_once(const struct type *k, int round, const char *ones, MPI_Datatype odd)
{
    bool device = round % 2;
    char one[8];
    number(k, 1, one);
    switch (round % 6) {
    case 0:
    case 1:
        OK(MPI_Accumulate(place(VALUE, one, k->nbytes, device), 1, k->t, 0, 0, 1, k->t, MPI_SUM,
                          win));
        break;
    case 2:
    case 3:
        OK(MPI_Fetch_and_op(place(VALUE, one, k->nbytes, device),
                            place(RESULT, NULL, 0, round % 4 == 3), k->t, 0, 0, MPI_SUM, win));
        break;
    case 4: /* every second element */
        OK(MPI_Accumulate(ones, LONG / 2, k->t, 0, 0, 1, odd, MPI_SUM, win));
        break;
    default:
        OK(MPI_Accumulate(ones, LONG, k->t, 0, 0, LONG, k->t, MPI_SUM, win));
    }
    if (round % 3 == 0) /* buffers are used again */
        OK(MPI_Win_flush(0, win));
    else
        OK(MPI_Win_flush_local(0, win));
}

static void no_update_is_lost(const struct type *k)
{
    char *ones = malloc(LONG * k->nbytes), *all = malloc(LONG * k->nbytes), want[8];
    MPI_Datatype odd;
    int swaps = 0;
    for (int i = 0; i < LONG; i++)
        number(k, 1, ones + (size_t)i * k->nbytes);
    OK(MPI_Type_vector(LONG / 2, 1, 2, k->t, &odd));
    OK(MPI_Type_commit(&odd));
    open_window(LONG * k->nbytes);
    OK(MPI_Win_lock_all(0, win));
    for (int round = 0; round < ROUNDS; round++) {
        add_once(k, round, ones, odd);
        if (k->swaps && round % 2 == 0) {
            add_by_swaps(k, 0, round % 4 == 0);
            swaps++;
        }
    }
    OK(MPI_Win_unlock_all(win));
    MPI_Barrier(mt_comm);
    if (mt_rank == 0) {
        int wrong = 0;
        gt_read(all, mem, LONG * k->nbytes);
        for (int i = 0; i < LONG; i++) {
            int each = i == 0 ? ROUNDS + swaps : ROUNDS / 6 * (i % 2 ? 1 : 2);
            number(k, each * mt_size, want);
            wrong += memcmp(want, all + (size_t)i * k->nbytes, k->nbytes) != 0;
        }
        CHECK_MSG(!wrong, "%d elements of %zu bytes are wrong", wrong, k->nbytes);
    }
    MPI_Barrier(mt_comm);
    close_window();
    MPI_Type_free(&odd);
    free(ones);
    free(all);
}

static void lost_updates(void)
{
    const struct type types[] = {
        { MPI_INT, 4, true },      { MPI_INT64_T, 8, true }, { MPI_DOUBLE, 8, false },
        { MPI_FLOAT, 4, false },   { MPI_SHORT, 2, true },   { MPI_UNSIGNED_CHAR, 1, true },
        { MPI_UINT32_T, 4, true },
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        no_update_is_lost(&types[i]);
}

/* Each rank changes a byte of its own beside those of others, by all operations. */
static void neighbours(void)
{
    enum { N = 40 };
    const MPI_Op ops[] = { MPI_SUM, MPI_BXOR, MPI_MAX, MPI_PROD, MPI_BOR, MPI_REPLACE, MPI_MIN };
    uint8_t mine = 0, got = 0, v, *all = calloc(1, (size_t)mt_size);
    open_window((size_t)mt_size);
    OK(MPI_Win_lock_all(0, win));
    for (int i = 0; i < N; i++) {
        MPI_Op op = ops[i % 7];
        v = (uint8_t)(i * 37 + mt_rank);
        OK(MPI_Fetch_and_op(&v, &got, MPI_UINT8_T, 0, mt_rank, op, win));
        OK(MPI_Win_flush(0, win));
        CHECK_EQ(got, mine);
        mine = op == MPI_SUM    ? (uint8_t)(mine + v)
               : op == MPI_BXOR ? mine ^ v
               : op == MPI_MAX  ? (mine > v ? mine : v)
               : op == MPI_PROD ? (uint8_t)(mine * v)
               : op == MPI_BOR  ? mine | v
               : op == MPI_MIN  ? (mine < v ? mine : v)
                                : v;
    }
    OK(MPI_Win_unlock_all(win));
    MPI_Barrier(mt_comm);
    OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
    OK(MPI_Get(all, mt_size, MPI_BYTE, 0, 0, mt_size, MPI_BYTE, win));
    OK(MPI_Win_unlock(0, win));
    CHECK_EQ(all[mt_rank], mine);
    close_window();
    free(all);
}

/* Accumulates of one origin on one place happen in the order of the calls, whatever carries them
 * out. */
static void order(void)
{
    static int three = 3;
    int *many = malloc(LONG * sizeof *many), got, right = (mt_rank + 1) % mt_size, last = 0;
    MPI_Datatype odd;
    MPI_Type_vector(LONG / 4, 1, 2, MPI_INT, &odd);
    MPI_Type_commit(&odd);
    open_window(LONG * 4);
    OK(MPI_Win_lock_all(0, win));
    for (int i = 1; i <= 30; i++) {
        for (int k = 0; k < LONG; k++)
            many[k] = i * 10;
        int n = i % 3 == 0 ? LONG : 1;
        if (i % 5 == 0)
            OK(MPI_Accumulate(many, LONG / 4, MPI_INT, right, 0, 1, odd, MPI_REPLACE, win));
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

/* Elements that are not aligned, and pairs, which the target changes, beside aligned ones. */
static void by_the_target(void)
{
    struct {
        double v;
        int i;
    } pair = { 0 };
    int one = 1, at = 0;
    open_window(64);
    OK(MPI_Win_lock_all(0, win));
    for (int i = 0; i < ROUNDS; i++) {
        pair.v = pair.i = i * mt_size + mt_rank;
        OK(MPI_Accumulate(&one, 1, MPI_INT, 0, 33, 1, MPI_INT, MPI_SUM, win));
        OK(MPI_Accumulate(&one, 1, MPI_INT, 0, 40, 1, MPI_INT, MPI_SUM, win));
        OK(MPI_Accumulate(&pair, 1, MPI_DOUBLE_INT, 0, 0, 1, MPI_DOUBLE_INT, MPI_MAXLOC, win));
        OK(MPI_Win_flush(0, win));
    }
    OK(MPI_Win_unlock_all(win));
    MPI_Barrier(mt_comm);
    if (mt_rank == 0) {
        gt_read(&at, mem + 33, sizeof at);
        CHECK_EQ(at, ROUNDS * mt_size);
        gt_read(&at, mem + 40, sizeof at);
        CHECK_EQ(at, ROUNDS * mt_size);
        gt_read(&pair, mem, sizeof pair);
        CHECK(pair.v == pair.i && pair.i == ROUNDS * mt_size - 1);
    }
    MPI_Barrier(mt_comm);
    close_window();
}

/* ---- a target that does not call MPI ---- */

/* As many elements as the origin's device changes. */
static void few_elements(bool device)
{
    enum { N = 32 };
    int v[N], got[N], wrong = 0, where = mt_rank % gt_ndevices();
    char *from = device ? (char *)gt_alloc(GT_CUDA, where, sizeof v, 0) : (char *)v;
    char *to = device ? (char *)gt_alloc(GT_CUDA, where, sizeof v, 0) : (char *)got;
    for (int i = 0; i < N; i++)
        v[i] = i * i;
    gt_write(from, v, sizeof v);
    OK(MPI_Accumulate(from, N, MPI_INT, 1, 16, N, MPI_INT, MPI_REPLACE, win));
    OK(MPI_Accumulate(from, N, MPI_INT, 1, 16, N, MPI_INT, MPI_SUM, win));
    OK(MPI_Get_accumulate(from, N, MPI_INT, to, N, MPI_INT, 1, 16, N, MPI_INT, MPI_SUM, win));
    OK(MPI_Win_flush(1, win));
    gt_read(got, to, sizeof got);
    for (int i = 0; i < N; i++)
        wrong += got[i] != 2 * v[i];
    OK(MPI_Get_accumulate(NULL, 0, MPI_INT, to, N, MPI_INT, 1, 16, N, MPI_INT, MPI_NO_OP, win));
    OK(MPI_Win_flush(1, win));
    gt_read(got, to, sizeof got);
    for (int i = 0; i < N; i++)
        wrong += got[i] != 3 * v[i];
    CHECK_EQ(wrong, 0);
    if (device) {
        gt_free((unsigned char *)from);
        gt_free((unsigned char *)to);
    }
}

static void single_operations(bool device)
{
    int64_t v = 5, expected = 5, got = -1, next = 9;
    OK(MPI_Fetch_and_op(place(VALUE, &v, 8, device), place(RESULT, NULL, 0, device), MPI_INT64_T, 1,
                        8, MPI_REPLACE, win));
    OK(MPI_Win_flush(1, win));
    OK(MPI_Compare_and_swap(place(VALUE, &next, 8, device), place(COMPARE, &expected, 8, device),
                            place(RESULT, NULL, 0, device), MPI_INT64_T, 1, 8, win));
    OK(MPI_Win_flush(1, win));
    result(&got, 8, device);
    CHECK_EQ(got, 5);
    OK(MPI_Accumulate(place(VALUE, &v, 8, device), 1, MPI_INT64_T, 1, 8, 1, MPI_INT64_T, MPI_PROD,
                      win));
    OK(MPI_Get_accumulate(NULL, 0, MPI_INT64_T, place(RESULT, NULL, 0, device), 1, MPI_INT64_T, 1,
                          8, 1, MPI_INT64_T, MPI_NO_OP, win));
    OK(MPI_Win_flush(1, win));
    result(&got, 8, device);
    CHECK_EQ(got, 45);
}

static void without_the_target(void)
{
    volatile int *done;
    MPI_Aint n;
    int unit;
    MPI_Win words;
    if (mt_size < 2 || !gt_kernels()) {
        mt_skip("needs 2 processes and kernels");
        return;
    }
    open_window(16 + 32 * sizeof(int));
    OK(MPI_Win_allocate_shared(sizeof *done, 1, MPI_INFO_NULL, mt_comm, &n, &words));
    OK(MPI_Win_shared_query(words, 1, &n, &unit, &done));
    if (mt_rank == 1)
        *done = 0;
    MPI_Barrier(mt_comm);
    OK(MPI_Win_lock_all(0, win));
    if (mt_rank == 0) {
        single_operations(false);
        single_operations(true);
        few_elements(false);
        few_elements(true);
        *done = 1;
    }
    double end = MPI_Wtime() + PATIENCE;
    while (mt_rank == 1 && !*done && MPI_Wtime() < end)
        ;
    CHECK_MSG(mt_rank != 1 || *done, "the origin waited for this process");
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Win_free(&words));
    close_window();
}

int main(int argc, char **argv)
{
    gt_need(1);
    mt_init(argc, argv);
    int dev = mt_rank % gt_ndevices();
    gt_use(dev);
    for (int i = 0; i < 3; i++)
        buf.device[i] = (char *)gt_alloc(GT_CUDA, dev, 16, 0);
    if (argc > 1 && !strcmp(argv[1], "mapped"))
        MT_RUN(without_the_target);
    MT_RUN(lost_updates);
    MT_RUN(neighbours);
    MT_RUN(order);
    MT_RUN(by_the_target);
    for (int i = 0; i < 3; i++)
        gt_free((unsigned char *)buf.device[i]);
    return mt_end();
}
