/* SPDX-License-Identifier: BSD-3-Clause */
/* Hints of windows (MPI-5.0 section 12.2.8): which are known, their defaults, and which values are
 * accepted.  A hint with another value is ignored. */
#include "mpi/rma/info.h"
#include "mpi/api/bodies.h"
#include "mpi/core/info.h"
#include "mpi/core/session.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_bool(const char *v) { return !strcmp(v, "true") || !strcmp(v, "false"); }

static bool is_number(const char *v)
{
    char *end;
    return strtoll(v, &end, 10) >= 0 && end != v && !*end;
}

static bool is_ops(const char *v) { return !strcmp(v, "same_op") || !strcmp(v, "same_op_no_op"); }

/* "none", or a list of rar, raw, war, waw. */
static bool is_ordering(const char *v)
{
    static const char *const names[] = { "rar", "raw", "war", "waw" };
    if (!strcmp(v, "none"))
        return true;
    for (;;) {
        int i = 0;
        while (i < 4 && strncmp(v, names[i], 3))
            i++;
        if (i == 4 || (v[3] && v[3] != ','))
            return false;
        if (!v[3])
            return true;
        v += 4;
    }
}

bool wm_rma_is_device_kind(const char *v) { return !strcmp(v, "cuda:device"); }

static bool is_notes(const char *v)
{
    return is_number(v) && strtoll(v, NULL, 10) >= 1 && strtoll(v, NULL, 10) <= WM_RMA_NOTES_MOST;
}

int wm_rma_notes_wanted(const struct wm_info *info)
{
    const char *v = info ? wm_info_find(info, "weft_notifications") : NULL;
    return v && is_notes(v) ? (int)strtoll(v, NULL, 10) : WM_RMA_NOTES_DEFAULT;
}

enum { ALL_FLAVORS, SHARED_ONLY, ALLOCATED_ONLY };

static const struct {
    const char *key, *value; /* NULL: none by default */
    bool (*accepts)(const char *v);
    int flavors;
} hints[] = {
    { "no_locks", "false", is_bool, ALL_FLAVORS },
    { "accumulate_ordering", "rar,raw,war,waw", is_ordering, ALL_FLAVORS },
    { "accumulate_ops", "same_op_no_op", is_ops, ALL_FLAVORS },
    { "mpi_accumulate_granularity", "0", is_number, ALL_FLAVORS },
    { "same_size", "false", is_bool, ALL_FLAVORS },
    { "same_disp_unit", "false", is_bool, ALL_FLAVORS },
    { "alloc_shared_noncontig", "false", is_bool, SHARED_ONLY },
    { "mpi_minimum_memory_alignment", NULL, is_number, ALLOCATED_ONLY },
    { "weft_memory_kind", NULL, wm_rma_is_device_kind, ALLOCATED_ONLY },
    { "mpi_assert_memory_alloc_kinds", NULL, wm_memory_kinds_known, ALL_FLAVORS },
};
#define NHINTS (sizeof hints / sizeof hints[0])

static bool applies(const struct wm_rma *r, size_t i)
{
    int flavor = r->win->flavor;
    if (hints[i].accepts == wm_rma_is_device_kind)
        return r->device.taken != NULL; /* the hint was followed */
    if (hints[i].flavors == SHARED_ONLY)
        return flavor == MPI_WIN_FLAVOR_SHARED;
    if (hints[i].flavors == ALLOCATED_ONLY)
        return flavor == MPI_WIN_FLAVOR_SHARED || flavor == MPI_WIN_FLAVOR_ALLOCATE;
    return true;
}

int wm_rma_set_hints(struct wm_rma *r, const struct wm_info *info)
{
    int err = r->hints ? MPI_SUCCESS : wm_info_create(&r->hints);
    for (size_t i = 0; i < NHINTS && !err; i++) {
        const char *given = wm_info_find(info, hints[i].key);
        const char *v = given && hints[i].accepts(given) ? given : NULL;
        if (!v && !wm_info_find(r->hints, hints[i].key))
            v = hints[i].value;
        if (v && applies(r, i))
            err = wm_info_put(r->hints, hints[i].key, v);
    }
    return err;
}

/* What was fixed at creation is not changed later. */
static bool is_fixed(const char *key)
{
    return !strcmp(key, "alloc_shared_noncontig") || !strcmp(key, "mpi_minimum_memory_alignment") ||
           !strcmp(key, "weft_memory_kind");
}

int wm_api_win_set_info(struct wm_win *win, struct wm_info *info)
{
    struct wm_info *some;
    int err = wm_info_create(&some);
    for (size_t i = 0; i < NHINTS && !err; i++) {
        const char *v = wm_info_find(info, hints[i].key);
        if (v && !is_fixed(hints[i].key))
            err = wm_info_put(some, hints[i].key, v);
    }
    if (!err)
        err = wm_rma_set_hints(win->rma, some);
    wm_info_destroy(some);
    return err;
}

int wm_api_win_get_info(struct wm_win *win, struct wm_info **info_used)
{
    struct wm_info *i = NULL;
    char nnotes[16];
    snprintf(nnotes, sizeof nnotes, "%d", win->rma->shared.nnotes);
    int err = wm_info_dup(win->rma->hints, &i);
    if (!err)
        err = wm_info_put(i, "weft_notifications", nnotes);
    if (!err)
        err = wm_info_put(i, "mpi_memory_alloc_kinds", wm_session_kinds(win->comm->session));
    if (err)
        wm_info_destroy(i);
    else
        *info_used = i;
    return err;
}
