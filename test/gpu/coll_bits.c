/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums and products of floats whose results are not exact: the same bits on every rank and from one
 * run to the next, whatever the memory, its address, and the rank that comes late; and close to the
 * exact result.
 *     coll_bits [seed=N] [order]    order: bits are those of a fold in rank order, 16-bit floats in
 *                                   fp32 and rounded once, as the device's kernels promise */
#include <math.h>
#include "test/gpu/collref.h"
#include "test/gpu/gputest.h"
#include "test/mpi/mpitest.h"

enum { RUNS = 3, MOST = 20011 };
enum how { ALLREDUCE, IN_PLACE, NONBLOCKING, PERSISTENT, BLOCK, ROOTED, SCAN, SCAN_IN_PLACE, HOWS };
static const char *const names[HOWS] = { "allreduce",      "allreduce in place",   "iallreduce",
                                         "allreduce_init", "reduce_scatter_block", "reduce",
                                         "scan",           "scan in place" };
static bool scans(enum how how) { return how == SCAN || how == SCAN_IN_PLACE; }

static bool in_order;
static int dev;
static unsigned state;
static unsigned char input[MOST * 16], got[MOST * 16], first_got[MOST * 16], root_got[MOST * 16];

static unsigned rnd(unsigned n) { return mt_random(&state) % n; }

/* Positive and negative, over eight powers of two for sums and near one for products. */
static long double value(const struct cr_type *t, enum cr_code op, int rank, int i)
{
    uint64_t z = cr_mix(mt_seed + (unsigned)rank * 1000u, (uint64_t)i);
    long double v = ldexpl((int)(z % 2048) + 1, op == CR_SUM ? (int)(z >> 20 & 7) - 11 : -10);
    unsigned char b[16];

    if (op == CR_PROD)
        v = 0.5L + v / 2;
    cr_store(t->rep, z >> 40 & 1 ? -v : v, b);
    return cr_load(t->rep, b);
}

static void fill(const struct cr_type *t, enum cr_code op, int n)
{
    for (int i = 0; i < n; i++) {
        cr_store(t->rep, value(t, op, mt_rank, i), input + i * t->extent);
        if (t->off2 >= 0)
            cr_store(t->rep2, 0, input + i * t->extent + t->off2);
    }
}

static void run(enum how how, const struct cr_type *t, enum cr_code op, int n, unsigned char *s,
                unsigned char *r)
{
    MPI_Op o = cr_ops[op].h;
    MPI_Request q;

    if (how == IN_PLACE)
        OK(MPI_Allreduce(MPI_IN_PLACE, r, n, t->h, o, mt_comm));
    else if (how == ALLREDUCE)
        OK(MPI_Allreduce(s, r, n, t->h, o, mt_comm));
    else if (how == BLOCK)
        OK(MPI_Reduce_scatter_block(s, r, n / mt_size, t->h, o, mt_comm));
    else if (how == ROOTED)
        OK(MPI_Reduce(s, r, n, t->h, o, n % mt_size, mt_comm));
    else if (how == SCAN)
        OK(MPI_Scan(s, r, n, t->h, o, mt_comm));
    else if (how == SCAN_IN_PLACE)
        OK(MPI_Scan(MPI_IN_PLACE, r, n, t->h, o, mt_comm));
    else {
        if (how == NONBLOCKING)
            OK(MPI_Iallreduce(s, r, n, t->h, o, mt_comm, &q));
        else
            OK(MPI_Allreduce_init(s, r, n, t->h, o, mt_comm, MPI_INFO_NULL, &q));
        if (how == PERSISTENT)
            OK(MPI_Start(&q));
        OK(MPI_Wait(&q, MPI_STATUS_IGNORE));
        if (how == PERSISTENT)
            OK(MPI_Request_free(&q));
    }
}

/* The operands of the result: elements [first, first + n) of ranks [0, nranks); n 0: no result
 * here. */
static void part(enum how how, int all, int *first, int *n, int *nranks)
{
    *first = how == BLOCK ? all / mt_size * mt_rank : 0;
    *n = how == BLOCK ? all / mt_size : how == ROOTED && mt_rank != all % mt_size ? 0 : all;
    *nranks = scans(how) ? mt_rank + 1 : mt_size;
}

static void near_exact(enum how how, const struct cr_type *t, enum cr_code op, int all)
{
    static const int bits[] = { [CR_F16] = 11, [CR_BF16] = 8, [CR_F32] = 24, [CR_F64] = 53 };
    int first, n, nranks, bad = -1;
    long double want, most, v, is = 0;
    unsigned char b[16];
    float f;

    part(how, all, &first, &n, &nranks);
    for (int i = 0; i < n && bad < 0; i++) {
        want = most = value(t, op, 0, first + i);
        f = (float)want;
        for (int r = 1; r < nranks; r++) {
            v = value(t, op, r, first + i);
            want = op == CR_SUM ? want + v : want * v;
            f = op == CR_SUM ? f + (float)v : f * (float)v;
            most = op == CR_SUM ? fabsl(most) + fabsl(v) : fabsl(want);
        }
        is = cr_load(t->rep, got + i * t->extent);
        if (!(fabsl(is - want) <= ldexpl(fabsl(most), 1 - bits[t->rep]) * nranks))
            bad = i;
        cr_store(t->rep, f, b);
        if (in_order && t->rep != CR_F64 && memcmp(b, got + i * t->extent, (size_t)t->extent))
            bad = i;
    }
    CHECK_MSG(bad < 0, "rank %d: %s of %d %s %s: element %d is %.20Lg, exact %.20Lg", mt_rank,
              names[how], all, t->name, cr_ops[op].name, bad, is, want);
}

static void compare(enum how how, const struct cr_type *t, int all, int a_run,
                    const unsigned char *other, const char *whose)
{
    int first, n, nranks, i = 0;

    part(how, all, &first, &n, &nranks);
    while (i < n * t->extent && got[i] == other[i])
        i++;
    CHECK_MSG(i == n * t->extent, "rank %d: %s of %d %s, run %d: byte %d is not %s", mt_rank,
              names[how], all, t->name, a_run, i, whose);
}

static void one(enum how how, const struct cr_type *t, enum cr_code op, int n)
{
    static const enum gt_kind kinds[] = { GT_CUDA, GT_VMM, GT_POOL, GT_CUDA };
    size_t len = (size_t)n * (size_t)t->extent, part_len;
    int first, mine, nranks;

    fill(t, op, n);
    part(how, n, &first, &mine, &nranks);
    part_len = (size_t)mine * (size_t)t->extent;
    for (int k = 0; k < RUNS; k++) {
        unsigned char *s = gt_alloc(kinds[rnd(4)], dev, len, 16 * rnd(4)),
                      *r = gt_alloc(kinds[rnd(4)], dev, len, (unsigned)t->extent * rnd(3));

        gt_write(s, input, len);
        if (how == IN_PLACE || how == SCAN_IN_PLACE)
            gt_write(r, input, len);
        if (k && !rnd((unsigned)mt_size))
            mt_sleep_ms(1);
        run(how, t, op, n, s, r);
        gt_read(got, r, part_len);
        if (k)
            compare(how, t, n, k, first_got, "that of the first run");
        else
            near_exact(how, t, op, n);
        memcpy(first_got, got, part_len);
        CHECK(gt_guards_intact(r));
        gt_free(s);
        gt_free(r);
    }
    if (how == BLOCK || how == ROOTED || scans(how))
        return;
    memcpy(root_got, got, len);
    OK(MPI_Bcast(root_got, (int)len, MPI_BYTE, 0, mt_comm));
    compare(how, t, n, RUNS, root_got, "that of rank 0");
}

static void type(const char *name)
{
    static const int lens[] = { 1, 7, 1000, 4097, 20011 };
    const struct cr_type *t = cr_type_named(name);

    if (!cr_allowed(t, CR_SUM)) {
        mt_skip("no such type here");
        return;
    }
    for (int h = 0; h < HOWS; h++)
        for (int i = 0; i < 5; i++)
            one((enum how)h, t, (h + i) % 3 ? CR_SUM : CR_PROD, lens[i]);
}

static void floats(void) { type("MPI_FLOAT"); }
static void doubles(void) { type("MPI_DOUBLE"); }
static void halves(void) { type("MPIX_FLOAT16"); }
static void brain_floats(void) { type("MPIX_BFLOAT16"); }

int main(int argc, char **argv)
{
    gt_need(1);
    mt_init(argc, argv);
    for (int i = 1; i < argc; i++) {
        sscanf(argv[i], "seed=%u", &mt_seed);
        in_order = in_order || !strcmp(argv[i], "order");
    }
    dev = mt_rank % gt_ndevices();
    gt_use(dev);
    state = mt_seed + (unsigned)mt_rank;
    MT_RUN(floats);
    MT_RUN(doubles);
    MT_RUN(halves);
    MT_RUN(brain_floats);
    return mt_end();
}
