/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies within a device through pinned host memory.  The driver copies within a device by a kernel
 * of its own, which waits where the kernels of the application fill the device, and, on a device
 * that several processes use, until it is this process's turn (140 us a turn, H200, driver 580).
 * Copies to and from the host by copy engines wait for neither.  Under the domain's lock.
 *
 * The driver sends a short copy from the host in one piece through the compute engine, where it
 * waits for its turn as well, but two rows by a copy engine. */
#include "runtime/gpu/bounce.h"
#include "runtime/gpu/context.h"
#include "runtime/gpu/place.h"
#include "runtime/gpu/stage.h"

/* 64 KiB in one piece do not wait, 8 B do; lengths between were not measured. */
#define SHORT (64u << 10)
/* Rows in a buffer are apart, as they were measured for all lengths; adjacent ones for 8 B only. */
#define GAP 64u
#define PIECE (RT_GPU_STAGE_LARGE - 4096) /* leaves room for gaps */

enum where { TO_HOST, FROM_HOST };

static cu_result two_rows(cu_ptr host, size_t gap, cu_ptr device, size_t len, enum where where,
                          cu_stream s)
{
    bool out = where == TO_HOST;
    size_t width = len / 2;
    const struct cu_copy2d c = { .src_type = CU_MEMORY_UNIFIED,
                                 .src_device = out ? device : host,
                                 .src_pitch = out ? width : width + gap,
                                 .dst_type = CU_MEMORY_UNIFIED,
                                 .dst_device = out ? host : device,
                                 .dst_pitch = out ? width + gap : width,
                                 .width = width,
                                 .height = 2 };

    return rt_cuda.memcpy_2d_async(&c, s);
}

/* The last two bytes of an odd length go once more, in rows of their own.  A single byte has no two
 * rows, and waits.  So it does by every other call that stores one byte: as a batch, also of two
 * copies, a 3D or peer copy, a memset, in a graph (H200, driver 580). */
static cu_result copy_half(cu_ptr host, size_t gap, cu_ptr device, size_t len, enum where where,
                           cu_stream s)
{
    if (len == 1)
        return where == TO_HOST ? rt_cuda.memcpy_async(host, device, 1, s)
                                : rt_cuda.memcpy_async(device, host, 1, s);
    cu_result r = two_rows(host, gap, device, len, where, s);
    if (r == CU_OK && len % 2) {
        cu_ptr last = gap ? host + len + 2 * gap : host + len - 2;
        r = two_rows(last, gap, device + len - 2, 2, where, s);
    }
    return r;
}

/* The buffer of an engine stream; NULL: no memory.  All are made when the first is needed, because
 * the streams take turns. */
static struct rt_gpu_stage *buffer_of(struct move_state *m, cu_stream s)
{
    int i = 0;

    while (m->g->engine[i] != s)
        i++;
    if (rt_likely(m->bounce[i]))
        return m->bounce[i];
    for (int j = 0; j < RT_GPU_ENGINES; j++)
        if (!m->bounce[j] && rt_gpu_stage_take(m->g, true, RT_GPU_STAGE_LARGE, &m->bounce[j]) < 0)
            m->bounce[j] = NULL;
    return m->bounce[i];
}

/* On a device that several processes use.  A copy alone takes 14 us and 40 us a MiB by the host,
 * 150 us in a turn.  While others wait, one turn carries several copies, 5.3 us each one way and
 * 15.4 both ways; by the host 32 KiB take 5.2 and 8.3, 128 KiB 7.4 and 13.1 (osu_bw and osu_bibw,
 * H200, driver 580).  With shorter turns both would be smaller. */
static bool is_for_host(const struct move_state *m, size_t len, bool alone)
{
    return m->no_kernels ||
           (m->g->in_turns && len <= (alone ? RT_GPU_BY_HOST_ALONE : RT_GPU_BY_HOST));
}

/* The stream orders the pieces, so one buffer is enough. */
bool move_bounce(struct move_state *m, const struct rt_gpu_op *op, bool alone, cu_stream s,
                 cu_result *r)
{
    cu_ptr dst = (cu_ptr)(uintptr_t)op->dst, src = (cu_ptr)(uintptr_t)op->src;

    if (rt_unlikely(m->g->in_turns) && op->len < SHORT && move_way(m, op) == MOVE_FROM_HOST) {
        *r = copy_half(src, 0, dst, op->len, FROM_HOST, s);
        return true;
    }
    if (rt_likely(!is_for_host(m, op->len, alone)) ||
        move_link(m, op->dst, op->src) != RT_GPU_LINK_LOCAL)
        return false;
    const struct rt_gpu_stage *b = buffer_of(m, s);
    if (!b)
        return false;
    cu_ptr host = (cu_ptr)(uintptr_t)b->p;
    *r = CU_OK;
    for (size_t at = 0, n; at < op->len && *r == CU_OK; at += n) {
        n = op->len - at < PIECE ? op->len - at : PIECE;
        *r = copy_half(host, GAP, src + at, n, TO_HOST, s);
        if (*r == CU_OK)
            *r = copy_half(host, GAP, dst + at, n, FROM_HOST, s);
    }
    return true;
}
