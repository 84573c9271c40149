/* SPDX-License-Identifier: BSD-3-Clause */
/* Reductions element by element: collref.h. */
#include "test/gpu/collref.h"
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOLE 0xee /* GT_POISON */

struct pair_fi {
    float v;
    int i;
};
struct pair_di {
    double v;
    int i;
};
struct pair_li {
    long v;
    int i;
};
struct pair_si {
    short v;
    int i;
};
struct pair_ldi {
    long double v;
    int i;
};

#define ONE(handle, class, rep, ctype) \
    { \
#handle, handle, class, rep, rep, 0, -1, (int)sizeof(ctype) \
    }
#define TWO(handle, class, rep, rep2, ctype, off2) \
    { \
#handle, handle, class, rep, rep2, 0, off2, (int)sizeof(ctype) \
    }
#define LONG_REP (sizeof(long) == 8 ? CR_8 : CR_4)
/* clang-format off */
struct cr_type cr_types[] = {
    ONE(MPI_CHAR, CHAR_MIN < 0 ? CR_INT : CR_UINT, CR_1, char),
    ONE(MPI_SIGNED_CHAR, CR_INT, CR_1, signed char),
    ONE(MPI_SHORT, CR_INT, CR_2, short),
    ONE(MPI_INT, CR_INT, CR_4, int),
    ONE(MPI_LONG, CR_INT, LONG_REP, long),
    ONE(MPI_LONG_LONG, CR_INT, CR_8, long long),
    ONE(MPI_INT8_T, CR_INT, CR_1, int8_t),
    ONE(MPI_INT16_T, CR_INT, CR_2, int16_t),
    ONE(MPI_INT32_T, CR_INT, CR_4, int32_t),
    ONE(MPI_INT64_T, CR_INT, CR_8, int64_t),
    ONE(MPI_AINT, CR_INT, LONG_REP, MPI_Aint),
    ONE(MPI_COUNT, CR_INT, CR_8, MPI_Count),
    ONE(MPI_OFFSET, CR_INT, CR_8, MPI_Offset),
    ONE(MPI_UNSIGNED_CHAR, CR_UINT, CR_1, unsigned char),
    ONE(MPI_UNSIGNED_SHORT, CR_UINT, CR_2, unsigned short),
    ONE(MPI_UNSIGNED, CR_UINT, CR_4, unsigned),
    ONE(MPI_UNSIGNED_LONG, CR_UINT, LONG_REP, unsigned long),
    ONE(MPI_UNSIGNED_LONG_LONG, CR_UINT, CR_8, unsigned long long),
    ONE(MPI_UINT8_T, CR_UINT, CR_1, uint8_t),
    ONE(MPI_UINT16_T, CR_UINT, CR_2, uint16_t),
    ONE(MPI_UINT32_T, CR_UINT, CR_4, uint32_t),
    ONE(MPI_UINT64_T, CR_UINT, CR_8, uint64_t),
    ONE(MPI_BYTE, CR_BYTE, CR_1, char),
    ONE(MPI_C_BOOL, CR_BOOL, CR_1, _Bool),
#ifdef MPIX_FLOAT16
    ONE(MPIX_FLOAT16, CR_FLOAT, CR_F16, uint16_t),
#endif
#ifdef MPIX_BFLOAT16
    ONE(MPIX_BFLOAT16, CR_FLOAT, CR_BF16, uint16_t),
#endif
    ONE(MPI_REAL2, CR_FLOAT, CR_F16, uint16_t),
    ONE(MPI_FLOAT, CR_FLOAT, CR_F32, float),
    ONE(MPI_DOUBLE, CR_FLOAT, CR_F64, double),
    ONE(MPI_LONG_DOUBLE, CR_FLOAT, CR_LDBL, long double),
    TWO(MPI_C_FLOAT_COMPLEX, CR_COMPLEX, CR_F32, CR_F32, float[2], 4),
    TWO(MPI_C_DOUBLE_COMPLEX, CR_COMPLEX, CR_F64, CR_F64, double[2], 8),
    TWO(MPI_C_LONG_DOUBLE_COMPLEX, CR_COMPLEX, CR_LDBL, CR_LDBL, long double[2],
        (int)sizeof(long double)),
    TWO(MPI_FLOAT_INT, CR_PAIR, CR_F32, CR_4, struct pair_fi, offsetof(struct pair_fi, i)),
    TWO(MPI_DOUBLE_INT, CR_PAIR, CR_F64, CR_4, struct pair_di, offsetof(struct pair_di, i)),
    TWO(MPI_LONG_INT, CR_PAIR, LONG_REP, CR_4, struct pair_li, offsetof(struct pair_li, i)),
    TWO(MPI_2INT, CR_PAIR, CR_4, CR_4, int[2], 4),
    TWO(MPI_SHORT_INT, CR_PAIR, CR_2, CR_4, struct pair_si, offsetof(struct pair_si, i)),
    TWO(MPI_LONG_DOUBLE_INT, CR_PAIR, CR_LDBL, CR_4, struct pair_ldi,
        offsetof(struct pair_ldi, i)),
    TWO(MPI_2REAL, CR_PAIR, CR_F32, CR_F32, float[2], 4),
    TWO(MPI_2DOUBLE_PRECISION, CR_PAIR, CR_F64, CR_F64, double[2], 8),
    { "2 x uint32", MPI_DATATYPE_NULL, CR_USER, CR_4, CR_4, 0, 4, 8 },
    { "2 of 3 uint32, reversed", MPI_DATATYPE_NULL, CR_USER, CR_4, CR_4, 8, 0, 12 },
};
/* clang-format on */
int cr_ntypes = sizeof(cr_types) / sizeof(*cr_types);
#define DENSE (cr_ntypes - 2)
#define HOLES (cr_ntypes - 1)

#define OP(handle) \
    { \
#handle, handle \
    }
struct cr_op cr_ops[CR_CODES] = { OP(MPI_SUM),
                                  OP(MPI_PROD),
                                  OP(MPI_MAX),
                                  OP(MPI_MIN),
                                  OP(MPI_BAND),
                                  OP(MPI_BOR),
                                  OP(MPI_BXOR),
                                  OP(MPI_LAND),
                                  OP(MPI_LOR),
                                  OP(MPI_LXOR),
                                  OP(MPI_MINLOC),
                                  OP(MPI_MAXLOC),
                                  { "compose (user's)", MPI_OP_NULL },
                                  { "add (user's)", MPI_OP_NULL } };

/* ---- numbers ---- */

static const int widths[] = { 1, 2, 4, 8, 2, 2, 4, 8, 10 }; /* bytes that are defined */

static uint64_t load_int(enum cr_rep rep, const void *p)
{
    int8_t b;
    int16_t h;
    int32_t w;
    int64_t d;

    switch (rep) {
    case CR_1:
        memcpy(&b, p, 1);
        return (uint64_t)b;
    case CR_2:
        memcpy(&h, p, 2);
        return (uint64_t)h;
    case CR_4:
        memcpy(&w, p, 4);
        return (uint64_t)w;
    default:
        memcpy(&d, p, 8);
        return (uint64_t)d;
    }
}

/* With e bits of exponent and m of mantissa. */
static long double load_small(uint16_t bits, int e, int m)
{
    int bias = (1 << (e - 1)) - 1, exponent = bits >> m & ((1 << e) - 1);
    int fraction = bits & ((1 << m) - 1);
    long double v;

    if (exponent == (1 << e) - 1)
        v = fraction ? NAN : INFINITY;
    else if (exponent)
        v = ldexpl(fraction + (1 << m), exponent - bias - m);
    else
        v = ldexpl(fraction, 1 - bias - m);
    return bits & 0x8000 ? -v : v;
}

/* Rounded to nearest, ties to even. */
static uint16_t store_small(long double v, int e, int m)
{
    int bias = (1 << (e - 1)) - 1, exponent;
    uint16_t sign = signbit(v) ? 0x8000 : 0;
    long q;

    v = fabsl(v);
    if (isnan(v))
        return (uint16_t)(sign | 0x7fff);
    if (isinf(v))
        return (uint16_t)(sign | ((1 << e) - 1) << m);
    frexpl(v, &exponent);
    exponent = v == 0 || exponent - 1 < 1 - bias ? 1 - bias : exponent - 1;
    q = lrintl(ldexpl(v, m - exponent)); /* carries into the exponent as it should */
    q += (long)(exponent + bias - 1) << m;
    return (uint16_t)(sign | (q > ((1 << e) - 1L) << m ? ((1 << e) - 1L) << m : q));
}

long double cr_load(enum cr_rep rep, const void *p)
{
    uint16_t h;
    float f;
    double d;
    long double l;

    switch (rep) {
    case CR_F16:
    case CR_BF16:
        memcpy(&h, p, 2);
        return rep == CR_F16 ? load_small(h, 5, 10) : load_small(h, 8, 7);
    case CR_F32:
        memcpy(&f, p, 4);
        return f;
    case CR_F64:
        memcpy(&d, p, 8);
        return d;
    case CR_LDBL:
        memcpy(&l, p, sizeof(l));
        return l;
    default:
        return (long double)(int64_t)load_int(rep, p);
    }
}

void cr_store(enum cr_rep rep, long double v, void *p)
{
    uint16_t h;
    float f = (float)v;
    double d = (double)v;
    int64_t i;

    switch (rep) {
    case CR_F16:
    case CR_BF16:
        h = rep == CR_F16 ? store_small(v, 5, 10) : store_small(v, 8, 7);
        memcpy(p, &h, 2);
        break;
    case CR_F32:
        memcpy(p, &f, 4);
        break;
    case CR_F64:
        memcpy(p, &d, 8);
        break;
    case CR_LDBL:
        memcpy(p, &v, (size_t)widths[CR_LDBL]);
        break;
    default:
        i = (int64_t)v;
        memcpy(p, &i, (size_t)widths[rep]); /* little endian */
    }
}

/* ---- elements ---- */

struct element {
    uint64_t u, u2;
    long double v, v2;
};

static bool is_int(const struct cr_type *t) { return t->class <= CR_BOOL || t->class == CR_USER; }

static struct element load(const struct cr_type *t, const unsigned char *p)
{
    struct element e = { 0 };

    if (is_int(t)) {
        e.u = load_int(t->rep, p + t->off);
        if (t->class == CR_UINT && t->rep != CR_8)
            e.u &= (1ull << 8 * widths[t->rep]) - 1;
        if (t->off2 >= 0)
            e.u2 = load_int(t->rep2, p + t->off2);
        return e;
    }
    e.v = cr_load(t->rep, p + t->off);
    if (t->off2 >= 0)
        e.v2 = cr_load(t->rep2, p + t->off2);
    return e;
}

static void store(const struct cr_type *t, struct element e, unsigned char *p)
{
    if (is_int(t)) {
        memcpy(p + t->off, &e.u, (size_t)widths[t->rep]);
        if (t->off2 >= 0)
            memcpy(p + t->off2, &e.u2, (size_t)widths[t->rep2]);
        return;
    }
    cr_store(t->rep, e.v, p + t->off);
    if (t->off2 >= 0)
        cr_store(t->rep2, e.v2, p + t->off2);
}

static struct element combine_int(const struct cr_type *t, enum cr_code op, struct element x,
                                  struct element y)
{
    bool less = t->class == CR_UINT ? x.u < y.u : (int64_t)x.u < (int64_t)y.u;

    switch (op) {
    case CR_SUM:
    case CR_ADD:
        return (struct element){ .u = x.u + y.u };
    case CR_PROD:
        return (struct element){ .u = x.u * y.u };
    case CR_MAX:
        return less ? y : x;
    case CR_MIN:
        return less ? x : y;
    case CR_BAND:
        return (struct element){ .u = x.u & y.u };
    case CR_BOR:
        return (struct element){ .u = x.u | y.u };
    case CR_BXOR:
        return (struct element){ .u = x.u ^ y.u };
    case CR_LAND:
        return (struct element){ .u = x.u && y.u };
    case CR_LOR:
        return (struct element){ .u = x.u || y.u };
    case CR_LXOR:
        return (struct element){ .u = !x.u != !y.u };
    default: /* compose: x is `in`, y is `inout` */
        return (struct element){ .u = x.u * y.u, .u2 = y.u2 + y.u * x.u2 };
    }
}

static struct element combine(const struct cr_type *t, enum cr_code op, struct element x,
                              struct element y)
{
    if (is_int(t))
        return combine_int(t, op, x, y);
    switch (op) {
    case CR_SUM:
        return (struct element){ .v = x.v + y.v, .v2 = x.v2 + y.v2 };
    case CR_PROD:
        return (struct element){ .v = x.v * y.v - x.v2 * y.v2, .v2 = x.v * y.v2 + x.v2 * y.v };
    case CR_MAX:
        return x.v < y.v ? y : x;
    case CR_MIN:
        return y.v < x.v ? y : x;
    default:
        if (x.v == y.v)
            return x.v2 <= y.v2 ? x : y;
        return (x.v < y.v) == (op == CR_MINLOC) ? x : y;
    }
}

bool cr_allowed(const struct cr_type *t, enum cr_code op)
{
    bool bits = op >= CR_BAND && op <= CR_BXOR, logic = op >= CR_LAND && op <= CR_LXOR;
    int size = 0;

    if (t->h == MPI_REAL2 && (MPI_Type_size(t->h, &size) != MPI_SUCCESS || size != 2))
        return false;
    switch (t->class) {
    case CR_INT:
    case CR_UINT:
        return op <= CR_BXOR || logic || (op == CR_ADD && t->h == MPI_INT);
    case CR_BYTE:
        return bits;
    case CR_BOOL:
        return logic;
    case CR_FLOAT:
        return op <= CR_MIN;
    case CR_COMPLEX:
        return op <= CR_PROD;
    case CR_PAIR:
        return op == CR_MINLOC || op == CR_MAXLOC;
    default:
        return op == CR_COMPOSE;
    }
}

const struct cr_type *cr_type_named(const char *name)
{
    for (int i = 0; i < cr_ntypes; i++)
        if (!strcmp(cr_types[i].name, name))
            return &cr_types[i];
    fprintf(stderr, "collref: no type %s\n", name);
    abort();
}

/* ---- contents ---- */

uint64_t cr_mix(uint64_t a, uint64_t b)
{
    uint64_t z = a * 0x9e3779b97f4a7c15ull + b * 0xd1342543de82ef95ull + 0x2545f4914f6cdd1dull;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

/* Exact in any order for 16 ranks, without overflow of signed and 16-bit numbers. */
static struct element number(const struct cr_type *t, enum cr_code op, uint64_t z)
{
    static const signed char units[4][2] = { { 1, 0 }, { 0, 1 }, { -1, 0 }, { 0, -1 } };
    struct element e = { 0 };

    if (t->class == CR_BOOL)
        e.u = z & 1;
    else if (op >= CR_LAND && op <= CR_LXOR)
        e.u = z & 1 ? z >> 8 : 0;
    else if (is_int(t) && (t->class != CR_INT || (op != CR_SUM && op != CR_PROD && op != CR_ADD)))
        e = (struct element){ .u = z, .u2 = z * 77 };
    else if (op == CR_PROD) {
        e.v = units[z % 4][t->class == CR_COMPLEX ? 0 : (z % 2)];
        e.v2 = t->class == CR_COMPLEX ? units[z % 4][1] : 0;
        e.u = (uint64_t)(int64_t)e.v;
    } else if (t->class == CR_PAIR)
        e = (struct element){ .v = (int)(z % 5) - 2, .v2 = z / 8 % 100 };
    else {
        e.v = (int)(z % 15) - 7;
        e.v2 = (int)(z / 32 % 15) - 7;
        e.u = (uint64_t)(int64_t)e.v;
    }
    return e;
}

/* Fills [done, n) with repetitions of [0, done). */
static void repeat(unsigned char *out, size_t done, size_t n)
{
    size_t period = done, len;

    for (; done < n; done += len) {
        len = n - done < done ? n - done : done / period * period;
        memcpy(out + done, out, len);
    }
}

void cr_fill(const struct cr_type *t, enum cr_code op, uint64_t key, size_t first, size_t n,
             void *out)
{
    size_t ext = (size_t)t->extent, k = n < CR_PERIOD ? n : CR_PERIOD;
    unsigned char *p = out;

    memset(p, HOLE, k * ext);
    for (size_t i = 0; i < k; i++)
        store(t, number(t, op, cr_mix(key, (first + i) % CR_PERIOD)), p + i * ext);
    repeat(p, k * ext, n * ext);
}

void cr_expect(const struct cr_type *t, enum cr_code op, const uint64_t *keys, int nkeys,
               size_t first, size_t n, void *out)
{
    size_t ext = (size_t)t->extent, k = n < CR_PERIOD ? n : CR_PERIOD;
    unsigned char *p = out, tmp[64];

    for (size_t i = 0; i < k; i++) {
        size_t at = (first + i) % CR_PERIOD;
        struct element e = { 0 }, next;
        for (int r = 0; r < nkeys; r++) {
            memset(tmp, 0, sizeof(tmp)); /* through memory: truncated to the type's width */
            store(t, number(t, op, cr_mix(keys[r], at)), tmp);
            next = load(t, tmp);
            e = r ? combine(t, op, e, next) : next;
            store(t, e, tmp);
            e = load(t, tmp);
        }
        store(t, e, p + i * ext);
    }
    repeat(p, k * ext, n * ext);
}

static bool defined(const struct cr_type *t, int byte)
{
    return (byte >= t->off && byte < t->off + widths[t->rep]) ||
           (t->off2 >= 0 && byte >= t->off2 && byte < t->off2 + widths[t->rep2]);
}

void cr_forgive(const struct cr_type *t, const void *want, void *got, size_t n)
{
    const unsigned char *w = want;
    unsigned char *g = got;

    if (t->class == CR_USER) /* holes of a derived type belong to the program */
        return;
    for (int b = 0; b < t->extent; b++)
        for (size_t i = 0; !defined(t, b) && i < n; i++)
            g[i * (size_t)t->extent + (size_t)b] = w[i * (size_t)t->extent + (size_t)b];
    for (size_t i = 0; t->class == CR_COMPLEX && i < n; i++, g += t->extent, w += t->extent) {
        struct element x = load(t, w), y = load(t, g);
        if (x.v == y.v && x.v2 == y.v2) /* 0 and -0: products in any order */
            memcpy(g, w, (size_t)t->extent);
    }
}

/* ---- user-defined operations ---- */

static void compose(const struct cr_type *t, const unsigned char *in, unsigned char *inout, int n)
{
    for (int i = 0; i < n; i++) {
        const unsigned char *x = in + i * t->extent;
        unsigned char *y = inout + i * t->extent;
        store(t, combine_int(t, CR_COMPOSE, load(t, x), load(t, y)), y);
    }
}

static void compose_any(void *in, void *inout, int *n, MPI_Datatype *h)
{
    compose(&cr_types[*h == cr_types[DENSE].h ? DENSE : HOLES], in, inout, *n);
}

static void add(void *in, void *inout, int *n, MPI_Datatype *h)
{
    int *a = in, *b = inout;

    (void)h;
    for (int i = 0; i < *n; i++)
        b[i] += a[i];
}

void cr_init(void)
{
    int one[2] = { 1, 1 }, at[2] = { 2, 0 };
    MPI_Datatype t;

    MPI_Type_contiguous(2, MPI_UINT32_T, &cr_types[DENSE].h);
    MPI_Type_indexed(2, one, at, MPI_UINT32_T, &t);
    MPI_Type_create_resized(t, 0, 12, &cr_types[HOLES].h);
    MPI_Type_free(&t);
    MPI_Type_commit(&cr_types[DENSE].h);
    MPI_Type_commit(&cr_types[HOLES].h);
    MPI_Op_create(compose_any, 0, &cr_ops[CR_COMPOSE].h);
    MPI_Op_create(add, 1, &cr_ops[CR_ADD].h);
}

void cr_fini(void)
{
    MPI_Type_free(&cr_types[DENSE].h);
    MPI_Type_free(&cr_types[HOLES].h);
    MPI_Op_free(&cr_ops[CR_COMPOSE].h);
    MPI_Op_free(&cr_ops[CR_ADD].h);
}
