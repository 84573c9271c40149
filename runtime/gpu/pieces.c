/* SPDX-License-Identifier: BSD-3-Clause */
/* Packing without kernels, for builds without nvcc and devices for which there is no image.  There
 * are three ways, and each waits for the device once:
 * rows: pieces at equal distances are one two-dimensional copy;
 * batch: all other pieces are one call of the driver, if it has cuMemcpyBatchAsync;
 * span: packing only: one copy of everything from the first to the last byte to pinned memory,
 * where the CPU packs.
 * Rows and batches touch the bytes of the layout and no others.  A span also reads the gaps; that
 * is harmless, even if the gaps are written meanwhile.  Unpacking never uses a span: it would write
 * the gaps back as they were a moment ago, and a kernel of the application, another message or
 * another process may have written them since.  Under the domain's lock. */
#include "runtime/gpu/pieces.h"
#include "runtime/base/log.h"
#include "runtime/gpu/context.h"
#include "runtime/gpu/driver.h"
#include "runtime/gpu/gpu_int.h"
#include "runtime/gpu/model.h"
#include "runtime/gpu/stage.h"
#include <string.h>

#define PITCH_MAX INT32_MAX /* of all devices (CU_DEVICE_ATTRIBUTE_MAX_PITCH) */
#define ROWS_MIN 8          /* fewer rows are copies of a batch, if there are batches */
#define BATCH_MAX 256       /* copies handed to the driver by one call: 6 KiB of the stack */
/* The rate at which the CPU packs out of pinned memory, at least: 4 GB/s, and 10 ns for each piece.
 * A slower CPU would pack some spans that pieces would copy faster. */
#define PACK_MB_PER_S 4000
#define PACK_PIECE_NS 10

struct extent {
    uint64_t low, high;       /* the pieces lie between these addresses */
    int64_t npieces, ncopies; /* ncopies: of the driver; rows count as one */
};

struct batch { /* copies to be started */
    size_t n;
    cu_ptr dst[BATCH_MAX], src[BATCH_MAX];
    size_t len[BATCH_MAX];
};

/* A walk over the pieces of a range, and its action for each piece. */
struct walk {
    const struct rt_gpu_pack *p;
    const struct rt_gpu_group *groups;
    struct extent *measured; /* NULL: the pieces are moved, */
    const char *image;       /* from a copy of the memory from `low` on to `out`, by the CPU, */
    uint64_t low;
    char *out;
    bool pack; /* or else by the driver, in this direction */
    struct batch *batch;
    cu_stream stream;
    cu_result r; /* the first error */
};

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- one piece, or several at equal distances ---- */

/* A driver before CUDA 12.8 does not have this call, and a newer one may refuse memory: then each
 * copy is a call of its own.  Some copies may be made twice, which is harmless. */
static void batch_flush(struct walk *w)
{
    struct cu_copy_attr any = { .order = CU_COPY_ORDER_STREAM };
    struct batch *b = w->batch;
    size_t first = 0, bad;

    if (b->n > 1 && w->r == CU_OK && rt_cuda.memcpy_batch_async &&
        rt_cuda.memcpy_batch_async(b->dst, b->src, b->len, b->n, &any, &first, 1, &bad,
                                   w->stream) == CU_OK)
        b->n = 0;
    for (size_t i = 0; i < b->n && w->r == CU_OK; i++)
        w->r = rt_cuda.memcpy_async(b->dst[i], b->src[i], b->len[i], w->stream);
    b->n = 0;
}

static void batch_add(struct walk *w, uint64_t packed, uint64_t user, int64_t len)
{
    struct batch *b = w->batch;

    if (b->n == BATCH_MAX)
        batch_flush(w);
    b->dst[b->n] = w->pack ? packed : user;
    b->src[b->n] = w->pack ? user : packed;
    b->len[b->n++] = (size_t)len;
}

static void copy_rows(struct walk *w, uint64_t packed, int64_t packed_step, uint64_t user,
                      int64_t user_step, int64_t len, int64_t n)
{
    const struct cu_copy2d c = { .src_type = CU_MEMORY_UNIFIED,
                                 .src_device = w->pack ? user : packed,
                                 .src_pitch = (size_t)(w->pack ? user_step : packed_step),
                                 .dst_type = CU_MEMORY_UNIFIED,
                                 .dst_device = w->pack ? packed : user,
                                 .dst_pitch = (size_t)(w->pack ? packed_step : user_step),
                                 .width = (size_t)len,
                                 .height = (size_t)n };
    if (w->r == CU_OK)
        w->r = rt_cuda.memcpy_2d_async(&c, w->stream);
}

static void measure(struct extent *m, uint64_t user, int64_t user_step, int64_t len, int64_t n,
                    bool as_rows)
{
    uint64_t last = user + (uint64_t)((n - 1) * user_step);
    uint64_t low = user_step < 0 ? last : user, high = user_step < 0 ? user : last;

    m->low = low < m->low ? low : m->low;
    m->high = high + (uint64_t)len > m->high ? high + (uint64_t)len : m->high;
    m->npieces += n;
    m->ncopies += as_rows ? 1 : n;
}

/* n pieces at equal distances on both sides. */
static void rows(struct walk *w, uint64_t packed, int64_t packed_step, uint64_t user,
                 int64_t user_step, int64_t len, int64_t n)
{
    int64_t few = rt_cuda.memcpy_batch_async ? ROWS_MIN - 1 : 1;
    bool as_rows = n > few && len <= user_step && len <= packed_step && user_step <= PITCH_MAX &&
                   packed_step <= PITCH_MAX;

    if (n <= 0 || len <= 0)
        return;
    if (w->measured) {
        measure(w->measured, user, user_step, len, n, as_rows);
        return;
    }
    if (!w->image && as_rows) {
        copy_rows(w, packed, packed_step, user, user_step, len, n);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        if (w->image)
            memcpy(w->out + (packed - w->p->packed), w->image + (user - w->low), (size_t)len);
        else
            batch_add(w, packed, user, len);
        packed += (uint64_t)packed_step;
        user += (uint64_t)user_step;
    }
}

static void one(struct walk *w, uint64_t packed, uint64_t user, int64_t len)
{
    rows(w, packed, len, user, len, len, 1);
}

/* ---- the pieces of a range ---- */

/* Bytes [from, to) of one group's packed form; `packed` and `user` are where the group begins. */
static void part_of_group(struct walk *w, const struct rt_gpu_group *g, uint64_t packed,
                          uint64_t user, int64_t from, int64_t to)
{
    int64_t rep = from / g->len, in = from - rep * g->len;
    if (in) {
        int64_t n = least(g->len - in, to - from);
        one(w, packed + (uint64_t)from, user + (uint64_t)(rep * g->stride + in), n);
        from += n;
        rep++;
    }
    int64_t whole = (to - from) / g->len;
    if (whole > 0) {
        rows(w, packed + (uint64_t)from, g->len, user + (uint64_t)(rep * g->stride), g->stride,
             g->len, whole);
        from += whole * g->len;
        rep += whole;
    }
    one(w, packed + (uint64_t)from, user + (uint64_t)(rep * g->stride), to - from);
}

static uint32_t find(const struct walk *w, int64_t r)
{
    uint32_t low = 0, high = w->p->ngroups;
    while (high - low > 1) {
        uint32_t mid = low + (high - low) / 2;
        if (w->groups[mid].first <= r)
            low = mid;
        else
            high = mid;
    }
    return low;
}

/* Packed bytes [from, to) of element e; `packed` is the destination of byte `from`. */
static void part_of_element(struct walk *w, int64_t e, int64_t from, int64_t to, uint64_t packed)
{
    uint64_t user = w->p->user + (uint64_t)(e * w->p->extent);
    for (uint32_t i = find(w, from); i < w->p->ngroups && w->groups[i].first < to; i++) {
        const struct rt_gpu_group *g = &w->groups[i];
        int64_t a = from > g->first ? from - g->first : 0;
        int64_t z = least(to - g->first, g->len * g->nrep);
        part_of_group(w, g, packed + (uint64_t)(g->first - from), user + (uint64_t)g->off, a, z);
    }
}

/* Elements [e, e + n), whole: the smaller number of rows is the outer loop. */
static void whole_elements(struct walk *w, int64_t e, int64_t n, uint64_t packed)
{
    const struct rt_gpu_pack *p = w->p;
    uint64_t user = p->user + (uint64_t)(e * p->extent);
    for (uint32_t i = 0; i < p->ngroups; i++) {
        const struct rt_gpu_group *g = &w->groups[i];
        uint64_t at = packed + (uint64_t)g->first, from = user + (uint64_t)g->off;
        bool by_element = n < g->nrep;
        int64_t outer = by_element ? n : g->nrep;
        for (int64_t k = 0; k < outer && w->r == CU_OK; k++) {
            if (by_element)
                rows(w, at + (uint64_t)(k * p->size), g->len, from + (uint64_t)(k * p->extent),
                     g->stride, g->len, g->nrep);
            else
                rows(w, at + (uint64_t)(k * g->len), p->size, from + (uint64_t)(k * g->stride),
                     p->extent, g->len, n);
        }
    }
}

static void walk(struct walk *w)
{
    const struct rt_gpu_pack *p = w->p;
    int64_t e = p->pos / p->size, r = p->pos - e * p->size, left = p->len;
    uint64_t packed = p->packed;
    while (left && w->r == CU_OK) {
        int64_t n = !r && left >= p->size ? left / p->size * p->size : least(p->size - r, left);
        if (!r && left >= p->size)
            whole_elements(w, e, n / p->size, packed);
        else
            part_of_element(w, e, r, r + n, packed);
        packed += (uint64_t)n;
        left -= n;
        e += (r + n) / p->size;
        r = (r + n) % p->size;
    }
}

/* ---- the ways ---- */

struct job {
    struct rt_gpu *g;
    bool pack, device; /* device: the packed form is in device memory */
    const struct rt_gpu_group *groups;
};

static cu_result wait(const struct job *j, cu_result started)
{
    cu_result r = rt_cuda.stream_synchronize(j->g->now); /* even after an error */
    return started != CU_OK ? started : r;
}

static cu_result by_pieces(const struct job *j, const struct rt_gpu_pack *p)
{
    struct batch batch;
    struct walk w = { .p = p, .groups = j->groups, .pack = j->pack, .stream = j->g->now };
    w.batch = &batch;
    batch.n = 0;
    walk(&w);
    batch_flush(&w);
    return wait(j, w.r);
}

/* Through pinned memory `image`, and `out` if the packed form is to be on the device. */
static cu_result by_span(const struct job *j, const struct rt_gpu_pack *p, const struct extent *m,
                         char *image, char *out)
{
    struct walk w = { .p = p, .groups = j->groups, .image = image, .low = m->low, .out = out };
    cu_result r = wait(
        j, rt_cuda.memcpy_async((cu_ptr)(uintptr_t)image, m->low, m->high - m->low, j->g->now));
    if (r != CU_OK)
        return r;
    walk(&w);
    if (!j->device)
        return CU_OK;
    return wait(j,
                rt_cuda.memcpy_async(p->packed, (cu_ptr)(uintptr_t)out, (size_t)p->len, j->g->now));
}

/* Falls back to pieces if there is no pinned memory; that has been reported. */
static cu_result by_span_or_pieces(const struct job *j, const struct rt_gpu_pack *p,
                                   const struct extent *m)
{
    struct rt_gpu_stage *image, *out = NULL;
    if (rt_gpu_stage_take(j->g, true, m->high - m->low, &image) < 0)
        return by_pieces(j, p);
    bool ok = !j->device || rt_gpu_stage_take(j->g, true, (size_t)p->len, &out) == 0;
    cu_result r = ok ? by_span(j, p, m, image->p, out ? out->p : (char *)(uintptr_t)p->packed)
                     : by_pieces(j, p);
    rt_gpu_stage_give(image);
    if (out)
        rt_gpu_stage_give(out);
    return r;
}

/* Whether a span of this length costs less than the pieces. */
static bool span_wins(const struct job *j, const struct extent *m, uint64_t span, int64_t len)
{
    const enum rt_gpu_way engine = RT_GPU_WAY_ENGINE;
    uint64_t one_ns = rt_gpu_cost_ns(engine, RT_GPU_LINK_LOCAL, 1);
    uint64_t each_ns = rt_gpu_cost_group_ns(engine, RT_GPU_LINK_LOCAL, 1, 2) - one_ns;
    uint64_t pieces_ns = one_ns + (uint64_t)(m->ncopies - 1) * each_ns;
    uint64_t span_ns = rt_gpu_cost_ns(engine, RT_GPU_LINK_HOST, span) +
                       (uint64_t)len * 1000 / PACK_MB_PER_S + (uint64_t)m->npieces * PACK_PIECE_NS;
    if (j->device)
        span_ns += rt_gpu_cost_ns(engine, RT_GPU_LINK_HOST, (size_t)len);
    return span_ns < pieces_ns;
}

/* The first half of a range, of whole elements if possible. */
static int64_t half_of(const struct rt_gpu_pack *p)
{
    int64_t half = p->len / 2;
    return half > p->size ? half / p->size * p->size : half;
}

/* Splits a range in two while its span is too long: data that are far apart in the buffer are
 * mostly far apart in the packed form, too. */
static cu_result move(const struct job *j, struct rt_gpu_pack p)
{
    while (j->pack) {
        struct extent m = { .low = UINT64_MAX };
        struct walk w = { .p = &p, .groups = j->groups, .measured = &m };
        walk(&w);
        if (!span_wins(j, &m, 1, p.len)) /* not even the shortest */
            break;
        if (m.high - m.low <= RT_GPU_STAGE_LARGE) {
            if (span_wins(j, &m, m.high - m.low, p.len))
                return by_span_or_pieces(j, &p, &m);
            break;
        }
        struct rt_gpu_pack first = p;
        first.len = half_of(&p);
        cu_result r = move(j, first);
        if (r != CU_OK)
            return r;
        p.pos += first.len;
        p.packed += (uint64_t)first.len;
        p.len -= first.len;
    }
    return by_pieces(j, &p);
}

int rt_gpu_pieces_now(struct rt_gpu *g, enum rt_gpu_kernel k, const struct rt_gpu_pack *p,
                      const struct rt_gpu_group *groups, bool device)
{
    static bool reported;
    struct job j = { .g = g, .pack = k == RT_GPU_PACK, .groups = groups };
    j.device = j.pack && device;
    int in = rt_gpu_enter(g);
    if (in < 0)
        return in;
    if (!reported)
        log_info(GPU, "derived datatypes in device memory are copied without kernels on GPU %d",
                 g->info.ordinal);
    reported = true;
    cu_result r = move(&j, *p);
    rt_gpu_leave(in);
    if (r == CU_OK)
        return 0;
    rt_gpu_check_lost(g, r);
    return rt_cuda_error(r, k == RT_GPU_PACK ? "packing" : "unpacking");
}
