/* SPDX-License-Identifier: BSD-3-Clause */
/* Random cases of the kernels that reduce, with the expected results: for fold_check.cu on a device
 * and test/unit/gpu_fold_kernel.cc on the CPU.  C++. */
#ifndef TEST_GPU_FOLD_CASE_H
#define TEST_GPU_FOLD_CASE_H

#include "runtime/gpu/fold_kernels.h"
#include "runtime/gpu/kernel.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vector>

typedef std::vector<char> bytes;

static const size_t AREA = 1 << 20;
struct area { /* memory that kernels use, and its contents */
    char *at;
    bytes image;
    size_t used;
};
static uint64_t rng;

static uint32_t rnd(uint32_t n) /* 0..n-1 */
{
    rng = rng * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(rng >> 33) % n;
}

enum fold_kernel { BITS, FOUR, EIGHT, F16, BF16, ONE, TWO, WIDE8, WIDE16, FOLD_KERNELS };
struct fold_kind { /* parameters of a kernel, as runtime/gpu/fold.c chooses them */
    fold_kernel kernel;
    uint8_t type, code;
    unsigned nbytes, word;
    const char *name;
};
#define KIND(kernel, type, code, nbytes, word) \
    { \
        kernel, RT_GPU_##type, RT_GPU_FOLD_##code, nbytes, word, #type " " #code \
    }
#define FOUR_CODES(kernel, type, nbytes, word) \
    KIND(kernel, type, SUM, nbytes, word), KIND(kernel, type, PROD, nbytes, word), \
        KIND(kernel, type, MAX, nbytes, word), KIND(kernel, type, MIN, nbytes, word)
#define INTEGER(kernel, type, nbytes) \
    FOUR_CODES(kernel, type, nbytes, nbytes), KIND(kernel, type, LAND, nbytes, nbytes), \
        KIND(kernel, type, LOR, nbytes, nbytes), KIND(kernel, type, LXOR, nbytes, nbytes)
#define PAIR(kernel, type, nbytes, word) \
    KIND(kernel, type, MINLOC, nbytes, word), KIND(kernel, type, MAXLOC, nbytes, word)
static const fold_kind kinds[] = {
    KIND(BITS, U8, COPY, 1, 1),
    KIND(BITS, U8, EACH, 1, 1),
    KIND(BITS, U8, BAND, 1, 1),
    KIND(BITS, U8, BOR, 1, 1),
    KIND(BITS, U8, BXOR, 1, 1),
    INTEGER(FOUR, I32, 4),
    INTEGER(FOUR, U32, 4),
    FOUR_CODES(FOUR, F32, 4, 4),
    INTEGER(EIGHT, I64, 8),
    INTEGER(EIGHT, U64, 8),
    FOUR_CODES(EIGHT, F64, 8, 8),
    FOUR_CODES(F16, F16, 2, 2),
    FOUR_CODES(BF16, BF16, 2, 2),
    INTEGER(ONE, I8, 1),
    INTEGER(ONE, U8, 1),
    INTEGER(TWO, I16, 2),
    INTEGER(TWO, U16, 2),
    KIND(WIDE8, C32, PROD, 8, 4),
    PAIR(WIDE8, F32_I32, 8, 4),
    PAIR(WIDE8, I32_I32, 8, 4),
    PAIR(WIDE8, I16_I32, 8, 4),
    PAIR(WIDE8, F32_F32, 8, 4),
    KIND(WIDE16, C64, PROD, 16, 8),
    PAIR(WIDE16, F64_I32, 16, 8),
    PAIR(WIDE16, I64_I32, 16, 8),
    PAIR(WIDE16, F64_F64, 16, 8),
};
static const unsigned NKINDS = sizeof kinds / sizeof *kinds;

/* ---- data: some values often, so that there are equal values and zeros; no NaN ---- */

static float real()
{
    return rnd(4) ? ldexpf((float)rnd(2000001) - 1000000, (int)rnd(20) - 20) : rnd(3);
}

static void make_element(const fold_kind &k, char *p)
{
    for (unsigned i = 0; i < k.nbytes; i++)
        p[i] = (char)(rnd(3) ? rnd(256) : 0);
    float f[2] = { real(), real() };
    double d[2] = { real() * 1.0000000001, real() };
    uint16_t h;
    switch (k.type) {
    case RT_GPU_F16:
        h = (uint16_t)((0x1000 + rnd(0x3e00)) | rnd(2) << 15);
        memcpy(p, &h, 2);
        break;
    case RT_GPU_BF16:
        h = (uint16_t)((0x3800 + rnd(0x1000)) | rnd(2) << 15);
        memcpy(p, &h, 2);
        break;
    case RT_GPU_F32:
    case RT_GPU_F32_I32:
        memcpy(p, f, 4);
        break;
    case RT_GPU_F64:
    case RT_GPU_F64_I32:
        memcpy(p, d, 8);
        break;
    case RT_GPU_C32:
    case RT_GPU_F32_F32:
        memcpy(p, f, 8);
        break;
    case RT_GPU_C64:
    case RT_GPU_F64_F64:
        memcpy(p, d, 16);
        break;
    }
}

/* ---- expected results ---- */

static float float_of(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

static float up(uint8_t type, uint16_t h)
{
    if (type == RT_GPU_BF16)
        return float_of((uint32_t)h << 16);
    float f = h >> 10 & 31 ? ldexpf((float)((h & 0x3ff) | 0x400), (h >> 10 & 31) - 25)
                           : ldexpf((float)(h & 0x3ff), -24);
    return h & 0x8000 ? -f : f;
}

static uint16_t down(uint8_t type, float f)
{
    uint32_t u = bits_of(f);
    if (type == RT_GPU_BF16)
        return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
    float mag = fabsf(f);
    uint16_t sign = (uint16_t)(u >> 16 & 0x8000);
    if (mag >= 65520)
        return sign | 0x7c00;
    int e = mag < 0x1p-14f ? -14 : ilogbf(mag);
    float units = rintf(ldexpf(mag, 10 - e)); /* to even; 2048 carries into the exponent */
    return (uint16_t)(sign | (((e + 14) << 10) + (int)units));
}

template <class S, class U> static U integer(uint8_t code, U x, U y, bool is_signed)
{
    switch (code) {
    case RT_GPU_FOLD_SUM:
        return (U)(1u * x + y);
    case RT_GPU_FOLD_PROD:
        return (U)(1u * x * y);
    case RT_GPU_FOLD_MAX:
        return is_signed ? ((S)x > (S)y ? x : y) : x > y ? x : y;
    case RT_GPU_FOLD_MIN:
        return is_signed ? ((S)x < (S)y ? x : y) : x < y ? x : y;
    case RT_GPU_FOLD_LAND:
        return x && y;
    case RT_GPU_FOLD_LOR:
        return x || y;
    case RT_GPU_FOLD_LXOR:
        return !x != !y;
    case RT_GPU_FOLD_BAND:
        return x & y;
    case RT_GPU_FOLD_BOR:
        return x | y;
    default:
        return x ^ y;
    }
}

template <class R> static R number(uint8_t code, R x, R y)
{
    switch (code) {
    case RT_GPU_FOLD_SUM:
        return x + y;
    case RT_GPU_FOLD_PROD:
        return x * y;
    case RT_GPU_FOLD_MAX:
        return x > y ? x : y;
    default:
        return x < y ? x : y;
    }
}

template <class S, class U>
static void do_integer(const fold_kind &k, char *acc, const char *v, bool is_signed)
{
    U x, y;
    memcpy(&x, acc, sizeof x);
    memcpy(&y, v, sizeof y);
    x = integer<S, U>(k.code, x, y, is_signed);
    memcpy(acc, &x, sizeof x);
}

template <class R> static void do_number(const fold_kind &k, char *acc, const char *v)
{
    R x, y;
    memcpy(&x, acc, sizeof x);
    memcpy(&y, v, sizeof y);
    x = number<R>(k.code, x, y);
    memcpy(acc, &x, sizeof x);
}

template <class R> static void do_product(char *acc, const char *v)
{
    volatile R x[2], y[2], p[4]; /* prevents fused operations */
    memcpy((void *)x, acc, sizeof x);
    memcpy((void *)y, v, sizeof y);
    p[0] = x[0] * y[0];
    p[1] = x[1] * y[1];
    p[2] = x[0] * y[1];
    p[3] = x[1] * y[0];
    x[0] = p[0] - p[1];
    x[1] = p[2] + p[3];
    memcpy(acc, (void *)x, sizeof x);
}

template <class V, class I, unsigned AT>
static void do_pair(const fold_kind &k, char *acc, const char *v)
{
    V x, y;
    I i, j;
    memcpy(&x, acc, sizeof x);
    memcpy(&y, v, sizeof y);
    memcpy(&i, acc + AT, sizeof i);
    memcpy(&j, v + AT, sizeof j);
    bool first = k.code == RT_GPU_FOLD_MAXLOC ? x > y : x < y;
    if (!first && (x != y || j < i))
        memcpy(acc, v, k.nbytes);
}

static void combine(const fold_kind &k, char *acc, const char *v)
{
    switch (k.type) {
    case RT_GPU_I8:
    case RT_GPU_U8:
        return do_integer<int8_t, uint8_t>(k, acc, v, k.type == RT_GPU_I8);
    case RT_GPU_I16:
    case RT_GPU_U16:
        return do_integer<int16_t, uint16_t>(k, acc, v, k.type == RT_GPU_I16);
    case RT_GPU_I32:
    case RT_GPU_U32:
        return do_integer<int32_t, uint32_t>(k, acc, v, k.type == RT_GPU_I32);
    case RT_GPU_I64:
    case RT_GPU_U64:
        return do_integer<int64_t, uint64_t>(k, acc, v, k.type == RT_GPU_I64);
    case RT_GPU_F32:
        return do_number<float>(k, acc, v);
    case RT_GPU_F64:
        return do_number<double>(k, acc, v);
    case RT_GPU_C32:
        return do_product<float>(acc, v);
    case RT_GPU_C64:
        return do_product<double>(acc, v);
    case RT_GPU_F32_I32:
        return do_pair<float, int32_t, 4>(k, acc, v);
    case RT_GPU_I32_I32:
        return do_pair<int32_t, int32_t, 4>(k, acc, v);
    case RT_GPU_I16_I32:
        return do_pair<int16_t, int32_t, 4>(k, acc, v);
    case RT_GPU_F32_F32:
        return do_pair<float, float, 4>(k, acc, v);
    case RT_GPU_F64_I32:
        return do_pair<double, int32_t, 8>(k, acc, v);
    case RT_GPU_I64_I32:
        return do_pair<int64_t, int32_t, 8>(k, acc, v);
    case RT_GPU_F64_F64:
        return do_pair<double, double, 8>(k, acc, v);
    }
}

/* ---- a case ---- */

struct fold_case {
    fold_kind kind;
    rt_gpu_fold_args k; /* everything but flag, counter and value */
    unsigned grid;
    bool in_place;
    char *src[RT_GPU_FOLD_PLACES], *dst[RT_GPU_FOLD_PLACES]; /* in the images */
};

/* Computes the fold of element i of the first n sources. */
static void fold_element(const fold_case &c, size_t i, unsigned n, char *acc)
{
    const unsigned nbytes = c.kind.nbytes;
    uint16_t h;
    memcpy(acc, c.src[0] + i * nbytes, nbytes);
    if (c.kind.type == RT_GPU_F16 || c.kind.type == RT_GPU_BF16) {
        float f = 0;
        for (unsigned s = 0; s < n; s++) {
            memcpy(&h, c.src[s] + i * 2, 2);
            float v = up(c.kind.type, h);
            f = s ? number<float>(c.kind.code, f, v) : v;
        }
        h = down(c.kind.type, f);
        memcpy(acc, &h, 2);
    } else {
        for (unsigned s = 1; s < n; s++)
            combine(c.kind, acc, c.src[s] + i * nbytes);
    }
}

/* Computes element i of the images' destinations. */
static void reference_element(const fold_case &c, size_t i)
{
    const unsigned nbytes = c.kind.nbytes;
    char acc[16];
    if (c.kind.code == RT_GPU_FOLD_EACH) { /* bytes; two may be exchanged */
        for (unsigned s = 0; s < c.k.nsrc; s++)
            acc[s] = c.src[s][i];
        for (unsigned s = 0; s < c.k.nsrc; s++)
            c.dst[s][i] = acc[s];
        return;
    }
    if (c.k.prefixes) { /* from the last on: a destination may be its own source or the next one */
        for (unsigned d = c.k.ndst; d-- > 0;) {
            fold_element(c, i, d + 1, acc);
            memcpy(c.dst[d] + i * nbytes, acc, nbytes);
        }
        return;
    }
    fold_element(c, i, c.k.nsrc, acc);
    for (unsigned d = 0; d < c.k.ndst; d++)
        memcpy(c.dst[d] + i * nbytes, acc, nbytes);
}

static void reference(const fold_case &c)
{
    for (size_t i = 0; i < c.k.count; i++)
        reference_element(c, i);
}

static uint32_t unit_of(const fold_case &c)
{
    uint64_t differ = 0, any = 0, first = c.k.dst[0];
    for (unsigned i = 0; i < c.k.nsrc; i++)
        differ |= c.k.src[i] ^ first, any |= c.k.src[i];
    for (unsigned i = 0; i < c.k.ndst; i++)
        differ |= c.k.dst[i] ^ first, any |= c.k.dst[i];
    if (!(differ & 15) && !(any & (c.kind.nbytes - 1)))
        return 16;
    if (c.kind.nbytes < 4 && !(differ & 3) && !(any & (c.kind.nbytes - 1)))
        return 4;
    return any & (c.kind.word - 1) ? 1 : c.kind.word;
}

/* The images of the areas contain the sources; reference() computes the destinations in them. */
static fold_case random_case(std::vector<area> &areas)
{
    fold_case c = {};
    c.kind = kinds[rnd(rnd(8) ? NKINDS : 2)];
    c.k.type = c.kind.type;
    c.k.code = c.kind.code;
    bool copy = c.kind.code == RT_GPU_FOLD_COPY, each = c.kind.code == RT_GPU_FOLD_EACH;
    c.k.nsrc = copy ? 1 : (uint8_t)(2 + rnd(rnd(8) ? 3 : 15));
    if (c.kind.code == RT_GPU_FOLD_PROD && c.k.nsrc > 4)
        c.k.nsrc = 4; /* no infinities, which would lead to NaNs */
    c.k.prefixes = !copy && !each && rnd(4) == 0;
    c.k.ndst = each || c.k.prefixes ? c.k.nsrc : (uint8_t)(1 + rnd(rnd(8) ? 3 : 16));
    bool swap = each && c.k.nsrc == 2 && rnd(2);
    size_t most = AREA / 2 / (c.k.nsrc + c.k.ndst) / c.kind.nbytes;
    size_t longest = rnd(3) ? 40 : rnd(3) ? 2000 : most;
    c.k.count = 1 + rnd((uint32_t)(longest < most ? longest : most));
    static const unsigned aligns[] = { 16, 4, 1 };
    unsigned way = rnd(5); /* equal modulo 16 or 4, by element, by word, odd */
    unsigned align = way < 2 ? 0 : way == 2 ? c.kind.nbytes : way == 3 ? c.kind.word : 1;
    unsigned shift = rnd(16 / c.kind.nbytes) * c.kind.nbytes;
    c.in_place = swap || (!each && rnd(2));
    for (area &a : areas)
        a.used = 0;
    auto take = [&](uint64_t *k, char **image) {
        area &a = areas[rnd((uint32_t)areas.size())];
        size_t at = (a.used + 15) & ~(size_t)15;
        at += way < 2 ? (shift + rnd(16) * aligns[way]) % 16 : rnd(16 / align) * align;
        a.used = at + c.k.count * c.kind.nbytes + rnd(3);
        *k = (uint64_t)a.at + at;
        *image = a.image.data() + at;
    };
    for (unsigned s = 0; s < c.k.nsrc; s++) {
        take(&c.k.src[s], &c.src[s]);
        for (size_t i = 0; i < c.k.count; i++)
            make_element(c.kind, c.src[s] + i * c.kind.nbytes);
    }
    const unsigned next = rnd(2); /* for prefixes: in place as in a scan, or as in an exscan */
    for (unsigned d = 0; d < c.k.ndst; d++) {
        unsigned same = swap ? 1 - d : c.k.prefixes ? d + next : rnd(c.k.nsrc);
        if (c.in_place && (c.k.prefixes ? same < c.k.nsrc && rnd(3) : swap || d == 0))
            c.k.dst[d] = c.k.src[same], c.dst[d] = c.src[same];
        else
            take(&c.k.dst[d], &c.dst[d]);
    }
    c.k.unit = unit_of(c);
    if (c.k.unit == 16 && rnd(4) == 0)
        c.k.unit = 1; /* always valid */
    c.k.piece = WEFT_FOLD_THREADS * (1 + rnd(WEFT_FOLD_AHEAD));
    c.grid = 1 + rnd(rnd(2) ? 3 : 40);
    return c;
}

static void describe(const fold_case &c)
{
    printf("# %s: %u sources, %u destinations, %llu elements, unit %u, piece %u, %u blocks%s%s\n",
           c.kind.name, c.k.nsrc, c.k.ndst, (unsigned long long)c.k.count, c.k.unit, c.k.piece,
           c.grid, c.in_place ? ", in place" : "", c.k.prefixes ? ", prefixes" : "");
}

#endif
