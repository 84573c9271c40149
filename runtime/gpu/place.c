/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the memory of a copy lies, as far as speed depends on it: on this device, on another one,
 * or on the host.  Under the domain's lock. */
#include "runtime/gpu/place.h"

#include <string.h>

enum { HERE, ELSEWHERE, HOST };

static int ask_place(struct move_state *m, const void *p)
{
    int attributes[] = { CU_PTR_MEMORY_TYPE, CU_PTR_IS_MANAGED, CU_PTR_DEVICE_ORDINAL };
    uint32_t type = 0, managed = 0;
    int ordinal = -1;
    void *values[] = { &type, &managed, &ordinal };
    cu_result r = rt_cuda.pointer_get_attributes(3, attributes, values, (cu_ptr)(uintptr_t)p);
    if (r != CU_OK || (type != CU_MEMORY_DEVICE && !managed))
        return HOST;
    return ordinal == m->g->info.ordinal ? HERE : ELSEWHERE;
}

/* An outdated answer only makes a copy slower, so the table is emptied every 65536 calls. */
static int place(struct move_state *m, const void *p)
{
    uint64_t granule = (uint64_t)((uintptr_t)p >> 21) + 1;
    struct move_seen *set = m->seen.sets[granule % MOVE_SEEN];

    if (++m->seen.nlooks % 65536 == 0)
        memset(m->seen.sets, 0, sizeof m->seen.sets);
    if (set[0].granule == granule)
        return set[0].place;
    if (set[1].granule == granule)
        return set[1].place;
    set[1] = set[0];
    set[0] = (struct move_seen){ granule, (int8_t)ask_place(m, p) };
    return set[0].place;
}

enum rt_gpu_link move_link(struct move_state *m, const void *dst, const void *src)
{
    int d = place(m, dst), s = place(m, src);

    if (d == HOST || s == HOST)
        return RT_GPU_LINK_HOST;
    if (s == ELSEWHERE)
        return RT_GPU_LINK_PEER;
    return d == ELSEWHERE ? RT_GPU_LINK_PUT : RT_GPU_LINK_LOCAL;
}

enum move_way move_way(struct move_state *m, const struct rt_gpu_op *op)
{
    if (place(m, op->dst) == HOST)
        return MOVE_TO_HOST;
    int src = place(m, op->src);
    return src == HOST ? MOVE_FROM_HOST : src == ELSEWHERE ? MOVE_FROM_PEER : MOVE_DEVICES;
}
