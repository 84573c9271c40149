/* SPDX-License-Identifier: BSD-3-Clause */
/* One message between two ranks, described by parameters that both know: kinds of memory, devices,
 * modes, length, odd addresses.  The receiver's buffer is poisoned before, and everything around
 * the data is checked afterwards.  Buffers are reused for later messages. */
#ifndef TEST_GPU_EXCHANGE_H
#define TEST_GPU_EXCHANGE_H

#include "test/gpu/gputest.h"
#include "test/mpi/mpitest.h"

enum xsend {
    X_SEND,
    X_SSEND,
    X_BSEND,
    X_RSEND,
    X_ISEND,
    X_ISSEND,
    X_IBSEND,
    X_IRSEND,
    X_SEND_INIT,
    X_SSEND_INIT,
    X_PSEND,
    X_SENDRECV,
    X_REPLACE,
    X_SENDS
};
enum xrecv {
    X_RECV,
    X_IRECV,
    X_EARLY,
    X_ANY,
    X_EARLY_ANY,
    X_PROBE,
    X_MPROBE,
    X_IMPROBE,
    X_RECV_INIT,
    X_RECVS
};
static __attribute__((unused)) const char *const xsend_names[X_SENDS] = {
    "send",   "ssend",     "bsend",      "rsend", "isend",    "issend",          "ibsend",
    "irsend", "send_init", "ssend_init", "psend", "sendrecv", "sendrecv_replace"
};
static __attribute__((unused))
const char *const xrecv_names[X_RECVS] = { "recv",  "irecv",  "early",   "any",      "early any",
                                           "probe", "mprobe", "improbe", "recv_init" };

struct exch {
    int from, to; /* ranks; if they are the same: a message to the own rank */
    enum gt_kind skind, rkind;
    int sdev, rdev; /* device numbers in the rank's process */
    enum xsend send;
    enum xrecv recv;
    size_t n;
    unsigned sodd, rodd;
    uint64_t key;
    int tag;
};

#define X_MARGIN 64
#define X_GO 77 /* tag of "the receive is posted" */
#define X_ROOM ((5u << 20) + (64u << 10))

/* A reusable buffer with room for n bytes, margins and odd addresses. */
static inline unsigned char *x_buffer(enum gt_kind kind, int dev, int which, size_t n)
{
    static struct {
        unsigned char *p;
        size_t room;
    } kept[GT_ALL_KINDS][4][2], *b;

    b = &kept[kind][dev][which];
    if (b->p && b->room < n) {
        gt_free(b->p);
        b->p = NULL;
    }
    if (!b->p) {
        b->room = n > X_ROOM ? n : X_ROOM;
        b->p = gt_alloc(kind, dev, b->room + 512, 0);
    }
    return b->p;
}

static inline void x_describe(const struct exch *x)
{
    printf("# rank %d: %s %s[%d] +%u to %s %s[%d] +%u, %zu bytes from %d to %d, key %llu\n",
           mt_rank, xsend_names[x->send], gt_kind_names[x->skind], x->sdev, x->sodd,
           xrecv_names[x->recv], gt_kind_names[x->rkind], x->rdev, x->rodd, x->n, x->from, x->to,
           (unsigned long long)x->key);
}

/* ---- the sender ---- */

/* Three partitions, made ready in reverse order; the receive has one partition. */
static inline void x_psend(const struct exch *x, unsigned char *buf, int to)
{
    MPI_Count part = (MPI_Count)(x->n / 3);
    MPI_Request r;
    int i;

    OK(MPI_Psend_init(buf, 3, part, MPI_BYTE, to, x->tag, mt_comm, MPI_INFO_NULL, &r));
    OK(MPI_Start(&r));
    for (i = 2; i >= 0; i--)
        OK(MPI_Pready(i, r));
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    OK(MPI_Request_free(&r));
}

static inline void x_wait(MPI_Request *r) { OK(MPI_Wait(r, MPI_STATUS_IGNORE)); }

static inline void x_send_init(const struct exch *x, unsigned char *buf, int to)
{
    MPI_Request r;
    int round;

    if (x->send == X_SEND_INIT)
        OK(MPI_Send_init(buf, (int)x->n, MPI_BYTE, to, x->tag, mt_comm, &r));
    else
        OK(MPI_Ssend_init(buf, (int)x->n, MPI_BYTE, to, x->tag, mt_comm, &r));
    for (round = 0; round < 2; round++) {
        OK(MPI_Start(&r));
        x_wait(&r);
    }
    OK(MPI_Request_free(&r));
}

static inline void x_send_by_mode(const struct exch *x, unsigned char *buf, int to)
{
    MPI_Request r = MPI_REQUEST_NULL;
    int n = (int)x->n, tag = x->tag;

    switch (x->send) {
    case X_SEND:
        OK(MPI_Send(buf, n, MPI_BYTE, to, tag, mt_comm));
        break;
    case X_SSEND:
        OK(MPI_Ssend(buf, n, MPI_BYTE, to, tag, mt_comm));
        break;
    case X_BSEND:
        OK(MPI_Bsend(buf, n, MPI_BYTE, to, tag, mt_comm));
        break;
    case X_RSEND:
        OK(MPI_Rsend(buf, n, MPI_BYTE, to, tag, mt_comm));
        break;
    case X_ISEND:
        OK(MPI_Isend(buf, n, MPI_BYTE, to, tag, mt_comm, &r));
        break;
    case X_ISSEND:
        OK(MPI_Issend(buf, n, MPI_BYTE, to, tag, mt_comm, &r));
        break;
    case X_IBSEND:
        OK(MPI_Ibsend(buf, n, MPI_BYTE, to, tag, mt_comm, &r));
        break;
    case X_IRSEND:
        OK(MPI_Irsend(buf, n, MPI_BYTE, to, tag, mt_comm, &r));
        break;
    case X_PSEND:
        x_psend(x, buf, to);
        return;
    default:
        x_send_init(x, buf, to);
        return;
    }
    x_wait(&r);
}

/* ---- the receiver ---- */

struct xrecv_at {
    unsigned char *buf;
    int room, from; /* the arguments of the receive */
    int tag;
    MPI_Request r;
    MPI_Status st;
};

/* Prepares what must happen before the sender may start. */
static inline void x_recv_early(const struct exch *x, struct xrecv_at *a)
{
    if (x->send == X_PSEND) {
        OK(MPI_Precv_init(a->buf, 1, (MPI_Count)(x->n / 3 * 3), MPI_BYTE, x->from, x->tag, mt_comm,
                          MPI_INFO_NULL, &a->r));
        OK(MPI_Start(&a->r));
    } else if (x->recv == X_RECV_INIT) {
        OK(MPI_Recv_init(a->buf, a->room, MPI_BYTE, a->from, a->tag, mt_comm, &a->r));
        OK(MPI_Start(&a->r));
    } else
        OK(MPI_Irecv(a->buf, a->room, MPI_BYTE, a->from, a->tag, mt_comm, &a->r));
}

static inline bool x_is_early(const struct exch *x)
{
    return x->send == X_PSEND || x->send == X_RSEND || x->send == X_IRSEND || x->recv == X_EARLY ||
           x->recv == X_EARLY_ANY || x->recv == X_RECV_INIT || x->from == x->to;
}

static inline void x_recv_late(const struct exch *x, struct xrecv_at *a)
{
    MPI_Message m;
    int found = 0;

    switch (x->recv) {
    case X_PROBE:
        OK(MPI_Probe(a->from, a->tag, mt_comm, &a->st)); /* fall through */
    case X_RECV:
    case X_ANY:
        OK(MPI_Recv(a->buf, a->room, MPI_BYTE, a->from, a->tag, mt_comm, &a->st));
        break;
    case X_MPROBE:
        OK(MPI_Mprobe(a->from, a->tag, mt_comm, &m, &a->st));
        OK(MPI_Mrecv(a->buf, a->room, MPI_BYTE, &m, &a->st));
        break;
    case X_IMPROBE:
        while (!found)
            OK(MPI_Improbe(a->from, a->tag, mt_comm, &found, &m, &a->st));
        OK(MPI_Imrecv(a->buf, a->room, MPI_BYTE, &m, &a->r));
        OK(MPI_Wait(&a->r, &a->st));
        break;
    default:
        OK(MPI_Irecv(a->buf, a->room, MPI_BYTE, a->from, a->tag, mt_comm, &a->r));
        OK(MPI_Wait(&a->r, &a->st));
    }
}

/* A persistent send is started twice. */
static inline void x_recv_again(const struct exch *x, struct xrecv_at *a)
{
    if (x->send != X_SEND_INIT && x->send != X_SSEND_INIT) {
        if (a->r != MPI_REQUEST_NULL)
            OK(MPI_Request_free(&a->r));
        return;
    }
    if (a->r == MPI_REQUEST_NULL) {
        OK(MPI_Recv(a->buf, a->room, MPI_BYTE, a->from, a->tag, mt_comm, &a->st));
        return;
    }
    gt_set(a->buf, GT_POISON, x->n);
    OK(MPI_Start(&a->r));
    OK(MPI_Wait(&a->r, &a->st));
    OK(MPI_Request_free(&a->r));
}

static inline void x_check(const struct exch *x, const unsigned char *buf, const MPI_Status *st)
{
    size_t n = x->send == X_PSEND ? x->n / 3 * 3 : x->n;
    int before = check_failed_case;

    GT_CHECK_DATA(buf, n, x->key);
    CHECK_EQ(gt_unlike(buf - X_MARGIN, X_MARGIN, GT_POISON), X_MARGIN);
    CHECK_EQ(gt_unlike(buf + n, X_MARGIN, GT_POISON), X_MARGIN);
    if (st && x->send != X_PSEND)
        mt_check_status(st, x->from, x->tag, (int)n);
    if (check_failed_case != before)
        x_describe(x);
}

static inline unsigned char *x_recv_buffer(const struct exch *x)
{
    unsigned char *b = x_buffer(x->rkind, x->rdev, 1, x->n + 512 + 2 * X_MARGIN);

    gt_set(b + x->rodd, GT_POISON, x->n + 2 * X_MARGIN);
    return b + x->rodd + X_MARGIN;
}

static inline unsigned char *x_send_buffer(const struct exch *x)
{
    unsigned char *b = x_buffer(x->skind, x->sdev, 0, x->n + 512) + x->sodd;

    gt_fill(b, x->n, x->key);
    return b;
}

static inline void x_recv_side(const struct exch *x)
{
    bool any = x->recv == X_ANY || x->recv == X_EARLY_ANY;
    struct xrecv_at a = { .buf = x_recv_buffer(x),
                          .room = (int)x->n + (x->n % 2 ? X_MARGIN / 2 : 0),
                          .from = any ? MPI_ANY_SOURCE : x->from,
                          .tag = any ? MPI_ANY_TAG : x->tag,
                          .r = MPI_REQUEST_NULL };

    if (x_is_early(x)) {
        x_recv_early(x, &a);
        OK(MPI_Send(NULL, 0, MPI_BYTE, x->from, X_GO, MPI_COMM_WORLD));
        OK(MPI_Wait(&a.r, &a.st));
    } else
        x_recv_late(x, &a);
    x_recv_again(x, &a);
    x_check(x, a.buf, &a.st);
}

static inline void x_send_side(const struct exch *x)
{
    unsigned char *buf = x_send_buffer(x);

    if (x_is_early(x))
        OK(MPI_Recv(NULL, 0, MPI_BYTE, x->to, X_GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    x_send_by_mode(x, buf, x->to);
    if (x->n <= 8193)
        GT_CHECK_DATA(buf, x->n, x->key);
}

/* Both at once, each from its own send buffer: keys differ by rank. */
static inline void x_sendrecv(struct exch x, int other)
{
    uint64_t theirs = x.key * 64 + (uint64_t)other, mine = x.key * 64 + (uint64_t)mt_rank;
    unsigned char *to = x_recv_buffer(&x), *from;
    MPI_Status st;

    x.key = mine;
    if (x.send == X_SENDRECV) {
        from = x_send_buffer(&x);
        OK(MPI_Sendrecv(from, (int)x.n, MPI_BYTE, other, x.tag, to, (int)x.n, MPI_BYTE, other,
                        x.tag, mt_comm, &st));
    } else {
        gt_fill(to, x.n, mine);
        OK(MPI_Sendrecv_replace(to, (int)x.n, MPI_BYTE, other, x.tag, other, x.tag, mt_comm, &st));
    }
    x.key = theirs;
    x.from = other;
    x_check(&x, to, &st);
}

/* To the own rank: the receive first, whatever the mode. */
static inline void x_self(const struct exch *x)
{
    struct xrecv_at a = {
        .buf = x_recv_buffer(x), .room = (int)x->n, .from = x->from, .tag = x->tag
    };
    unsigned char *buf = x_send_buffer(x);

    x_recv_early(x, &a);
    if (x->send == X_SEND_INIT || x->send == X_SSEND_INIT)
        OK(MPI_Send(buf, (int)x->n, MPI_BYTE, x->to, x->tag, mt_comm));
    else
        x_send_by_mode(x, buf, x->to);
    OK(MPI_Wait(&a.r, &a.st));
    if (a.r != MPI_REQUEST_NULL)
        OK(MPI_Request_free(&a.r));
    x_check(x, a.buf, &a.st);
}

/* Called with the same x by all ranks; ranks that are not in it do nothing. */
static inline void x_do(const struct exch *x)
{
    if (mt_rank != x->from && mt_rank != x->to)
        return;
    if (x->send == X_SENDRECV || x->send == X_REPLACE)
        x_sendrecv(*x, mt_rank == x->from ? x->to : x->from);
    else if (x->from == x->to)
        x_self(x);
    else if (mt_rank == x->from)
        x_send_side(x);
    else
        x_recv_side(x);
}

/* Attaches a buffer for sends of up to n bytes each. */
static inline void x_attach(size_t n)
{
    void *p = malloc(n + MPI_BSEND_OVERHEAD);

    OK(MPI_Buffer_attach(p, (int)n + MPI_BSEND_OVERHEAD));
}

static inline void x_detach(void)
{
    void *p;
    int n;

    OK(MPI_Buffer_detach(&p, &n));
    free(p);
}

#endif
