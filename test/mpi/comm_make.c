/* SPDX-License-Identifier: BSD-3-Clause */
/* Making and freeing communicators (MPI-5.0 section 7.4): dup, split, split_type, create,
 * create_group, compare, names, many of them, and freeing one while its messages are on the way. */
#include "test/mpi/hosts.h"
#include "test/mpi/mpitest.h"

enum { TAG = 61 };

/* One message round a ring shows that a communicator works and has this size and rank. */
static void check_works(MPI_Comm c, int want_rank, int want_size)
{
    int r = -1, n = -1, out, in = -1;
    MPI_Status st;

    OK(MPI_Comm_rank(c, &r));
    OK(MPI_Comm_size(c, &n));
    CHECK_EQ(r, want_rank);
    CHECK_EQ(n, want_size);
    if (r != want_rank || n != want_size)
        return;
    out = 100 + r;
    OK(MPI_Sendrecv(&out, 1, MPI_INT, (r + 1) % n, TAG, &in, 1, MPI_INT, (r + n - 1) % n, TAG, c,
                    &st));
    CHECK_EQ(in, 100 + (r + n - 1) % n);
    CHECK_EQ(st.MPI_SOURCE, (r + n - 1) % n);
}

static void dup_is_congruent(void)
{
    MPI_Comm c, d;
    int cmp = -1;

    OK(MPI_Comm_dup(mt_comm, &c));
    OK(MPI_Comm_compare(mt_comm, c, &cmp));
    CHECK_EQ(cmp, MPI_CONGRUENT);
    OK(MPI_Comm_compare(c, c, &cmp));
    CHECK_EQ(cmp, MPI_IDENT);
    check_works(c, mt_rank, mt_size);
    OK(MPI_Comm_dup(c, &d));
    OK(MPI_Comm_free(&c));
    CHECK(c == MPI_COMM_NULL);
    check_works(d, mt_rank, mt_size);
    OK(MPI_Comm_free(&d));
    OK(MPI_Comm_dup(MPI_COMM_SELF, &d));
    check_works(d, 0, 1);
    OK(MPI_Comm_free(&d));
}

static void split_halves(void)
{
    MPI_Comm c;

    OK(MPI_Comm_split(mt_comm, mt_rank % 2, mt_rank, &c));
    check_works(c, mt_rank / 2, (mt_size + 1 - mt_rank % 2) / 2);
    OK(MPI_Comm_free(&c));
}

static void split_reverse(void)
{
    MPI_Comm c;
    int cmp = -1;

    OK(MPI_Comm_split(mt_comm, 0, -mt_rank, &c));
    check_works(c, mt_size - 1 - mt_rank, mt_size);
    OK(MPI_Comm_compare(mt_comm, c, &cmp));
    CHECK_EQ(cmp, mt_size == 1 ? MPI_CONGRUENT : MPI_SIMILAR);
    OK(MPI_Comm_free(&c));
}

/* Equal keys keep the order of the old ranks. */
static void split_equal_keys(void)
{
    MPI_Comm c;
    int cmp = -1;

    OK(MPI_Comm_split(mt_comm, 5, 3, &c));
    OK(MPI_Comm_compare(mt_comm, c, &cmp));
    CHECK_EQ(cmp, MPI_CONGRUENT);
    OK(MPI_Comm_free(&c));
}

static void split_undefined(void)
{
    MPI_Comm c = MPI_COMM_WORLD;

    OK(MPI_Comm_split(mt_comm, mt_rank == 0 ? MPI_UNDEFINED : 1, 0, &c));
    if (mt_rank == 0) {
        CHECK(c == MPI_COMM_NULL);
    } else {
        check_works(c, mt_rank - 1, mt_size - 1);
        OK(MPI_Comm_free(&c));
    }
}

static void split_each_alone(void)
{
    MPI_Comm c;

    OK(MPI_Comm_split(mt_comm, mt_rank, 0, &c));
    check_works(c, 0, 1);
    OK(MPI_Comm_free(&c));
}

static void split_nested(void)
{
    MPI_Comm c = mt_comm, half;
    int n = mt_size, r = mt_rank, depth = 0;

    while (n > 1) {
        OK(MPI_Comm_split(c, r >= (n + 1) / 2, r, &half));
        if (depth++ > 0)
            OK(MPI_Comm_free(&c));
        if (r >= (n + 1) / 2) {
            r -= (n + 1) / 2;
            n /= 2;
        } else {
            n = (n + 1) / 2;
        }
        check_works(half, r, n);
        c = half;
    }
    if (depth > 0)
        OK(MPI_Comm_free(&c));
}

static void split_type_shared(void)
{
    int host[HOST_RANKS_MAX], after;
    MPI_Comm c;

    host_of_all(mt_comm, host);
    after = host_count(host, mt_rank, mt_rank + 1, mt_size - 1);
    OK(MPI_Comm_split_type(mt_comm, MPI_COMM_TYPE_SHARED, -mt_rank, MPI_INFO_NULL, &c));
    check_works(c, after, host_count(host, mt_rank, 0, mt_size - 1));
    OK(MPI_Comm_free(&c));
    OK(MPI_Comm_split_type(mt_comm, mt_rank == 0 ? MPI_UNDEFINED : MPI_COMM_TYPE_SHARED, 0,
                           MPI_INFO_NULL, &c));
    CHECK((c == MPI_COMM_NULL) == (mt_rank == 0));
    if (c != MPI_COMM_NULL)
        OK(MPI_Comm_free(&c));
}

/* Group of the even ranks, in reverse. */
static MPI_Group evens_reversed(int *my_rank)
{
    int ranks[64], n = 0, i;
    MPI_Group world, g;

    for (i = mt_size - 1; i >= 0; i--)
        if (i % 2 == 0)
            ranks[n++] = i;
    OK(MPI_Comm_group(mt_comm, &world));
    OK(MPI_Group_incl(world, n, ranks, &g));
    OK(MPI_Group_free(&world));
    OK(MPI_Group_rank(g, my_rank));
    return g;
}

static void create(void)
{
    MPI_Comm c;
    int r = -1;
    MPI_Group g = evens_reversed(&r);

    OK(MPI_Comm_create(mt_comm, g, &c));
    if (mt_rank % 2) {
        CHECK(c == MPI_COMM_NULL);
    } else {
        check_works(c, r, (mt_size + 1) / 2);
        OK(MPI_Comm_free(&c));
    }
    OK(MPI_Group_free(&g));
}

/* Only the members call. */
static void create_group(void)
{
    MPI_Comm c;
    int r = -1;
    MPI_Group g = evens_reversed(&r);

    if (mt_rank % 2 == 0) {
        OK(MPI_Comm_create_group(mt_comm, g, 17, &c));
        check_works(c, r, (mt_size + 1) / 2);
        OK(MPI_Comm_free(&c));
    }
    OK(MPI_Group_free(&g));
}

static void group_of_comm(void)
{
    MPI_Group a, b;
    MPI_Comm c;
    int cmp = -1, n = -1;

    OK(MPI_Comm_dup(mt_comm, &c));
    OK(MPI_Comm_group(mt_comm, &a));
    OK(MPI_Comm_group(c, &b));
    OK(MPI_Comm_free(&c));
    OK(MPI_Group_compare(a, b, &cmp)); /* the group outlives its communicator */
    CHECK_EQ(cmp, MPI_IDENT);
    OK(MPI_Group_size(b, &n));
    CHECK_EQ(n, mt_size);
    OK(MPI_Group_free(&a));
    OK(MPI_Group_free(&b));
    CHECK(b == MPI_GROUP_NULL);
}

static void names(void)
{
    char name[MPI_MAX_OBJECT_NAME], longest[MPI_MAX_OBJECT_NAME];
    MPI_Comm c;
    int len = -1;

    OK(MPI_Comm_get_name(MPI_COMM_WORLD, name, &len));
    CHECK_STR(name, "MPI_COMM_WORLD");
    OK(MPI_Comm_get_name(MPI_COMM_SELF, name, &len));
    CHECK_STR(name, "MPI_COMM_SELF");
    OK(MPI_Comm_dup(mt_comm, &c));
    OK(MPI_Comm_get_name(c, name, &len));
    CHECK_STR(name, "");
    CHECK_EQ(len, 0);
    OK(MPI_Comm_set_name(c, "shuttle"));
    OK(MPI_Comm_get_name(c, name, &len));
    CHECK_STR(name, "shuttle");
    CHECK_EQ(len, 7);
    memset(longest, 'w', sizeof(longest));
    longest[MPI_MAX_OBJECT_NAME - 1] = '\0';
    OK(MPI_Comm_set_name(c, longest));
    OK(MPI_Comm_get_name(c, name, &len));
    CHECK_STR(name, longest);
    OK(MPI_Comm_free(&c));
}

static void dup_does_not_copy_the_name(void)
{
    char name[MPI_MAX_OBJECT_NAME];
    MPI_Comm c, d;
    int len;

    OK(MPI_Comm_dup(mt_comm, &c));
    OK(MPI_Comm_set_name(c, "warp"));
    OK(MPI_Comm_dup(c, &d));
    OK(MPI_Comm_get_name(d, name, &len));
    CHECK_STR(name, "");
    OK(MPI_Comm_free(&c));
    OK(MPI_Comm_free(&d));
}

static void idup(void)
{
    MPI_Comm c;
    MPI_Request r;
    int i, sum;

    for (i = 0; i < 50; i++) {
        OK(MPI_Comm_idup(mt_comm, &c, &r));
        OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
        check_works(c, mt_rank, mt_size);
        sum = -1;
        OK(MPI_Allreduce(&mt_rank, &sum, 1, MPI_INT, MPI_SUM, c));
        CHECK_EQ(sum, mt_size * (mt_size - 1) / 2);
        OK(MPI_Comm_free(&c));
    }
}

/* A blocking creation while an idup is under way on some ranks and over on others. */
static void idup_around_dup(void)
{
    MPI_Comm c, d;
    MPI_Request r;
    int i;

    for (i = 0; i < 20; i++) {
        OK(MPI_Comm_idup(mt_comm, &c, &r));
        if ((mt_rank + i) % 2)
            OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
        OK(MPI_Comm_dup(mt_comm, &d));
        OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
        check_works(c, mt_rank, mt_size);
        check_works(d, mt_rank, mt_size);
        OK(MPI_Comm_free(&c));
        OK(MPI_Comm_free(&d));
    }
}

/* Communicators of one process need no agreement, but wait for those under way beside them. */
static void alone_beside_idup(void)
{
    MPI_Comm c, d, e, f;
    MPI_Request r, s;
    int i;

    for (i = 0; i < 20; i++) {
        OK(MPI_Comm_idup(mt_comm, &c, &r));
        OK(MPI_Comm_dup(MPI_COMM_SELF, &d));
        OK(MPI_Comm_idup(MPI_COMM_SELF, &e, &s));
        OK(MPI_Comm_dup(MPI_COMM_SELF, &f));
        OK(MPI_Wait(&s, MPI_STATUS_IGNORE));
        OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
        check_works(c, mt_rank, mt_size);
        check_works(d, 0, 1);
        check_works(e, 0, 1);
        check_works(f, 0, 1);
        OK(MPI_Comm_free(&c));
        OK(MPI_Comm_free(&d));
        OK(MPI_Comm_free(&e));
        OK(MPI_Comm_free(&f));
    }
}

/* No tag of create_group mixes its messages with those of an idup: the ranks make the two in
 * different orders. */
static void idup_beside_create_group(void)
{
    MPI_Comm c = MPI_COMM_NULL, d = MPI_COMM_NULL;
    MPI_Group g;
    MPI_Request r;
    int i;

    OK(MPI_Comm_group(mt_comm, &g));
    for (i = 0; i < 4; i++) { /* tags from the middle of Weft's own range on */
        if (mt_rank == 0)
            OK(MPI_Comm_idup(mt_comm, &c, &r));
        OK(MPI_Comm_create_group(mt_comm, g, 0x7ffffff + i, &d));
        if (mt_rank != 0)
            OK(MPI_Comm_idup(mt_comm, &c, &r));
        OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
        check_works(c, mt_rank, mt_size);
        check_works(d, mt_rank, mt_size);
        OK(MPI_Comm_free(&c));
        OK(MPI_Comm_free(&d));
    }
    OK(MPI_Group_free(&g));
}

/* Far more in sequence than there are identifiers alive, and many alive at once. */
static void thousand_in_sequence(void)
{
    MPI_Comm c;
    int i;

    for (i = 0; i < 1000; i++) {
        OK(MPI_Comm_dup(mt_comm, &c));
        if (i % 250 == 0)
            check_works(c, mt_rank, mt_size);
        OK(MPI_Comm_free(&c));
    }
}

static void hundreds_at_once(void)
{
    static MPI_Comm c[300];
    int i, out, in;

    for (i = 0; i < 300; i++)
        OK(i % 3 ? MPI_Comm_dup(mt_comm, &c[i]) : MPI_Comm_split(mt_comm, 0, -mt_rank, &c[i]));
    for (i = 0; i < 300; i++)
        check_works(c[i], i % 3 ? mt_rank : mt_size - 1 - mt_rank, mt_size);
    for (i = 0; i < 300; i += 2) /* leave holes, so that identifiers are found again */
        OK(MPI_Comm_free(&c[i]));
    for (i = 0; i < 300; i += 2)
        OK(MPI_Comm_dup(mt_comm, &c[i]));
    for (i = 0; i < 300; i++) {
        out = i;
        in = -1;
        OK(MPI_Sendrecv(&out, 1, MPI_INT, 0, TAG, &in, mt_rank == 0, MPI_INT,
                        mt_rank == 0 ? 0 : MPI_PROC_NULL, TAG, mt_comm, MPI_STATUS_IGNORE));
        if (mt_rank == 0 && mt_size == 1)
            CHECK_EQ(in, i);
        for (out = 1; mt_rank == 0 && out < mt_size; out++)
            OK(MPI_Recv(&in, 1, MPI_INT, out, TAG, mt_comm, MPI_STATUS_IGNORE));
        OK(MPI_Comm_free(&c[i]));
    }
}

/* Freed while a send and a receive are pending: both still finish. */
static void freed_while_pending(void)
{
    enum { BIG = 200000 };
    static unsigned char out[BIG], in[BIG];
    int right = (mt_rank + 1) % mt_size, left = (mt_rank + mt_size - 1) % mt_size;
    MPI_Request r[4];
    MPI_Comm c;
    int small = 0, x = mt_rank;

    OK(MPI_Comm_dup(mt_comm, &c));
    mt_fill(out, BIG, (unsigned)mt_rank);
    OK(MPI_Irecv(in, BIG, MPI_BYTE, left, 1, c, &r[0]));
    OK(MPI_Irecv(&small, 1, MPI_INT, MPI_ANY_SOURCE, 2, c, &r[1]));
    OK(MPI_Isend(out, BIG, MPI_BYTE, right, 1, c, &r[2]));
    OK(MPI_Isend(&x, 1, MPI_INT, right, 2, c, &r[3]));
    OK(MPI_Comm_free(&c));
    CHECK(c == MPI_COMM_NULL);
    OK(MPI_Waitall(4, r, MPI_STATUSES_IGNORE));
    CHECK_DATA(in, BIG, (unsigned)left);
    CHECK_EQ(small, left);
}

static void bad_handles(void)
{
    MPI_Comm c;

    FAILS(MPI_Comm_dup(MPI_COMM_NULL, &c), MPI_ERR_COMM);
    c = MPI_COMM_NULL;
    FAILS(MPI_Comm_free(&c), MPI_ERR_COMM);
    FAILS(MPI_Comm_split(mt_comm, -5, 0, &c), MPI_ERR_ARG);
}

/* What one rank does wrong is an error on all, and no rank waits. */
static void wrong_on_one(void)
{
    MPI_Comm c = MPI_COMM_NULL;
    MPI_Group all, g, other;
    int zero = 0, last = mt_size - 1;

    FAILS(MPI_Comm_split(mt_comm, mt_rank == last ? -5 : 0, 0, &c), MPI_ERR_ARG);
    FAILS(MPI_Comm_split_type(mt_comm, mt_rank == last ? 4711 : MPI_COMM_TYPE_SHARED, 0,
                              MPI_INFO_NULL, &c),
          MPI_ERR_ARG);
    OK(MPI_Comm_group(mt_comm, &all));
    OK(MPI_Group_incl(all, 1, &zero, &g));
    OK(MPI_Group_incl(all, 1, &last, &other));
    FAILS(MPI_Comm_split_type(mt_comm, mt_rank == 0 && mt_size > 1 ? MPI_UNDEFINED : 4711, 0,
                              MPI_INFO_NULL, &c),
          MPI_ERR_ARG);
    if (mt_size > 1) {
        FAILS(MPI_Comm_split_type(mt_comm,
                                  mt_rank ? MPI_COMM_TYPE_SHARED : MPI_COMM_TYPE_HW_UNGUIDED, 0,
                                  MPI_INFO_NULL, &c),
              MPI_ERR_ARG);
        FAILS(MPI_Comm_create(mt_comm, mt_rank ? all : g, &c), MPI_ERR_GROUP);
        FAILS(MPI_Comm_create(mt_comm, mt_rank ? MPI_GROUP_EMPTY : all, &c), MPI_ERR_GROUP);
        FAILS(MPI_Comm_create(MPI_COMM_SELF, mt_rank ? g : other, &c), MPI_ERR_GROUP);
    }
    CHECK(c == MPI_COMM_NULL);
    /* Different groups that fit together are right. */
    OK(MPI_Comm_create(mt_comm, mt_rank == 0 ? g : mt_rank == last ? other : MPI_GROUP_EMPTY, &c));
    if (mt_rank == 0 || mt_rank == last) {
        check_works(c, 0, 1);
        OK(MPI_Comm_free(&c));
    }
    CHECK(c == MPI_COMM_NULL);
    OK(MPI_Group_free(&all));
    OK(MPI_Group_free(&g));
    OK(MPI_Group_free(&other));
}

/* MPI_Comm_disconnect waits only for communication that is in progress. */
static void disconnect_with_requests(void)
{
    MPI_Request q[5];
    MPI_Comm c;
    int x = mt_rank, y = -1, z = mt_rank, w = mt_rank, next = (mt_rank + 1) % mt_size;
    OK(MPI_Comm_dup(mt_comm, &c));
    OK(MPI_Send_init(&x, 1, MPI_INT, next, 7, c, &q[0]));
    OK(MPI_Bcast_init(&w, 1, MPI_INT, 0, c, MPI_INFO_NULL, &q[1]));
    OK(MPI_Irecv(&y, 1, MPI_INT, MPI_ANY_SOURCE, 8, c, &q[2]));
    OK(MPI_Isend(&x, 1, MPI_INT, next, 8, c, &q[3]));
    OK(MPI_Ibcast(&z, 1, MPI_INT, 0, c, &q[4]));
    OK(MPI_Comm_disconnect(&c));
    CHECK_EQ(y, (mt_rank + mt_size - 1) % mt_size);
    CHECK_EQ(z, 0);
    OK(MPI_Waitall(3, q + 2, MPI_STATUSES_IGNORE));
    OK(MPI_Request_free(&q[0]));
    OK(MPI_Request_free(&q[1]));
}

/* The first rank frees a communicator that the last ranks have yet to set up; its memory is used
 * again. */
static void freed_at_once(void)
{
    enum { BLOCKS = 8, LEN = 1 << 16 };
    for (int times = 0; times < 100; times++) {
        MPI_Comm c;
        OK(MPI_Comm_dup(mt_comm, &c));
        OK(MPI_Comm_free(&c));
        unsigned char *b[BLOCKS];
        for (int i = 0; mt_rank == 0 && i < BLOCKS; i++) {
            OK(MPI_Alloc_mem(LEN, MPI_INFO_NULL, &b[i]));
            memset(b[i], 0x77, LEN);
        }
        OK(MPI_Barrier(mt_comm));
        for (int i = 0; mt_rank == 0 && i < BLOCKS; i++) {
            int touched = 0;
            for (int k = 0; k < LEN; k++)
                touched += b[i][k] != 0x77;
            CHECK_EQ(touched, 0);
            OK(MPI_Free_mem(b[i]));
        }
    }
}

int main(int argc, char **argv)
{
    mt_init(argc, argv);
    MT_RUN(dup_is_congruent);
    MT_RUN(split_halves);
    MT_RUN(split_reverse);
    MT_RUN(split_equal_keys);
    MT_RUN(split_undefined);
    MT_RUN(split_each_alone);
    MT_RUN(split_nested);
    MT_RUN(split_type_shared);
    MT_RUN(create);
    MT_RUN(create_group);
    MT_RUN(group_of_comm);
    MT_RUN(names);
    MT_RUN(dup_does_not_copy_the_name);
    MT_RUN(idup);
    MT_RUN(idup_around_dup);
    MT_RUN(alone_beside_idup);
    MT_RUN(idup_beside_create_group);
    MT_RUN(thousand_in_sequence);
    MT_RUN(hundreds_at_once);
    MT_RUN(freed_while_pending);
    MT_RUN(bad_handles);
    MT_RUN(wrong_on_one);
    MT_RUN(disconnect_with_requests);
    MT_RUN(freed_at_once);
    return mt_end();
}
