/* SPDX-License-Identifier: BSD-3-Clause */
/* The representation external32 against known byte strings, datatypes by precision and range, the
 * optional types of Fortran, and reductions on them. */
#include "test/mpi/mpitest.h"
#include <math.h>
#include <stddef.h>

#define EXT "external32"

/* Packs one item, compares with the bytes, unpacks it again. */
static void check_ext(MPI_Datatype t, const void *value, const char *bytes, int n)
{
    unsigned char buf[256], back[64];
    MPI_Aint size, at = 3;
    MPI_Count lb, extent;
    char name[MPI_MAX_OBJECT_NAME];
    int len, nbytes;
    MPI_Type_get_name(t, name, &len);
    MPI_Type_get_extent_c(t, &lb, &extent);
    MPI_Type_size(t, &nbytes);
    OK(MPI_Pack_external_size(EXT, 1, t, &size));
    CHECK_MSG(size == n, "%s has %ld bytes, expected %d", name, (long)size, n);
    memset(buf, 0xee, sizeof buf);
    memset(back, 0, sizeof back);
    OK(MPI_Pack_external(EXT, value, 1, t, buf, sizeof buf, &at));
    CHECK_MSG(at == 3 + n, "%s: position %ld", name, (long)at);
    CHECK_MSG(!memcmp(buf + 3, bytes, (size_t)n), "%s: wrong bytes", name);
    CHECK(buf[2] == 0xee && buf[3 + n] == 0xee);
    at = 3;
    OK(MPI_Unpack_external(EXT, buf, sizeof buf, &at, back, 1, t));
    CHECK(at == 3 + n);
    if (nbytes == extent) /* no hole */
        CHECK_MSG(!memcmp(back, value, t == MPI_LONG_DOUBLE ? 10 : (size_t)nbytes),
                  "%s does not come back", name);
}

#define CHECK_EXT(type, ctype, value, bytes) \
    check_ext(type, &(ctype){ value }, bytes, sizeof(bytes) - 1)

static void basic_types(void)
{
    CHECK_EXT(MPI_CHAR, char, 'x', "x");
    CHECK_EXT(MPI_BYTE, unsigned char, 200, "\xc8");
    CHECK_EXT(MPI_PACKED, char, 7, "\7");
    CHECK_EXT(MPI_SIGNED_CHAR, signed char, -2, "\xfe");
    CHECK_EXT(MPI_C_BOOL, _Bool, 1, "\1");
    CHECK_EXT(MPI_WCHAR, wchar_t, 0x20ac, "\x20\xac");
    CHECK_EXT(MPI_SHORT, short, -2, "\xff\xfe");
    CHECK_EXT(MPI_UNSIGNED_SHORT, unsigned short, 0x1234, "\x12\x34");
    CHECK_EXT(MPI_INT, int, 0x01020304, "\1\2\3\4");
    CHECK_EXT(MPI_INT, int, -1, "\xff\xff\xff\xff");
    CHECK_EXT(MPI_LONG, long, 0x01020304, "\1\2\3\4");
    CHECK_EXT(MPI_LONG, long, -2, "\xff\xff\xff\xfe");
    CHECK_EXT(MPI_UNSIGNED_LONG, unsigned long, 0xfffefdfc, "\xff\xfe\xfd\xfc");
    CHECK_EXT(MPI_LONG_LONG, long long, 0x0102030405060708, "\1\2\3\4\5\6\7\x08");
    CHECK_EXT(MPI_UNSIGNED_LONG_LONG, unsigned long long, 1, "\0\0\0\0\0\0\0\1");
    CHECK_EXT(MPI_INT64_T, int64_t, -1, "\xff\xff\xff\xff\xff\xff\xff\xff");
    CHECK_EXT(MPI_AINT, MPI_Aint, 258, "\0\0\0\0\0\0\1\2");
    CHECK_EXT(MPI_COUNT, MPI_Count, 258, "\0\0\0\0\0\0\1\2");
    CHECK_EXT(MPI_OFFSET, MPI_Offset, 258, "\0\0\0\0\0\0\1\2");
    CHECK_EXT(MPI_FLOAT, float, 1.5f, "\x3f\xc0\0\0");
    CHECK_EXT(MPI_DOUBLE, double, -2.0, "\xc0\0\0\0\0\0\0\0");
    CHECK_EXT(MPI_LOGICAL, int, 1, "\0\0\0\1");
    CHECK_EXT(MPI_INTEGER, int, 5, "\0\0\0\5");
    CHECK_EXT(MPI_DOUBLE_PRECISION, double, 1.0, "\x3f\xf0\0\0\0\0\0\0");
    check_ext(MPI_C_FLOAT_COMPLEX, (float[]){ 1, -1 }, "\x3f\x80\0\0\xbf\x80\0\0", 8);
    check_ext(MPI_C_DOUBLE_COMPLEX, (double[]){ 1, 2 }, "\x3f\xf0\0\0\0\0\0\0\x40\0\0\0\0\0\0\0",
              16);
    check_ext(MPI_2INT, (int[]){ 1, 2 }, "\0\0\0\1\0\0\0\2", 8);
    check_ext(MPI_SHORT_INT, &(struct {
                  short v;
                  int i;
              }){ 1, 2 },
              "\0\1\0\0\0\2", 6);
    check_ext(MPI_LONG_INT, &(struct {
                  long v;
                  int i;
              }){ -1, 2 },
              "\xff\xff\xff\xff\0\0\0\2", 8);
    check_ext(MPI_DOUBLE_INT, &(struct {
                  double v;
                  int i;
              }){ 1, 2 },
              "\x3f\xf0\0\0\0\0\0\0\0\0\0\2", 12);
    check_ext(MPI_LONG_DOUBLE_INT, &(struct {
                  long double v;
                  int i;
              }){ 1, 2 },
              "\x3f\xff\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\2", 20);
}

#define LDBL(v, bytes) CHECK_EXT(MPI_LONG_DOUBLE, long double, v, bytes)
static void long_double(void)
{
    LDBL(1.0L, "\x3f\xff\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    LDBL(-2.5L, "\xc0\x00\x40\0\0\0\0\0\0\0\0\0\0\0\0\0");
    LDBL(0.0L, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    LDBL(-0.0L, "\x80\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    LDBL((long double)INFINITY, "\x7f\xff\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    LDBL(0x1.123456789abcdp-1000L, "\x3c\x17\x12\x34\x56\x78\x9a\xbc\xd0\0\0\0\0\0\0\0");
    long double more[] = { 3.14159265358979323846264338327950288L, 1e4000L, -1e-4000L, 0x1p-16440L,
                           0x1.fffffffffffffffep16383L };
    unsigned char buf[160];
    for (int i = 0; i < 5; i++) {
        MPI_Aint at = 0;
        long double back = 0;
        OK(MPI_Pack_external(EXT, &more[i], 1, MPI_LONG_DOUBLE, buf, sizeof buf, &at));
        at = 0;
        OK(MPI_Unpack_external(EXT, buf, sizeof buf, &at, &back, 1, MPI_LONG_DOUBLE));
        CHECK_MSG(back == more[i], "%Lg came back as %Lg", more[i], back);
    }
#if defined(__SIZEOF_FLOAT128__) && defined(__x86_64__)
    for (int i = 0; i < 5; i++) { /* the compiler's own quads */
        __float128 q = more[i];
        MPI_Aint at = 0;
        unsigned char bytes[16];
        memcpy(bytes, &q, 16);
        OK(MPI_Pack_external(EXT, &more[i], 1, MPI_LONG_DOUBLE, buf, sizeof buf, &at));
        for (int k = 0; k < 16; k++)
            CHECK_EQ(buf[k], bytes[15 - k]);
    }
#endif
}

/* A vector of structs, longer than the conversion's buffer. */
static void derived_types(void)
{
    enum { N = 3000 };
    struct item {
        long l;
        char c;
        double d[2];
        int unused;
    };
    MPI_Datatype parts[] = { MPI_LONG, MPI_CHAR, MPI_DOUBLE }, s, r, v;
    MPI_Aint disp[] = { offsetof(struct item, l), offsetof(struct item, c),
                        offsetof(struct item, d) };
    MPI_Aint size, at = 0;
    OK(MPI_Type_create_struct(3, (int[]){ 1, 1, 2 }, disp, parts, &s));
    OK(MPI_Type_create_resized(s, 0, sizeof(struct item), &r));
    OK(MPI_Type_vector(N, 1, 2, r, &v));
    OK(MPI_Type_commit(&v));
    OK(MPI_Pack_external_size(EXT, 1, v, &size));
    CHECK_EQ(size, N * (4 + 1 + 16));
    struct item *in = calloc(2 * N, sizeof *in), *out = calloc(2 * N, sizeof *out);
    unsigned char *buf = malloc((size_t)size);
    for (int i = 0; i < 2 * N; i++)
        in[i] = (struct item){ -i, (char)i, { i, 0.5 * i }, 7 };
    FAILS(MPI_Pack_external(EXT, in, 1, v, buf, size - 1, &at), MPI_ERR_TRUNCATE);
    CHECK_EQ(at, 0);
    OK(MPI_Pack_external(EXT, in, 1, v, buf, size, &at));
    CHECK_EQ(at, size);
    CHECK(!memcmp(buf + 21, "\xff\xff\xff\xfe\2\x40\0\0\0\0\0\0\0\x3f\xf0\0\0\0\0\0\0", 21));
    at = 0;
    OK(MPI_Unpack_external(EXT, buf, size, &at, out, 1, v));
    int wrong = 0;
    for (int i = 0; i < 2 * N; i++)
        wrong += i & 1 ? out[i].l != 0 || out[i].d[1] != 0
                       : out[i].l != in[i].l || out[i].c != in[i].c || out[i].d[0] != in[i].d[0] ||
                             out[i].d[1] != in[i].d[1] || out[i].unused;
    CHECK_EQ(wrong, 0);
    free(in);
    free(out);
    free(buf);
    OK(MPI_Type_free(&v));
    OK(MPI_Type_free(&r));
    OK(MPI_Type_free(&s));
}

static void wrong_external(void)
{
    char buf[16];
    int v = 1;
    long big = 1L << 40;
    MPI_Aint at = 0, size;
    FAILS(MPI_Pack_external("external64", &v, 1, MPI_INT, buf, 16, &at),
          MPI_ERR_UNSUPPORTED_DATAREP);
    FAILS(MPI_Pack_external_size("native", 1, MPI_INT, &size), MPI_ERR_UNSUPPORTED_DATAREP);
    FAILS(MPI_Pack_external(EXT, &v, 5, MPI_INT, buf, 16, &at), MPI_ERR_TRUNCATE);
    at = 17;
    FAILS(MPI_Unpack_external(EXT, buf, 16, &at, &v, 1, MPI_INT), MPI_ERR_ARG);
    CHECK_EQ(at, 17);
    at = 0;
    FAILS(MPI_Pack_external(EXT, &big, 1, MPI_LONG, buf, 16, &at), MPI_ERR_CONVERSION);
    CHECK_EQ(at, 0);
}

static void check_f90(MPI_Datatype t, int nbytes, int want_combiner, int p, int r)
{
    int n, ni, na, nt, combiner, v[2] = { -7, -7 }, nv = want_combiner == MPI_COMBINER_F90_INTEGER;
    MPI_Type_size(t, &n);
    CHECK_EQ(n, nbytes);
    OK(MPI_Type_get_envelope(t, &ni, &na, &nt, &combiner));
    CHECK(ni == 2 - nv && na == 0 && nt == 0 && combiner == want_combiner);
    OK(MPI_Type_get_contents(t, ni, 0, 0, v, NULL, NULL));
    CHECK(nv ? v[0] == r : v[0] == p && v[1] == r);
}

static void f90_types(void)
{
    static const struct {
        int p, r, nbytes;
    } reals[] = { { 6, 37, 4 },
                  { 7, 37, 8 },
                  { 6, 38, 8 },
                  { 15, 307, 8 },
                  { 18, MPI_UNDEFINED, 16 },
                  { 33, 4931, 16 },
                  { MPI_UNDEFINED, 30, 4 },
                  { 0, 0, 4 } },
      integers[] = { { 0, 2, 1 }, { 0, 4, 2 }, { 0, 9, 4 }, { 0, 10, 8 }, { 0, 38, 16 } };
    MPI_Datatype t, u;
    for (int i = 0; i < 8; i++) {
        OK(MPI_Type_create_f90_real(reals[i].p, reals[i].r, &t));
        check_f90(t, reals[i].nbytes, MPI_COMBINER_F90_REAL, reals[i].p, reals[i].r);
        OK(MPI_Type_create_f90_real(reals[i].p, reals[i].r, &u));
        CHECK(t == u);
        OK(MPI_Type_create_f90_complex(reals[i].p, reals[i].r, &u));
        check_f90(u, 2 * reals[i].nbytes, MPI_COMBINER_F90_COMPLEX, reals[i].p, reals[i].r);
        CHECK(t != u);
    }
    for (int i = 0; i < 5; i++) {
        OK(MPI_Type_create_f90_integer(integers[i].r, &t));
        check_f90(t, integers[i].nbytes, MPI_COMBINER_F90_INTEGER, 0, integers[i].r);
        OK(MPI_Type_create_f90_integer(integers[i].r, &u));
        CHECK(t == u);
    }
    FAILS(MPI_Type_create_f90_real(34, 10, &t), MPI_ERR_ARG);
    FAILS(MPI_Type_create_f90_real(5, 4932, &t), MPI_ERR_ARG);
    FAILS(MPI_Type_create_f90_real(MPI_UNDEFINED, MPI_UNDEFINED, &t), MPI_ERR_ARG);
    FAILS(MPI_Type_create_f90_complex(-1, 3, &t), MPI_ERR_ARG);
    FAILS(MPI_Type_create_f90_integer(39, &t), MPI_ERR_ARG);
    OK(MPI_Type_create_f90_real(15, 300, &t));
    u = t;
    FAILS(MPI_Type_free(&u), MPI_ERR_TYPE);
    double in[3] = { 1, 2, 3 }, out[3] = { 0 };
    OK(MPI_Allreduce(in, out, 3, t, MPI_SUM, mt_comm)); /* committed, and reduced as a real */
    CHECK(out[2] == 3 * mt_size);
    OK(MPI_Type_contiguous(3, t, &u));
    OK(MPI_Type_free(&u));
    int n;
    char name[MPI_MAX_OBJECT_NAME];
    OK(MPI_Type_get_name(t, name, &n));
    CHECK(n == 0);
}

static void match_size(void)
{
    static const struct {
        int cls, nbytes;
        MPI_Datatype want;
    } rows[] = {
        { MPI_TYPECLASS_REAL, 4, MPI_REAL4 },       { MPI_TYPECLASS_REAL, 8, MPI_REAL8 },
        { MPI_TYPECLASS_REAL, 16, MPI_REAL16 },     { MPI_TYPECLASS_INTEGER, 1, MPI_INTEGER1 },
        { MPI_TYPECLASS_INTEGER, 8, MPI_INTEGER8 }, { MPI_TYPECLASS_INTEGER, 16, MPI_INTEGER16 },
        { MPI_TYPECLASS_COMPLEX, 8, MPI_COMPLEX8 }, { MPI_TYPECLASS_COMPLEX, 32, MPI_COMPLEX32 },
    };
    MPI_Datatype t;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int n;
        MPI_Type_size(rows[i].want, &n);
        if (n == MPI_UNDEFINED) {
            FAILS(MPI_Type_match_size(rows[i].cls, rows[i].nbytes, &t), MPI_ERR_ARG);
            continue;
        }
        OK(MPI_Type_match_size(rows[i].cls, rows[i].nbytes, &t));
        CHECK(t == rows[i].want);
    }
    FAILS(MPI_Type_match_size(MPI_TYPECLASS_REAL, 3, &t), MPI_ERR_ARG);
    FAILS(MPI_Type_match_size(MPI_TYPECLASS_REAL, 0, &t), MPI_ERR_ARG);
    FAILS(MPI_Type_match_size(12, 4, &t), MPI_ERR_ARG);
}

static void wide_reductions(void)
{
    int n;
    MPI_Type_size(MPI_INTEGER16, &n);
#if defined(__SIZEOF_INT128__)
    CHECK_EQ(n, 16);
    __int128 in[5], out[5];
    for (int i = 0; i < 5; i++)
        in[i] = ((__int128)1 << 70) * (mt_rank + 1) + i;
    OK(MPI_Allreduce(in, out, 5, MPI_INTEGER16, MPI_SUM, mt_comm));
    for (int i = 0; i < 5; i++)
        CHECK(out[i] == ((__int128)1 << 70) * (mt_size * (mt_size + 1) / 2) + i * mt_size);
    OK(MPI_Allreduce(in, out, 5, MPI_INTEGER16, MPI_MAX, mt_comm));
    CHECK(out[4] == ((__int128)1 << 70) * mt_size + 4);
    OK(MPI_Allreduce(in, out, 5, MPI_LOGICAL16, MPI_LAND, mt_comm));
    CHECK(mt_size == 1 || out[0] == 1);
#endif
    MPI_Type_size(MPI_REAL16, &n);
#if defined(__SIZEOF_FLOAT128__) && defined(__x86_64__)
    CHECK_EQ(n, 16);
    __float128 q[2] = { (__float128)1 / 3, mt_rank }, sum[2];
    OK(MPI_Allreduce(q, sum, 2, MPI_REAL16, MPI_SUM, mt_comm));
    __float128 off = sum[0] - (__float128)mt_size / 3;
    CHECK(off < 1e-32 && off > -1e-32 && sum[1] == mt_size * (mt_size - 1) / 2);
    OK(MPI_Allreduce(q, sum, 1, MPI_COMPLEX32, MPI_SUM, mt_comm));
    CHECK(sum[1] == mt_size * (mt_size - 1) / 2);
    FAILS(MPI_Allreduce(q, sum, 1, MPI_COMPLEX32, MPI_MAX, mt_comm), MPI_ERR_OP);
#endif
    uint16_t h[2] = { 0x3c00, 0x4000 }, hs[2]; /* 1 + 2i */
    OK(MPI_Allreduce(h, hs, 1, MPI_COMPLEX4, MPI_SUM, mt_comm));
    CHECK(mt_size != 2 || (hs[0] == 0x4000 && hs[1] == 0x4400));
    OK(MPI_Reduce_local(h, h, 1, MPI_COMPLEX4, MPI_PROD)); /* -3 + 4i */
    CHECK(h[0] == 0xc200 && h[1] == 0x4400);
    OK(MPI_Allreduce((unsigned char[]){ 1 }, hs, 1, MPI_LOGICAL1, MPI_LXOR, mt_comm));
    CHECK_EQ(*(unsigned char *)hs, mt_size & 1);
    double c[2] = { 0, 1 };
    OK(MPI_Reduce_local(c, c, 1, MPI_CXX_DOUBLE_COMPLEX, MPI_PROD));
    CHECK(c[0] == -1 && c[1] == 0);
    FAILS(MPI_Reduce_local(c, c, 1, MPI_DOUBLE, MPI_REPLACE), MPI_ERR_OP);
}

int main(int argc, char **argv)
{
    mt_init(argc, argv);
    MT_RUN(basic_types);
    MT_RUN(long_double);
    MT_RUN(derived_types);
    MT_RUN(wrong_external);
    MT_RUN(f90_types);
    MT_RUN(match_size);
    MT_RUN(wide_reductions);
    return mt_end();
}
