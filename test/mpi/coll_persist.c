/* SPDX-License-Identifier: BSD-3-Clause */
/* Persistent collectives, created, started and freed again and again and in different orders on
 * different ranks, and communicators that are freed while other ranks may still read data of their
 * collectives. */
#include "test/mpi/mpitest.h"

#define ROUNDS 20

/* Four requests; rank r starts them in an order of its own, and waits in that of completion. */
static void starts_in_any_order(void)
{
    int sum_in = 0, sum = 0, cast = 0, mine = 0, all[64];
    MPI_Request q[4];
    OK(MPI_Allreduce_init(&sum_in, &sum, 1, MPI_INT, MPI_SUM, mt_comm, MPI_INFO_NULL, &q[0]));
    OK(MPI_Bcast_init(&cast, 1, MPI_INT, mt_size - 1, mt_comm, MPI_INFO_NULL, &q[1]));
    OK(MPI_Allgather_init(&mine, 1, MPI_INT, all, 1, MPI_INT, mt_comm, MPI_INFO_NULL, &q[2]));
    OK(MPI_Barrier_init(mt_comm, MPI_INFO_NULL, &q[3]));
    for (int round = 0; round < ROUNDS; round++) {
        sum_in = mt_rank + round;
        mine = 100 * round + mt_rank;
        cast = mt_rank == mt_size - 1 ? 7 * round : -1;
        sum = -1;
        for (int i = 0; i < 4; i++)
            OK(MPI_Start(&q[(i + mt_rank) % 4]));
        OK(MPI_Waitall(4, q, MPI_STATUSES_IGNORE));
        CHECK_EQ(sum, mt_size * (mt_size - 1) / 2 + mt_size * round);
        CHECK_EQ(cast, 7 * round);
        for (int r = 0; r < mt_size; r++)
            CHECK_EQ(all[r], 100 * round + r);
    }
    for (int i = 0; i < 4; i++)
        OK(MPI_Request_free(&q[i]));
}

/* Persistent and other calls of one communicator do not disturb each other. */
static void mixed_with_others(void)
{
    double in[3] = { 1, 2, mt_rank }, out[3];
    int token;
    MPI_Request q;
    OK(MPI_Allreduce_init(in, out, 3, MPI_DOUBLE, MPI_MAX, mt_comm, MPI_INFO_NULL, &q));
    for (int round = 0; round < ROUNDS; round++) {
        OK(MPI_Start(&q));
        token = mt_rank == 0 ? round : -1;
        OK(MPI_Bcast(&token, 1, MPI_INT, 0, mt_comm));
        OK(MPI_Barrier(mt_comm));
        OK(MPI_Wait(&q, MPI_STATUS_IGNORE));
        CHECK_EQ(token, round);
        CHECK(out[0] == 1 && out[1] == 2 && out[2] == mt_size - 1);
    }
    OK(MPI_Request_free(&q));
}

/* The root leaves a broadcast first and frees the communicator while others still read. */
static void communicators_come_and_go(void)
{
    static char data[100000];
    for (int round = 0; round < 40; round++) {
        MPI_Comm c;
        int len = round % 2 ? (int)sizeof data : 3000, root = round % mt_size;
        OK(MPI_Comm_dup(mt_comm, &c));
        memset(data, mt_rank == root ? round + 1 : 0, sizeof data);
        OK(MPI_Bcast(data, len, MPI_CHAR, root, c));
        CHECK_EQ(data[0], round + 1);
        CHECK_EQ(data[len - 1], round + 1);
        OK(MPI_Comm_free(&c));
    }
}

/* Kind, length and root of request i; the contents of round t. */
#define KINDS 6
#define LONGEST 60000 /* ints */
struct one {
    int kind, n, root, round;
    int *in, *out;
    MPI_Request q;
};

static struct one one_of(int i)
{
    static const int lens[] = { 1, 700, 20, 5000, LONGEST };
    struct one o = { .kind = i % KINDS, .n = lens[i % 5], .root = i % mt_size };
    if (o.kind == 3)
        o.n = o.n / mt_size + 1;
    o.in = calloc((size_t)o.n, sizeof *o.in);
    o.out = calloc((size_t)o.n * (o.kind == 3 ? (size_t)mt_size : 1), sizeof *o.out);
    if (o.kind == 0)
        OK(MPI_Barrier_init(mt_comm, MPI_INFO_NULL, &o.q));
    else if (o.kind == 1)
        OK(MPI_Allreduce_init(o.in, o.out, o.n, MPI_INT, MPI_SUM, mt_comm, MPI_INFO_NULL, &o.q));
    else if (o.kind == 2)
        OK(MPI_Bcast_init(o.in, o.n, MPI_INT, o.root, mt_comm, MPI_INFO_NULL, &o.q));
    else if (o.kind == 3)
        OK(MPI_Allgather_init(o.in, o.n, MPI_INT, o.out, o.n, MPI_INT, mt_comm, MPI_INFO_NULL,
                              &o.q));
    else if (o.kind == 4)
        OK(MPI_Reduce_init(o.in, o.out, o.n, MPI_INT, MPI_SUM, o.root, mt_comm, MPI_INFO_NULL,
                           &o.q));
    else
        OK(MPI_Scan_init(o.in, o.out, o.n, MPI_INT, MPI_SUM, mt_comm, MPI_INFO_NULL, &o.q));
    return o;
}

static void start_one(struct one *o, int round)
{
    o->round = round;
    for (int i = 0; i < o->n; i++)
        o->in[i] = o->kind != 2 || mt_rank == o->root ? i + round + mt_rank : -1;
    OK(MPI_Start(&o->q));
}

/* After its end. */
static void check_one(const struct one *o)
{
    const int p = o->kind == 5 ? mt_rank + 1 : mt_size, base = p * (p - 1) / 2;
    int wrong = 0;
    for (int i = 0; i < o->n && o->kind; i++) {
        const int v = i + o->round;
        if (o->kind == 2)
            wrong += o->in[i] != v + o->root;
        else if (o->kind == 3)
            for (int r = 0; r < mt_size; r++)
                wrong += o->out[r * o->n + i] != v + r;
        else if (o->kind != 4 || mt_rank == o->root)
            wrong += o->out[i] != p * v + base;
    }
    CHECK_MSG(!wrong, "rank %d, kind %d, %d ints, round %d: %d wrong", mt_rank, o->kind, o->n,
              o->round, wrong);
}

static void free_one(struct one *o)
{
    OK(MPI_Request_free(&o->q));
    free(o->in);
    free(o->out);
}

/* More requests than get shared memory of their own, all active at once.  Each rank starts, tests
 * and frees them in an order of its own; the strides have no divisor in common with the number. */
static void many_at_once(int n)
{
    static const int strides[] = { 1, 3, 7, 9, 11, 13 };
    struct one *o = calloc((size_t)n, sizeof *o);
    const int stride = strides[mt_rank % 6];
    for (int i = 0; i < n; i++)
        o[i] = one_of(i);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < n; i++)
            start_one(&o[i * stride % n], round);
        for (int i = 0, done = 0; i < n; i++, done = 0) {
            struct one *p = &o[(i + mt_rank) * stride % n];
            while (i % 2 && !done)
                OK(MPI_Test(&p->q, &done, MPI_STATUS_IGNORE));
            OK(MPI_Wait(&p->q, MPI_STATUS_IGNORE)); /* inactive after the test */
            check_one(p);
        }
    }
    for (int i = 0; i < n; i++)
        free_one(&o[(i + 2 * mt_rank) * stride % n]);
    free(o);
}

static void forty_at_once(void) { many_at_once(40); }
static void beyond_the_bound(void) { many_at_once(100); }

/* A rank frees a request, and creates the next one, while others have not yet waited for it. */
static void freed_early(void)
{
    for (int i = 0; i < 150; i++) {
        struct one o = one_of(i);
        for (int round = 0; round < 1 + i % 3; round++) {
            start_one(&o, round);
            if (i % 10 == 0 && mt_rank == i / 10 % mt_size)
                mt_sleep_ms(2);
            OK(MPI_Wait(&o.q, MPI_STATUS_IGNORE));
            check_one(&o);
        }
        free_one(&o);
    }
}

/* The communicator is freed before the request is. */
static void outlives_communicator(void)
{
    int in = mt_rank, out = -1;
    MPI_Comm c;
    MPI_Request q;
    OK(MPI_Comm_dup(mt_comm, &c));
    OK(MPI_Allreduce_init(&in, &out, 1, MPI_INT, MPI_SUM, c, MPI_INFO_NULL, &q));
    OK(MPI_Comm_free(&c));
    OK(MPI_Start(&q));
    OK(MPI_Wait(&q, MPI_STATUS_IGNORE));
    CHECK_EQ(out, mt_size * (mt_size - 1) / 2);
    OK(MPI_Request_free(&q));
}

/* MPI_Start waits for no rank: each starts after a message from the rank before it, which
 * has started. */
static void start_does_not_wait(void)
{
    struct one o[10];
    for (int i = 0; i < 10; i++)
        o[i] = one_of(i);
    for (int round = 0; round < 2; round++) {
        if (mt_rank > 0)
            OK(MPI_Recv(NULL, 0, MPI_INT, mt_rank - 1, 1, mt_comm, MPI_STATUS_IGNORE));
        for (int i = 0; i < 10; i++)
            start_one(&o[i], round);
        if (mt_rank + 1 < mt_size)
            OK(MPI_Send(NULL, 0, MPI_INT, mt_rank + 1, 1, mt_comm));
        for (int i = 0; i < 10; i++) {
            OK(MPI_Wait(&o[i].q, MPI_STATUS_IGNORE));
            check_one(&o[i]);
        }
    }
    for (int i = 0; i < 10; i++)
        free_one(&o[i]);
}

/* The algorithm of the last collective call; -1: none. */
static int algorithm(MPI_T_pvar_session s, MPI_T_pvar_handle h)
{
    int alg = -2;
    CHECK_EQ(MPI_T_pvar_read(s, h, &alg), MPI_SUCCESS);
    return alg;
}

/* Ranks of one host use the same plans in all three forms. */
static void same_algorithm(void)
{
    static int in[LONGEST], out[LONGEST];
    int index, n, level;
    MPI_T_pvar_session s;
    MPI_T_pvar_handle h;
    MPI_Request q;
    if (!mt_one_host()) {
        mt_skip("several hosts");
        return;
    }
    MPI_T_init_thread(MPI_THREAD_SINGLE, &level);
    CHECK_EQ(MPI_T_pvar_session_create(&s), MPI_SUCCESS);
    CHECK_EQ(MPI_T_pvar_get_index("coll_algorithm", MPI_T_PVAR_CLASS_STATE, &index), MPI_SUCCESS);
    CHECK_EQ(MPI_T_pvar_handle_alloc(s, index, NULL, &h, &n), MPI_SUCCESS);
    for (int len = 1; len <= LONGEST; len *= 10) {
        OK(MPI_Allreduce(in, out, len, MPI_INT, MPI_SUM, mt_comm));
        int blocking = algorithm(s, h);
        OK(MPI_Iallreduce(in, out, len, MPI_INT, MPI_SUM, mt_comm, &q));
        CHECK_EQ(algorithm(s, h), blocking);
        OK(MPI_Wait(&q, MPI_STATUS_IGNORE));
        OK(MPI_Allreduce_init(in, out, len, MPI_INT, MPI_SUM, mt_comm, MPI_INFO_NULL, &q));
        OK(MPI_Barrier(mt_comm));
        OK(MPI_Start(&q));
        CHECK_EQ(algorithm(s, h), blocking);
        OK(MPI_Wait(&q, MPI_STATUS_IGNORE));
        OK(MPI_Request_free(&q));
    }
    CHECK_EQ(MPI_T_pvar_handle_free(s, &h), MPI_SUCCESS);
    CHECK_EQ(MPI_T_pvar_session_free(&s), MPI_SUCCESS);
    MPI_T_finalize();
}

int main(int argc, char **argv)
{
    mt_init(argc, argv);
    MT_RUN(starts_in_any_order);
    MT_RUN(mixed_with_others);
    MT_RUN(communicators_come_and_go);
    MT_RUN(forty_at_once);
    MT_RUN(beyond_the_bound);
    MT_RUN(freed_early);
    MT_RUN(outlives_communicator);
    MT_RUN(start_does_not_wait);
    MT_RUN(same_algorithm);
    return mt_end();
}
