/* SPDX-License-Identifier: BSD-3-Clause */
/* What a target knows of its origins: those that do not reach its memory or control block, and send
 * messages. */
#include "mpi/rma/origin.h"
#include "mpi/rma/type.h"
#include <stdlib.h>

struct wm_rma_origin *wm_rma_origin(struct wm_rma *r, int rank, struct wm_peer *p)
{
    struct wm_rma_origin **bucket = &r->service.bucket[rank % WM_RMA_BUCKETS], *o = *bucket;
    while (o && o->rank != rank)
        o = o->next;
    if (o)
        return o;
    o = calloc(1, sizeof *o);
    if (!o)
        rt_boot_abort(1, "out of memory for the state of a window");
    o->rank = rank;
    o->peer = p;
    rt_list_init(&o->want.link);
    o->next = *bucket;
    *bucket = o;
    return o;
}

void wm_rma_origins_free(struct wm_rma *r)
{
    for (int i = 0; i < WM_RMA_BUCKETS; i++)
        for (struct wm_rma_origin *o = r->service.bucket[i], *next; o; o = next) {
            next = o->next;
            wm_rma_slots_free(&o->layouts);
            free(o);
        }
}
