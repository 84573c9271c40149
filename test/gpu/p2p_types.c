/* SPDX-License-Identifier: BSD-3-Clause */
/* Derived datatypes at either or both ends of a message, compared with host buffers: the same
 * message is first sent between ordinary buffers, and the device's buffer must then be the same
 * byte for byte, including the bytes between the data.
 *     p2p_types [all] [seed=N] */
#include "test/gpu/exchange.h"

static unsigned state;
static bool all;

static unsigned rnd(unsigned n) { return mt_random(&state) % n; }

/* ---- types: `units` counts elements of the base type in one element ---- */

struct type {
    MPI_Datatype t;
    int units;
    const char *name;
};

static struct type make_vector(MPI_Datatype base)
{
    struct type r = { .name = "vector" };
    int n = 1 + (int)rnd(40), len = 1 + (int)rnd(9);

    r.units = n * len;
    OK(MPI_Type_vector(n, len, len + (int)rnd(5), base, &r.t));
    return r;
}

static struct type make_indexed(MPI_Datatype base)
{
    struct type r = { .name = "indexed" };
    int lens[12], at[12], i, n = 1 + (int)rnd(12), next = 0;

    for (i = 0; i < n; i++) {
        lens[i] = (int)rnd(7);
        at[i] = next + (int)rnd(4);
        next = at[i] + lens[i];
        r.units += lens[i];
    }
    if (!r.units)
        r.units = lens[0] = 1, at[0] = next + 3;
    OK(MPI_Type_indexed(n, lens, at, base, &r.t));
    return r;
}

/* Blocks in another order than their addresses. */
static struct type make_block(MPI_Datatype base)
{
    struct type r = { .name = "indexed_block" };
    int at[16], i, n = 2 + (int)rnd(14), len = 1 + (int)rnd(5);

    for (i = 0; i < n; i++)
        at[i] = (n - 1 - i) * (len + 2) + (i % 2);
    r.units = n * len;
    OK(MPI_Type_create_indexed_block(n, len, at, base, &r.t));
    return r;
}

static struct type make_subarray(MPI_Datatype base)
{
    struct type r = { .name = "subarray" };
    int full[3], sub[3], at[3], i;

    r.units = 1;
    for (i = 0; i < 3; i++) {
        full[i] = 3 + (int)rnd(7);
        sub[i] = 1 + (int)rnd((unsigned)full[i]);
        at[i] = (int)rnd((unsigned)(full[i] - sub[i] + 1));
        r.units *= sub[i];
    }
    OK(MPI_Type_create_subarray(3, full, sub, at, rnd(2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN, base,
                                &r.t));
    return r;
}

/* A vector, a gap, single elements; then resized so that elements interleave or are separated. */
static struct type make_struct(MPI_Datatype base)
{
    struct type r = { .name = "struct, resized" };
    MPI_Datatype parts[3], plain;
    MPI_Aint lb, extent, at[3];
    int lens[3] = { 1, 1 + (int)rnd(3), 2 };

    OK(MPI_Type_get_extent(base, &lb, &extent));
    OK(MPI_Type_vector(4, 2, 3, base, &parts[0]));
    parts[1] = parts[2] = base;
    at[0] = 0;
    at[1] = 13 * extent;
    at[2] = 20 * extent;
    OK(MPI_Type_create_struct(3, lens, at, parts, &plain));
    OK(MPI_Type_create_resized(plain, 0, (MPI_Aint)(22 + rnd(6)) * extent, &r.t));
    OK(MPI_Type_free(&parts[0]));
    OK(MPI_Type_free(&plain));
    r.units = 8 + lens[1] + 2;
    return r;
}

static struct type make_nested(MPI_Datatype base)
{
    struct type inner = make_vector(base), r = { .name = "hvector of vector" };
    MPI_Aint lb, extent;
    int n = 2 + (int)rnd(6);

    OK(MPI_Type_get_extent(inner.t, &lb, &extent));
    OK(MPI_Type_get_extent(base, &lb, &lb));
    OK(MPI_Type_create_hvector(n, 1, extent + (MPI_Aint)rnd(5) * lb, inner.t, &r.t));
    OK(MPI_Type_free(&inner.t));
    r.units = n * inner.units;
    return r;
}

static struct type make_contiguous(MPI_Datatype base)
{
    struct type r = { .name = "contiguous", .units = 1 + (int)rnd(50) };

    OK(MPI_Type_contiguous(r.units, base, &r.t));
    return r;
}

static struct type (*const makers[])(MPI_Datatype) = { make_vector,    make_indexed, make_block,
                                                       make_subarray,  make_struct,  make_nested,
                                                       make_contiguous };
#define NMAKERS (sizeof(makers) / sizeof(makers[0]))

static struct type make(MPI_Datatype base)
{
    struct type t = makers[rnd(NMAKERS)](base);

    OK(MPI_Type_commit(&t.t));
    return t;
}

/* ---- one message ---- */

struct message {
    struct type s, r;
    int scount, rcount;
    enum gt_kind skind, rkind;
    unsigned odd;
    uint64_t key;
    bool early;
};

/* Bytes from the buffer's start that count elements span. */
static size_t span(const struct type *t, int count)
{
    MPI_Aint lb, extent, tlb, textent;

    OK(MPI_Type_get_extent(t->t, &lb, &extent));
    OK(MPI_Type_get_true_extent(t->t, &tlb, &textent));
    return (size_t)(tlb + textent + (count - 1) * extent);
}

/* The expected receive buffer: the result of the message between host buffers of the own rank. */
static unsigned char *expected(const struct message *m, size_t sspan, size_t rspan)
{
    unsigned char *from = malloc(sspan), *to = malloc(rspan);

    gt_fill(from, sspan, m->key);
    memset(to, GT_POISON, rspan);
    OK(MPI_Sendrecv(from, m->scount, m->s.t, 0, 3, to, m->rcount, m->r.t, 0, 3, MPI_COMM_SELF,
                    MPI_STATUS_IGNORE));
    free(from);
    return to;
}

static void compare(const struct message *m, const unsigned char *dev, size_t rspan, size_t sspan)
{
    unsigned char *want = expected(m, sspan, rspan), *got = malloc(rspan);
    size_t i = 0;

    gt_read(got, dev, rspan);
    while (i < rspan && got[i] == want[i])
        i++;
    CHECK_MSG(i == rspan, "%d %s in %s to %d %s in %s, odd %u: byte %zu of %zu is %02x, not %02x",
              m->scount, m->s.name, gt_kind_names[m->skind], m->rcount, m->r.name,
              gt_kind_names[m->rkind], m->odd, i, rspan, got[i % rspan], want[i % rspan]);
    CHECK(gt_guards_intact(dev));
    free(want);
    free(got);
}

static void send_it(const struct message *m)
{
    size_t n = span(&m->s, m->scount);
    unsigned char *p = gt_alloc(m->skind, mt_rank % gt_ndevices(), n, m->odd);

    gt_fill(p, n, m->key);
    if (m->early)
        OK(MPI_Recv(NULL, 0, MPI_BYTE, mt_peer, X_GO, mt_comm, MPI_STATUS_IGNORE));
    OK(MPI_Send(p, m->scount, m->s.t, mt_peer, 9, mt_comm));
    GT_CHECK_DATA(p, n, m->key);
    gt_free(p);
}

static void recv_it(const struct message *m)
{
    size_t n = span(&m->r, m->rcount), sn = span(&m->s, m->scount);
    unsigned char *p = gt_alloc(m->rkind, mt_rank % gt_ndevices(), n, m->odd);
    MPI_Request r;
    MPI_Status st;
    int count;

    if (m->early) {
        OK(MPI_Irecv(p, m->rcount, m->r.t, mt_peer, 9, mt_comm, &r));
        OK(MPI_Send(NULL, 0, MPI_BYTE, mt_peer, X_GO, mt_comm));
        OK(MPI_Wait(&r, &st));
    } else
        OK(MPI_Recv(p, m->rcount, m->r.t, MPI_ANY_SOURCE, MPI_ANY_TAG, mt_comm, &st));
    OK(MPI_Get_count(&st, m->r.t, &count));
    CHECK_EQ(count, m->rcount);
    compare(m, p, n, sn);
    gt_free(p);
}

static enum gt_kind any_kind(void) { return (enum gt_kind)rnd(all ? GT_ALL_KINDS : GT_KINDS); }

/* Types that match: each side has k times as many elements as the other side's type has units. */
static void one(MPI_Datatype base, int k)
{
    struct message m = { .s = make(base), .r = make(base) };

    m.scount = m.r.units * k;
    m.rcount = m.s.units * k;
    m.skind = any_kind();
    m.rkind = any_kind();
    if (m.skind == GT_HOST && m.rkind == GT_HOST)
        m.rkind = GT_CUDA;
    m.odd = base == MPI_BYTE ? rnd(17) : 16 * rnd(3);
    m.key = mt_random(&state);
    m.early = rnd(2);
    /* The cost of the host-to-host message is bounded. */
    if (span(&m.s, m.scount) < 3u << 20 && span(&m.r, m.rcount) < 3u << 20) {
        if (mt_first)
            send_it(&m);
        else if (mt_peer != MPI_PROC_NULL)
            recv_it(&m);
    }
    OK(MPI_Type_free(&m.s.t));
    OK(MPI_Type_free(&m.r.t));
}

static void bytes(void)
{
    int i;

    for (i = 0; i < (all ? 400 : 60); i++)
        one(MPI_BYTE, 1 + (int)rnd(4));
}

static void words(void)
{
    int i;

    for (i = 0; i < (all ? 300 : 50); i++)
        one(rnd(2) ? MPI_INT : MPI_DOUBLE, 1 + (int)rnd(3));
}

/* One pair of kinds; the receiver's type is the sender's or plain bytes. */
static void large_pair(enum gt_kind skind, enum gt_kind rkind, const struct type *s,
                       const struct type *r, int scount, int rcount)
{
    struct message m = { .s = *s,
                         .r = *r,
                         .scount = scount,
                         .rcount = rcount,
                         .skind = skind,
                         .rkind = rkind,
                         .key = mt_random(&state),
                         .early = rnd(2) };

    if (mt_first)
        send_it(&m);
    else if (mt_peer != MPI_PROC_NULL)
        recv_it(&m);
}

/* 512 blocks of 8 KiB; columns of single doubles; at both ends, one end, the other end. */
static void large(void)
{
    static const enum gt_kind ends[][2] = { { GT_CUDA, GT_CUDA },
                                            { GT_VMM, GT_HOST },
                                            { GT_HOST, GT_POOL },
                                            { GT_POOL_OWN, GT_CUDA },
                                            { GT_MANAGED, GT_VMM_OWN } };
    struct type block = { .name = "512 blocks", .units = 512 * 1024 },
                column = { .name = "column", .units = 100000 },
                plain = { .name = "doubles", .units = 1, .t = MPI_DOUBLE };
    unsigned i;

    OK(MPI_Type_vector(512, 1024, 1500, MPI_DOUBLE, &block.t));
    OK(MPI_Type_vector(100000, 1, 7, MPI_DOUBLE, &column.t));
    OK(MPI_Type_commit(&block.t));
    OK(MPI_Type_commit(&column.t));
    for (i = 0; i < (all ? 5 : 2); i++) {
        large_pair(ends[i][0], ends[i][1], &block, &block, 1, 1);
        large_pair(ends[i][0], ends[i][1], &block, &plain, 1, block.units);
        large_pair(ends[i][0], ends[i][1], &plain, &block, block.units, 1);
        large_pair(ends[i][0], ends[i][1], &column, &column, 1, 1);
        large_pair(ends[i][0], ends[i][1], &column, &plain, 2, 2 * column.units);
    }
    OK(MPI_Type_free(&block.t));
    OK(MPI_Type_free(&column.t));
}

/* MPI_Pack and MPI_Unpack with device buffers at either end. */
static void packing(void)
{
    struct type t = make(MPI_BYTE);
    int n = 7 * t.units, pos = 3, dev = mt_rank % gt_ndevices();
    size_t room = span(&t, 7);
    unsigned char *src = gt_alloc(GT_CUDA, dev, room, 1), *back = gt_alloc(GT_POOL, dev, room, 2);
    unsigned char *packed = gt_alloc(GT_CUDA, dev, (size_t)n + 8, 3), *host = malloc(room);
    unsigned char *got = malloc(room), *flat = malloc((size_t)n), *flat2 = malloc((size_t)n);

    gt_fill(src, room, 5);
    gt_fill(host, room, 5);
    OK(MPI_Pack(src, 7, t.t, packed, n + 8, &pos, mt_comm));
    CHECK_EQ(pos, 3 + n);
    pos = 0;
    OK(MPI_Pack(host, 7, t.t, flat, n, &pos, mt_comm));
    gt_read(flat2, packed + 3, (size_t)n);
    CHECK(!memcmp(flat, flat2, (size_t)n));
    pos = 3;
    OK(MPI_Unpack(packed, n + 8, &pos, back, 7, t.t, mt_comm));
    memset(host, GT_POISON, room);
    pos = 0;
    OK(MPI_Unpack(flat, n, &pos, host, 7, t.t, mt_comm));
    gt_read(got, back, room);
    CHECK(!memcmp(got, host, room));
    CHECK(gt_guards_intact(packed) && gt_guards_intact(back));
    gt_free(src);
    gt_free(back);
    gt_free(packed);
    free(host);
    free(got);
    free(flat);
    free(flat2);
    OK(MPI_Type_free(&t.t));
}

int main(int argc, char **argv)
{
    int i;

    gt_need(1);
    for (i = 1; i < argc; i++) {
        all |= !strcmp(argv[i], "all");
        if (!strncmp(argv[i], "seed=", 5))
            mt_seed = (unsigned)strtoul(argv[i] + 5, NULL, 0);
    }
    state = mt_seed;
    mt_init(argc, argv);
    MT_RUN(bytes);
    MT_RUN(words);
    MT_RUN(large);
    MT_RUN(packing);
    return mt_end();
}
