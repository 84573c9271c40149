/* SPDX-License-Identifier: BSD-3-Clause */
/* A model of one-sided communication for tests: basic types, operations computed element by element
 * in plain C, and random datatypes whose elements are known by number.  Shares no code with the
 * library. */
#ifndef TEST_MPI_RMA_MODEL_H
#define TEST_MPI_RMA_MODEL_H

#include <complex.h>
#include <float.h>
#include "test/mpi/mpitest.h"

#define RM_CELLS 4096 /* elements of one operation, at most */

static unsigned rm_state;
static int rm_rnd(int n) { return (int)(mt_random(&rm_state) % (unsigned)n); }

/* ---- basic types ---- */

struct rm_pair_short {
    short v;
    int i;
};
struct rm_pair_double {
    double v;
    int i;
};
struct rm_pair_ldbl {
    long double v;
    int i;
};
struct rm_pair_int {
    int v, i;
};

enum rm_class { RM_INT, RM_FLOAT, RM_COMPLEX, RM_LOGICAL, RM_BYTE, RM_PAIR };
/* X(index, type handle, C type, class) */
#define RM_TYPES(X) \
    X(0, MPI_INT, int, RM_INT) \
    X(1, MPI_SIGNED_CHAR, signed char, RM_INT) \
    X(2, MPI_UNSIGNED_SHORT, unsigned short, RM_INT) \
    X(3, MPI_INT64_T, int64_t, RM_INT) \
    X(4, MPI_UINT64_T, uint64_t, RM_INT) \
    X(5, MPI_DOUBLE, double, RM_FLOAT) \
    X(6, MPI_FLOAT, float, RM_FLOAT) \
    X(7, MPI_LONG_DOUBLE, long double, RM_FLOAT) \
    X(8, MPI_C_DOUBLE_COMPLEX, double complex, RM_COMPLEX) \
    X(9, MPI_C_BOOL, bool, RM_LOGICAL) \
    X(10, MPI_BYTE, unsigned char, RM_BYTE) \
    X(11, MPI_SHORT_INT, struct rm_pair_short, RM_PAIR) \
    X(12, MPI_DOUBLE_INT, struct rm_pair_double, RM_PAIR) \
    X(13, MPI_LONG_DOUBLE_INT, struct rm_pair_ldbl, RM_PAIR) \
    X(14, MPI_2INT, struct rm_pair_int, RM_PAIR)
#define RM_NTYPES 15

static inline MPI_Datatype rm_handle(int type)
{
    switch (type) {
#define X(i, h, t, c) \
    case i: \
        return h;
        RM_TYPES(X)
#undef X
    }
    return MPI_DATATYPE_NULL;
}
static inline int rm_bytes(int type)
{
    switch (type) {
#define X(i, h, t, c) \
    case i: \
        return (int)sizeof(t);
        RM_TYPES(X)
#undef X
    }
    return 0;
}
static inline enum rm_class rm_class_of(int type)
{
    switch (type) {
#define X(i, h, t, c) \
    case i: \
        return c;
        RM_TYPES(X)
#undef X
    }
    return RM_INT;
}

/* Stores a long double without its padding bytes, which compilers may write or not. */
static inline void rm_long_double(void *to, long double v)
{
    memcpy(to, &v, LDBL_MANT_DIG == 64 ? 10 : sizeof v);
}

/* A small value; everything that is not part of the value is zero. */
static inline void rm_value(int type, void *to, unsigned key)
{
    int v = (int)(mt_byte(key, key >> 8) % 7) + 1;
    memset(to, 0, (size_t)rm_bytes(type));
    switch (type) {
    case 8:
        *(double complex *)to = v + 2.0 * I;
        return;
    case 9:
        *(bool *)to = v & 1;
        return;
    case 11:
        ((struct rm_pair_short *)to)->v = (short)v, ((struct rm_pair_short *)to)->i = (int)key % 5;
        return;
    case 12:
        ((struct rm_pair_double *)to)->v = v, ((struct rm_pair_double *)to)->i = (int)key % 5;
        return;
    case 13:
        rm_long_double(to, v), ((struct rm_pair_ldbl *)to)->i = (int)key % 5;
        return;
    case 14:
        ((struct rm_pair_int *)to)->v = v, ((struct rm_pair_int *)to)->i = (int)key % 5;
        return;
    case 7:
        rm_long_double(to, v);
        return;
#define SET(i, t) \
    case i: \
        *(t *)to = (t)v; \
        return;
        SET(0, int)
        SET(1, signed char)
        SET(2, unsigned short)
        SET(3, int64_t)
        SET(4, uint64_t)
        SET(5, double)
        SET(6, float)
        SET(10, unsigned char)
#undef SET
    }
}

/* Bytes of an element that are data, as ranges; the rest must not be touched. */
static inline int rm_data(int type, int at)
{
    if (type == 11)
        return at < 2 || at >= 4;
    if (type == 12)
        return at < 12;
    if (type == 13)
        return at < 20;
    return 1;
}

/* ---- operations ---- */

enum rm_op {
    RM_SUM,
    RM_MIN,
    RM_MAX,
    RM_BAND,
    RM_BOR,
    RM_BXOR,
    RM_LAND,
    RM_LOR,
    RM_LXOR,
    RM_MINLOC,
    RM_MAXLOC,
    RM_REPLACE,
    RM_NO_OP,
    RM_PROD,
    RM_NOPS
};
static inline MPI_Op rm_op_handle(int op)
{
    const MPI_Op h[RM_NOPS] = { MPI_SUM,    MPI_MIN,     MPI_MAX,   MPI_BAND, MPI_BOR,
                                MPI_BXOR,   MPI_LAND,    MPI_LOR,   MPI_LXOR, MPI_MINLOC,
                                MPI_MAXLOC, MPI_REPLACE, MPI_NO_OP, MPI_PROD };
    return h[op];
}

static inline bool rm_allows(int type, int op)
{
    enum rm_class c = rm_class_of(type);
    if (op == RM_REPLACE || op == RM_NO_OP)
        return true;
    if (c == RM_PAIR)
        return op == RM_MINLOC || op == RM_MAXLOC;
    if (op == RM_MINLOC || op == RM_MAXLOC)
        return false;
    if (c == RM_BYTE)
        return op >= RM_BAND && op <= RM_BXOR;
    if (c == RM_LOGICAL)
        return op >= RM_LAND && op <= RM_LXOR;
    if (c == RM_COMPLEX)
        return op == RM_SUM;
    if (c == RM_FLOAT)
        return op <= RM_MAX;
    return op <= RM_LXOR || (op == RM_PROD && type == 4); /* wraps round without harm */
}

#define RM_ARITH(t, x, y) \
    do { \
        t a_ = *(const t *)(x), *b_ = (y); \
        if (op == RM_SUM) \
            *b_ = (t)(a_ + *b_); \
        else if (op == RM_MIN) \
            *b_ = a_ < *b_ ? a_ : *b_; \
        else if (op == RM_MAX) \
            *b_ = a_ > *b_ ? a_ : *b_; \
    } while (0)
#define RM_BITS(t, x, y) \
    do { \
        t a_ = *(const t *)(x), *b_ = (y); \
        if (op == RM_BAND) \
            *b_ = (t)(a_ & *b_); \
        else if (op == RM_BOR) \
            *b_ = (t)(a_ | *b_); \
        else if (op == RM_BXOR) \
            *b_ = (t)(a_ ^ *b_); \
        else if (op == RM_LAND) \
            *b_ = (t)(a_ && *b_); \
        else if (op == RM_LOR) \
            *b_ = (t)(a_ || *b_); \
        else if (op == RM_LXOR) \
            *b_ = (t)(!a_ != !*b_); \
    } while (0)
#define RM_LOC(t, x, y) \
    do { \
        const t *a_ = (x); \
        t *b_ = (y); \
        bool less = op == RM_MINLOC ? a_->v < b_->v : a_->v > b_->v; \
        if (less) \
            b_->v = a_->v, b_->i = a_->i; \
        else if (a_->v == b_->v && a_->i < b_->i) \
            b_->i = a_->i; \
    } while (0)

/* inout = in op inout */
static inline void rm_apply(int type, int op, const void *in, void *inout)
{
    if (op == RM_NO_OP)
        return;
    if (op == RM_PROD) { /* of unsigned numbers alone, which wrap round without harm */
        *(uint64_t *)inout *= *(const uint64_t *)in;
        return;
    }
    if (op == RM_REPLACE) {
        for (int i = 0; i < rm_bytes(type); i++)
            if (rm_data(type, i))
                ((char *)inout)[i] = ((const char *)in)[i];
        return;
    }
    switch (type) {
#define INT(i, t) \
    case i: \
        if (op <= RM_MAX) \
            RM_ARITH(t, in, inout); \
        else \
            RM_BITS(t, in, inout); \
        return;
        INT(0, int)
        INT(1, signed char)
        INT(2, unsigned short)
        INT(3, int64_t)
        INT(4, uint64_t)
#undef INT
    case 5:
        RM_ARITH(double, in, inout);
        return;
    case 6:
        RM_ARITH(float, in, inout);
        return;
    case 7:
        RM_ARITH(long double, in, inout);
        return;
    case 8:
        *(double complex *)inout += *(const double complex *)in;
        return;
    case 9:
        RM_BITS(bool, in, inout);
        return;
    case 10:
        RM_BITS(unsigned char, in, inout);
        return;
    case 11:
        RM_LOC(struct rm_pair_short, in, inout);
        return;
    case 12:
        RM_LOC(struct rm_pair_double, in, inout);
        return;
    case 13:
        RM_LOC(struct rm_pair_ldbl, in, inout);
        return;
    case 14:
        RM_LOC(struct rm_pair_int, in, inout);
        return;
    }
}

/* ---- datatypes ---- */

/* `n` elements of a basic type in cells of its extent, cell[k] in the order of the datatype. */
struct rm_pat {
    MPI_Datatype type;
    int count, n, first, cells; /* first: the cell at the address that is given to MPI */
    int cell[RM_CELLS];
    bool made; /* to be freed */
};

static inline void rm_vector(struct rm_pat *p, int base, int n, int bytes, int blocks, int stride)
{
    int len = n / blocks;
    p->n = len * blocks;
    int low = stride < 0 ? (blocks - 1) * -stride : 0;
    p->first = low;
    p->cells = low + (stride < 0 ? 0 : (blocks - 1) * stride) + len;
    for (int k = 0; k < p->n; k++)
        p->cell[k] = low + k / len * stride + k % len;
    MPI_Type_create_hvector(blocks, len, (MPI_Aint)stride * bytes, rm_handle(base), &p->type);
    p->count = 1;
}

static inline void rm_indexed(struct rm_pat *p, int base, int n, int bytes, bool down)
{
    int *len = malloc((size_t)n * sizeof *len), blocks = 0, at = 0;
    MPI_Aint *disp = malloc((size_t)n * sizeof *disp);
    p->n = 0;
    while (p->n < n) {
        int l = 1 + rm_rnd(3);
        l = l > n - p->n ? n - p->n : l;
        at += rm_rnd(3);
        for (int k = 0; k < l; k++)
            p->cell[p->n++] = at + k;
        len[blocks] = l;
        disp[blocks++] = at;
        at += l;
    }
    p->cells = at;
    p->first = rm_rnd(2) ? 0 : rm_rnd(at); /* the address need not be that of the lowest byte */
    if (down) {                            /* the blocks from the last to the first */
        int k = 0;
        for (int b = blocks - 1; b >= 0; b--)
            for (int i = 0; i < len[b]; i++)
                p->cell[k++] = (int)disp[b] + i;
        for (int a = 0, b = blocks - 1; a < b; a++, b--) {
            int l = len[a];
            MPI_Aint d = disp[a];
            len[a] = len[b], disp[a] = disp[b];
            len[b] = l, disp[b] = d;
        }
    }
    for (int b = 0; b < blocks; b++)
        disp[b] = (disp[b] - p->first) * bytes;
    MPI_Type_create_hindexed(blocks, len, disp, rm_handle(base), &p->type);
    p->count = 1;
    free(len);
    free(disp);
}

/* `count` items of a resized vector. */
static inline void rm_items(struct rm_pat *p, int base, int n, int bytes)
{
    MPI_Datatype v;
    int blocks = 2, len = 1 + rm_rnd(3), stride = len + rm_rnd(3);
    int step = stride + len + rm_rnd(2);
    p->count = n / (blocks * len) > 0 ? n / (blocks * len) : 1;
    p->n = p->count * blocks * len;
    p->first = 0;
    p->cells = (p->count - 1) * step + stride + len;
    for (int k = 0; k < p->n; k++)
        p->cell[k] = k / (blocks * len) * step + k / len % blocks * stride + k % len;
    MPI_Type_create_hvector(blocks, len, (MPI_Aint)stride * bytes, rm_handle(base), &v);
    MPI_Type_create_resized(v, 0, (MPI_Aint)step * bytes, &p->type);
    MPI_Type_free(&v);
}

/* A datatype of about n elements, exactly n if `exact`. */
static inline void rm_make(struct rm_pat *p, int base, int n, bool exact)
{
    int bytes = rm_bytes(base), how = rm_rnd(6);
    p->made = true;
    if (how == 0 && !exact && n >= 8) {
        rm_items(p, base, n, bytes);
    } else if (how == 1 && !exact && n >= 2) {
        int blocks = 2 + rm_rnd(n / 2 < 6 ? n / 2 : 6), len = n / blocks;
        rm_vector(p, base, n, bytes, blocks, (len ? len : 1) + rm_rnd(4));
    } else if (how == 2 && !exact && n >= 2) {
        int blocks = 2, len = n / blocks;
        rm_vector(p, base, n, bytes, blocks, -(len ? len : 1) - rm_rnd(3));
    } else if (how <= 4 && n < 600) {
        rm_indexed(p, base, n, bytes, how == 3);
    } else {
        p->type = rm_handle(base);
        p->count = p->n = p->cells = n;
        p->first = 0;
        p->made = false;
        for (int k = 0; k < n; k++)
            p->cell[k] = k;
    }
    if (p->made)
        MPI_Type_commit(&p->type);
}

static inline void rm_free(struct rm_pat *p)
{
    if (p->made)
        MPI_Type_free(&p->type);
}

#endif
