/* SPDX-License-Identifier: BSD-3-Clause */
/* Reductions (MPI-5.0 section 6.9): reduce and allreduce over types, operations, counts and roots
 * against a result computed from the ranks' known inputs; user operations that do not commute; in
 * place; nonblocking.  With WEFT_COLL set the same program proves a forced algorithm. */
#include "test/mpi/mpitest.h"

static const int counts[] = { 0, 1, 2, 3, 8, 17, 100, 1000, 1024, 4099, 50000 };
#define NCOUNTS ((int)(sizeof(counts) / sizeof(counts[0])))
enum { MAX_COUNT = 50000 };

enum kind { SIGNED, UNSIGNED, REAL };
struct type {
    MPI_Datatype t;
    enum kind kind;
    size_t nbytes;
    const char *name;
};
enum opcode { SUM, PROD, MAX, MIN, BAND, BOR, BXOR, LAND, LOR, LXOR, NOPS };
static const char *const op_name[] = { "sum", "prod", "max",  "min", "band",
                                       "bor", "bxor", "land", "lor", "lxor" };

/* Inputs are small, so that every result is exact in every type. */
static int input(enum opcode op, int rank, int i)
{
    int v = (rank * 5 + i * 3 + i / 7) % 4;

    switch (op) {
    case PROD: /* of 24 ranks at most, for a signed char */
        return rank < 24 && (rank + i) % 4 == 0 ? 2 : 1;
    case LAND:
        return (i + rank) % 16 != 0;
    case LOR:
    case LXOR:
        return (i + rank) % 5 == 0 ? 2 : 0;
    case BAND:
        return 7 ^ ((i + rank) % 16 == 3 ? 2 : 0);
    default:
        return v;
    }
}

static int combine(enum opcode op, int a, int b)
{
    switch (op) {
    case SUM:
        return a + b;
    case PROD:
        return a * b;
    case MAX:
        return a > b ? a : b;
    case MIN:
        return a < b ? a : b;
    case BAND:
        return a & b;
    case BOR:
        return a | b;
    case BXOR:
        return a ^ b;
    case LAND:
        return a && b;
    case LOR:
        return a || b;
    default:
        return !a != !b;
    }
}

static int expected(enum opcode op, int i)
{
    int k, v = input(op, 0, i);

    if (mt_size == 1)
        return v;
    for (k = 1; k < mt_size; k++)
        v = combine(op, v, input(op, k, i));
    return v;
}

static void store(const struct type *t, void *buf, int i, int v)
{
    char *p = (char *)buf + (size_t)i * t->nbytes;

    if (t->kind == REAL) {
        float f = (float)v;
        double d = v;
        long double l = v;
        memcpy(p,
               t->nbytes == 4   ? (void *)&f
               : t->nbytes == 8 ? (void *)&d
                                : (void *)&l,
               t->nbytes);
    } else {
        int64_t x = v; /* little-endian: the low bytes come first */
        memcpy(p, &x, t->nbytes);
    }
}

static int load(const struct type *t, const void *buf, int i)
{
    const char *p = (const char *)buf + (size_t)i * t->nbytes;
    int64_t x = 0;
    float f;
    double d;
    long double l;

    if (t->kind != REAL) {
        memcpy(&x, p, t->nbytes);
        return (int)x;
    }
    if (t->nbytes == 4)
        return memcpy(&f, p, 4), (int)f;
    if (t->nbytes == 8)
        return memcpy(&d, p, 8), (int)d;
    return memcpy(&l, p, sizeof(l)), (int)l;
}

static int nb;
static int finish(int rc, MPI_Request *r)
{
    return rc == MPI_SUCCESS && nb ? MPI_Wait(r, MPI_STATUS_IGNORE) : rc;
}

/* root < 0: allreduce. */
static void reduce_case(const struct type *t, MPI_Op handle, enum opcode op, int n, int root,
                        bool in_place)
{
    size_t len = (size_t)n * t->nbytes;
    unsigned char *out = mt_alloc(len), *in = mt_alloc(len);
    bool result_here = root < 0 || root == mt_rank, here_in_place = in_place && result_here;
    MPI_Request r = MPI_REQUEST_NULL;
    const void *send = here_in_place ? MPI_IN_PLACE : out;
    int i, wrong = 0, rc;

    for (i = 0; i < n; i++)
        store(t, here_in_place ? in : out, i, input(op, mt_rank, i));
    if (root < 0)
        rc = nb ? MPI_Iallreduce(send, in, n, t->t, handle, mt_comm, &r)
                : MPI_Allreduce(send, in, n, t->t, handle, mt_comm);
    else
        rc = nb ? MPI_Ireduce(send, in, n, t->t, handle, root, mt_comm, &r)
                : MPI_Reduce(send, in, n, t->t, handle, root, mt_comm);
    OK(finish(rc, &r));
    for (i = 0; i < n && result_here; i++)
        wrong += load(t, in, i) != expected(op, i);
    CHECK_MSG(wrong == 0, "rank %d: %s of %d %s, root %d%s: %d wrong", mt_rank, op_name[op], n,
              t->name, root, in_place ? ", in place" : "", wrong);
    CHECK(mt_guard_intact(in, len));
    free(in);
    free(out);
}

#define TYPE(t, kind, c) \
    { \
        t, kind, sizeof(c), #t \
    }
/* Every type with every operation that it allows. */
static void types_and_ops(void)
{
    const struct type types[] = {
        TYPE(MPI_INT, SIGNED, int),
        TYPE(MPI_SIGNED_CHAR, SIGNED, char),
        TYPE(MPI_SHORT, SIGNED, short),
        TYPE(MPI_LONG, SIGNED, long),
        TYPE(MPI_LONG_LONG, SIGNED, long long),
        TYPE(MPI_UNSIGNED, UNSIGNED, unsigned),
        TYPE(MPI_UNSIGNED_CHAR, UNSIGNED, char),
        TYPE(MPI_UINT16_T, UNSIGNED, uint16_t),
        TYPE(MPI_UINT64_T, UNSIGNED, uint64_t),
        TYPE(MPI_INT8_T, SIGNED, int8_t),
        TYPE(MPI_INT32_T, SIGNED, int32_t),
        TYPE(MPI_FLOAT, REAL, float),
        TYPE(MPI_DOUBLE, REAL, double),
        TYPE(MPI_LONG_DOUBLE, REAL, long double),
        TYPE(MPI_AINT, SIGNED, MPI_Aint),
        TYPE(MPI_COUNT, SIGNED, MPI_Count),
        TYPE(MPI_OFFSET, SIGNED, MPI_Offset),
        TYPE(MPI_CHAR, SIGNED, char),
    };
    const MPI_Op ops[NOPS] = { MPI_SUM, MPI_PROD, MPI_MAX,  MPI_MIN, MPI_BAND,
                               MPI_BOR, MPI_BXOR, MPI_LAND, MPI_LOR, MPI_LXOR };
    size_t k;
    int op;

    for (k = 0; k < sizeof(types) / sizeof(types[0]); k++)
        for (op = 0; op < NOPS; op++)
            if (op <= (types[k].kind == REAL ? MIN : LXOR)) {
                reduce_case(&types[k], ops[op], op, 100, -1, false);
                reduce_case(&types[k], ops[op], op, 13, (int)k % mt_size, false);
            }
}

static void allreduce_counts(void)
{
    const struct type i4 = TYPE(MPI_INT, SIGNED, int), f8 = TYPE(MPI_DOUBLE, REAL, double);
    int c;

    for (c = 0; c < NCOUNTS; c++) {
        reduce_case(&i4, MPI_SUM, SUM, counts[c], -1, false);
        reduce_case(&i4, MPI_SUM, SUM, counts[c], -1, true);
        reduce_case(&f8, MPI_MAX, MAX, counts[c], -1, false);
    }
}

static void reduce_counts_and_roots(void)
{
    const struct type i8 = TYPE(MPI_LONG, SIGNED, long);
    int c, root;

    for (c = 0; c < NCOUNTS; c++)
        for (root = 0; root < mt_size; root++) {
            reduce_case(&i8, MPI_SUM, SUM, counts[c], root, false);
            reduce_case(&i8, MPI_MIN, MIN, counts[c], root, true);
        }
}

static void nonblocking(void)
{
    nb = 1;
    allreduce_counts();
    reduce_counts_and_roots();
    nb = 0;
}

static void random_cases(void)
{
    const struct type types[] = { TYPE(MPI_INT, SIGNED, int), TYPE(MPI_FLOAT, REAL, float),
                                  TYPE(MPI_SHORT, SIGNED, short) };
    const MPI_Op ops[] = { MPI_SUM, MPI_PROD, MPI_MAX, MPI_MIN };
    unsigned state = mt_seed;
    int i, k, op, n, root;

    for (i = 0; i < 60; i++) {
        k = (int)(mt_random(&state) % 3);
        op = (int)(mt_random(&state) % 4);
        n = (int)(mt_random(&state) % (mt_random(&state) % 3 ? 300 : MAX_COUNT));
        root = (int)(mt_random(&state) % (unsigned)(mt_size + 1)) - 1;
        nb = i % 3 == 0;
        reduce_case(&types[k], ops[op], op, n, root, i % 4 == 0);
    }
    nb = 0;
}

static void max_with_place(void)
{
    struct {
        double v;
        int at;
    } out[20], in[20];
    int i, k, at, wrong = 0;

    for (i = 0; i < 20; i++) {
        out[i].v = (mt_rank + i) % mt_size / 2; /* ties: the lowest rank wins */
        out[i].at = mt_rank;
    }
    OK(MPI_Allreduce(out, in, 20, MPI_DOUBLE_INT, MPI_MAXLOC, mt_comm));
    for (i = 0; i < 20; i++) {
        for (k = 1, at = 0; k < mt_size; k++)
            if ((k + i) % mt_size / 2 > (at + i) % mt_size / 2)
                at = k;
        wrong += in[i].at != at || in[i].v != (at + i) % mt_size / 2;
    }
    OK(MPI_Allreduce(out, in, 20, MPI_DOUBLE_INT, MPI_MINLOC, mt_comm));
    for (i = 0; i < 20; i++) {
        for (k = 1, at = 0; k < mt_size; k++)
            if ((k + i) % mt_size / 2 < (at + i) % mt_size / 2)
                at = k;
        wrong += in[i].at != at || in[i].v != (at + i) % mt_size / 2;
    }
    CHECK_EQ(wrong, 0);
}

/* Fortran's pairs, whose index is a floating-point number. */
static void place_as_real(void)
{
    float f[2] = { (float)(mt_rank / 2), (float)mt_rank }, fmin[2], fmax[2];
    double d[2] = { -mt_rank / 2, mt_rank }, dmin[2], dmax[2];
    int last = (mt_size - 1) / 2; /* two ranks have each value: the lower wins */

    OK(MPI_Allreduce(f, fmin, 1, MPI_2REAL, MPI_MINLOC, mt_comm));
    OK(MPI_Allreduce(f, fmax, 1, MPI_2REAL, MPI_MAXLOC, mt_comm));
    CHECK(fmin[0] == 0 && fmin[1] == 0);
    CHECK(fmax[0] == (float)last && fmax[1] == (float)(2 * last));
    OK(MPI_Allreduce(d, dmin, 1, MPI_2DOUBLE_PRECISION, MPI_MINLOC, mt_comm));
    OK(MPI_Allreduce(d, dmax, 1, MPI_2DOUBLE_PRECISION, MPI_MAXLOC, mt_comm));
    CHECK(dmin[0] == -last && dmin[1] == 2 * last);
    CHECK(dmax[0] == 0 && dmax[1] == 0);
}

/* x -> a x + b over 32 bits: composition is associative but does not commute. */
struct affine {
    uint32_t a, b;
};
static int calls_of_wrong_type;
static MPI_Datatype affine_type;
static void compose(void *in, void *inout, int *len, MPI_Datatype *t)
{
    struct affine *f = in, *g = inout;
    int i;

    calls_of_wrong_type += *t != affine_type;
    for (i = 0; i < *len; i++) {
        g[i].b = f[i].a * g[i].b + f[i].b;
        g[i].a = f[i].a * g[i].a;
    }
}

static struct affine affine_of(int rank, int i)
{
    struct affine f = { (uint32_t)(2 * rank + 3 + 2 * i), (uint32_t)(rank * 77 + i) };

    return f;
}

static void does_not_commute(void)
{
    static struct affine out[MAX_COUNT], in[MAX_COUNT];
    MPI_Op op;
    int c, root, i, k, one = 1, wrong, n;

    calls_of_wrong_type = 0;
    OK(MPI_Type_contiguous(2, MPI_UINT32_T, &affine_type));
    OK(MPI_Type_commit(&affine_type));
    OK(MPI_Op_create(compose, 0, &op));
    for (c = 0; c < NCOUNTS; c++)
        for (root = -1; root < mt_size; root++) {
            n = counts[c];
            for (i = 0; i < n; i++)
                out[i] = affine_of(mt_rank, i);
            OK(root < 0 ? MPI_Allreduce(out, in, n, affine_type, op, mt_comm)
                        : MPI_Reduce(out, in, n, affine_type, op, root, mt_comm));
            for (wrong = i = 0; i < n && (root < 0 || root == mt_rank); i++) {
                struct affine f, g = affine_of(mt_size - 1, i);
                for (k = mt_size - 2; k >= 0; k--) {
                    f = affine_of(k, i);
                    compose(&f, &g, &one, &affine_type);
                }
                wrong += g.a != in[i].a || g.b != in[i].b;
            }
            CHECK_MSG(wrong == 0, "rank %d: %d of %d wrong, root %d", mt_rank, wrong, n, root);
        }
    CHECK_EQ(calls_of_wrong_type, 0);
    OK(MPI_Op_free(&op));
    CHECK(op == MPI_OP_NULL);
    OK(MPI_Type_free(&affine_type));
}

/* The sum of doubles is the same on every rank, bit by bit, and from call to call. */
static void same_everywhere(void)
{
    double out[500], in[500], again[500];
    unsigned long long mine = 0, other;
    unsigned state = mt_seed + (unsigned)mt_rank;
    int i, k;

    for (i = 0; i < 500; i++)
        out[i] = mt_random(&state) / 3.0 - 1e6;
    OK(MPI_Allreduce(out, in, 500, MPI_DOUBLE, MPI_SUM, mt_comm));
    OK(MPI_Allreduce(out, again, 500, MPI_DOUBLE, MPI_SUM, mt_comm));
    CHECK(memcmp(in, again, sizeof(in)) == 0);
    for (i = 0; i < (int)sizeof(in); i++)
        mine = mine * 1099511628211ull + ((unsigned char *)in)[i];
    for (k = 1; k < mt_size; k++) {
        OK(MPI_Sendrecv(&mine, 1, MPI_UNSIGNED_LONG_LONG, (mt_rank + k) % mt_size, 1, &other, 1,
                        MPI_UNSIGNED_LONG_LONG, (mt_rank - k + mt_size) % mt_size, 1, mt_comm,
                        MPI_STATUS_IGNORE));
        CHECK(other == mine);
    }
}

/* The first call of a communicator, which finds out what the ranks have, is a long one. */
static void long_first_call(void)
{
    enum { COUNT = 400000 };
    int *out = malloc(COUNT * sizeof *out), *in = malloc(COUNT * sizeof *in), i, bad = 0;
    MPI_Comm c;

    for (i = 0; i < COUNT; i++)
        out[i] = mt_rank * 5 + i;
    OK(MPI_Comm_dup(mt_comm, &c));
    OK(MPI_Allreduce(out, in, COUNT, MPI_INT, MPI_SUM, c));
    for (i = 0; i < COUNT; i++)
        bad += in[i] != mt_size * (mt_size - 1) / 2 * 5 + mt_size * i;
    CHECK_EQ(bad, 0);
    OK(MPI_Comm_free(&c));
    free(out);
    free(in);
}

static void wrong_operations(void)
{
    double d = 1, e = 0;

    FAILS(MPI_Allreduce(&d, &e, 1, MPI_DOUBLE, MPI_BAND, mt_comm), MPI_ERR_OP);
    FAILS(MPI_Allreduce(&d, &e, 1, MPI_DOUBLE, MPI_OP_NULL, mt_comm), MPI_ERR_OP);
    FAILS(MPI_Allreduce(&d, &e, -1, MPI_DOUBLE, MPI_SUM, mt_comm), MPI_ERR_COUNT);
    FAILS(MPI_Reduce(&d, &e, 1, MPI_DOUBLE, MPI_SUM, mt_size, mt_comm), MPI_ERR_ROOT);
}

int main(int argc, char **argv)
{
    mt_init(argc, argv);
    if (argc > 1)
        mt_seed = (unsigned)strtoul(argv[1], NULL, 0);
    MT_RUN(types_and_ops);
    MT_RUN(allreduce_counts);
    MT_RUN(reduce_counts_and_roots);
    MT_RUN(nonblocking);
    MT_RUN(random_cases);
    MT_RUN(max_with_place);
    MT_RUN(place_as_real);
    MT_RUN(does_not_commute);
    MT_RUN(same_everywhere);
    MT_RUN(long_first_call);
    MT_RUN(wrong_operations);
    return mt_end();
}
