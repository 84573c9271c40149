/* SPDX-License-Identifier: BSD-3-Clause */
/* Message calls beyond plain sends and receives, with data that have gaps: partitioned, sendrecv,
 * buffered, persistent, probed, too long, too short, between two groups.  Each is made with host
 * buffers and with buffers of some kinds of memory; every byte of the results must be the same.
 * Each rank sends to its right neighbour. */
#include <dlfcn.h>
#include "test/gpu/exchange.h"

enum { TAG = 5, SMALL = 30, LARGE = 30 * 300 };
static const enum gt_kind ends[][2] = { { GT_CUDA, GT_CUDA },
                                        { GT_POOL, GT_VMM },
                                        { GT_MANAGED, GT_POOL_OWN },
                                        { GT_CUDA, GT_HOST },
                                        { GT_HOST, GT_CUDA } };
enum { NENDS = sizeof ends / sizeof *ends };

static int dev;
static MPI_Datatype two_of_four, one_of_three; /* ints */

static int right(void) { return (mt_rank + 1) % mt_size; }
static int left(void) { return (mt_rank + mt_size - 1) % mt_size; }

static MPI_Datatype gaps(int data, int extent)
{
    MPI_Datatype plain, t;
    OK(MPI_Type_contiguous(data, MPI_INT, &plain));
    OK(MPI_Type_create_resized(plain, 0, extent * (MPI_Aint)sizeof(int), &t));
    OK(MPI_Type_commit(&t));
    OK(MPI_Type_free(&plain));
    return t;
}

/* ---- a buffer, and its twin in host memory ---- */

struct twin {
    unsigned char *host, *dev;
    size_t n;
};

static struct twin make(enum gt_kind kind, size_t n, unsigned odd)
{
    struct twin t = { malloc(n), gt_alloc(kind, dev, n, odd), n };
    if (!t.host)
        abort();
    return t;
}

static void fill(const struct twin *t, uint64_t key)
{
    gt_fill(t->host, t->n, key);
    gt_fill(t->dev, t->n, key);
}

static void alike(const struct twin *t, const char *what, enum gt_kind kind)
{
    unsigned char *seen = malloc(t->n);
    size_t at = 0;
    if (!seen)
        abort();
    gt_read(seen, t->dev, t->n);
    while (at < t->n && seen[at] == t->host[at])
        at++;
    CHECK_MSG(at == t->n, "rank %d, %s, %s memory: byte %zu of %zu is %02x, not %02x", mt_rank,
              what, gt_kind_names[kind], at, t->n, seen[at % t->n], t->host[at % t->n]);
    CHECK(gt_guards_intact(t->dev));
    free(seen);
}

static void drop(struct twin *t)
{
    free(t->host);
    gt_free(t->dev);
}

/* Makes `call` with host buffers and with others.  The sent buffer holds n elements of two_of_four,
 * the received one 2n of one_of_three; each buffer has room for one more element. */
typedef void call_fn(void *out, void *in, int n);
static void one(call_fn *call, const char *what, const enum gt_kind *kinds, int n)
{
    struct twin out = make(kinds[0], (size_t)(n + 1) * 16, 4),
                in = make(kinds[1], (size_t)(2 * n + 1) * 12, 8);
    fill(&out, (uint64_t)mt_rank);
    fill(&in, (uint64_t)(90 + mt_rank));
    call(out.host, in.host, n);
    call(out.dev, in.dev, n);
    alike(&in, what, kinds[1]);
    alike(&out, what, kinds[0]);
    drop(&out);
    drop(&in);
}

static void every(call_fn *call, const char *what)
{
    for (int e = 0; e < NENDS; e++) {
        one(call, what, ends[e], SMALL);
        one(call, what, ends[e], LARGE);
    }
}

/* ---- partitioned ---- */

static int nsend, nrecv; /* divisors of SMALL */

static void ready(MPI_Request s, int round)
{
    int list[SMALL];
    for (int i = 0; i < nsend; i++)
        list[i] = nsend - 1 - i;
    if (round == 0)
        OK(MPI_Pready_range(0, nsend - 1, s));
    else if (round == 1)
        OK(MPI_Pready_list(nsend, list, s));
    else
        for (int i = 0; i < nsend; i++)
            OK(MPI_Pready((i + 1) % nsend, s));
}

static void in_parts(void *out, void *in, int n)
{
    MPI_Request s, r;
    MPI_Status st;
    int count, flag;
    OK(MPI_Psend_init(out, nsend, n / nsend, two_of_four, right(), TAG, mt_comm, MPI_INFO_NULL,
                      &s));
    OK(MPI_Precv_init(in, nrecv, 2 * n / nrecv, one_of_three, left(), TAG, mt_comm, MPI_INFO_NULL,
                      &r));
    for (int round = 0; round < 3; round++) {
        if (round)
            OK(MPI_Start(&r));
        OK(MPI_Start(&s));
        ready(s, round);
        if (!round)
            OK(MPI_Start(&r));
        for (int i = nrecv - 1; i >= 0 && round == 2; i--)
            for (flag = 0; !flag;)
                OK(MPI_Parrived(r, i, &flag));
        OK(MPI_Wait(&r, &st));
        OK(MPI_Wait(&s, MPI_STATUS_IGNORE));
        OK(MPI_Get_count(&st, one_of_three, &count));
        CHECK_EQ(count, 2 * n);
    }
    OK(MPI_Request_free(&s));
    OK(MPI_Request_free(&r));
}

static void partitioned(void)
{
    static const int cuts[NENDS][2] = { { 6, 10 }, { 10, 6 }, { 1, 15 }, { 5, 1 }, { 30, 2 } };
    for (int i = 0; i < NENDS; i++) {
        nsend = cuts[i][0];
        nrecv = cuts[i][1];
        one(in_parts, "partitioned", ends[i], SMALL);
        one(in_parts, "partitioned", ends[(i + 1) % NENDS], LARGE);
    }
}

/* ---- sendrecv ---- */

static void by_isendrecv(void *out, void *in, int n)
{
    MPI_Request r;
    OK(MPI_Isendrecv(out, n, two_of_four, right(), TAG, in, 2 * n, one_of_three, left(), TAG,
                     mt_comm, &r));
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
}

static void by_replace(void *out, void *in, int n)
{
    MPI_Request r;
    MPI_Status st;
    int count;
    OK(MPI_Sendrecv_replace(out, n, two_of_four, right(), TAG, left(), TAG, mt_comm, &st));
    OK(MPI_Get_count(&st, two_of_four, &count));
    CHECK_EQ(count, n);
    OK(MPI_Isendrecv_replace(in, n, one_of_three, left(), TAG, right(), TAG, mt_comm, &r));
    OK(MPI_Wait(&r, &st));
    OK(MPI_Get_count(&st, one_of_three, &count));
    CHECK_EQ(count, n);
}

static void exchanging(void)
{
    every(by_isendrecv, "isendrecv");
    every(by_replace, "sendrecv_replace");
}

static unsigned long long staged(void)
{
    static MPI_T_pvar_session session;
    static MPI_T_pvar_handle h;
    unsigned long long v = 0;
    int provided, index, n;
    if (!session) {
        OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
        OK(MPI_T_pvar_session_create(&session));
        OK(MPI_T_pvar_get_index("p2p_device_staged_bytes", MPI_T_PVAR_CLASS_AGGREGATE, &index));
        OK(MPI_T_pvar_handle_alloc(session, index, NULL, &h, &n));
        OK(MPI_T_pvar_start(session, h));
    }
    OK(MPI_T_pvar_read(session, h, &v));
    return v;
}

/* How often the process has waited for a stream of the fake driver; 0 with a real driver. */
static int nwaits(void)
{
    fake_cuda_nwaits_fn *fn = (fake_cuda_nwaits_fn *)(uintptr_t)dlsym(RTLD_DEFAULT,
                                                                      "fake_cuda_nwaits");
    return fn ? fn() : 0;
}

/* The sent data wait in device memory, not in host memory; no call waits for a stream. */
static void replacing_on_the_device(void)
{
    static const size_t lens[] = { 100, (1u << 20) + 3, (9u << 20) + 1 };
    unsigned long long before = staged();
    int can = 1;
    if (gt_ndevices() > 1)
        CHECK_EQ(cu.device_can_access_peer(&can, 0, 1), 0);
    if (!can) {
        mt_skip("devices do not reach each other");
        return;
    }
    for (int i = 0; i < 3; i++) {
        unsigned char *p = gt_alloc(i ? GT_CUDA : GT_VMM, dev, lens[i], 3);
        gt_fill(p, lens[i], (uint64_t)mt_rank);
        int waits = nwaits();
        OK(MPI_Sendrecv_replace(p, (int)lens[i], MPI_BYTE, right(), TAG, left(), TAG, mt_comm,
                                MPI_STATUS_IGNORE));
        CHECK_EQ(nwaits() - waits, 0);
        GT_CHECK_DATA(p, lens[i], (uint64_t)left());
        CHECK(gt_guards_intact(p));
        gt_free(p);
    }
    CHECK_EQ(staged() - before, 0);
}

/* ---- cancelled ---- */

/* The first message is not received. */
static void cancelled(void)
{
    for (int i = 0; i < NENDS; i++) {
        size_t n = i % 2 ? 100 : 3000001;
        unsigned char *out = gt_alloc(ends[i][0], dev, n, 3), *in = gt_alloc(ends[i][1], dev, n, 1);
        MPI_Request r, s;
        MPI_Status st;
        int flag = 0;
        gt_fill(out, n, (uint64_t)mt_rank);
        OK(MPI_Issend(in, (int)n, MPI_BYTE, right(), TAG, mt_comm, &r));
        OK(MPI_Isend(out, (int)n, MPI_BYTE, right(), TAG, mt_comm, &s));
        OK(MPI_Cancel(&r));
        OK(MPI_Wait(&r, &st));
        OK(MPI_Test_cancelled(&st, &flag));
        CHECK_EQ(flag, 1);
        mt_sync();
        OK(MPI_Recv(in, (int)n, MPI_BYTE, left(), TAG, mt_comm, MPI_STATUS_IGNORE));
        OK(MPI_Wait(&s, MPI_STATUS_IGNORE));
        GT_CHECK_DATA(in, n, (uint64_t)left());
        gt_free(out);
        gt_free(in);
    }
}

/* ---- buffered ---- */

static void by_bsend(void *out, void *in, int n)
{
    MPI_Request r;
    OK(MPI_Bsend(out, n, two_of_four, right(), TAG, mt_comm));
    OK(MPI_Ibsend(out, n, two_of_four, right(), TAG + 1, mt_comm, &r));
    OK(MPI_Recv(in, 2 * n, one_of_three, left(), TAG + 1, mt_comm, MPI_STATUS_IGNORE));
    OK(MPI_Recv(in, 2 * n, one_of_three, left(), TAG, mt_comm, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
}

/* The buffer may be any memory that the CPU can write. */
static void buffered(void)
{
    enum { ROOM = 1 << 20 };
    static const enum gt_kind good[] = { GT_PINNED, GT_MANAGED },
                              bad[] = { GT_CUDA, GT_VMM, GT_POOL, GT_POOL_OWN };
    void *at;
    int n;
    for (int i = 0; i < 4; i++) {
        unsigned char *p = gt_alloc(bad[i], dev, ROOM, 0);
        FAILS(MPI_Buffer_attach(p, ROOM), MPI_ERR_BUFFER);
        FAILS(MPI_Comm_attach_buffer(mt_comm, p, ROOM), MPI_ERR_BUFFER);
        gt_free(p);
    }
    for (int i = 0; i < 2; i++) {
        unsigned char *p = gt_alloc(good[i], dev, 2 * ROOM, 8);
        OK(MPI_Buffer_attach(p, 2 * ROOM));
        every(by_bsend, "buffered");
        OK(MPI_Buffer_detach(&at, &n));
        CHECK(at == p && n == 2 * ROOM);
        CHECK(gt_guards_intact(p));
        gt_free(p);
    }
    OK(MPI_Comm_attach_buffer(mt_comm, MPI_BUFFER_AUTOMATIC, 0));
    every(by_bsend, "buffered automatically");
    OK(MPI_Comm_detach_buffer(mt_comm, &at, &n));
}

/* ---- persistent, probed ---- */

static void by_starts(void *out, void *in, int n)
{
    MPI_Request q[2];
    OK(MPI_Recv_init(in, 2 * n, one_of_three, left(), TAG, mt_comm, &q[0]));
    OK(MPI_Ssend_init(out, n, two_of_four, right(), TAG, mt_comm, &q[1]));
    for (int round = 0; round < 3; round++) {
        OK(MPI_Startall(2, q));
        OK(MPI_Waitall(2, q, MPI_STATUSES_IGNORE));
    }
    OK(MPI_Request_free(&q[0]));
    OK(MPI_Request_free(&q[1]));
}

static void by_probing(void *out, void *in, int n)
{
    MPI_Request s, r;
    MPI_Message m;
    MPI_Status st;
    int count;
    OK(MPI_Isend(out, n, two_of_four, right(), TAG, mt_comm, &s));
    OK(MPI_Mprobe(MPI_ANY_SOURCE, TAG, mt_comm, &m, &st));
    OK(MPI_Get_count(&st, MPI_INT, &count));
    CHECK_EQ(count, 2 * n);
    OK(MPI_Imrecv(in, count, one_of_three, &m, &r));
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&s, MPI_STATUS_IGNORE));
}

static void persistent(void) { every(by_starts, "persistent"); }
static void probed(void) { every(by_probing, "mprobe"); }

/* ---- of another length than expected ---- */

/* Too long for its receive, which gets what fits; the next message is complete. */
static void cut_off(void *out, void *in, int n)
{
    char *rest = (char *)in + (size_t)n * 12;
    MPI_Request q[3];
    MPI_Status st[3];
    int rc, class = MPI_SUCCESS;
    OK(MPI_Irecv(in, n, one_of_three, left(), TAG, mt_comm, &q[0]));
    OK(MPI_Irecv(rest, n, one_of_three, left(), TAG + 1, mt_comm, &q[1]));
    mt_sync();
    OK(MPI_Isend(out, n, two_of_four, right(), TAG, mt_comm, &q[2]));
    OK(MPI_Send(out, n / 2, two_of_four, right(), TAG + 1, mt_comm));
    rc = MPI_Waitall(3, q, st);
    MPI_Error_class(rc, &class);
    CHECK_EQ(class, MPI_ERR_IN_STATUS);
    MPI_Error_class(st[0].MPI_ERROR, &class);
    CHECK_EQ(class, MPI_ERR_TRUNCATE);
    CHECK_EQ(st[1].MPI_ERROR, MPI_SUCCESS);
    gt_set(in, 0, (size_t)n * 12); /* the standard does not promise how much of it arrives */
}

/* Shorter: the rest of the buffer is unchanged, and the last element may arrive in part. */
static void falls_short(void *out, void *in, int n)
{
    MPI_Request s;
    MPI_Status st;
    int count = 0, elements = 0;
    OK(MPI_Isend(out, n - 1, one_of_three, right(), TAG, mt_comm, &s));
    OK(MPI_Recv(in, n, two_of_four, left(), TAG, mt_comm, &st));
    OK(MPI_Wait(&s, MPI_STATUS_IGNORE));
    OK(MPI_Get_count(&st, two_of_four, &count));
    CHECK_EQ(count, (n - 1) % 2 ? MPI_UNDEFINED : (n - 1) / 2);
    OK(MPI_Get_elements(&st, two_of_four, &elements));
    CHECK_EQ(elements, n - 1);
}

static void too_long(void) { every(cut_off, "too long"); }
static void too_short(void) { every(falls_short, "too short"); }

/* ---- other calls ---- */

static MPI_Comm inter;

static void to_the_others(void *out, void *in, int n)
{
    int others;
    MPI_Request s;
    OK(MPI_Comm_remote_size(inter, &others));
    if (mt_rank / 2 >= others) /* one rank more here than in the other group */
        return;
    OK(MPI_Isend(out, n, two_of_four, mt_rank / 2, TAG, inter, &s));
    OK(MPI_Recv(in, 2 * n, one_of_three, mt_rank / 2, TAG, inter, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&s, MPI_STATUS_IGNORE));
}

static void between_groups(void)
{
    MPI_Comm half;
    if (mt_size < 2) {
        mt_skip("two groups need two ranks");
        return;
    }
    OK(MPI_Comm_split(mt_comm, mt_rank % 2, 0, &half));
    OK(MPI_Intercomm_create(half, 0, mt_comm, 1 - mt_rank % 2, 3, &inter));
    every(to_the_others, "between groups");
    OK(MPI_Comm_free(&inter));
    OK(MPI_Comm_free(&half));
}

static void to_nobody(void *out, void *in, int n)
{
    MPI_Status st;
    OK(MPI_Send(out, n, two_of_four, MPI_PROC_NULL, TAG, mt_comm));
    OK(MPI_Recv(in, n, one_of_three, MPI_PROC_NULL, TAG, mt_comm, &st));
    mt_check_status(&st, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    OK(MPI_Sendrecv_replace(out, n, two_of_four, MPI_PROC_NULL, TAG, MPI_PROC_NULL, TAG, mt_comm,
                            MPI_STATUS_IGNORE));
}

static void nobody(void) { every(to_nobody, "to nobody"); }

int main(int argc, char **argv)
{
    gt_need(1);
    mt_init(argc, argv);
    dev = mt_rank % gt_ndevices();
    gt_use(dev);
    two_of_four = gaps(2, 4);
    one_of_three = gaps(1, 3);
    MT_RUN(partitioned);
    MT_RUN(exchanging);
    MT_RUN(replacing_on_the_device);
    MT_RUN(cancelled);
    MT_RUN(buffered);
    MT_RUN(persistent);
    MT_RUN(probed);
    MT_RUN(too_long);
    MT_RUN(too_short);
    MT_RUN(between_groups);
    MT_RUN(nobody);
    OK(MPI_Type_free(&two_of_four));
    OK(MPI_Type_free(&one_of_three));
    return mt_end();
}
