/* SPDX-License-Identifier: BSD-3-Clause */
/* Making and using intercommunicators (MPI-5.0 section 7.6): create, merge, dup, split, compare,
 * point-to-point messages over them, and wrong calls, which end with an error on all ranks. */
#include "test/mpi/hosts.h"
#include "test/mpi/inter.h"

enum { TAG = 9, BIG = 300000 };

/* One message from every process to every one of the other group, received by any source. */
static void check_works(MPI_Comm c, int n, int m)
{
    int r = -1, size = -1, flag = 0, out, in, i, got = 0, seen = 0;
    MPI_Request rq[64];
    MPI_Status st;

    OK(MPI_Comm_test_inter(c, &flag));
    CHECK(flag);
    OK(MPI_Comm_rank(c, &r));
    OK(MPI_Comm_size(c, &size));
    CHECK_EQ(size, n);
    OK(MPI_Comm_remote_size(c, &size));
    CHECK_EQ(size, m);
    if (size != m || m > 64)
        return;
    out = 100 + r;
    for (i = 0; i < m; i++)
        OK(MPI_Isend(&out, 1, MPI_INT, i, TAG, c, &rq[i]));
    for (i = 0; i < m; i++) {
        OK(MPI_Probe(MPI_ANY_SOURCE, TAG, c, &st));
        got = st.MPI_SOURCE;
        OK(MPI_Recv(&in, 1, MPI_INT, MPI_ANY_SOURCE, TAG, c, &st));
        CHECK_EQ(st.MPI_SOURCE, got);
        CHECK_EQ(in, 100 + st.MPI_SOURCE);
        seen |= 1 << st.MPI_SOURCE;
    }
    CHECK_EQ(seen, (1 << m) - 1);
    OK(MPI_Waitall(m, rq, MPI_STATUSES_IGNORE));
}

static void create_all_cuts(void)
{
    int k, cmp;
    MPI_Group g, far;

    for (k = 1; k < mt_size; k++) {
        struct halves h = inter_halves(k);
        check_works(h.inter, h.n, h.m);
        OK(MPI_Comm_remote_group(h.inter, &far));
        OK(MPI_Comm_group(h.local, &g));
        OK(MPI_Group_compare(g, far, &cmp));
        CHECK_EQ(cmp, MPI_UNEQUAL);
        OK(MPI_Group_rank(far, &cmp));
        CHECK_EQ(cmp, MPI_UNDEFINED);
        OK(MPI_Group_size(far, &cmp));
        CHECK_EQ(cmp, h.m);
        OK(MPI_Group_free(&g));
        OK(MPI_Group_free(&far));
        OK(MPI_Comm_group(h.inter, &g));
        OK(MPI_Group_rank(g, &cmp));
        CHECK_EQ(cmp, h.rank);
        OK(MPI_Group_free(&g));
        inter_done(&h);
    }
}

/* Large, persistent and matched messages between equal ranks of the two groups. */
static void messages(void)
{
    struct halves h = inter_halves(mt_size / 2);
    unsigned char *out = mt_alloc(BIG), *in = mt_alloc(BIG);
    int peer = h.rank < h.m ? h.rank : MPI_PROC_NULL, me = mt_rank, x = -1, i;
    MPI_Request r[2];
    MPI_Message msg;
    MPI_Status st;

    mt_fill(out, BIG, (unsigned)mt_rank);
    OK(MPI_Sendrecv(out, BIG, MPI_BYTE, peer, 3, in, BIG, MPI_BYTE, peer, 3, h.inter, &st));
    if (peer != MPI_PROC_NULL) {
        CHECK_DATA(in, BIG, (unsigned)(h.far_first + peer));
        CHECK_EQ(st.MPI_SOURCE, peer);
    }
    OK(MPI_Send_init(&me, 1, MPI_INT, peer, 4, h.inter, &r[0]));
    OK(MPI_Recv_init(&x, 1, MPI_INT, peer, 4, h.inter, &r[1]));
    for (i = 0; i < 3; i++) {
        x = -1;
        OK(MPI_Startall(2, r));
        OK(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
        CHECK_EQ(x, peer == MPI_PROC_NULL ? -1 : h.far_first + peer);
    }
    OK(MPI_Request_free(&r[0]));
    OK(MPI_Request_free(&r[1]));
    if (peer != MPI_PROC_NULL) {
        OK(MPI_Issend(&me, 1, MPI_INT, peer, 5, h.inter, &r[0]));
        OK(MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, h.inter, &msg, &st));
        OK(MPI_Mrecv(&x, 1, MPI_INT, &msg, &st));
        CHECK_EQ(x, h.far_first + peer);
        OK(MPI_Wait(&r[0], MPI_STATUS_IGNORE));
    }
    FAILS(MPI_Send(&me, 1, MPI_INT, h.m, 5, h.inter), MPI_ERR_RANK);
    free(out);
    free(in);
    inter_done(&h);
}

/* A communicator over all ranks, in which this rank is `want_rank`. */
static void check_merged(MPI_Comm c, int want_rank)
{
    int r = -1, n = -1, flag = 1, out, in = -1, zero;

    OK(MPI_Comm_test_inter(c, &flag));
    CHECK(!flag);
    OK(MPI_Comm_rank(c, &r));
    OK(MPI_Comm_size(c, &n));
    CHECK_EQ(n, mt_size);
    CHECK_EQ(r, want_rank);
    out = zero = mt_rank;
    OK(MPI_Sendrecv(&out, 1, MPI_INT, (r + 1) % n, TAG, &in, 1, MPI_INT, (r + n - 1) % n, TAG, c,
                    MPI_STATUS_IGNORE));
    OK(MPI_Bcast(&zero, 1, MPI_INT, 0, c));
    OK(MPI_Allreduce(&out, &in, 1, MPI_INT, MPI_SUM, c));
    CHECK_EQ(in, mt_size * (mt_size - 1) / 2);
}

static void merge(void)
{
    int k, v;
    MPI_Comm c;

    for (k = 1; k<mt_size; k += mt_size> 3 ? 2 : 1) {
        struct halves h = inter_halves(k);
        for (v = 0; v < 4; v++) {
            int high = h.left ? v & 1 : v >> 1;
            int rank = (v == 1) ? (h.left ? h.m + h.rank : h.rank)
                                : (h.left ? h.rank : h.m + h.rank);
            OK(MPI_Intercomm_merge(h.inter, high * 5, &c));
            check_merged(c, rank); /* equal ones: the group of the lower process first */
            OK(MPI_Comm_free(&c));
        }
        inter_done(&h);
    }
}

static void merge_unlike(void)
{
    struct halves h = inter_halves(1);
    MPI_Comm c = MPI_COMM_NULL;

    if (mt_size > 2)
        FAILS(MPI_Intercomm_merge(h.inter, !h.left && h.rank == 1, &c), MPI_ERR_ARG);
    FAILS(MPI_Intercomm_merge(h.local, 0, &c), MPI_ERR_COMM);
    CHECK(c == MPI_COMM_NULL);
    check_works(h.inter, h.n, h.m);
    inter_done(&h);
}

static int copies;
static int count_copy(MPI_Comm c, int key, void *extra, void *in, void *out, int *flag)
{
    (void)c;
    (void)key;
    (void)extra;
    copies++;
    *(void **)out = in;
    *flag = 1;
    return MPI_SUCCESS;
}

static void duplicates(void)
{
    struct halves h = inter_halves((mt_size + 1) / 2);
    int key, x, cmp = -1, flag = 0, *got = NULL;
    MPI_Comm c, d, e;
    MPI_Info info;
    MPI_Request r;

    copies = 0;
    OK(MPI_Comm_create_keyval(count_copy, MPI_COMM_NULL_DELETE_FN, &key, NULL));
    OK(MPI_Comm_set_attr(h.inter, key, &x));
    OK(MPI_Comm_dup(h.inter, &c));
    OK(MPI_Comm_get_attr(c, key, &got, &flag));
    CHECK(flag && got == &x);
    OK(MPI_Info_create(&info));
    OK(MPI_Comm_dup_with_info(h.inter, info, &d));
    OK(MPI_Comm_idup(h.inter, &e, &r));
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    CHECK_EQ(copies, 3);
    OK(MPI_Comm_compare(h.inter, c, &cmp));
    CHECK_EQ(cmp, MPI_CONGRUENT);
    OK(MPI_Comm_compare(h.inter, h.inter, &cmp));
    CHECK_EQ(cmp, MPI_IDENT);
    OK(MPI_Comm_compare(h.inter, h.local, &cmp));
    CHECK_EQ(cmp, MPI_UNEQUAL);
    check_works(c, h.n, h.m);
    check_works(d, h.n, h.m);
    check_works(e, h.n, h.m);
    OK(MPI_Barrier(e));
    OK(MPI_Info_free(&info));
    OK(MPI_Comm_free(&c));
    OK(MPI_Comm_disconnect(&d));
    CHECK(d == MPI_COMM_NULL);
    OK(MPI_Comm_free(&e));
    OK(MPI_Comm_free_keyval(&key));
    inter_done(&h);
}

/* Several duplications under way at once, of both kinds of communicators. */
static void idups(void)
{
    struct halves h = inter_halves((mt_size + 1) / 2);
    MPI_Comm c[6];
    MPI_Request r[6];
    int i;

    for (i = 0; i < 6; i++)
        OK(MPI_Comm_idup(i % 3 ? h.inter : h.local, &c[i], &r[i]));
    OK(MPI_Waitall(6, r, MPI_STATUSES_IGNORE));
    for (i = 0; i < 6; i++) {
        if (i % 3)
            check_works(c[i], h.n, h.m);
        OK(MPI_Barrier(c[i]));
        OK(MPI_Comm_free(&c[i]));
    }
    inter_done(&h);
}

static void compare_order(void)
{
    struct halves h = inter_halves((mt_size + 1) / 2);
    int cmp = -1;
    MPI_Comm c;

    OK(MPI_Comm_split(h.inter, 0, -h.rank, &c));
    OK(MPI_Comm_compare(h.inter, c, &cmp));
    CHECK_EQ(cmp, mt_size == 2 ? MPI_CONGRUENT : MPI_SIMILAR);
    check_works(c, h.n, h.m);
    OK(MPI_Comm_free(&c));
    inter_done(&h);
}

/* Even and odd local ranks; with one process on a side, color 1 has no process there. */
static void split(void)
{
    int k, color, host[HOST_RANKS_MAX], left, right;
    MPI_Comm c;

    host_of_all(mt_comm, host);
    for (k = 1; k < mt_size; k++) {
        struct halves h = inter_halves(k);
        color = h.rank % 2;
        OK(MPI_Comm_split(h.inter, color, 0, &c));
        CHECK((c != MPI_COMM_NULL) == (h.m > color));
        if (c != MPI_COMM_NULL) {
            check_works(c, (h.n + 1 - color) / 2, (h.m + 1 - color) / 2);
            OK(MPI_Comm_free(&c));
        }
        OK(MPI_Comm_split(h.inter, h.rank ? MPI_UNDEFINED : 3, 0, &c));
        CHECK((c != MPI_COMM_NULL) == (h.rank == 0));
        if (c != MPI_COMM_NULL) {
            check_works(c, 1, 1);
            OK(MPI_Comm_free(&c));
        }
        OK(MPI_Comm_split(h.inter, h.left, 0, &c));
        CHECK(c == MPI_COMM_NULL);
        OK(MPI_Comm_split_type(h.inter, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &c));
        left = host_count(host, mt_rank, 0, k - 1);
        right = host_count(host, mt_rank, k, mt_size - 1);
        CHECK((c != MPI_COMM_NULL) == (left && right));
        if (c != MPI_COMM_NULL) {
            check_works(c, h.left ? left : right, h.left ? right : left);
            OK(MPI_Comm_free(&c));
        }
        FAILS(MPI_Comm_split(h.inter, mt_rank == 0 ? -7 : 0, 0, &c), MPI_ERR_ARG);
        inter_done(&h);
    }
}

/* The local group's ranks in reverse, without its last one when it has several. */
static void create(void)
{
    int k, i, n, ranks[64];
    MPI_Comm c;
    MPI_Group all, g;

    for (k = 1; k < mt_size; k++) {
        struct halves h = inter_halves(k);
        OK(MPI_Comm_group(h.inter, &all));
        n = h.n > 1 ? h.n - 1 : 1;
        for (i = 0; i < n; i++)
            ranks[i] = n - 1 - i;
        OK(MPI_Group_incl(all, n, ranks, &g));
        OK(MPI_Comm_create(h.inter, g, &c));
        CHECK((c != MPI_COMM_NULL) == (h.rank < n));
        if (c != MPI_COMM_NULL) {
            OK(MPI_Comm_rank(c, &i));
            CHECK_EQ(i, n - 1 - h.rank);
            check_works(c, n, h.m > 1 ? h.m - 1 : 1);
            OK(MPI_Comm_free(&c));
        }
        OK(MPI_Comm_create(h.inter, h.left ? MPI_GROUP_EMPTY : g, &c));
        CHECK(c == MPI_COMM_NULL);
        if (mt_size > 2) /* the members of a group do not agree on it */
            FAILS(MPI_Comm_create(h.inter, h.rank ? MPI_GROUP_EMPTY : g, &c), MPI_ERR_GROUP);
        FAILS(MPI_Comm_create_group(h.inter, g, 1, &c), MPI_ERR_COMM);
        OK(MPI_Group_free(&g));
        OK(MPI_Comm_remote_group(h.inter, &g));
        FAILS(MPI_Comm_create(h.inter, g, &c), MPI_ERR_GROUP);
        OK(MPI_Group_free(&g));
        OK(MPI_Group_free(&all));
        inter_done(&h);
    }
}

/* Only the leaders can detect the error; all processes report it. */
static void wrong_create(void)
{
    MPI_Comm c = MPI_COMM_NULL, local;
    struct halves h = inter_halves(1);

    FAILS(MPI_Intercomm_create(mt_comm, 0, mt_comm, 0, 1, &c), MPI_ERR_COMM);
    OK(MPI_Comm_split(mt_comm, mt_rank % 2, 0, &local));
    FAILS(MPI_Intercomm_create(local, 0, MPI_COMM_NULL, 0, 1, &c), MPI_ERR_COMM);
    FAILS(MPI_Intercomm_create(local, 0, mt_comm, mt_size, 1, &c), MPI_ERR_RANK);
    FAILS(MPI_Intercomm_create(local, 0, mt_comm, MPI_PROC_NULL, 1, &c), MPI_ERR_RANK);
    FAILS(MPI_Intercomm_create(local, mt_size, mt_comm, 0, 1, &c), MPI_ERR_RANK);
    FAILS(MPI_Intercomm_create(local, 0, mt_comm, 0, -1, &c), MPI_ERR_TAG);
    FAILS(MPI_Intercomm_create(h.inter, 0, mt_comm, 0, 1, &c), MPI_ERR_COMM);
    CHECK(c == MPI_COMM_NULL);
    /* and the communicators still work; the peer communicator is only the leaders' */
    OK(MPI_Intercomm_create(local, 0, mt_rank < 2 ? mt_comm : MPI_COMM_NULL, 1 - mt_rank % 2,
                            0x7fffffff, &c));
    check_works(c, (mt_size + 1 - mt_rank % 2) / 2, (mt_size + mt_rank % 2) / 2);
    OK(MPI_Comm_free(&c));
    OK(MPI_Comm_free(&local));
    inter_done(&h);
}

/* User messages of the same tag on the peer communicator are not mixed with internal ones, not even
 * by wildcard receives. */
static void peer_traffic(void)
{
    int x = -1, me = mt_rank;
    MPI_Request r, s;
    struct halves h;

    OK(MPI_Irecv(&x, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, mt_comm, &r));
    mt_sync();
    h = inter_halves(1);
    OK(MPI_Isend(&me, 1, MPI_INT, (mt_rank + 1) % mt_size, 12, mt_comm, &s));
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&s, MPI_STATUS_IGNORE));
    CHECK_EQ(x, (mt_rank + mt_size - 1) % mt_size);
    check_works(h.inter, h.n, h.m);
    inter_done(&h);
}

static void freed_while_pending(void)
{
    struct halves h = inter_halves(1);
    unsigned char *out = mt_alloc(BIG), *in = mt_alloc(BIG);
    MPI_Request r[2] = { MPI_REQUEST_NULL, MPI_REQUEST_NULL };

    if (h.rank == 0) {
        mt_fill(out, BIG, (unsigned)mt_rank);
        OK(MPI_Irecv(in, BIG, MPI_BYTE, 0, TAG, h.inter, &r[0]));
        OK(MPI_Isend(out, BIG, MPI_BYTE, 0, TAG, h.inter, &r[1]));
    }
    inter_done(&h);
    OK(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
    if (h.rank == 0)
        CHECK_DATA(in, BIG, (unsigned)h.far_first);
    free(out);
    free(in);
}

static void many(void)
{
    int i;
    MPI_Comm c[40];

    struct halves h = inter_halves(mt_size / 2);
    for (i = 0; i < 40; i++)
        OK(i % 4 ? MPI_Comm_dup(i % 4 == 1 ? h.inter : c[i - 1], &c[i])
                 : MPI_Intercomm_merge(h.inter, h.left, &c[i]));
    for (i = 0; i < 40; i++) {
        if (i % 4)
            check_works(c[i], h.n, h.m);
        OK(MPI_Comm_free(&c[i]));
    }
    inter_done(&h);
    for (i = 0; i < 100; i++) {
        h = inter_halves(1 + i % (mt_size - 1));
        inter_done(&h);
    }
}

/* Leaders that meet over a communicator whose partitions are being received. */
static void beside_partitions(void)
{
    int data[40];
    MPI_Request q;
    MPI_Comm inter;
    if (mt_size < 2 || mt_rank > 1) {
        mt_skipped = mt_size < 2 ? "needs two ranks" : NULL;
        return;
    }
    for (int i = 0; i < 40; i++)
        data[i] = mt_rank == 0 ? i : -1;
    if (mt_rank == 0)
        OK(MPI_Psend_init(data, 4, 10, MPI_INT, 1, 5, mt_comm, MPI_INFO_NULL, &q));
    else
        OK(MPI_Precv_init(data, 4, 10, MPI_INT, 0, 5, mt_comm, MPI_INFO_NULL, &q));
    OK(MPI_Start(&q));
    OK(MPI_Sendrecv(NULL, 0, MPI_INT, mt_peer, 1, NULL, 0, MPI_INT, mt_peer, 1, mt_comm,
                    MPI_STATUS_IGNORE)); /* the receiver knows of the sender's partitions */
    for (int tag = 0; tag < 8; tag++) {
        OK(MPI_Intercomm_create(MPI_COMM_SELF, 0, mt_comm, mt_peer, tag, &inter));
        OK(MPI_Comm_free(&inter));
    }
    if (mt_rank == 0)
        OK(MPI_Pready_range(0, 3, q));
    OK(MPI_Wait(&q, MPI_STATUS_IGNORE));
    for (int i = 0; i < 40; i++)
        CHECK_EQ(data[i], i);
    OK(MPI_Request_free(&q));
}

int main(int argc, char **argv)
{
    mt_init(argc, argv);
    MT_RUN(create_all_cuts);
    MT_RUN(messages);
    MT_RUN(merge);
    MT_RUN(merge_unlike);
    MT_RUN(duplicates);
    MT_RUN(idups);
    MT_RUN(compare_order);
    MT_RUN(split);
    MT_RUN(create);
    MT_RUN(wrong_create);
    MT_RUN(peer_traffic);
    MT_RUN(freed_while_pending);
    MT_RUN(many);
    MT_RUN(beside_partitions);
    return mt_end();
}
