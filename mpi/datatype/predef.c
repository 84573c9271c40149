/* SPDX-License-Identifier: BSD-3-Clause */
/* The predefined datatypes (facts: mpi/api/datatype-sizes.tsv).  The tables are filled once, before
 * main(), and change only by MPI_Abi_set_fortran_info: until then Fortran's default kinds
 * have the usual sizes, LOGICAL, INTEGER and REAL 4 bytes, DOUBLE PRECISION 8.  An optional type is
 * present when Weft can compute with it; the others have a handle, and MPI_UNDEFINED as their size.
 * The extension types are in the part of the handles' range that the ABI reserves (bits 7 and 6 are
 * 10), with the ABI's bits for the size below. */
#include "mpi/datatype/predef.h"
#include "mpi/datatype/type.h"
#include "runtime/reduce/reduce.h"
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

/* Operations that MPI allows on the reduction classes of types (MPI-5.0 section 6.9.2), as bits of
 * enum rt_opcode.  Two things more, because Open MPI and MPICH have them and programs use them:
 * MPI_CHAR is a C integer, and logical operations take MPI_AINT, MPI_COUNT and MPI_OFFSET. */
#define BIT(code) (1u << RT_OP_##code)
#define ARITH (BIT(MAX) | BIT(MIN) | BIT(SUM) | BIT(PROD))
#define LOG (BIT(LAND) | BIT(LOR) | BIT(LXOR))
#define BYTE_OPS (BIT(BAND) | BIT(BOR) | BIT(BXOR))
#define FINT (ARITH | BYTE_OPS)
#define CINT (FINT | LOG)
#define FP ARITH
#define CPLX (BIT(SUM) | BIT(PROD))
#define PAIR_OPS (BIT(MINLOC) | BIT(MAXLOC))
#define NO_OPS 0u

struct row {
    MPI_Datatype handle;
    const char *name;
    int size;
    enum rt_elem elem;
    uint32_t ops;
};
#define BASIC(h, nbytes, e, ops) \
    { \
        h, #h, (int)(nbytes), RT_ELEM_##e, ops \
    }
/* Of two synonyms the name is the one that the standard's tables list first. */
static const struct row rows[] = {
    BASIC(MPI_AINT, sizeof(MPI_Aint), I64, CINT),
    BASIC(MPI_COUNT, sizeof(MPI_Count), I64, CINT),
    BASIC(MPI_OFFSET, sizeof(MPI_Offset), I64, CINT),
    BASIC(MPI_PACKED, 1, NONE, NO_OPS),
    BASIC(MPI_SHORT, sizeof(short), I16, CINT),
    BASIC(MPI_INT, sizeof(int), I32, CINT),
    BASIC(MPI_LONG, sizeof(long), I64, CINT),
    BASIC(MPI_LONG_LONG_INT, sizeof(long long), I64, CINT),
    BASIC(MPI_UNSIGNED_SHORT, sizeof(unsigned short), U16, CINT),
    BASIC(MPI_UNSIGNED, sizeof(unsigned int), U32, CINT),
    BASIC(MPI_UNSIGNED_LONG, sizeof(unsigned long), U64, CINT),
    BASIC(MPI_UNSIGNED_LONG_LONG, sizeof(unsigned long long), U64, CINT),
    BASIC(MPI_FLOAT, sizeof(float), F32, FP),
    BASIC(MPI_C_COMPLEX, sizeof(float _Complex), C32, CPLX),
    BASIC(MPI_CXX_FLOAT_COMPLEX, sizeof(float _Complex), C32, CPLX),
    BASIC(MPI_DOUBLE, sizeof(double), F64, FP),
    BASIC(MPI_C_DOUBLE_COMPLEX, sizeof(double _Complex), C64, CPLX),
    BASIC(MPI_CXX_DOUBLE_COMPLEX, sizeof(double _Complex), C64, CPLX),
    BASIC(MPI_LOGICAL, 4, I32, LOG),
    BASIC(MPI_INTEGER, 4, I32, FINT),
    BASIC(MPI_REAL, 4, F32, FP),
    BASIC(MPI_COMPLEX, 8, C32, CPLX),
    BASIC(MPI_DOUBLE_PRECISION, 8, F64, FP),
    BASIC(MPI_DOUBLE_COMPLEX, 16, C64, CPLX),
    BASIC(MPI_CHARACTER, 1, NONE, NO_OPS),
    BASIC(MPI_LONG_DOUBLE, sizeof(long double), LDBL, FP),
    BASIC(MPI_C_LONG_DOUBLE_COMPLEX, sizeof(long double _Complex), CLDBL, CPLX),
    BASIC(MPI_CXX_LONG_DOUBLE_COMPLEX, sizeof(long double _Complex), CLDBL, CPLX),
    BASIC(MPI_C_BOOL, sizeof(_Bool), BOOL, LOG),
    BASIC(MPI_CXX_BOOL, sizeof(bool), BOOL, LOG),
    BASIC(MPI_WCHAR, sizeof(wchar_t), NONE, NO_OPS),
    BASIC(MPI_INT8_T, 1, I8, CINT),
    BASIC(MPI_UINT8_T, 1, U8, CINT),
    { MPI_CHAR, "MPI_CHAR", 1, CHAR_MIN < 0 ? RT_ELEM_I8 : RT_ELEM_U8, CINT },
    BASIC(MPI_SIGNED_CHAR, 1, I8, CINT),
    BASIC(MPI_UNSIGNED_CHAR, 1, U8, CINT),
    BASIC(MPI_BYTE, 1, BYTE, BYTE_OPS),
    BASIC(MPI_INT16_T, 2, I16, CINT),
    BASIC(MPI_UINT16_T, 2, U16, CINT),
    BASIC(MPI_INT32_T, 4, I32, CINT),
    BASIC(MPI_UINT32_T, 4, U32, CINT),
    BASIC(MPI_INT64_T, 8, I64, CINT),
    BASIC(MPI_UINT64_T, 8, U64, CINT),
    BASIC(MPI_LOGICAL1, 1, I8, LOG),
    BASIC(MPI_INTEGER1, 1, I8, FINT),
    BASIC(MPI_LOGICAL2, 2, I16, LOG),
    BASIC(MPI_INTEGER2, 2, I16, FINT),
    BASIC(MPI_REAL2, 2, F16, FP),
    BASIC(MPI_LOGICAL4, 4, I32, LOG),
    BASIC(MPI_INTEGER4, 4, I32, FINT),
    BASIC(MPI_REAL4, 4, F32, FP),
    BASIC(MPI_COMPLEX4, 4, CF16, CPLX),
    BASIC(MPI_LOGICAL8, 8, I64, LOG),
    BASIC(MPI_INTEGER8, 8, I64, FINT),
    BASIC(MPI_REAL8, 8, F64, FP),
    BASIC(MPI_COMPLEX8, 8, C32, CPLX),
    BASIC(MPI_LOGICAL16, 16, I128, LOG),
    BASIC(MPI_INTEGER16, 16, I128, FINT),
    BASIC(MPI_REAL16, 16, F128, FP),
    BASIC(MPI_COMPLEX16, 16, C64, CPLX),
    BASIC(MPI_COMPLEX32, 32, C128, CPLX),
    BASIC(MPIX_FLOAT16, 2, F16, FP),
    BASIC(MPIX_BFLOAT16, 2, BF16, FP),
};

/* A value and an index, laid out as C's struct. */
struct pair_row {
    MPI_Datatype handle;
    const char *name;
    int first, second, second_at, extent, align; /* bytes */
    enum rt_elem elem;
};
#define PAIR(h, a, b, e) \
    { \
        h, #h, sizeof(a), sizeof(b), \
            offsetof( \
                struct { \
                    a x; \
                    b y; \
                }, \
                y), \
            sizeof(struct { \
                a x; \
                b y; \
            }), \
            _Alignof(struct { \
                a x; \
                b y; \
            }), \
            RT_ELEM_##e \
    }
static const struct pair_row pairs[] = {
    PAIR(MPI_FLOAT_INT, float, int, F32_I32), PAIR(MPI_DOUBLE_INT, double, int, F64_I32),
    PAIR(MPI_LONG_INT, long, int, I64_I32),   PAIR(MPI_2INT, int, int, I32_I32),
    PAIR(MPI_SHORT_INT, short, int, I16_I32), PAIR(MPI_LONG_DOUBLE_INT, long double, int, LDBL_I32),
    PAIR(MPI_2REAL, float, float, F32_F32),   PAIR(MPI_2DOUBLE_PRECISION, double, double, F64_F64),
    PAIR(MPI_2INTEGER, int, int, I32_I32),
};

static struct wm_type storage[256];
struct wm_type *wm_type_predefined[256];

static struct wm_type *enter(MPI_Datatype handle, const char *name)
{
    unsigned i = (unsigned)(uintptr_t)handle & 0xff;
    struct wm_type *t = &storage[i];
    t->obj = (struct rt_obj){ (uint32_t)(uintptr_t)handle, 1 };
    t->predefined = t->committed = true;
    t->combiner = MPI_COMBINER_NAMED;
    t->nelems = 1;
    snprintf(t->name, sizeof t->name, "%s", name);
    wm_type_predefined[i] = t;
    return t;
}

static void enter_basic(const struct row *r)
{
    struct wm_type *t = enter(r->handle, r->name);
    t->absent = r->elem != RT_ELEM_NONE && rt_elem_nbytes(r->elem) == 0;
    int nbytes = t->absent ? 0 : r->size;
    bool complex = r->elem == RT_ELEM_C32 || r->elem == RT_ELEM_C64 || r->elem == RT_ELEM_CLDBL ||
                   r->elem == RT_ELEM_CF16 || r->elem == RT_ELEM_C128;
    t->align = complex ? nbytes / 2 : nbytes;
    t->ops = t->absent ? NO_OPS : r->ops;
    t->basic = t;
    rt_layout_basic(&t->layout, nbytes, nbytes, r->elem); /* contiguous: cannot fail */
}

static void enter_pair(const struct pair_row *p)
{
    struct wm_type *t = enter(p->handle, p->name);
    struct rt_layout parts[2], all;
    rt_layout_basic(&parts[0], p->first, p->first, RT_ELEM_NONE);
    rt_layout_basic(&parts[1], p->second, p->second, RT_ELEM_NONE);
    int err = rt_layout_struct(&all, 2, (const int64_t[]){ 1, 1 },
                               (const int64_t[]){ 0, p->second_at },
                               (const struct rt_layout *const[]){ &parts[0], &parts[1] }, false);
    if (!err)
        err = rt_layout_resized(&t->layout, 0, p->extent, &all);
    rt_layout_fini(&all);
    if (err)
        RT_BUG("no memory for %s before main()", p->name);
    t->layout.elem = (uint8_t)p->elem;
    t->align = p->align;
    t->ops = PAIR_OPS;
    t->nelems = 2;
    t->pair_first = p->first;
    t->basic = t;
}

/* A default kind becomes what the type of its size is. */
static const struct {
    MPI_Datatype basic, complex, pair; /* the complex type and the pair that go with it */
    MPI_Datatype of_size[5];           /* 1, 2, 4, 8, 16 bytes; 0: no such kind */
} kinds[] = {
    [WM_FORTRAN_LOGICAL] = { MPI_LOGICAL,
                             0,
                             0,
                             { MPI_LOGICAL1, MPI_LOGICAL2, MPI_LOGICAL4, MPI_LOGICAL8,
                               MPI_LOGICAL16 } },
    [WM_FORTRAN_INTEGER] = { MPI_INTEGER,
                             0,
                             MPI_2INTEGER,
                             { MPI_INTEGER1, MPI_INTEGER2, MPI_INTEGER4, MPI_INTEGER8,
                               MPI_INTEGER16 } },
    [WM_FORTRAN_REAL] = { MPI_REAL,
                          MPI_COMPLEX,
                          MPI_2REAL,
                          { 0, MPI_REAL2, MPI_REAL4, MPI_REAL8, MPI_REAL16 } },
    [WM_FORTRAN_DOUBLE] = { MPI_DOUBLE_PRECISION,
                            MPI_DOUBLE_COMPLEX,
                            MPI_2DOUBLE_PRECISION,
                            { 0, MPI_REAL2, MPI_REAL4, MPI_REAL8, MPI_REAL16 } },
};

static const struct row *row_of(MPI_Datatype h)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].handle == h)
            return &rows[i];
    return NULL;
}

static const struct row *kind_row(enum wm_fortran_kind kind, int nbytes)
{
    for (int i = 0; i < 5; i++)
        if (nbytes == 1 << i && kinds[kind].of_size[i])
            return row_of(kinds[kind].of_size[i]);
    return NULL;
}

bool wm_type_fortran_known(enum wm_fortran_kind kind, int nbytes)
{
    const struct row *r = kind_row(kind, nbytes);
    return r && rt_elem_nbytes(r->elem) == nbytes;
}

/* Names and handles stay, all else changes. */
static void follow(MPI_Datatype handle, const struct row *as)
{
    struct row r = *as;
    const struct row *old = row_of(handle);
    r.handle = handle;
    r.name = old->name;
    enter_basic(&r);
}

static enum rt_elem pair_elem(enum rt_elem e)
{
    return e == RT_ELEM_I32   ? RT_ELEM_I32_I32
           : e == RT_ELEM_F32 ? RT_ELEM_F32_F32
           : e == RT_ELEM_F64 ? RT_ELEM_F64_F64
                              : RT_ELEM_NONE;
}

static void follow_pair(MPI_Datatype handle, const struct row *as)
{
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        struct pair_row p = pairs[i];
        if (p.handle != handle)
            continue;
        p.first = p.second = p.second_at = p.align = as->size;
        p.extent = 2 * as->size;
        p.elem = pair_elem(as->elem);
        rt_layout_fini(&storage[(uintptr_t)handle & 0xff].layout);
        enter_pair(&p);
        if (p.elem == RT_ELEM_NONE) /* no kernels for such pairs */
            storage[(uintptr_t)handle & 0xff].ops = NO_OPS;
    }
}

void wm_type_fortran_size(enum wm_fortran_kind kind, int nbytes)
{
    const struct row *r = kind_row(kind, nbytes);
    static const MPI_Datatype complexes[] = { MPI_COMPLEX4, MPI_COMPLEX8, MPI_COMPLEX16,
                                              MPI_COMPLEX32 };
    if (!r || r->size == row_of(kinds[kind].basic)->size)
        return;
    follow(kinds[kind].basic, r);
    if (kinds[kind].pair)
        follow_pair(kinds[kind].pair, r);
    for (int i = 0; kinds[kind].complex && i < 4; i++)
        if (row_of(complexes[i])->size == 2 * nbytes)
            follow(kinds[kind].complex, row_of(complexes[i]));
}

/* Fills the table of predefined types. */
__attribute__((constructor)) static void before_main(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        enter_basic(&rows[i]);
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        enter_pair(&pairs[i]);
}
