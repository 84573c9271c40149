/* SPDX-License-Identifier: BSD-3-Clause */
/* Packing by the copy engine: a piece is a copy, pieces at equal distances are the rows of one.
 * Each costs a microsecond or two, so this is for builds without nvcc and devices that no image
 * fits.  Under the domain's lock. */
#include "runtime/gpu/pieces.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/gpu/gpu_int.h"

#define PITCH_MAX INT32_MAX /* of all devices (CU_DEVICE_ATTRIBUTE_MAX_PITCH) */

struct walk {
    const struct rt_gpu_pack *p;
    const struct rt_gpu_group *groups;
    cu_stream stream;
    bool pack;
    cu_result r; /* the first error */
};

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static void one(struct walk *w, uint64_t packed, uint64_t user, int64_t len)
{
    if (w->r == CU_OK && len > 0)
        w->r = rt_cuda.memcpy_async(w->pack ? packed : user, w->pack ? user : packed, (size_t)len,
                                    w->stream);
}

/* n pieces at equal distances on both sides. */
static void rows(struct walk *w, uint64_t packed, int64_t packed_step, uint64_t user,
                 int64_t user_step, int64_t len, int64_t n)
{
    if (n > 1 && len <= user_step && len <= packed_step && user_step <= PITCH_MAX &&
        packed_step <= PITCH_MAX) {
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
        return;
    }
    for (int64_t i = 0; i < n && w->r == CU_OK; i++)
        one(w, packed + (uint64_t)(i * packed_step), user + (uint64_t)(i * user_step), len);
}

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

/* Packed bytes [from, to) of element e; `packed` is where byte `from` goes. */
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

/* Elements [e, e + n), whole: the fewer rows are the outer ones. */
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

int rt_gpu_pieces_now(struct rt_gpu *g, enum rt_gpu_kernel k, const struct rt_gpu_pack *p,
                      const struct rt_gpu_group *groups)
{
    static bool told;
    int in = rt_gpu_enter(g);
    if (in < 0)
        return in;
    if (!told)
        log_info(GPU, "derived datatypes in device memory are copied piece by piece on GPU %d",
                 g->info.ordinal);
    told = true;
    struct walk w = { p, groups, g->now, k == RT_GPU_PACK, CU_OK };
    walk(&w);
    cu_result r = rt_cuda.stream_synchronize(g->now); /* of what has been started, in any case */
    rt_gpu_leave(in);
    r = w.r != CU_OK ? w.r : r;
    if (r == CU_OK)
        return 0;
    rt_gpu_check_lost(g, r);
    return rt_cuda_error(r, k == RT_GPU_PACK ? "packing" : "unpacking");
}
