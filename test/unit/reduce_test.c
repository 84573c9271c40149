/* SPDX-License-Identifier: BSD-3-Clause */
/* Reduction kernels against plain loops, the table of operations that MPI allows, and derived
 * layouts. */
#include "runtime/reduce/kernel.h"

#include <complex.h>
#include <math.h>
#include "runtime/base/err.h"
#include "test/check.h"

static bool avx2; /* kernels with AVX2 are under test */

static rt_reduce_fn *find(enum rt_opcode op, enum rt_elem elem)
{
    return rt_reduce_find_for(op, elem, avx2);
}

#define N 67 /* more than a vector, with an odd rest */

#define LOOP_TEST(elem, type, op, expr, lo, hi) \
    do { \
        type a[N], b[N], out[N]; \
        for (int i = 0; i < N; i++) { \
            a[i] = (type)((lo) + (i * 37) % ((hi) - (lo) + 1)); \
            b[i] = (type)((hi) - (i * 23) % ((hi) - (lo) + 1)); \
        } \
        rt_reduce_fn *fn = find(RT_OP_##op, RT_ELEM_##elem); \
        CHECK_MSG(fn, "%s on %s is missing", #op, #elem); \
        if (!fn) \
            break; \
        fn(a, b, out, N); \
        for (int i = 0; i < N; i++) { \
            type x = a[i], y = b[i], want = (type)(expr); \
            CHECK_MSG(out[i] == want, "%s on %s, element %d", #op, #elem, i); \
        } \
        type keep[N]; \
        memcpy(keep, b, sizeof b); \
        fn(a, b, b, N); \
        fn(a, keep, a, N); \
        for (int i = 0; i < N; i++) \
            CHECK_MSG(a[i] == out[i] && b[i] == out[i], "%s on %s into an operand", #op, #elem); \
    } while (0)

#define ORDER_AND_SUM(elem, type, lo, hi) \
    LOOP_TEST(elem, type, MAX, x > y ? x : y, lo, hi); \
    LOOP_TEST(elem, type, MIN, x < y ? x : y, lo, hi); \
    LOOP_TEST(elem, type, SUM, x + y, lo, hi); \
    LOOP_TEST(elem, type, PROD, x *y, lo, hi)

#define LOGIC_AND_BITS(elem, type, lo, hi) \
    LOOP_TEST(elem, type, LAND, x &&y, lo, hi); \
    LOOP_TEST(elem, type, LOR, x || y, lo, hi); \
    LOOP_TEST(elem, type, LXOR, !x != !y, lo, hi); \
    LOOP_TEST(elem, type, BAND, x &y, lo, hi); \
    LOOP_TEST(elem, type, BOR, x | y, lo, hi); \
    LOOP_TEST(elem, type, BXOR, x ^ y, lo, hi)

static void signed_integers(void)
{
    ORDER_AND_SUM(I8, int8_t, -11, 11);
    LOGIC_AND_BITS(I8, int8_t, -3, 3);
    ORDER_AND_SUM(I16, int16_t, -150, 150);
    LOGIC_AND_BITS(I16, int16_t, -3, 3);
    ORDER_AND_SUM(I32, int32_t, -30000, 30000);
    LOGIC_AND_BITS(I32, int32_t, -3, 3);
    ORDER_AND_SUM(I64, int64_t, -2000000000ll, 2000000000ll);
    LOGIC_AND_BITS(I64, int64_t, -3, 3);
}

static void unsigned_integers(void)
{
    ORDER_AND_SUM(U8, uint8_t, 0, 255);
    LOGIC_AND_BITS(U8, uint8_t, 0, 3);
    ORDER_AND_SUM(U16, uint16_t, 65000, 65535);
    LOGIC_AND_BITS(U16, uint16_t, 0, 3);
    ORDER_AND_SUM(U32, uint32_t, 4294967000u, 4294967290u);
    LOGIC_AND_BITS(U32, uint32_t, 0, 3);
    ORDER_AND_SUM(U64, uint64_t, 18446744073709551000ull, 18446744073709551610ull);
    LOGIC_AND_BITS(U64, uint64_t, 0, 3);
    LOOP_TEST(BYTE, uint8_t, BXOR, x ^ y, 0, 255);
    LOOP_TEST(BOOL, uint8_t, LXOR, !x != !y, 0, 1);
}

static void floating_point(void)
{
    ORDER_AND_SUM(F32, float, -100, 100);
    ORDER_AND_SUM(F64, double, -100, 100);
    LOOP_TEST(LDBL, long double, MAX, x > y ? x : y, -100, 100);
    rt_reduce_fn *fn = find(RT_OP_PROD, RT_ELEM_C64);
    double complex a[2] = { 1 + 2 * I, -3 }, b[2] = { 3 - I, 2 * I }, out[2];
    fn(a, b, out, 2);
    CHECK(out[0] == 5 + 5 * I && out[1] == -6 * I);
    long double la = 1, lb = 0x1p-60L, lo;
    find(RT_OP_SUM, RT_ELEM_LDBL)(&la, &lb, &lo, 1);
    CHECK(lo == 1 + 0x1p-60L);
}

/* Value of a half or bfloat16, computed the slow and obvious way. */
static double value16(uint16_t h, int ebits)
{
    int mbits = 15 - ebits, bias = (1 << (ebits - 1)) - 1, e = h >> mbits & ((1 << ebits) - 1),
        m = h & ((1 << mbits) - 1);
    double v = e == (1 << ebits) - 1 ? (m ? NAN : INFINITY)
               : e                   ? ldexp((1 << mbits) + m, e - bias - mbits)
                                     : ldexp(m, 1 - bias - mbits);
    return h & 0x8000 ? -v : v;
}

/* Every 16-bit value and a few partners: x + 0, and sums that round, must be the representable
 * value nearest to the sum. */
static void check_16bit(enum rt_elem elem, int ebits)
{
    static const uint16_t partners[] = { 0, 1, 0x0400, 0x3c00, 0x3c01, 0x8001, 0xbc00, 0x4200 };
    rt_reduce_fn *sum = find(RT_OP_SUM, elem);
    uint16_t inf = (uint16_t)(((1 << ebits) - 1) << (15 - ebits));
    for (unsigned i = 0; i < 65536 && !check_failed_case; i++)
        for (unsigned j = 0; j < 8; j++) {
            uint16_t x = (uint16_t)i, y = partners[j], out;
            sum(&x, &y, &out, 1);
            double want = (double)(float)(value16(x, ebits) + value16(y, ebits)),
                   got = value16(out, ebits);
            if (isnan(want)) {
                CHECK_MSG(isnan(got), "%04x + %04x gives %04x, expected a NaN", x, y, out);
                continue;
            }
            if (isinf(want)) {
                CHECK_MSG(got == want, "%04x + %04x gives %04x, expected infinity", x, y, out);
                continue;
            }
            uint16_t mag = out & 0x7fff;
            double here = mag == inf ? ldexp(1, ebits == 5 ? 16 : 128) : fabs(got), w = fabs(want),
                   err = fabs(here - w);
            double up = mag >= inf       ? INFINITY
                        : mag + 1 == inf ? ldexp(1, ebits == 5 ? 16 : 128)
                                         : value16((uint16_t)(mag + 1), ebits);
            double down = mag ? value16((uint16_t)(mag - 1), ebits) : -INFINITY;
            bool nearest = err < fabs(up - w) && err < fabs(down - w);
            bool tie = (err == fabs(up - w) || err == fabs(down - w)) && !(mag & 1);
            CHECK_MSG((nearest || tie) && (got == 0 || signbit(got) == signbit(want)),
                      "%04x + %04x gives %04x (%g), sum %g", x, y, out, got, want);
        }
}

/* ---- several sources ---- */

enum { SOURCES = 5, WIDE_N = 1100 };

static const void *source_of(const void *arg, int i) { return (const uint16_t *)arg + i * WIDE_N; }

/* The 16-bit value nearest to f, or one of the nearest. */
static double nearest16(float f, int ebits)
{
    double unit = ldexp(1, ilogb(f) - (14 - ebits)), low = floor(f / unit) * unit;
    return f - low < low + unit - f ? low : low + unit;
}

static void check_wide(enum rt_opcode op, enum rt_elem elem, int ebits)
{
    static uint16_t in[SOURCES][WIDE_N], out[WIDE_N];
    int mbits = 15 - ebits, bias = (1 << (ebits - 1)) - 1, nrounded = 0;
    CHECK(rt_reduce_is_wide(op, elem));
    for (int i = 0; i < WIDE_N; i++)
        for (int k = 0; k < SOURCES; k++) /* from 1 to 4 */
            in[k][i] = (uint16_t)((bias << mbits) + (i * 37 + k * 101) % (2 << mbits));
    rt_reduce_wide(op, elem, source_of, in, SOURCES, out, WIDE_N);
    for (int i = 0; i < WIDE_N; i++) {
        float f = (float)value16(in[0][i], ebits);
        uint16_t pairwise = in[0][i];
        for (int k = 1; k < SOURCES; k++) {
            float v = (float)value16(in[k][i], ebits);
            f = op == RT_OP_SUM ? f + v : f * v;
            find(op, elem)(&pairwise, &in[k][i], &pairwise, 1);
        }
        double got = value16(out[i], ebits);
        CHECK_MSG(fabs(got - f) <= fabs(nearest16(f, ebits) - f), "element %d is %g, from %g", i,
                  got, (double)f);
        nrounded += pairwise != out[i];
    }
    CHECK(nrounded > 0); /* rounding pairwise gives different results */
    memcpy(in[1], in[0], sizeof in[1]);
    rt_reduce_wide(op, elem, source_of, in, 2, in[1], WIDE_N);
    find(op, elem)(in[0], in[0], out, WIDE_N);
    CHECK(memcmp(in[1], out, sizeof out) == 0); /* into a source */
}

static void several_sources(void)
{
    check_wide(RT_OP_SUM, RT_ELEM_F16, 5);
    check_wide(RT_OP_PROD, RT_ELEM_F16, 5);
    check_wide(RT_OP_SUM, RT_ELEM_BF16, 8);
    check_wide(RT_OP_PROD, RT_ELEM_BF16, 8);
    CHECK(!rt_reduce_is_wide(RT_OP_MAX, RT_ELEM_F16) && !rt_reduce_is_wide(RT_OP_SUM, RT_ELEM_F32));
}

static void half(void) { check_16bit(RT_ELEM_F16, 5); }
static void bfloat16(void) { check_16bit(RT_ELEM_BF16, 8); }

static void pairs(void)
{
    struct {
        float v;
        int i;
    } a[3] = { { 1, 5 }, { 2, 7 }, { 3, 9 } }, b[3] = { { 2, 1 }, { 1, 2 }, { 3, 4 } }, out[3];
    find(RT_OP_MINLOC, RT_ELEM_F32_I32)(a, b, out, 3);
    CHECK(out[0].v == 1 && out[0].i == 5 && out[1].v == 1 && out[1].i == 2 && out[2].v == 3 &&
          out[2].i == 4);
    find(RT_OP_MAXLOC, RT_ELEM_F32_I32)(a, b, out, 3);
    CHECK(out[0].v == 2 && out[0].i == 1 && out[1].v == 2 && out[1].i == 7 && out[2].v == 3 &&
          out[2].i == 4);
    struct {
        long double v;
        int i;
    } c = { 4, 1 }, d = { 4, 0 };
    find(RT_OP_MAXLOC, RT_ELEM_LDBL_I32)(&c, &d, &c, 1);
    CHECK(c.v == 4 && c.i == 0);
    double e[2] = { 4, 3 }, f[2] = { 4, 2 };
    rt_reduce_fn *fn = find(RT_OP_MINLOC, RT_ELEM_F64_F64);
    CHECK(fn && find(RT_OP_MAXLOC, RT_ELEM_F32_F32));
    if (fn)
        fn(e, f, e, 1);
    CHECK(e[0] == 4 && e[1] == 2);
}

static void what_mpi_does_not_allow(void)
{
    CHECK(!find(RT_OP_MAX, RT_ELEM_C64));
    CHECK(!find(RT_OP_BAND, RT_ELEM_F32));
    CHECK(!find(RT_OP_LAND, RT_ELEM_F64));
    CHECK(!find(RT_OP_SUM, RT_ELEM_BYTE));
    CHECK(!find(RT_OP_SUM, RT_ELEM_BOOL));
    CHECK(!find(RT_OP_MINLOC, RT_ELEM_I32));
    CHECK(!find(RT_OP_SUM, RT_ELEM_F32_I32));
    for (int op = 0; op < RT_OP_COUNT; op++)
        CHECK(!find((enum rt_opcode)op, RT_ELEM_NONE));
    for (int e = 0; e < RT_ELEM_COUNT; e++)
        CHECK(!find(RT_OP_USER, (enum rt_elem)e) && !find(RT_OP_NONE, (enum rt_elem)e));
}

static void sizes_of_elements(void)
{
    CHECK_EQ(rt_elem_nbytes(RT_ELEM_NONE), 0);
    CHECK_EQ(rt_elem_nbytes(RT_ELEM_C32), 8);
    CHECK_EQ(rt_elem_nbytes(RT_ELEM_I16_I32), 8);
    CHECK_EQ(rt_elem_nbytes(RT_ELEM_F64_F64), 16);
    CHECK(rt_elem_packs(RT_ELEM_F32_F32));
    CHECK(rt_elem_packs(RT_ELEM_F64) && rt_elem_packs(RT_ELEM_F32_I32));
    CHECK(!rt_elem_packs(RT_ELEM_I16_I32) && !rt_elem_packs(RT_ELEM_F64_I32) &&
          !rt_elem_packs(RT_ELEM_NONE));
}

static void derived_layouts(void)
{
    const struct rt_op sum = { .code = RT_OP_SUM, .commutes = true };
    struct rt_layout i32, vec;
    rt_layout_basic(&i32, 4, 4, RT_ELEM_I32);
    CHECK_EQ(rt_layout_vector(&vec, 3, 2, 12, &i32), 0); /* two of every three, three times */
    int32_t in[20], inout[20];
    for (int i = 0; i < 20; i++) {
        in[i] = i;
        inout[i] = 100;
    }
    CHECK_EQ(rt_reduce_apply(&sum, in, inout, 2, &vec), 0); /* the extent is 8 words */
    for (int i = 0; i < 20; i++) {
        bool data = i < 16 && (i % 8) % 3 != 2;
        CHECK_EQ(inout[i], data ? 100 + i : 100);
    }
    rt_layout_fini(&vec);
    const struct rt_op land = { .code = RT_OP_LAND, .commutes = true };
    struct rt_layout f64;
    rt_layout_basic(&f64, 8, 8, RT_ELEM_F64);
    CHECK_EQ(rt_reduce_apply(&land, in, inout, 1, &f64), -RT_EINVAL);
}

/* A pair with a hole in it, whose two pieces are two blocks. */
static void pairs_with_holes(void)
{
    struct pair {
        short v;
        int i;
    } a[3] = { { 1, 5 }, { 9, 7 }, { 3, 9 } }, b[3] = { { 2, 1 }, { 1, 2 }, { 3, 4 } };
    const struct rt_op minloc = { .code = RT_OP_MINLOC, .commutes = true };
    struct rt_layout i16, i32, pair;
    rt_layout_basic(&i16, 2, 2, RT_ELEM_I16);
    rt_layout_basic(&i32, 4, 4, RT_ELEM_I32);
    const struct rt_layout *types[] = { &i16, &i32 };
    CHECK_EQ(rt_layout_struct(&pair, 2, (int64_t[]){ 1, 1 }, (int64_t[]){ 0, 4 }, types, false), 0);
    pair.elem = RT_ELEM_I16_I32;
    CHECK_EQ(rt_reduce_apply(&minloc, a, b, 3, &pair), 0);
    CHECK(b[0].v == 1 && b[0].i == 5 && b[1].v == 1 && b[1].i == 2 && b[2].v == 3 && b[2].i == 4);
    rt_layout_fini(&pair);
}

/* Operations of MPI_Accumulate: the value is replaced, or left unchanged. */
static void replace_and_no_op(void)
{
    for (int e = 1; e < RT_ELEM_COUNT; e++) {
        int64_t n = rt_elem_nbytes((enum rt_elem)e);
        char a[64 * 3], b[64 * 3], out[64 * 3];
        memset(a, 1, sizeof a);
        memset(b, 2, sizeof b);
        rt_reduce_fn *replace = find(RT_OP_REPLACE, (enum rt_elem)e);
        rt_reduce_fn *no_op = find(RT_OP_NO_OP, (enum rt_elem)e);
        CHECK_MSG(replace && no_op, "element %d of %d bytes", e, (int)n);
        if (!replace || !no_op)
            continue;
        replace(a, b, out, 3);
        CHECK(out[0] == 1 && out[3 * n - 1] == 1);
        no_op(a, b, out, 3);
        CHECK(out[0] == 2 && out[3 * n - 1] == 2);
        no_op(a, b, b, 3);
        CHECK(b[0] == 2);
        replace(a, b, b, 3);
        CHECK(b[0] == 1 && b[3 * n - 1] == 1 && b[3 * n] == 2);
    }
}

/* On processors that have AVX2, the kernels of those that have not. */
static void without_avx2(void)
{
    rt_reduce_fn *wide = rt_reduce_find(RT_OP_SUM, RT_ELEM_F64);
    avx2 = false;
    CHECK_EQ(find(RT_OP_SUM, RT_ELEM_F64) != wide, rt_reduce_has_avx2());
    signed_integers();
    unsigned_integers();
    floating_point();
    half();
    bfloat16();
}

int main(void)
{
    avx2 = rt_reduce_has_avx2();
    RUN(signed_integers);
    RUN(unsigned_integers);
    RUN(floating_point);
    RUN(half);
    RUN(bfloat16);
    RUN(without_avx2);
    RUN(several_sources);
    RUN(pairs);
    RUN(what_mpi_does_not_allow);
    RUN(sizes_of_elements);
    RUN(derived_layouts);
    RUN(pairs_with_holes);
    RUN(replace_and_no_op);
    return check_end();
}
