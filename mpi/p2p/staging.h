/* SPDX-License-Identifier: BSD-3-Clause */
/* Staging memory: where data stay that cannot be moved between the user's buffer and their
 * destination at once.  Messages, collectives and files take it here.  Under the domain's lock. */
#ifndef WM_P2P_STAGING_H
#define WM_P2P_STAGING_H

#include <stdbool.h>
#include <stdint.h>
#include "runtime/gpu/gpu.h"

struct wm_domain;

#define WM_PIECE_MAX (512 << 10) /* bytes: the longest part of pooled host memory */
enum { WM_STAGING_ROOMS = 4 };

/* Rooms of equal length, each for one part of the data. */
struct wm_staging {
    struct wm_domain *d;
    int n;                                        /* rooms */
    bool by_device;                               /* a device packs into them by itself */
    bool pooled;                                  /* `heap` is of the domain's pool */
    char *heap;                                   /* host memory or NULL */
    char *room[WM_STAGING_ROOMS];                 /* NULL: parts stay in the user's buffer */
    struct rt_gpu_stage *stage[WM_STAGING_ROOMS]; /* or NULL */
};

/* Take up to n rooms of `unit` bytes each; what they replace must have been given back.
 * 0, -RT_ENOMEM or -RT_EGPU. */
int wm_staging_device(struct wm_staging *s, struct rt_gpu *g, int64_t unit, int n);
int wm_staging_pinned(struct wm_staging *s, struct rt_gpu *g, int64_t unit, int n);
/* Two rooms, or one if unit is longer than WM_PIECE_MAX.  0 or -RT_ENOMEM. */
int wm_staging_host(struct wm_staging *s, int64_t unit);
void wm_staging_give(struct wm_staging *s);

/* One host buffer for `nbytes`; *pooled is for its return. NULL: no memory. */
void *wm_host_take(struct wm_domain *d, int64_t nbytes, bool *pooled);
void wm_host_give(struct wm_domain *d, void *p, bool pooled);
void wm_host_fini(struct wm_domain *d);

#endif
