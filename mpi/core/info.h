/* SPDX-License-Identifier: BSD-3-Clause */
/* Info objects: ordered lists of (key, value) strings (MPI-5.0 chapter 10).  Functions that return
 * int return MPI_SUCCESS or what wm_err() returned. */
#ifndef WM_CORE_INFO_H
#define WM_CORE_INFO_H

#include "mpi/base/mpi_int.h"

struct wm_info_item {
    char *key, *value;
};

struct wm_info {
    struct rt_obj obj;
    int n, cap;
    struct wm_info_item *item; /* owned, in the order in which keys were first set */
};

extern struct rt_slab wm_info_slab;
/* MPI_INFO_ENV, filled at its first use. */
struct wm_info *wm_info_env(void);

static inline struct wm_info *wm_info_get(MPI_Info h)
{
    uintptr_t v = (uintptr_t)h;
    if (v < WM_PREDEFINED_MAX)
        return h == MPI_INFO_ENV ? wm_info_env() : NULL;
    return rt_slab_get(&wm_info_slab, v);
}
MPI_Info wm_info_handle(const struct wm_info *i);

int wm_info_create(struct wm_info **out);
int wm_info_dup(const struct wm_info *from, struct wm_info **out);
void wm_info_destroy(struct wm_info *i); /* no effect on NULL and MPI_INFO_ENV */
int wm_info_put(struct wm_info *i, const char *key, const char *value);
/* NULL if the key is not set (or `i` is NULL). */
const char *wm_info_find(const struct wm_info *i, const char *key);
/* Adds to MPI_INFO_ENV what only MPI_Init finds out under launchers other than mpirun. */
int wm_info_env_update(void);

#endif
