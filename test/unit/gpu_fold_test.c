/* SPDX-License-Identifier: BSD-3-Clause */
/* rt_gpu_fold() and rt_reduce_gpu() over a driver, the fake one or a real one: every operation on
 * every type against the host's kernels, with random numbers of sources and destinations, in place,
 * at addresses of every alignment, in device and pinned memory; the whole memory is compared.
 * Skipped without a driver or without kernels. */
#include <math.h>
#include <time.h>
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "runtime/gpu/gpu.h"
#include "runtime/gpu/move_state.h"
#include "runtime/reduce/gpu_codes.h"
#include "runtime/reduce/kernel.h"
#include "test/check.h"

#define ROOM ((size_t)2 << 20)
static struct rt_gpu *g;
static cu_ptr device;              /* ROOM bytes */
static void *pinned;               /* ROOM bytes */
static char *image, *pinned_image; /* the expected contents */
static char *back;
static uint64_t seed;

static uint32_t rnd(uint32_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % n;
}

static float real(void) { return ldexpf((float)((int)rnd(2000001) - 1000000), (int)rnd(20) - 20); }

/* Some values occur more often than others, so that there are equal values and zeros. */
static void make_element(enum rt_elem e, char *p)
{
    float f = rnd(4) ? real() : (float)rnd(3);
    double d = rnd(4) ? real() * 1.0000000001 : rnd(3);
    int64_t nbytes = rt_elem_nbytes(e);
    uint16_t h = (uint16_t)rnd(0x7c00 >> 1);

    for (int64_t i = 0; i < nbytes; i++)
        p[i] = (char)(rnd(3) ? rnd(256) : 0);
    if (e == RT_ELEM_F64_I32 || e == RT_ELEM_I64_I32) /* holes, whose bytes are undefined */
        memset(p + 12, 0, 4);
    else if (e == RT_ELEM_I16_I32)
        memset(p + 2, 0, 2);
    switch (e) {
    case RT_ELEM_F16:
    case RT_ELEM_BF16: /* about 1e-4 to 1e4, and for F16 a smaller range */
        h = (uint16_t)((e == RT_ELEM_BF16 ? 0x3800u + rnd(0x1000) : h + 0x1000u) | rnd(2) << 15);
        memcpy(p, &h, 2);
        break;
    case RT_ELEM_C32:
    case RT_ELEM_F32_F32:
        memcpy(p + 4, &f, 4);
        f = rnd(4) ? real() : (float)rnd(3);
        memcpy(p, &f, 4);
        break;
    case RT_ELEM_F32:
    case RT_ELEM_F32_I32:
        memcpy(p, &f, 4);
        break;
    case RT_ELEM_C64:
    case RT_ELEM_F64_F64:
        memcpy(p + 8, &d, 8);
        d = rnd(4) ? real() : rnd(3);
        memcpy(p, &d, 8);
        break;
    case RT_ELEM_F64:
    case RT_ELEM_F64_I32:
        memcpy(p, &d, 8);
        break;
    case RT_ELEM_BOOL:
        *p = (char)rnd(2);
        break;
    default:
        break;
    }
}

/* ---- the host's result ---- */

static float load_bf16(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static uint16_t store_bf16(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

/* Rounded once, at the end. */
static uint16_t halves(enum rt_elem e, enum rt_opcode op, char *const *src, unsigned nsrc, size_t i)
{
    float acc = 0;

    for (unsigned s = 0; s < nsrc; s++) {
        uint16_t h;
        memcpy(&h, src[s] + 2 * i, 2);
        float f = e == RT_ELEM_F16 ? rt_half_load(h) : load_bf16(h);
        acc = s == 0 ? f : op == RT_OP_SUM ? acc + f : acc * f;
    }
    return e == RT_ELEM_F16 ? rt_half_store(acc) : store_bf16(acc);
}

static void expect(enum rt_elem e, enum rt_opcode op, char *const *src, unsigned nsrc,
                   char *const *dst, unsigned ndst, size_t n)
{
    size_t nbytes = (size_t)rt_elem_nbytes(e) * n;
    char *acc = malloc(nbytes + 1), *v = malloc(nbytes + 1);
    bool sum = op == RT_OP_SUM || op == RT_OP_PROD;

    memcpy(acc, src[0], nbytes);
    for (unsigned s = 1; s < nsrc; s++) {
        memcpy(v, src[s], nbytes);
        rt_reduce_find(op, e)(acc, v, acc, (int64_t)n);
    }
    for (size_t i = 0; i < n && sum && nsrc > 2 && (e == RT_ELEM_F16 || e == RT_ELEM_BF16); i++) {
        uint16_t h = halves(e, op, src, nsrc, i);
        memcpy(acc + 2 * i, &h, 2);
    }
    for (unsigned d = 0; d < ndst; d++)
        memcpy(dst[d], acc, nbytes);
    free(acc);
    free(v);
}

/* ---- one case ---- */

struct job {
    struct rt_gpu_op op;
    int ndone, err;
};

static void is_done(struct rt_gpu_op *op, int err)
{
    struct job *j = (struct job *)op;
    j->ndone++;
    j->err = err;
}

static int wait_for(struct job *j)
{
    time_t end = time(NULL) + 30;
    while (!j->ndone && time(NULL) < end)
        rt_gpu_progress();
    CHECK_EQ(j->ndone, 1);
    return j->err;
}

/* Consecutive ranges in device memory, some in pinned memory.  `align`: addresses are multiples of
 * it; above 16, all are equal modulo 16. */
struct layout {
    size_t at[2], nbytes;
    unsigned align, shift;
};

static char *place(struct layout *l, char **image_p)
{
    int where = rnd(8) == 0;
    size_t at = (l->at[where] + 15) & ~(size_t)15;

    at += l->align > 16 ? l->shift : rnd(16 / l->align) * l->align;
    l->at[where] = at + l->nbytes + rnd(3);
    CHECK(l->at[where] <= ROOM);
    *image_p = (where ? pinned_image : image) + at;
    return where ? (char *)pinned + at : (char *)(uintptr_t)device + at;
}

static bool prefixes; /* each destination gets the sources up to its own */

static void one(enum rt_elem e, enum rt_opcode op, unsigned nsrc, unsigned ndst, size_t n,
                unsigned align)
{
    struct rt_op the = { .code = op, .commutes = true };
    struct rt_reduce_gpu as;
    size_t nbytes = (size_t)rt_elem_nbytes(e);
    struct layout l = {
        { 0, 0 }, n * nbytes, align, rnd(16) / (unsigned)nbytes * (unsigned)nbytes
    };
    char *src[RT_GPU_FOLD_PLACES], *dst[RT_GPU_FOLD_PLACES];
    struct job j = { .op.done = is_done };
    size_t used = (nsrc + ndst) * (l.nbytes + 34) + 64;

    CHECK(used <= ROOM);
    CHECK_EQ(rt_reduce_gpu(g, &the, e, &as), 0);
    struct rt_gpu_fold f = {
        .type = as.type, .code = as.code, .nsrc = (uint8_t)nsrc, .ndst = (uint8_t)ndst, .count = n
    };
    for (size_t i = 0; i < used; i++)
        image[i] = pinned_image[i] = (char)rnd(256);
    for (unsigned s = 0; s < nsrc; s++) {
        f.src[s] = place(&l, &src[s]);
        for (size_t i = 0; i < n; i++)
            make_element(e, src[s] + i * nbytes);
    }
    f.prefixes = prefixes;
    bool in_place = rnd(2);
    unsigned next = rnd(2);
    for (unsigned d = 0; d < ndst; d++) {
        unsigned same = prefixes ? d + next : rnd(nsrc);
        if (in_place && (prefixes ? same < nsrc : d == 0))
            f.dst[d] = (void *)f.src[same], dst[d] = src[same];
        else
            f.dst[d] = place(&l, &dst[d]);
    }
    CHECK_EQ(rt_gpu_copy_now(g, (void *)(uintptr_t)device, image, used), 0);
    memcpy(pinned, pinned_image, used);
    for (unsigned d = ndst; prefixes && d-- > 0;) /* it may be the next destination's source */
        expect(e, op, src, d + 1, dst + d, 1, n);
    if (!prefixes)
        expect(e, op, src, nsrc, dst, ndst, n);
    rt_gpu_fold(g, &f, &j.op);
    CHECK_EQ(wait_for(&j), 0);
    CHECK_EQ(rt_gpu_copy_now(g, back, (void *)(uintptr_t)device, used), 0);
    CHECK_MSG(!memcmp(back, image, used) && !memcmp(pinned, pinned_image, used),
              "operation %d on type %d: %u sources, %u destinations, %zu elements, alignment %u%s",
              (int)op, (int)e, nsrc, ndst, n, align, in_place ? ", in place" : "");
}

static bool has_kernel(enum rt_opcode op, enum rt_elem e)
{
    return rt_reduce_find(op, e) && op != RT_OP_REPLACE && op != RT_OP_NO_OP && e != RT_ELEM_LDBL &&
           e != RT_ELEM_CLDBL && e != RT_ELEM_I128 && e != RT_ELEM_F128 && e != RT_ELEM_CF16 &&
           e != RT_ELEM_C128 && e != RT_ELEM_LDBL_I32;
}

static void every_type_and_operation(void)
{
    static const size_t counts[] = { 1, 2, 3, 5, 16, 17, 31, 64, 100, 255, 1000, 2049 };
    unsigned nth = 0;

    for (int e = RT_ELEM_NONE; e < RT_ELEM_COUNT; e++)
        for (int op = 0; op < RT_OP_COUNT && !check_failed_case; op++) {
            struct rt_op the = { .code = (enum rt_opcode)op };
            struct rt_reduce_gpu as;
            bool have = op != RT_OP_NONE && op != RT_OP_USER && e != RT_ELEM_NONE &&
                        has_kernel((enum rt_opcode)op, (enum rt_elem)e);
            CHECK_EQ(rt_reduce_gpu(g, &the, (enum rt_elem)e, &as), have ? 0 : -RT_ENOTSUP);
            CHECK_EQ(rt_reduce_gpu(NULL, &the, (enum rt_elem)e, &as), have ? 0 : -RT_ENOTSUP);
            unsigned nbytes = (unsigned)rt_elem_nbytes((enum rt_elem)e);
            for (unsigned nsrc = 1; have && nsrc <= 5; nsrc++)
                for (unsigned i = 0; i < 4; i++) { /* aligned alike, to themselves, half, odd */
                    unsigned align = i == 0 ? 32 : i == 1 ? nbytes : i == 2 ? (nbytes + 1) / 2 : 1;
                    one((enum rt_elem)e, (enum rt_opcode)op, nsrc, 1 + rnd(3),
                        counts[nth++ % (sizeof counts / sizeof *counts)], align);
                }
        }
}

static void many_sources(void)
{
    one(RT_ELEM_F32, RT_OP_SUM, 16, 16, 1001, 32);
    one(RT_ELEM_F64, RT_OP_PROD, 16, 1, 333, 8);
    one(RT_ELEM_BF16, RT_OP_SUM, 16, 8, 777, 32);
    one(RT_ELEM_I64, RT_OP_SUM, 9, 2, 999, 32);
    one(RT_ELEM_BYTE, RT_OP_BXOR, 8, 9, 5001, 1);
}

static void long_ones(void)
{
    one(RT_ELEM_F32, RT_OP_SUM, 2, 1, 150001, 32);
    one(RT_ELEM_F16, RT_OP_SUM, 2, 1, 250001, 2);
    one(RT_ELEM_I8, RT_OP_MAX, 3, 1, 400001, 1);
}

static void all_prefixes(void)
{
    prefixes = true;
    for (unsigned i = 0; i < 8; i++) {
        unsigned n = 2 + rnd(i % 2 ? 4 : RT_GPU_FOLD_PLACES - 1);
        one(RT_ELEM_F32, RT_OP_SUM, n, n, 1 + rnd(3000), i < 4 ? 32 : 4);
        one(RT_ELEM_BF16, RT_OP_SUM, n, n, 1 + rnd(3000), i < 4 ? 32 : 2);
        one(RT_ELEM_BF16, RT_OP_MAX, n, n, 1 + rnd(3000), i < 4 ? 32 : 1);
        one(RT_ELEM_F16, RT_OP_MIN, n, n, 1 + rnd(3000), i < 4 ? 2 : 1);
        one(RT_ELEM_F64_I32, RT_OP_MAXLOC, n, n, 1 + rnd(300), 8);
        one(RT_ELEM_I16, RT_OP_MIN, n, n, 1 + rnd(3000), i < 4 ? 32 : 1);
        one(RT_ELEM_BYTE, RT_OP_BXOR, n, n, 1 + rnd(3000), i < 4 ? 32 : 1);
    }
    one(RT_ELEM_C64, RT_OP_SUM, 4, 4, 10001, 32);
    prefixes = false;
}

/* A complex product that is (NaN, NaN) by the textbook rule is infinite if a factor is infinite. */
static void infinite_products(void)
{
    static const float parts[] = { 0, -0.0f, 1, -2, INFINITY, -INFINITY, 3e38f };
    struct {
        float re, im;
    } a[49], b[49], *p = pinned;
    struct job j = { .op.done = is_done };
    struct rt_gpu_fold f = { .type = RT_GPU_C32,
                             .code = RT_GPU_FOLD_PROD,
                             .nsrc = 2,
                             .ndst = 1,
                             .count = 49,
                             .src = { p, p + 49 },
                             .dst = { p + 98 } };

    for (unsigned k = 0; k < 49; k++) {
        for (unsigned i = 0; i < 49; i++) {
            a[i].re = parts[i % 7];
            a[i].im = parts[i / 7];
            b[i] = a[k];
            b[i].re = parts[k % 7];
            b[i].im = parts[k / 7];
        }
        memcpy(p, a, sizeof a);
        memcpy(p + 49, b, sizeof b);
        j.ndone = 0;
        rt_gpu_fold(g, &f, &j.op);
        CHECK_EQ(wait_for(&j), 0);
        rt_reduce_find(RT_OP_PROD, RT_ELEM_C32)(a, b, a, 49);
        for (unsigned i = 0; i < 49; i++) {
            const float *got = &p[98 + i].re, *want = &a[i].re;
            for (int part = 0; part < 2; part++)
                CHECK_MSG(isnan(want[part]) ? isnan(got[part])
                                            : !memcmp(&got[part], &want[part], 4),
                          "(%g, %g) times (%g, %g), part %d: %g, expected %g", parts[i % 7],
                          parts[i / 7], b[i].re, b[i].im, part, got[part], want[part]);
        }
    }
}

static void none_and_several(void)
{
    struct job j[20];
    struct rt_gpu_fold f = { .type = RT_GPU_I32, .code = RT_GPU_FOLD_SUM, .nsrc = 2, .ndst = 1 };
    int32_t *p = pinned;

    f.src[0] = f.src[1] = f.dst[0] = p; /* with 0 elements no memory is accessed */
    *p = 7;
    j[0] = (struct job){ .op.done = is_done };
    rt_gpu_fold(g, &f, &j[0].op);
    CHECK_EQ(wait_for(&j[0]), 0);
    CHECK_EQ(*p, 7);
    f.count = 1; /* more than there are flights */
    for (int i = 0; i < 20; i++) {
        p[i] = i;
        f.src[0] = f.src[1] = &p[i];
        f.dst[0] = &p[100 + i];
        j[i] = (struct job){ .op.done = is_done };
        rt_gpu_fold(g, &f, &j[i].op);
    }
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(wait_for(&j[i]), 0);
        CHECK_EQ(p[100 + i], 2 * i);
    }
    CHECK_EQ(rt_gpu_nactive, 0);
}

/* Several ranges to as many places, all with the same alignment or with any. */
static void each_to_its_own(void)
{
    static const size_t lens[] = { 1, 8, 16, 40, 256, 272, 1000, 4096, 20016 };
    const size_t room = 20480;
    char *p = pinned, *want = image;

    for (unsigned i = 0; i < 90; i++) {
        size_t len = lens[i % 9];
        unsigned n = 2 + rnd(i % 2 ? 4 : RT_GPU_FOLD_PLACES - 1), align = 1u << rnd(5);
        struct job j = { .op.done = is_done };
        struct rt_gpu_fold f = { .type = RT_GPU_U8,
                                 .code = RT_GPU_FOLD_EACH,
                                 .nsrc = (uint8_t)n,
                                 .ndst = (uint8_t)n,
                                 .count = len };
        for (size_t k = 0; k < 2 * RT_GPU_FOLD_PLACES * room; k++)
            p[k] = want[k] = (char)rnd(256);
        for (unsigned s = 0; s < n; s++) {
            size_t from = s * room + rnd(16 / align) * align,
                   to = (RT_GPU_FOLD_PLACES + s) * room + rnd(16 / align) * align;
            f.src[s] = p + from;
            f.dst[s] = p + to;
            memcpy(want + to, p + from, len);
        }
        rt_gpu_fold(g, &f, &j.op);
        CHECK_EQ(wait_for(&j), 0);
        CHECK_MSG(!memcmp(p, want, 2 * RT_GPU_FOLD_PLACES * room), "%u ranges of %zu bytes", n,
                  len);
    }
}

/* Two ranges that are exchanged, and a copy to several places. */
static void moves(void)
{
    static const size_t lens[] = { 1, 15, 16, 33, 4096, 70001 };
    char *p = pinned, *want = image;

    for (unsigned i = 0; i < 24; i++) {
        size_t len = lens[i % 6], a = rnd(32), b = 100000 + rnd(32);
        struct job j = { .op.done = is_done };
        struct rt_gpu_fold f = { .type = RT_GPU_U8, .count = len, .src = { p + a, p + b } };
        for (size_t k = 0; k < 400000; k++)
            p[k] = want[k] = (char)rnd(256);
        if (i % 2) {
            f.code = RT_GPU_FOLD_EACH;
            f.nsrc = f.ndst = 2;
            f.dst[0] = p + b;
            f.dst[1] = p + a;
            memcpy(want + a, p + b, len);
            memcpy(want + b, p + a, len);
        } else {
            f.code = RT_GPU_FOLD_COPY;
            f.nsrc = 1;
            f.ndst = 2;
            f.dst[0] = p + b;
            f.dst[1] = p + 200001;
            memcpy(want + b, p + a, len);
            memcpy(want + 200001, p + a, len);
        }
        rt_gpu_fold(g, &f, &j.op);
        CHECK_EQ(wait_for(&j), 0);
        CHECK_MSG(!memcmp(p, want, 400000), "code %d, %zu bytes from %zu to %zu", f.code, len, a,
                  b);
    }
}

static void on_a_stream(void)
{
    float *p = pinned;
    struct rt_gpu_fold f = { .type = RT_GPU_F32,
                             .code = RT_GPU_FOLD_SUM,
                             .nsrc = 2,
                             .ndst = 1,
                             .src = { p, p + 1 },
                             .dst = { p + 1 } };

    p[0] = 1;
    p[1] = 2;
    CHECK_EQ(rt_gpu_fold_on(g, g->now, &f), 0); /* nothing */
    f.count = 1;
    for (int i = 0; i < 3; i++)
        CHECK_EQ(rt_gpu_fold_on(g, g->now, &f), 0);
    CHECK_EQ(rt_cuda.stream_synchronize(g->now), CU_OK);
    CHECK(p[1] == 5);
}

static void refused(void)
{
    CHECK(!rt_gpu_can_fold(g, RT_GPU_F32, RT_GPU_FOLD_BAND));
    CHECK(!rt_gpu_can_fold(g, RT_GPU_C32, RT_GPU_FOLD_MAX));
    CHECK(!rt_gpu_can_fold(g, RT_GPU_F64, RT_GPU_FOLD_MINLOC));
    CHECK(!rt_gpu_can_fold(g, RT_GPU_I32_I32, RT_GPU_FOLD_SUM));
    CHECK(!rt_gpu_can_fold(g, RT_GPU_TYPES, RT_GPU_FOLD_COPY));
    CHECK(!rt_gpu_can_fold(g, RT_GPU_I8, RT_GPU_FOLD_CODES));
    for (unsigned t = 0; t < RT_GPU_TYPES; t++)
        CHECK(rt_gpu_can_fold(g, t, RT_GPU_FOLD_COPY));
    CHECK_EQ(rt_gpu_type_nbytes(RT_GPU_F64_I32), 16);
    CHECK_EQ(rt_gpu_type_nbytes(RT_GPU_TYPES), 0);
}

int main(int argc, char **argv)
{
    seed = argc > 1 ? strtoull(argv[1], NULL, 0) : (uint64_t)time(NULL);
    printf("# seed %llu\n", (unsigned long long)seed);
    rt_cfg_set("gpu", "on", RT_CFG_CMD);
    rt_gpu_init();
    if (rt_gpu_count() == 0)
        check_skip(rt_gpu_why_not());
    if (rt_gpu_primary(0, &g) || !rt_gpu_has_kernels(g))
        check_skip("no kernels: built without nvcc");
    int in = rt_gpu_enter(g);
    if (in < 0 || rt_cuda.mem_alloc(&device, ROOM) != CU_OK ||
        rt_cuda.mem_host_alloc(&pinned, ROOM, CU_HOST_PORTABLE | CU_HOST_DEVICEMAP) != CU_OK)
        return 1;
    image = calloc(1, ROOM);
    pinned_image = calloc(1, ROOM);
    back = malloc(ROOM);
    RUN(refused);
    RUN(none_and_several);
    RUN(moves);
    RUN(each_to_its_own);
    RUN(on_a_stream);
    RUN(many_sources);
    RUN(long_ones);
    RUN(all_prefixes);
    RUN(infinite_products);
    RUN(every_type_and_operation);
    CHECK(g->move->linger.posted > 0); /* both paths were taken */
    rt_cuda.mem_free(device);
    rt_cuda.mem_free_host(pinned);
    rt_gpu_leave(in);
    rt_gpu_fini();
    free(image);
    free(pinned_image);
    free(back);
    return check_end();
}
