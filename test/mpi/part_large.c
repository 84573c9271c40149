/* SPDX-License-Identifier: BSD-3-Clause */
/* Large counts in point-to-point calls (MPI-5.0 sections 3.2 and 3.9, chapter 4): counts, sizes and
 * displacements above 2^31 in every kind of call, with types that move few bytes; what
 * MPI_Get_count answers; with the argument "all" also real messages above 2 GiB, persistent and
 * partitioned, which need 5 GB at the receiver.  Ranks work in pairs. */
#include "test/mpi/mpitest.h"
#include <sys/mman.h>

#define MANY ((MPI_Count)3000000000) /* above what an int holds, signed or not as 2^31 */
#define HUGE (((MPI_Count)1 << 31) + 4112)

enum { TAG = 6 };

/* Memory that costs nothing until it is touched. */
static char *reserve(size_t n)
{
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                   0);

    CHECK(p != MAP_FAILED);
    return p == MAP_FAILED ? NULL : p;
}

static void check_none(MPI_Status *st, MPI_Datatype t)
{
    MPI_Count n = -1;
    int small = -1;

    OK(MPI_Get_count_c(st, t, &n));
    CHECK_EQ(n, 0);
    OK(MPI_Get_count(st, t, &small));
    CHECK_EQ(small, 0);
    CHECK_EQ(st->MPI_TAG, TAG);
}

/* Three thousand million elements without data, in all calls. */
static void many_empty(void)
{
    MPI_Datatype none;
    MPI_Request r, both[2];
    MPI_Message m;
    MPI_Status st, two[2];
    char c = 'x';
    int i;

    OK(MPI_Type_contiguous(0, MPI_INT, &none));
    OK(MPI_Type_commit(&none));
    if (mt_peer != MPI_PROC_NULL && mt_first) {
        OK(MPI_Send_c(&c, MANY, none, mt_peer, TAG, mt_comm));
        OK(MPI_Ssend_c(&c, MANY, none, mt_peer, TAG, mt_comm));
        OK(MPI_Isend_c(&c, MANY, none, mt_peer, TAG, mt_comm, &r));
        OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
        OK(MPI_Bsend_c(&c, MANY, none, mt_peer, TAG, mt_comm));
        OK(MPI_Ssend_init_c(&c, MANY, none, mt_peer, TAG, mt_comm, &r));
        for (i = 0; i < 2; i++) {
            OK(MPI_Start(&r));
            OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
        }
        OK(MPI_Request_free(&r));
    } else if (mt_peer != MPI_PROC_NULL) {
        OK(MPI_Recv_c(&c, MANY, none, mt_peer, TAG, mt_comm, &st));
        check_none(&st, none);
        OK(MPI_Irecv_c(&c, MANY, none, mt_peer, TAG, mt_comm, &r));
        OK(MPI_Wait(&r, &st));
        check_none(&st, none);
        OK(MPI_Mprobe(mt_peer, TAG, mt_comm, &m, &st));
        OK(MPI_Mrecv_c(&c, MANY, none, &m, &st));
        check_none(&st, none);
        OK(MPI_Mprobe(mt_peer, TAG, mt_comm, &m, &st));
        OK(MPI_Imrecv_c(&c, MANY, none, &m, &r));
        OK(MPI_Wait(&r, &st));
        OK(MPI_Recv_init_c(&c, MANY, none, mt_peer, TAG, mt_comm, &r));
        for (i = 0; i < 2; i++) {
            OK(MPI_Start(&r));
            OK(MPI_Wait(&r, &st));
            check_none(&st, none);
        }
        OK(MPI_Request_free(&r));
    }
    OK(MPI_Sendrecv_c(&c, MANY, none, mt_rank, TAG, &c, MANY, none, mt_rank, TAG, mt_comm, &st));
    check_none(&st, none);
    OK(MPI_Isendrecv_c(&c, MANY, none, mt_rank, TAG, &c, MANY, none, mt_rank, TAG, mt_comm, &r));
    OK(MPI_Wait(&r, &st));
    check_none(&st, none);
    OK(MPI_Sendrecv_replace_c(&c, MANY, none, mt_rank, TAG, mt_rank, TAG, mt_comm, &st));
    OK(MPI_Isendrecv_replace_c(&c, MANY, none, mt_rank, TAG, mt_rank, TAG, mt_comm, &r));
    OK(MPI_Wait(&r, &st));
    OK(MPI_Psend_init(&c, 3, MANY, none, mt_rank, TAG, mt_comm, MPI_INFO_NULL, &both[0]));
    OK(MPI_Precv_init(&c, 2, MANY, none, mt_rank, TAG, mt_comm, MPI_INFO_NULL, &both[1]));
    OK(MPI_Startall(2, both));
    OK(MPI_Pready_range(0, 2, both[0]));
    OK(MPI_Waitall(2, both, two));
    check_none(&two[1], none);
    OK(MPI_Request_free(&both[0]));
    OK(MPI_Request_free(&both[1]));
    CHECK_EQ(c, 'x');
    OK(MPI_Type_free(&none));
}

/* Few bytes far apart: element i has an int at 0 and one at 3 GB, the next begins 1.5 GB on. */
#define FAR_APART ((MPI_Count)3000000000)
static int *far_int(char *base, int i, int k)
{
    return (int *)(void *)(base + i * (FAR_APART / 2) + k * FAR_APART);
}

static void set_far(char *base, int n, int key)
{
    int i, k;

    for (i = 0; i < n; i++)
        for (k = 0; k < 2; k++)
            *far_int(base, i, k) = 0;
    if (key)
        for (i = 0; i < n; i++) /* elements share ints 0 of i + 2 and 1 of i: write in order */
            for (k = 0; k < 2; k++)
                *far_int(base, i, k) = key + 10 * i + k;
}

static void far_displacements(void)
{
    enum { N = 2 };
    size_t room = (size_t)(FAR_APART / 2 * N + FAR_APART + 4096);
    char *out = reserve(room), *in = reserve(room);
    MPI_Count lens[2] = { 1, 1 }, disps[2] = { 0, FAR_APART }, size = 0, lb, extent;
    MPI_Datatype pair, t;
    MPI_Request r[2];
    MPI_Status st[2];
    MPI_Count n = -1;
    int i, k, round;

    if (!out || !in)
        return;
    OK(MPI_Type_create_hindexed_c(2, lens, disps, MPI_INT, &pair));
    OK(MPI_Type_create_resized_c(pair, 0, FAR_APART / 2, &t));
    OK(MPI_Type_commit(&t));
    OK(MPI_Type_size_c(t, &size));
    OK(MPI_Type_get_extent_c(t, &lb, &extent));
    CHECK(size == 2 * sizeof(int) && lb == 0 && extent == FAR_APART / 2);
    for (round = 0; round < 3; round++) {
        set_far(out, N, 1000 * (round + 1));
        set_far(in, N, 0);
        if (round == 0) {
            OK(MPI_Irecv_c(in, N, t, mt_rank, TAG, mt_comm, &r[0]));
            OK(MPI_Send_c(out, N, t, mt_rank, TAG, mt_comm));
            OK(MPI_Wait(&r[0], &st[0]));
        } else if (round == 1) {
            OK(MPI_Recv_init_c(in, N, t, mt_rank, TAG, mt_comm, &r[0]));
            OK(MPI_Send_init_c(out, N, t, mt_rank, TAG, mt_comm, &r[1]));
        } else {
            OK(MPI_Precv_init(in, 1, N, t, mt_rank, TAG, mt_comm, MPI_INFO_NULL, &r[0]));
            OK(MPI_Psend_init(out, N, 1, t, mt_rank, TAG, mt_comm, MPI_INFO_NULL, &r[1]));
        }
        if (round) {
            OK(MPI_Startall(2, r));
            if (round == 2)
                OK(MPI_Pready_list(2, (int[]){ 1, 0 }, r[1]));
            OK(MPI_Waitall(2, r, st));
            OK(MPI_Request_free(&r[0]));
            OK(MPI_Request_free(&r[1]));
        }
        OK(MPI_Get_count_c(&st[0], t, &n));
        CHECK_EQ(n, N);
        for (i = 0; i < N; i++)
            for (k = 0; k < 2; k++)
                CHECK_EQ(*far_int(in, i, k), 1000 * (round + 1) + 10 * i + k);
    }
    OK(MPI_Type_free(&t));
    OK(MPI_Type_free(&pair));
    munmap(out, room);
    munmap(in, room);
}

/* Counts that do not fit, do not divide, or belong to nothing (MPI-5.0 section 3.2.5). */
static void get_count_rules(void)
{
    MPI_Status st;
    MPI_Count big = 0;
    MPI_Datatype three, none;
    char out[10] = "123456789", in[10];
    int n = 0;

    OK(MPI_Type_contiguous(3, MPI_BYTE, &three));
    OK(MPI_Type_contiguous(0, MPI_BYTE, &none));
    OK(MPI_Type_commit(&three));
    OK(MPI_Type_commit(&none));
    OK(MPI_Sendrecv(out, 10, MPI_BYTE, mt_rank, TAG, in, 10, MPI_BYTE, mt_rank, TAG, mt_comm, &st));
    OK(MPI_Get_count(&st, three, &n)); /* 10 bytes are no number of threes */
    CHECK_EQ(n, MPI_UNDEFINED);
    OK(MPI_Get_count_c(&st, three, &big));
    CHECK_EQ(big, MPI_UNDEFINED);
    OK(MPI_Get_elements(&st, three, &n)); /* but 10 elements */
    CHECK_EQ(n, 10);
    OK(MPI_Get_count(&st, none, &n)); /* data, but elements without any */
    CHECK_EQ(n, MPI_UNDEFINED);
    OK(MPI_Sendrecv(out, 0, MPI_BYTE, mt_rank, TAG, in, 0, MPI_BYTE, mt_rank, TAG, mt_comm, &st));
    OK(MPI_Get_count(&st, none, &n));
    CHECK_EQ(n, 0);
    OK(MPI_Status_set_elements_c(&st, MPI_INT, MANY));
    OK(MPI_Get_count_c(&st, MPI_INT, &big));
    CHECK_EQ(big, MANY);
    OK(MPI_Get_count(&st, MPI_INT, &n)); /* does not fit */
    CHECK_EQ(n, MPI_UNDEFINED);
    OK(MPI_Get_elements(&st, MPI_INT, &n));
    CHECK_EQ(n, MPI_UNDEFINED);
    OK(MPI_Get_elements_c(&st, MPI_INT, &big));
    CHECK_EQ(big, MANY);
    OK(MPI_Type_free(&three));
    OK(MPI_Type_free(&none));
}

/* More bytes than 63 bits count: an error, before anything is sent. */
static void overflow(void)
{
    MPI_Count n = INT64_MAX / 2;
    MPI_Request r = MPI_REQUEST_NULL;
    char c = 0;

    FAILS(MPI_Send_c(&c, n, MPI_DOUBLE, mt_rank, TAG, mt_comm), MPI_ERR_COUNT);
    FAILS(MPI_Irecv_c(&c, n, MPI_DOUBLE, mt_rank, TAG, mt_comm, &r), MPI_ERR_COUNT);
    FAILS(MPI_Send_init_c(&c, n, MPI_DOUBLE, mt_rank, TAG, mt_comm, &r), MPI_ERR_COUNT);
    FAILS(MPI_Precv_init(&c, 9, n, MPI_BYTE, mt_rank, TAG, mt_comm, MPI_INFO_NULL, &r),
          MPI_ERR_COUNT);
    CHECK(r == MPI_REQUEST_NULL);
}

/* ---- real data ---- */

/* Bytes where an offset of 32 bits would go wrong; all others are 0 and, at the sender, no memory.
 */
static const MPI_Count marks[] = { 0, 4095, ((MPI_Count)1 << 31) - 1, (MPI_Count)1 << 31,
                                   HUGE - 1 };
enum { MARKS = sizeof(marks) / sizeof(marks[0]) };

static void mark(char *p, int key)
{
    int i;

    for (i = 0; i < MARKS; i++)
        p[marks[i]] = (char)(key + i);
}

static void check_marks(const char *p, MPI_Status *st, int key)
{
    MPI_Count n = -1, nonzero = 0, k;
    int i, small = 0;

    for (i = 0; i < MARKS; i++)
        CHECK_EQ(p[marks[i]], (char)(key + i));
    for (k = 0; k < HUGE; k += 1021)
        nonzero += p[k] != 0;
    CHECK(nonzero <= MARKS);
    OK(MPI_Get_count_c(st, MPI_BYTE, &n));
    CHECK_EQ(n, HUGE);
    OK(MPI_Get_count(st, MPI_BYTE, &small));
    CHECK_EQ(small, MPI_UNDEFINED);
    CHECK_EQ(st->MPI_SOURCE, mt_peer);
}

static void huge_messages(void)
{
    char *p;
    MPI_Request r;
    MPI_Status st;
    int way;

    if (mt_size != 2) {
        mt_skip("for two ranks");
        return;
    }
    p = reserve((size_t)HUGE);
    for (way = 0; p && way < 3; way++) {
        alarm(5 * mt_limit());
        if (mt_first) {
            mark(p, 10 * way + 1);
            if (way == 0)
                OK(MPI_Isend_c(p, HUGE, MPI_BYTE, mt_peer, TAG, mt_comm, &r));
            else if (way == 1)
                OK(MPI_Send_init_c(p, HUGE, MPI_BYTE, mt_peer, TAG, mt_comm, &r));
            else
                OK(MPI_Psend_init(p, 4, HUGE / 4, MPI_BYTE, mt_peer, TAG, mt_comm, MPI_INFO_NULL,
                                  &r));
        } else if (way == 0) {
            OK(MPI_Irecv_c(p, HUGE, MPI_BYTE, mt_peer, TAG, mt_comm, &r));
        } else if (way == 1) {
            OK(MPI_Recv_init_c(p, HUGE, MPI_BYTE, mt_peer, TAG, mt_comm, &r));
        } else {
            OK(MPI_Precv_init(p, 1, HUGE, MPI_BYTE, mt_peer, TAG, mt_comm, MPI_INFO_NULL, &r));
        }
        if (way)
            OK(MPI_Start(&r));
        if (way == 2 && mt_first)
            OK(MPI_Pready_range(0, 3, r));
        OK(MPI_Wait(&r, &st));
        if (!mt_first)
            check_marks(p, &st, 10 * way + 1);
        if (way)
            OK(MPI_Request_free(&r));
    }
    munmap(p, (size_t)HUGE);
}

int main(int argc, char **argv)
{
    void *back, *space = malloc(4096);
    int n;

    mt_init(argc, argv);
    MPI_Buffer_attach(space, 4096);
    MT_RUN(many_empty);
    MT_RUN(far_displacements);
    MT_RUN(get_count_rules);
    MT_RUN(overflow);
    if (argc > 1 && !strcmp(argv[1], "all"))
        MT_RUN(huge_messages);
    MPI_Buffer_detach(&back, &n);
    free(space);
    return mt_end();
}
