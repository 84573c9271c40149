/* SPDX-License-Identifier: BSD-3-Clause */
/* Layouts against a naive model: a typemap as the plain list of byte offsets in packed order.
 * Random trees of constructors are built both ways; then bounds, packing, unpacking from any
 * position, and copies are compared.  Repeat a failure with the printed seed as first argument. */
#include "runtime/base/err.h"
#include "runtime/layout/layout.h"
#include "runtime/layout/runs.h"
#include "runtime/layout/serialize.h"
#include "test/check.h"
#include <time.h>

#define MAX_BYTES 3000 /* data of one element in the model */
#define REACH 200000   /* buffers extend this far before and after the element */

struct model {
    int64_t off[MAX_BYTES];
    int n;
    int64_t lb, ub;
};

static uint64_t rng;

static uint32_t rnd(uint32_t n) /* 0..n-1 */
{
    rng = rng * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(rng >> 33) % n;
}

/* `n` copies of `old`, the i-th moved by at + i * step, added to `m`. */
static void model_add(struct model *m, const struct model *old, int64_t at, int64_t n, int64_t step,
                      bool *any)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t lb = at + i * step + old->lb, ub = at + i * step + old->ub;
        for (int k = 0; k < old->n; k++)
            m->off[m->n++] = at + i * step + old->off[k];
        m->lb = !*any || lb < m->lb ? lb : m->lb;
        m->ub = !*any || ub > m->ub ? ub : m->ub;
        *any = true;
    }
}

static void basic(struct rt_layout *l, struct model *m)
{
    static const int sizes[] = { 1, 2, 4, 8, 12, 16, 24, 7 };
    int n = sizes[rnd(8)];
    int64_t extent = n + (rnd(4) ? 0 : (int64_t)rnd(9));
    rt_layout_basic(l, n, extent, RT_ELEM_NONE);
    m->n = n;
    m->lb = 0;
    m->ub = extent;
    for (int i = 0; i < n; i++)
        m->off[i] = i;
}

static int grow_vector(struct rt_layout *l, const struct rt_layout *old, struct model *m,
                       const struct model *om)
{
    int64_t count = rnd(rnd(4) ? 6 : 60), blocklen = rnd(rnd(4) ? 4 : 24);
    int64_t stride = rnd(3) ? blocklen * old->extent + (int64_t)rnd(3) * 4
                            : (int64_t)rnd(200) - 100;
    bool any = false;
    if (count * blocklen * om->n > MAX_BYTES)
        return 0;
    m->n = 0;
    m->lb = m->ub = 0;
    for (int64_t i = 0; i < count; i++)
        model_add(m, om, i * stride, blocklen, old->extent, &any);
    CHECK_EQ(rt_layout_vector(l, count, blocklen, stride, old), 0);
    return 1;
}

static int grow_struct(struct rt_layout *l, const struct rt_layout *old, struct model *m,
                       const struct model *om)
{
    int64_t blocklen[8], disp[8], count = rnd(8), at = 0;
    bool any = false, ordered = rnd(2);
    struct rt_layout other;
    static struct model other_m;
    const struct rt_layout *types[8];
    const struct model *models[8];
    bool one = rnd(2);
    int total = 0;
    basic(&other, &other_m);
    for (int64_t i = 0; i < count; i++) {
        bool second = !one && rnd(2);
        types[i] = second ? &other : old;
        models[i] = second ? &other_m : om;
        blocklen[i] = rnd(4);
        disp[i] = ordered ? at : (int64_t)rnd(400) - 200;
        at = disp[i] + blocklen[i] * types[i]->extent + (int64_t)rnd(3) * 4;
        total += (int)blocklen[i] * models[i]->n;
    }
    if (total > MAX_BYTES) {
        rt_layout_fini(&other);
        return 0;
    }
    m->n = 0;
    m->lb = m->ub = 0;
    for (int64_t i = 0; i < count; i++)
        model_add(m, models[i], disp[i], blocklen[i], types[i]->extent, &any);
    types[count] = old; /* one_type reads the first, count may be 0 */
    CHECK_EQ(rt_layout_struct(l, count, blocklen, disp, one && !count ? &types[count] : types, one),
             0);
    rt_layout_fini(&other);
    return 1;
}

static void grow(struct rt_layout *l, struct model *m)
{
    static struct model om;
    struct rt_layout old = *l;
    int grown = 0;
    om = *m;
    switch (rnd(4)) {
    case 0:
    case 1:
        grown = grow_vector(l, &old, m, &om);
        break;
    case 2:
        grown = grow_struct(l, &old, m, &om);
        break;
    case 3:
        m->lb = (int64_t)rnd(40) - 20;
        m->ub = m->lb + (int64_t)rnd(200) - (rnd(5) ? 0 : 100);
        CHECK_EQ(rt_layout_resized(l, m->lb, m->ub - m->lb, &old), 0);
        grown = 1;
        break;
    }
    if (grown)
        rt_layout_fini(&old);
}

static void random_layout(struct rt_layout *l, struct model *m)
{
    int depth = 1 + (int)rnd(4);
    basic(l, m);
    while (depth--)
        grow(l, m);
}

static void check_bounds(const struct rt_layout *l, const struct model *m)
{
    int64_t low = 0, high = 0;
    for (int i = 0; i < m->n; i++) {
        low = !i || m->off[i] < low ? m->off[i] : low;
        high = !i || m->off[i] + 1 > high ? m->off[i] + 1 : high;
    }
    CHECK_EQ(l->size, m->n);
    CHECK_EQ(l->lb, m->lb);
    CHECK_EQ(l->extent, m->ub - m->lb);
    CHECK_EQ(l->true_lb, low);
    CHECK_EQ(l->true_extent, high - low);
    CHECK(!l->contig || (l->size == l->extent && !l->lb && !l->blocks));
}

static unsigned char user[2 * REACH], copy[2 * REACH], other_user[2 * REACH], packed[4 * MAX_BYTES],
    got[4 * MAX_BYTES];

static int64_t model_byte(const struct model *m, int64_t extent, int64_t pos)
{
    return REACH + pos / m->n * extent + m->off[pos % m->n];
}

static bool in_reach(const struct model *m, int64_t extent, int64_t count)
{
    for (int64_t i = 0; i < count * m->n; i++)
        if (model_byte(m, extent, i) < 0 || model_byte(m, extent, i) >= 2 * REACH)
            return false;
    return true;
}

/* Whether a byte of the user's buffer belongs to two places of the packed form. */
static bool overlaps(const struct model *m, int64_t extent, int64_t count)
{
    static unsigned char seen[2 * REACH];
    bool twice = false;
    memset(seen, 0, sizeof seen);
    for (int64_t i = 0; i < count * m->n; i++)
        twice |= seen[model_byte(m, extent, i)]++ > 0;
    return twice;
}

static int moved; /* layouts whose moves were compared; must be most of them */

static void check_moves(const struct rt_layout *l, const struct model *m)
{
    int64_t count = 1 + rnd(3), total = count * m->n;
    if (!in_reach(m, l->extent, count))
        return;
    moved++;
    for (int64_t i = 0; i < total; i++)
        packed[i] = user[model_byte(m, l->extent, i)];
    bool clean = !overlaps(m, l->extent, count);
    for (int k = 0; k < 4; k++) {
        int64_t pos = k ? rnd((uint32_t)total + 1) : 0,
                len = k ? rnd((uint32_t)(total - pos) + 1) : total;
        memset(got, 0xee, sizeof got);
        rt_layout_pack(l, count, user + REACH, pos, got, len);
        CHECK_MSG(!memcmp(got, packed + pos, (size_t)len), "packing %lld bytes from %lld on",
                  (long long)len, (long long)pos);
        CHECK_EQ(got[len], 0xee);
        if (!clean)
            continue;
        memset(copy, 0x11, sizeof copy);
        rt_layout_unpack(l, count, copy + REACH, pos, packed + pos, len);
        for (int64_t i = pos; i < pos + len; i++) {
            int64_t at = model_byte(m, l->extent, i);
            CHECK_MSG(copy[at] == packed[i], "unpacking %lld bytes from %lld on: byte %lld",
                      (long long)len, (long long)pos, (long long)i);
            copy[at] = 0x11;
        }
        int64_t dirty = 0;
        for (size_t i = 0; i < sizeof copy; i++)
            dirty += copy[i] != 0x11;
        CHECK_EQ(dirty, 0); /* only the layout's bytes were written */
    }
}

/* Offset of a packed byte, by the model. */
static int64_t model_off(const struct model *m, int64_t extent, int64_t pos)
{
    return model_byte(m, extent, pos) - REACH;
}

static void check_below(const struct rt_layout *l, const struct model *m, bool ordered)
{
    bool grows = true;
    for (int64_t i = 1; i < 2 * m->n; i++)
        grows &= model_off(m, l->extent, i) > model_off(m, l->extent, i - 1);
    CHECK_EQ(ordered, grows);
    for (int k = 0; ordered && k < 20; k++) {
        int64_t pos = rnd((uint32_t)(3 * m->n)), off = model_off(m, l->extent, pos);
        int64_t before = pos ? model_off(m, l->extent, pos - 1) + 1 : off - 5;
        CHECK_EQ(rt_layout_below(l, off), pos);
        CHECK_EQ(rt_layout_below(l, before), pos); /* in the gap before it */
        CHECK_EQ(rt_layout_below(l, off + 1), pos + 1);
    }
}

static int ordered; /* layouts with growing offsets */

static void check_runs(const struct rt_layout *l, const struct model *m)
{
    struct rt_layout_facts f;
    struct rt_run run[7];
    rt_layout_facts(l, &f);
    ordered += f.ordered && !l->contig;
    check_below(l, m, f.ordered);
    for (int k = 0; k < 4; k++) {
        int64_t pos = rnd((uint32_t)(3 * m->n)), len = rnd((uint32_t)(2 * m->n)) + 1, at = pos;
        CHECK_EQ(rt_layout_offset(l, pos), model_off(m, l->extent, pos));
        while (at < pos + len && !check_failed_case) {
            int n, max = 1 + (int)rnd(7);
            int64_t got_len = rt_layout_runs(l, at, pos + len - at, run, max, &n), in = 0;
            CHECK(got_len > 0 && n <= max && (at + got_len == pos + len || n == max));
            for (int i = 0; i < n; i++) {
                CHECK(run[i].len > 0 && (!i || run[i - 1].off + run[i - 1].len != run[i].off));
                CHECK_EQ(run[i].off % f.gcd, pos % f.gcd ? run[i].off % f.gcd : 0);
                for (int64_t b = 0; b < run[i].len && at + in < pos + len; b++, in++)
                    CHECK_EQ(model_off(m, l->extent, at + in), run[i].off + b);
            }
            CHECK_EQ(in, got_len);
            at += got_len;
        }
    }
}

static void random_trees(void)
{
    static struct model m;
    for (int i = 0; i < 400 && !check_failed_case; i++) {
        struct rt_layout l;
        random_layout(&l, &m);
        check_bounds(&l, &m);
        if (m.n) {
            check_moves(&l, &m);
            check_runs(&l, &m);
        }
        rt_layout_fini(&l);
    }
    CHECK(check_failed_case || moved > 200);
    CHECK(check_failed_case || ordered > 20);
}

/* Vectors of vectors, as subarrays are: all ordered, with several levels of groups. */
static void ordered_runs(void)
{
    static struct model m;
    for (int i = 0; i < 60 && !check_failed_case; i++) {
        struct rt_layout l[4];
        int64_t n[4] = { 1 + rnd(7), 1 + rnd(4), 1 + rnd(3), 1 + rnd(20) };
        int64_t s1 = n[0] + (int64_t)rnd(9), s2 = n[1] * s1 + (int64_t)rnd(30),
                s3 = n[2] * s2 + (int64_t)rnd(100);
        rt_layout_basic(&l[0], n[0], n[0], RT_ELEM_NONE);
        rt_layout_vector(&l[1], n[1], 1, s1, &l[0]);
        rt_layout_vector(&l[2], n[2], 1, s2, &l[1]);
        rt_layout_vector(&l[3], n[3], 1, s3, &l[2]);
        struct rt_layout all;
        rt_layout_resized(&all, 0, n[3] * s3 + (int64_t)rnd(50), &l[3]);
        m.n = 0;
        for (int64_t d = 0; d < n[3]; d++)
            for (int64_t c = 0; c < n[2]; c++)
                for (int64_t b = 0; b < n[1]; b++)
                    for (int64_t a = 0; a < n[0]; a++)
                        m.off[m.n++] = d * s3 + c * s2 + b * s1 + a;
        int before = ordered;
        check_runs(&all, &m);
        CHECK(all.contig || ordered == before + 1);
        rt_layout_fini(&all);
        for (int k = 0; k < 4; k++)
            rt_layout_fini(&l[k]);
    }
}

/* The copy that another process makes is checked against the model; its bytes cut short are not a
 * layout. */
static void random_serial_forms(void)
{
    static struct model m;
    for (int i = 0; i < 200 && !check_failed_case; i++) {
        struct rt_layout l, twin = { 0 };
        random_layout(&l, &m);
        size_t nbytes = rt_layout_serial_nbytes(&l), cut = rnd((uint32_t)nbytes);
        char *bytes = malloc(nbytes), *less = malloc(cut ? cut : 1);
        rt_layout_serialize(&l, bytes);
        rt_layout_fini(&l);
        memcpy(less, bytes, cut);
        CHECK_EQ(rt_layout_deserialize(&twin, less, cut), -RT_EINVAL);
        CHECK_EQ(rt_layout_deserialize(&twin, bytes, nbytes), 0);
        memset(bytes, 0, nbytes);
        check_bounds(&twin, &m);
        if (m.n)
            check_moves(&twin, &m);
        rt_layout_fini(&twin);
        free(bytes);
        free(less);
    }
}

/* Bytes that are not a layout, or not the same one: if they are accepted, all data lie where the
 * layout says, and packing reads no other byte (sanitizers). */
static int64_t seen;

static void see(void *arg, int64_t off, int64_t len, int64_t stride, int64_t nrep)
{
    const struct rt_layout *l = arg;
    int64_t last = off + (nrep - 1) * stride, low = last < off ? last : off,
            high = (last > off ? last : off) + len;
    CHECK((len > 0 && nrep > 0) || !l->size);
    CHECK(!nrep || (low >= l->true_lb && high <= l->true_lb + l->true_extent));
    seen += len * nrep;
}

static int accepted;

static void check_accepted(const char *bytes, size_t nbytes)
{
    enum { FEW = 1 << 20, MANY = 1 << 16, FAR = 1 << 30 };
    struct rt_layout l = { 0 };
    int err = rt_layout_deserialize(&l, bytes, nbytes);
    CHECK(err == 0 || err == -RT_EINVAL);
    if (err)
        return;
    accepted++;
    seen = 0;
    if (l.size <= MANY) /* repetitions of groups are visited one by one */
        rt_layout_each(&l, see, &l);
    CHECK(l.size > MANY || seen == l.size);
    bool near = l.true_lb >= -FAR && l.true_lb <= FAR && l.extent >= -FAR &&
                l.extent <= FAR; /* as addresses of memory are */
    if (near && l.size <= MANY && l.true_extent <= FEW) {
        char *buf = calloc(1, (size_t)l.true_extent + 1), *out = malloc((size_t)l.size + 1);
        rt_layout_pack(&l, 1, (char *)((uintptr_t)buf - (uintptr_t)l.true_lb), 0, out, l.size);
        rt_layout_unpack(&l, 1, (char *)((uintptr_t)buf - (uintptr_t)l.true_lb), 0, out, l.size);
        free(buf);
        free(out);
    }
    rt_layout_fini(&l);
}

static void mutate(char *bytes, size_t nbytes)
{
    static const int64_t odd[] = { 0, 1, 2, -1, INT64_MAX, INT64_MIN, INT32_MAX, 1ll << 32 };
    size_t at = rnd((uint32_t)(nbytes / 8)) * 8;
    int64_t v;
    memcpy(&v, bytes + at, sizeof v);
    switch (rnd(4)) {
    case 0:
        v = odd[rnd(8)];
        break;
    case 1:
        v = (int64_t)((uint64_t)v + rnd(9) - 4);
        break;
    case 2:
        v ^= (int64_t)((uint64_t)1 << rnd(64));
        break;
    default:
        v = (int64_t)((uint64_t)v << 32 | (uint64_t)v >> 32);
    }
    memcpy(bytes + at, &v, sizeof v);
}

static void wrong_bytes(void)
{
    static struct model m;
    for (int i = 0; i < 150 && !check_failed_case; i++) {
        struct rt_layout l;
        random_layout(&l, &m);
        size_t nbytes = rt_layout_serial_nbytes(&l);
        char *bytes = malloc(nbytes + 8);
        rt_layout_serialize(&l, bytes);
        rt_layout_fini(&l);
        CHECK_EQ(rt_layout_deserialize(&l, bytes, nbytes + 8), -RT_EINVAL);
        for (size_t cut = 0; cut < nbytes; cut += 1 + nbytes / 64) {
            char *less = malloc(cut + 1);
            memcpy(less, bytes, cut);
            CHECK_EQ(rt_layout_deserialize(&l, less, cut), -RT_EINVAL);
            free(less);
        }
        for (int k = 0; k < 200 && !check_failed_case; k++) {
            char *wrong = malloc(nbytes);
            memcpy(wrong, bytes, nbytes);
            for (uint32_t n = 1 + rnd(3); n; n--)
                mutate(wrong, nbytes);
            check_accepted(wrong, nbytes);
            free(wrong);
        }
        free(bytes);
    }
    CHECK(accepted > 100); /* changes that make another layout, such as of an extent */
}

/* Groups within groups until the stack would end. */
static void too_deep(void)
{
    enum { DEPTH = 200000 };
    struct level {
        int64_t size, low, high, piece;
        uint32_t n, form;
        int64_t off, len, stride, nrep, sub;
    };
    size_t nbytes = 6 * 8 + DEPTH * sizeof(struct level);
    int64_t *bytes = calloc(1, nbytes);
    memcpy(bytes, (int64_t[]){ 1, 0, 1, 0, 1 }, 5 * 8);
    struct level *v = (struct level *)(bytes + 6);
    for (int i = 0; i < DEPTH; i++)
        v[i] = (struct level){ 1, 0, 1, 0, 1, 2, 0, 1, 1, 1, i < DEPTH - 1 };
    struct rt_layout l;
    CHECK_EQ(rt_layout_deserialize(&l, bytes, nbytes), -RT_EINVAL);
    free(bytes);
}

static void random_copies(void)
{
    static struct model a, b;
    int done = 0;
    while (done < 100 && !check_failed_case) {
        struct rt_layout la, lb;
        random_layout(&la, &a);
        random_layout(&lb, &b);
        if (a.n && b.n) {
            int64_t na = 1 + rnd(12), nb = na * a.n / b.n;
            if (nb && na * a.n == nb * b.n && in_reach(&a, la.extent, na) &&
                in_reach(&b, lb.extent, nb) && !overlaps(&b, lb.extent, nb)) {
                memset(other_user, 0, sizeof other_user);
                rt_layout_copy(&la, na, user + REACH, &lb, nb, other_user + REACH);
                for (int64_t i = 0; i < na * a.n; i++)
                    CHECK_EQ(other_user[model_byte(&b, lb.extent, i)],
                             user[model_byte(&a, la.extent, i)]);
                done++;
            }
        }
        rt_layout_fini(&la);
        rt_layout_fini(&lb);
    }
}

/* Layouts that users describe with many pieces are stored as few blocks. */
static void pieces_are_joined(void)
{
    struct rt_layout f, l, m;
    int64_t len[100], disp[100];
    const struct rt_layout *one = &f;
    rt_layout_basic(&f, 4, 4, RT_ELEM_F32);
    for (int i = 0; i < 100; i++) {
        len[i] = 1;
        disp[i] = 4 * i;
    }
    CHECK_EQ(rt_layout_struct(&l, 100, len, disp, &one, true), 0);
    CHECK(l.contig && l.size == 400 && l.elem == RT_ELEM_F32);
    rt_layout_fini(&l);
    for (int i = 0; i < 100; i++)
        disp[i] = 12 * i;
    CHECK_EQ(rt_layout_struct(&l, 100, len, disp, &one, true), 0);
    CHECK_EQ(l.blocks->n, 1);
    CHECK_EQ(l.blocks->b[0].nrep, 100);
    CHECK_EQ(l.blocks->b[0].stride, 12);
    rt_layout_fini(&l);
    CHECK_EQ(rt_layout_vector(&l, 10, 2, 16, &f), 0);
    CHECK_EQ(l.blocks->n, 1);
    CHECK_EQ(l.blocks->b[0].len, 8);
    CHECK_EQ(l.extent, 9 * 16 + 8);
    CHECK_EQ(rt_layout_vector(&m, 3, 1, 160, &l), 0); /* continues the stride */
    CHECK_EQ(m.blocks->n, 1);
    CHECK_EQ(m.blocks->b[0].nrep, 30);
    rt_layout_fini(&l);
    rt_layout_fini(&m);
    CHECK_EQ(rt_layout_vector(&l, 10, 2, 8, &f), 0);
    CHECK(l.contig && l.size == 80);
    rt_layout_fini(&l);
}

/* A repeated group is stored once. */
static void groups_repeat(void)
{
    struct rt_layout i32, f64, three, many, grid, all;
    rt_layout_basic(&i32, 4, 4, RT_ELEM_I32);
    rt_layout_basic(&f64, 8, 8, RT_ELEM_F64);
    const struct rt_layout *types[] = { &i32, &f64, &i32 }, *two[] = { &many, &f64 };
    CHECK_EQ(
        rt_layout_struct(&three, 3, (int64_t[]){ 1, 1, 1 }, (int64_t[]){ 0, 8, 24 }, types, false),
        0);
    CHECK(three.blocks->n == 3 && !three.blocks->b && three.blocks->refs == 1);
    CHECK_EQ(rt_layout_vector(&many, 1000000, 1, 40, &three), 0);
    CHECK(many.blocks->n == 1 && many.blocks->b[0].sub == three.blocks);
    CHECK_EQ(three.blocks->refs, 2);
    CHECK(many.size == 16000000 && many.true_extent == 40 * 999999 + 28);
    CHECK_EQ(rt_layout_vector(&grid, 1000000, 3, 5 * many.extent, &many), 0);
    CHECK(grid.blocks->n == 1 && grid.size == 48000000000000);
    CHECK_EQ(rt_layout_struct(&all, 2, (int64_t[]){ 1, 1 }, (int64_t[]){ 8, 0 }, two, false), 0);
    CHECK_EQ(all.blocks->n, 2);
    CHECK_EQ(all.size, 16000008);
    rt_layout_fini(&many);
    rt_layout_fini(&grid);
    CHECK_EQ(three.blocks->refs, 2); /* referenced by `all` */
    rt_layout_fini(&all);
    CHECK_EQ(three.blocks->refs, 1);
    rt_layout_fini(&three);
}

/* More data than the caches hold uses special loops: in whole lines, and for the rest. */
static void far_moves(int64_t piece, int64_t skew)
{
    const int64_t n = (9 << 20) / piece, stride = 2 * piece;
    struct rt_layout l, part;
    char *u = aligned_alloc(64, (size_t)(n * stride + 128)), *p = malloc((size_t)(n * piece));
    CHECK(u && p);
    if (!u || !p)
        return;
    rt_layout_basic(&part, piece, piece, RT_ELEM_NONE);
    CHECK_EQ(rt_layout_vector(&l, n, 1, stride, &part), 0);
    for (int64_t i = 0; i < n * stride + 128; i++)
        u[i] = (char)(i * 7 + i / 251);
    rt_layout_pack(&l, 1, u + skew, 0, p, n * piece);
    int64_t bad = 0;
    for (int64_t i = 0; i < n; i++)
        bad += memcmp(p + i * piece, u + skew + i * stride, (size_t)piece) != 0;
    CHECK_EQ(bad, 0);
    memset(u, 0x11, (size_t)(n * stride + 128));
    rt_layout_unpack(&l, 1, u + skew, 0, p, n * piece);
    for (int64_t i = 0; i < n; i++) {
        bad += memcmp(p + i * piece, u + skew + i * stride, (size_t)piece) != 0;
        for (int64_t k = piece; k < stride; k++)
            bad += u[skew + i * stride + k] != 0x11;
    }
    CHECK_EQ(bad, 0);
    free(u);
    free(p);
    rt_layout_fini(&l);
}

static void larger_than_caches(void)
{
    far_moves(64, 0);
    far_moves(64, 8);
    far_moves(1024, 0);
    far_moves(72, 0);
}

static void too_large_is_refused(void)
{
    struct rt_layout f, l;
    rt_layout_basic(&f, 8, 8, RT_ELEM_F64);
    CHECK_EQ(rt_layout_vector(&l, INT64_MAX / 2, 1, 8, &f), -RT_EINVAL);
    CHECK_EQ(rt_layout_vector(&l, 3, 1, INT64_MAX / 2, &f), -RT_EINVAL);
    CHECK_EQ(rt_layout_vector(&l, INT64_MAX, INT64_MAX, 8, &f), -RT_EINVAL);
    CHECK_EQ(rt_layout_resized(&l, INT64_MAX, 1, &f), -RT_EINVAL);
    const struct rt_layout *one = &f;
    CHECK_EQ(rt_layout_struct(&l, 2, (int64_t[]){ 1, 1 }, (int64_t[]){ INT64_MIN, INT64_MAX - 8 },
                              &one, true),
             -RT_EINVAL);
    CHECK_EQ(rt_layout_vector(&l, INT64_MAX / 16, 1, 8, &f), 0); /* fits: one block, no memory */
    CHECK(l.contig);
    rt_layout_fini(&l);
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : (uint64_t)time(NULL);
    printf("# seed %llu\n", (unsigned long long)seed);
    rng = seed;
    for (size_t i = 0; i < sizeof user; i++)
        user[i] = (unsigned char)rnd(256);
    RUN(pieces_are_joined);
    RUN(groups_repeat);
    RUN(larger_than_caches);
    RUN(too_large_is_refused);
    RUN(random_trees);
    RUN(ordered_runs);
    RUN(random_serial_forms);
    RUN(wrong_bytes);
    RUN(too_deep);
    RUN(random_copies);
    return check_end();
}
