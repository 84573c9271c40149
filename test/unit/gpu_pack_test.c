/* SPDX-License-Identifier: BSD-3-Clause */
/* Packing device memory against packing host memory: the same random layouts, positions and
 * lengths, into and out of device, pinned and pageable memory, with every surrounding byte
 * compared.  Runs with the libcuda.so.1 that is found, in `make check` the fake one; also without
 * kernels.  Repeat a failure with the printed seed as first argument. */
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "runtime/gpu/gpu.h"
#include "runtime/gpu/gpu_int.h"
#include "runtime/layout/pack_gpu.h"
#include "runtime/layout/gpu_table.h"
#include "test/check.h"
#include <dlfcn.h>
#include <time.h>

#define REACH 60000      /* buffers extend this far before and after the element */
#define PACKED_MAX 60000 /* packed bytes of a case */
#define GUARD 64         /* bytes around the packed form that must stay unchanged */

static uint64_t rng;
static struct rt_gpu *g;

static uint32_t rnd(uint32_t n) /* 0..n-1 */
{
    rng = rng * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(rng >> 33) % n;
}

/* ---- memory ---- */

/* Device memory and its expected contents. */
static cu_ptr dev_user, dev_packed;
static char user[2 * REACH], want[2 * REACH], got[2 * REACH];
static char packed[PACKED_MAX + 2 * GUARD], got_packed[PACKED_MAX + 2 * GUARD];
static unsigned char hits[2 * REACH];
static char *pinned;

static void fill(char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (char)rnd(256);
}

static void copy(void *dst, const void *src, size_t n)
{
    CHECK_EQ(rt_gpu_copy_now(g, dst, src, n), 0);
}

static void *at(cu_ptr p) { return (void *)(uintptr_t)p; }

static cu_ptr alloc(size_t nbytes)
{
    cu_ptr p = 0;
    int in = rt_gpu_enter(g);
    CHECK_EQ(rt_cuda.mem_alloc(&p, nbytes), CU_OK);
    rt_gpu_leave(in);
    return p;
}

static void give(cu_ptr p)
{
    int in = rt_gpu_enter(g);
    CHECK_EQ(rt_cuda.mem_free(p), CU_OK);
    rt_gpu_leave(in);
}

struct wait {
    struct rt_gpu_op op;
    int ndone, err;
};

static void on_done(struct rt_gpu_op *op, int err)
{
    struct wait *w = (struct wait *)op;
    w->ndone++;
    w->err = err;
}

static int finish(struct wait *w)
{
    CHECK_EQ(w->ndone, 0); /* never before the first progress */
    while (!w->ndone)
        rt_gpu_progress();
    CHECK_EQ(w->ndone, 1);
    return w->err;
}

/* ---- random layouts ---- */

static void basic(struct rt_layout *l)
{
    static const int sizes[] = { 1, 2, 4, 8, 12, 16, 24, 7 };
    int n = sizes[rnd(8)];
    rt_layout_basic(l, n, n + (rnd(4) ? 0 : (int64_t)rnd(9)), RT_ELEM_NONE);
}

static int grow(struct rt_layout *l, const struct rt_layout *old)
{
    int64_t len[8], disp[8], n = 1 + rnd(7), where = 0;
    switch (rnd(4)) {
    case 0:
    case 1: {
        int64_t count = 1 + rnd(rnd(4) ? 6 : 60), blocklen = 1 + rnd(rnd(4) ? 4 : 100);
        int64_t stride = rnd(3) ? blocklen * old->extent + (int64_t)rnd(5) * 4
                                : (int64_t)rnd(600) - 300;
        return rt_layout_vector(l, count, blocklen, stride, old);
    }
    case 2: {
        struct rt_layout other;
        const struct rt_layout *types[8];
        basic(&other);
        for (int64_t i = 0; i < n; i++) {
            types[i] = rnd(2) ? &other : old;
            len[i] = rnd(4);
            disp[i] = rnd(2) ? where : (int64_t)rnd(800) - 400;
            where = disp[i] + len[i] * types[i]->extent + (int64_t)rnd(3) * 4;
        }
        int err = rt_layout_struct(l, n, len, disp, types, false);
        rt_layout_fini(&other);
        return err;
    }
    default:
        return rt_layout_resized(l, (int64_t)rnd(40) - 20, (int64_t)rnd(400) - (rnd(5) ? 0 : 200),
                                 old);
    }
}

static void random_layout(struct rt_layout *l)
{
    basic(l);
    for (int depth = 1 + (int)rnd(4); depth > 0; depth--) {
        struct rt_layout old = *l;
        if (grow(l, &old)) {
            *l = old;
            return;
        }
        rt_layout_fini(&old);
    }
}

struct count_hits {
    int64_t origin;
    int most;
    bool out;
};

static void count_hits(void *arg, int64_t off, int64_t len, int64_t stride, int64_t nrep)
{
    struct count_hits *h = arg;
    for (int64_t r = 0; r < nrep; r++) {
        for (int64_t i = 0; i < len; i++) {
            int64_t b = h->origin + off + r * stride + i;
            if (b < 0 || b >= 2 * REACH) {
                h->out = true;
                return;
            }
            h->most = ++hits[b] > h->most ? hits[b] : h->most;
        }
    }
}

/* Whether all bytes lie in the buffer; and how often the most used byte is used. */
static bool fits(const struct rt_layout *l, int64_t count, int *most)
{
    struct count_hits h = { 0 };
    memset(hits, 0, sizeof hits);
    for (int64_t e = 0; e < count && !h.out && h.most < 200; e++) {
        h.origin = REACH + e * l->extent;
        rt_layout_each(l, count_hits, &h);
    }
    *most = h.most;
    return !h.out && h.most < 200;
}

/* ---- comparing ---- */

enum place { DEVICE, PINNED, PAGEABLE, PLACES };

/* The address of the packed form: for the GPU and for the test. */
static char *place_of(enum place where, int64_t skew)
{
    char *p = where == DEVICE ? at(dev_packed) : where == PINNED ? pinned : got_packed;
    return p + GUARD + skew;
}

static void put_packed(enum place where, const char *from)
{
    if (where == DEVICE)
        copy(at(dev_packed), from, sizeof packed);
    else
        memcpy(where == PINNED ? pinned : got_packed, from, sizeof packed);
}

static void get_packed(enum place where)
{
    if (where == DEVICE)
        copy(got_packed, at(dev_packed), sizeof got_packed);
    else if (where == PINNED)
        memcpy(got_packed, pinned, sizeof got_packed);
}

static char *origin(void) { return (char *)at(dev_user) + REACH; }

static void check_pack(const struct rt_layout *l, int64_t count, int64_t pos, int64_t len)
{
    enum place where = rnd(PLACES);
    int64_t skew = rnd(2) ? 0 : rnd(17);
    if (len + skew > PACKED_MAX)
        skew = 0;
    memset(packed, 0x5a, sizeof packed);
    put_packed(where, packed);
    rt_layout_pack(l, count, user + REACH, pos, packed + GUARD + skew, len);
    if (where == PAGEABLE || !rnd(8)) {
        CHECK_EQ(rt_layout_gpu_pack_now(g, l, count, origin(), pos, place_of(where, skew), len), 0);
    } else {
        struct wait w = { .op.done = on_done };
        rt_layout_gpu_pack(g, l, count, origin(), pos, place_of(where, skew), len, &w.op);
        CHECK_EQ(finish(&w), 0);
    }
    get_packed(where);
    CHECK_MSG(!memcmp(got_packed, packed, sizeof packed),
              "packing %lld bytes from %lld on to place %d, %lld bytes off", (long long)len,
              (long long)pos, where, (long long)skew);
}

static void check_unpack(const struct rt_layout *l, int64_t count, int64_t pos, int64_t len)
{
    enum place where = rnd(PLACES);
    int64_t skew = rnd(2) ? 0 : rnd(17);
    if (len + skew > PACKED_MAX)
        skew = 0;
    fill(packed, sizeof packed);
    put_packed(where, packed);
    memcpy(want, user, sizeof want);
    rt_layout_unpack(l, count, want + REACH, pos, packed + GUARD + skew, len);
    if (where == PAGEABLE || !rnd(8)) {
        CHECK_EQ(rt_layout_gpu_unpack_now(g, l, count, origin(), pos, place_of(where, skew), len),
                 0);
    } else {
        struct wait w = { .op.done = on_done };
        rt_layout_gpu_unpack(g, l, count, origin(), pos, place_of(where, skew), len, &w.op);
        CHECK_EQ(finish(&w), 0);
    }
    copy(got, at(dev_user), sizeof got);
    CHECK_MSG(!memcmp(got, want, sizeof want), "unpacking %lld bytes from %lld on", (long long)len,
              (long long)pos);
    copy(at(dev_user), user, sizeof user);
}

/* The whole layout, and three parts. */
static void check_layout(const struct rt_layout *l, int64_t count, bool clean)
{
    int64_t total = count * l->size;
    for (int k = 0; k < 4 && !check_failed_case; k++) {
        int64_t pos = k ? rnd((uint32_t)total + 1) : 0,
                len = k ? rnd((uint32_t)(total - pos) + 1) : total;
        check_pack(l, count, pos, len);
        if (clean)
            check_unpack(l, count, pos, len);
    }
}

static void random_layouts(void)
{
    int compared = 0, tabled = 0;
    for (int i = 0; i < 150 && !check_failed_case; i++) {
        struct rt_layout l;
        struct rt_gpu_group few[RT_GPU_PACK_INLINE];
        struct rt_groups groups;
        int64_t count = 1 + rnd(3);
        int most;
        random_layout(&l);
        if (l.size && count * l.size <= PACKED_MAX && fits(&l, count, &most)) {
            compared++;
            tabled += l.blocks && rt_groups_write(l.blocks, few, RT_GPU_PACK_INLINE, &groups);
            check_layout(&l, count, most == 1);
        }
        rt_layout_fini(&l);
    }
    printf("# %d layouts, %d of them with tables\n", compared, tabled);
    CHECK(check_failed_case || (compared > 50 && tabled > 3));
}

/* ---- particular cases ---- */

/* Pieces at irregular places: no two groups can be joined. */
static void scattered(struct rt_layout *l, int64_t n, int64_t piece, int64_t gap)
{
    struct rt_layout one;
    int64_t *disp = malloc((size_t)n * sizeof *disp), *len = malloc((size_t)n * sizeof *len);
    const struct rt_layout *type = &one;
    rt_layout_basic(&one, piece, piece, RT_ELEM_NONE);
    for (int64_t i = 0, where = 0; i < n; i++) {
        len[i] = 1;
        disp[i] = where;
        where += piece + gap * (1 + (i * i + i / 3) % 3);
    }
    CHECK_EQ(rt_layout_struct(l, n, len, disp, &type, true), 0);
    rt_layout_fini(&one);
    free(disp);
    free(len);
}

static void known_layouts(void)
{
    struct rt_layout f64, v, l;
    rt_layout_basic(&f64, 8, 8, RT_ELEM_F64);
    CHECK_EQ(rt_layout_vector(&v, 20, 32, 512, &f64), 0);
    check_layout(&v, 1, true);
    check_layout(&v, 3, true);
    rt_layout_fini(&v);
    CHECK_EQ(rt_layout_vector(&v, 40, 3, -72, &f64), 0); /* backwards */
    check_layout(&v, 2, false);
    check_layout(&v, 1, true);
    CHECK_EQ(rt_layout_resized(&l, -16, 5000, &v), 0);
    check_layout(&l, 4, true);
    rt_layout_fini(&l);
    rt_layout_fini(&v);
    CHECK_EQ(rt_layout_resized(&l, 0, 24, &f64), 0); /* one piece per element */
    check_layout(&l, 500, true);
    rt_layout_fini(&l);
    check_layout(&f64, 100, true); /* contiguous */
    scattered(&l, 500, 4, 4);
    CHECK(rt_groups_count(l.blocks, 1 << 30) > RT_GPU_PACK_INLINE);
    check_layout(&l, 2, true);
    check_layout(&l, 2, true);
    rt_layout_fini(&l);
    rt_layout_fini(&f64);
}

/* Absolute displacements from MPI_BOTTOM. */
static void from_bottom(void)
{
    struct rt_layout one, l;
    const struct rt_layout *type = &one;
    struct wait w = { .op.done = on_done };
    const int64_t base = (int64_t)dev_user, disp[3] = { base + 1003, base + 40, base + 2000 };
    rt_layout_basic(&one, 100, 100, RT_ELEM_NONE);
    CHECK_EQ(rt_layout_struct(&l, 3, (int64_t[]){ 1, 2, 1 }, disp, &type, true), 0);
    memset(packed, 0x33, sizeof packed);
    copy(at(dev_packed), packed, sizeof packed);
    rt_layout_gpu_pack(g, &l, 1, NULL, 50, at(dev_packed), 300, &w.op);
    CHECK_EQ(finish(&w), 0);
    memcpy(packed, user + 1053, 50);
    memcpy(packed + 50, user + 40, 200);
    memcpy(packed + 250, user + 2000, 50);
    copy(got_packed, at(dev_packed), sizeof got_packed);
    CHECK(!memcmp(got_packed, packed, sizeof packed));
    rt_layout_fini(&l);
}

static void nothing_to_do(void)
{
    struct rt_layout one, l;
    struct wait w = { .op.done = on_done };
    rt_layout_basic(&one, 4, 4, RT_ELEM_NONE);
    CHECK_EQ(rt_layout_vector(&l, 3, 1, 8, &one), 0);
    rt_layout_gpu_pack(g, &l, 1, origin(), 12, at(dev_packed), 0, &w.op);
    CHECK_EQ(finish(&w), 0);
    w.ndone = 0;
    rt_layout_gpu_unpack(g, &l, 0, NULL, 0, NULL, 0, &w.op);
    CHECK_EQ(finish(&w), 0);
    CHECK_EQ(rt_layout_gpu_pack_now(g, &l, 0, NULL, 0, NULL, 0), 0);
    rt_layout_fini(&l);
}

/* Several at a time that share a table, which must stay while its type is freed and another type
 * needs the memory of a table. */
static void many_at_once(void)
{
    enum { N = 24, LEN = 400 };
    static struct wait w[N];
    struct rt_layout l, other;
    struct rt_table *t;
    scattered(&l, 100, 4, 4);
    scattered(&other, 90, 8, 8);
    for (int i = 0; i < N; i++) {
        w[i] = (struct wait){ .op.done = on_done };
        rt_layout_gpu_pack(g, &l, 1, origin() + 8 * i, 0, (char *)at(dev_packed) + i * LEN, LEN,
                           &w[i].op);
    }
    for (int i = 0; i < N; i++)
        rt_layout_pack(&l, 1, user + REACH + 8 * i, 0, packed + i * LEN, LEN);
    rt_layout_fini(&l);
    rt_layout_gpu_fini();
    CHECK_EQ(rt_table_get(g, other.blocks, 0, other.blocks->n, &t), 0);
    if (!check_failed_case)
        rt_table_put(t);
    rt_layout_fini(&other);
    for (int i = 0; i < N; i++) {
        while (!w[i].ndone)
            rt_gpu_progress();
        CHECK_EQ(w[i].err, 0);
    }
    copy(got_packed, at(dev_packed), N * LEN);
    CHECK(!memcmp(got_packed, packed, N * LEN));
}

/* Packs and unpacks a whole large layout, in pieces of about `step` bytes, through pageable memory,
 * and compares with the host's result. */
static void check_large(const struct rt_layout *l, int64_t nbytes, int64_t step)
{
    char *host = malloc((size_t)nbytes), *back = malloc((size_t)nbytes);
    char *p = malloc((size_t)l->size), *q = malloc((size_t)l->size);
    cu_ptr dev = alloc((size_t)nbytes);
    fill(host, (size_t)nbytes);
    copy(at(dev), host, (size_t)nbytes);
    rt_layout_pack(l, 1, host, 0, p, l->size);
    memset(q, 0, (size_t)l->size);
    for (int64_t pos = 0, n; pos < l->size; pos += n) {
        n = step < l->size - pos ? step : l->size - pos;
        CHECK_EQ(rt_layout_gpu_pack_now(g, l, 1, at(dev), pos, q + pos, n), 0);
    }
    CHECK(!memcmp(p, q, (size_t)l->size));
    fill(p, (size_t)l->size);
    rt_layout_unpack(l, 1, host, 0, p, l->size);
    for (int64_t pos = 0, n; pos < l->size; pos += n) {
        n = step < l->size - pos ? step : l->size - pos;
        CHECK_EQ(rt_layout_gpu_unpack_now(g, l, 1, at(dev), pos, p + pos, n), 0);
    }
    copy(back, at(dev), (size_t)nbytes);
    CHECK(!memcmp(back, host, (size_t)nbytes));
    give(dev);
    free(host);
    free(back);
    free(p);
    free(q);
}

/* Longer than a staging buffer, and starting anywhere in it. */
static void through_staging(void)
{
    struct rt_layout f64, v;
    rt_layout_basic(&f64, 8, 8, RT_ELEM_F64);
    CHECK_EQ(rt_layout_vector(&v, 300, 2500, 24000, &f64), 0); /* 6 MB */
    check_large(&v, v.extent, v.size);
    check_large(&v, v.extent, 1000003);
    rt_layout_fini(&v);
}

/* More groups than a table holds: a long list; a list of lists. */
static void more_than_a_table(void)
{
    struct rt_layout l, some, many, byte, all;
    const struct rt_layout *types[4] = { &byte, &many, &byte, &many };
    const int64_t n = (int64_t)RT_TABLE_MAX + 5000;
    scattered(&l, n, 1, 1);
    CHECK(rt_groups_count(l.blocks, INT64_MAX) > (int64_t)RT_TABLE_MAX);
    check_large(&l, l.true_extent, l.size);
    check_large(&l, l.true_extent, l.size - 1001);
    rt_layout_fini(&l);
    scattered(&some, 30, 1, 1);
    rt_layout_basic(&byte, 1, 1, RT_ELEM_NONE);
    CHECK_EQ(rt_layout_vector(&many, n / 25, 1, some.extent + 3, &some), 0);
    const int64_t disp[4] = { 0, 5, many.extent + 10, many.extent + 15 };
    CHECK_EQ(rt_layout_struct(&all, 4, (int64_t[]){ 1, 1, 2, 1 }, disp, types, false), 0);
    CHECK(rt_groups_count(all.blocks, INT64_MAX) > 2 * (int64_t)RT_TABLE_MAX);
    check_large(&all, all.true_extent, 90021);
    rt_layout_fini(&all);
    rt_layout_fini(&many);
    rt_layout_fini(&some);
}

/* A table is created once, and freed when its type has been freed and memory is needed, or at the
 * end. */
static void tables_are_kept(void)
{
    struct rt_layout a, b;
    struct rt_table *t, *again, *other;
    rt_layout_gpu_fini();
    scattered(&a, 100, 4, 4);
    scattered(&b, 120, 4, 4);
    CHECK_EQ(a.blocks->refs, 1);
    CHECK_EQ(rt_table_get(g, a.blocks, 0, a.blocks->n, &t), 0);
    if (check_failed_case)
        return;
    CHECK_EQ(a.blocks->refs, 2);
    CHECK(!t->stage == !rt_gpu_has_kernels(g));
    CHECK_EQ(rt_table_get(g, a.blocks, 0, a.blocks->n, &again), 0);
    CHECK(t == again && t->nused == 2);
    rt_table_put(again);
    rt_table_put(t);
    const struct rt_blocks *old = rt_blocks_ref(a.blocks);
    rt_layout_fini(&a);
    CHECK_EQ(old->refs, 2);
    rt_blocks_unref(old);
    CHECK_EQ(rt_table_get(g, b.blocks, 0, b.blocks->n, &other), 0); /* drops the table of a */
    if (!check_failed_case)
        rt_table_put(other);
    rt_layout_gpu_fini();
    CHECK_EQ(b.blocks->refs, 1);
    rt_layout_fini(&b);
}

/* Tables of many types, used one after another, do not fill the device. */
static void tables_are_bounded(void)
{
    enum { N = 40 };
    struct rt_layout l[N];
    struct rt_table *t;
    int kept = 0;
    for (int i = 0; i < N; i++) {
        scattered(&l[i], 3000 + i, 4, 4);
        int err = rt_table_get(g, l[i].blocks, 0, l[i].blocks->n, &t);
        CHECK_EQ(err, 0);
        if (!err)
            rt_table_put(t);
    }
    for (int i = 0; i < N; i++) {
        kept += l[i].blocks->refs == 2;
        CHECK(i < N - 30 || l[i].blocks->refs == 2); /* the last ones */
        rt_layout_fini(&l[i]);
    }
    CHECK_EQ(kept, rt_gpu_has_kernels(g) ? 32 : N);
    rt_layout_gpu_fini();
}

/* ---- without kernels ---- */

static struct {
    unsigned copies, batches, waits;
} calls;
static struct rt_cuda driver;

static cu_result counted_copy(cu_ptr dst, cu_ptr src, size_t n, cu_stream s)
{
    calls.copies++;
    return driver.memcpy_async(dst, src, n, s);
}

static cu_result counted_batch(cu_ptr *dst, cu_ptr *src, size_t *nbytes, size_t n,
                               struct cu_copy_attr *attrs, size_t *first, size_t nattrs,
                               size_t *failed, cu_stream s)
{
    calls.batches++;
    return driver.memcpy_batch_async(dst, src, nbytes, n, attrs, first, nattrs, failed, s);
}

static cu_result refused_batch(cu_ptr *dst, cu_ptr *src, size_t *nbytes, size_t n,
                               struct cu_copy_attr *attrs, size_t *first, size_t nattrs,
                               size_t *failed, cu_stream s)
{
    (void)dst, (void)src, (void)nbytes, (void)n, (void)attrs, (void)first, (void)nattrs, (void)s;
    *failed = 0;
    return CU_ERROR_INVALID_VALUE;
}

static cu_result counted_wait(cu_stream s)
{
    calls.waits++;
    return driver.stream_synchronize(s);
}

static void count_calls(void)
{
    memset(&calls, 0, sizeof calls);
    rt_cuda.memcpy_async = counted_copy;
    rt_cuda.stream_synchronize = counted_wait;
}

/* Moves one element of n irregular pieces, from or to `where`, and counts. */
static void move_counted(const struct rt_layout *l, bool pack, char *where, void *buf)
{
    struct wait w = { .op.done = on_done };
    count_calls();
    if (pack)
        rt_layout_gpu_pack(g, l, 1, buf, 0, where, l->size, &w.op);
    else
        rt_layout_gpu_unpack(g, l, 1, buf, 0, where, l->size, &w.op);
    CHECK_EQ(finish(&w), 0);
}

static void few_calls_of_the_driver(void)
{
    struct rt_layout l;
    char *device = at(dev_packed);
    scattered(&l, 2000, 8, 8);
    move_counted(&l, true, pinned, origin()); /* a span */
    CHECK(calls.copies == 1 && calls.waits == 1 && !calls.batches);
    move_counted(&l, true, device, origin()); /* and a copy to the device */
    CHECK(calls.copies == 2 && calls.waits == 2 && !calls.batches);
    if (driver.memcpy_batch_async) { /* CUDA 12.8 */
        rt_cuda.memcpy_batch_async = counted_batch;
        move_counted(&l, false, pinned, origin());
        CHECK(calls.copies == 0 && calls.waits == 1 && calls.batches == 8);
        copy(at(dev_user), user, sizeof user);
        check_layout(&l, 1, true);
    }
    rt_cuda.memcpy_batch_async = refused_batch;
    check_layout(&l, 1, true);
    rt_cuda.memcpy_batch_async = NULL; /* an older driver */
    move_counted(&l, false, device, origin());
    CHECK(calls.waits == 1);
    copy(at(dev_user), user, sizeof user);
    check_layout(&l, 1, true);
    rt_layout_fini(&l);
}

/* More bytes between the first and the last byte than a staging buffer holds. */
static void long_spans(void)
{
    struct rt_layout l;
    scattered(&l, 2000, 8, 2300);
    size_t n = (size_t)l.true_extent;
    char *all = malloc(n);
    cu_ptr p = alloc(n);
    CHECK(all && n > 2 * RT_GPU_STAGE_LARGE);
    fill(all, n);
    copy(at(p), all, n);
    memset(pinned, 0x5a, sizeof packed);
    move_counted(&l, true, pinned, at(p));
    CHECK(calls.waits > 1 && calls.waits <= 8 && calls.copies == calls.waits);
    memset(packed, 0x5a, sizeof packed);
    rt_layout_pack(&l, 1, all, 0, packed, l.size);
    CHECK(!memcmp(packed, pinned, sizeof packed));
    give(p);
    free(all);
    rt_layout_fini(&l);
}

static void without_kernels(void)
{
    if (rt_gpu_has_kernels(g))
        return;
    driver = rt_cuda;
    few_calls_of_the_driver();
    long_spans();
    rt_cuda = driver;
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : (uint64_t)time(NULL);
    struct rt_gpu_stage *stage;
    if (!dlopen("libcuda.so.1", RTLD_NOW))
        check_skip("no libcuda.so.1; the rows of tests.list have the fake one");
    if (rt_cfg_load())
        return 1;
    rt_gpu_init();
    if (!rt_gpu_count())
        check_skip(rt_gpu_why_not());
    CHECK_EQ(rt_gpu_primary(0, &g), 0);
    CHECK_EQ(rt_gpu_stage_take(g, true, sizeof packed, &stage), 0);
    if (check_failed_case)
        return 1;
    pinned = stage->p;
    printf("# seed %llu, %s kernels\n", (unsigned long long)seed,
           rt_gpu_has_kernels(g) ? "with" : "without");
    rng = seed;
    dev_user = alloc(sizeof user);
    dev_packed = alloc(sizeof packed);
    fill(user, sizeof user);
    copy(at(dev_user), user, sizeof user);
    RUN(nothing_to_do);
    RUN(known_layouts);
    RUN(from_bottom);
    RUN(random_layouts);
    RUN(many_at_once);
    RUN(tables_are_kept);
    RUN(tables_are_bounded);
    RUN(through_staging);
    RUN(more_than_a_table);
    RUN(without_kernels);
    rt_gpu_stage_give(stage);
    give(dev_user);
    give(dev_packed);
    rt_layout_gpu_fini();
    rt_gpu_fini();
    return check_end();
}
