/* SPDX-License-Identifier: BSD-3-Clause */
/* Staging memory.  Pinned and device memory are buffers of runtime/gpu/stage.c; host memory is of
 * malloc, and the domain keeps a few idle buffers, because fresh memory costs a page fault for each
 * page. */
#include "mpi/p2p/staging.h"
#include <stdlib.h>
#include <string.h>
#include "mpi/p2p/domain.h"
#include "runtime/base/err.h"

/* Idle buffers that a domain keeps. */
#define POOL_MAX 4
#define POOL_NBYTES (2 * (int64_t)WM_PIECE_MAX)

/* ---- host memory ---- */

static void *pool_take(struct wm_domain *d)
{
    void *p = d->staging.heap;
    if (!p)
        return aligned_alloc(4096, (size_t)POOL_NBYTES);
    memcpy(&d->staging.heap, p, sizeof d->staging.heap);
    d->staging.nheap--;
    return p;
}

void *wm_host_take(struct wm_domain *d, int64_t nbytes, bool *pooled)
{
    *pooled = nbytes <= POOL_NBYTES;
    return *pooled ? pool_take(d) : malloc((size_t)nbytes);
}

void wm_host_give(struct wm_domain *d, void *p, bool pooled)
{
    if (!p || !pooled || d->staging.nheap == POOL_MAX) {
        free(p);
        return;
    }
    memcpy(p, &d->staging.heap, sizeof d->staging.heap);
    d->staging.heap = p;
    d->staging.nheap++;
}

void wm_host_fini(struct wm_domain *d)
{
    while (d->staging.nheap)
        free(pool_take(d));
}

/* ---- rooms ---- */

int wm_staging_host(struct wm_staging *s, int64_t unit)
{
    s->n = unit <= WM_PIECE_MAX ? 2 : 1;
    s->heap = wm_host_take(s->d, s->n * unit, &s->pooled);
    for (int i = 0; s->heap && i < s->n; i++)
        s->room[i] = s->heap + i * unit;
    return s->heap ? 0 : -RT_ENOMEM;
}

/* One buffer for all rooms if they fit in a large one; else a buffer for each, and at most two,
 * because such parts are long. */
static int take(struct wm_staging *s, struct rt_gpu *g, bool host, int64_t unit, int n)
{
    int err = 0;
    s->n = 0;
    s->by_device = true;
    if (n * unit <= RT_GPU_STAGE_LARGE) {
        err = rt_gpu_stage_take(g, host, (size_t)(n * unit), &s->stage[0]);
        for (; err >= 0 && s->n < n; s->n++)
            s->room[s->n] = s->stage[0]->p + s->n * unit;
        return err;
    }
    for (; s->n < n && s->n < 2; s->n++) {
        err = rt_gpu_stage_take(g, host, (size_t)unit, &s->stage[s->n]);
        if (err < 0)
            break;
        s->room[s->n] = s->stage[s->n]->p;
    }
    return s->n ? 0 : err;
}

int wm_staging_device(struct wm_staging *s, struct rt_gpu *g, int64_t unit, int n)
{
    return take(s, g, false, unit, n);
}

int wm_staging_pinned(struct wm_staging *s, struct rt_gpu *g, int64_t unit, int n)
{
    return take(s, g, true, unit, n);
}

void wm_staging_give(struct wm_staging *s)
{
    for (int i = 0; i < WM_STAGING_ROOMS; i++)
        if (s->stage[i])
            rt_gpu_stage_give(s->stage[i]);
    if (s->heap)
        wm_host_give(s->d, s->heap, s->pooled);
    *s = (struct wm_staging){ .d = s->d };
}
