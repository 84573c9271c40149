/* SPDX-License-Identifier: BSD-3-Clause */
/* How the ranks of a file carry out a collective access: each for itself, or by the two-phase
 * exchange with aggregators (collective buffering).  Under the file's lock. */
#ifndef WM_IO_PLAN_H
#define WM_IO_PLAN_H

#include "mpi/io/iop.h"

/* What all ranks have agreed on.  The file is divided into domains, which the aggregators have in
 * turn; an aggregator accesses a domain in windows of `step` bytes, one in each round. */
struct wm_plan {
    bool exchange;        /* false: each rank accesses the file itself */
    bool dense;           /* the ranks have at least about half of the bytes */
    int naggs;            /* aggregators */
    const int *agg;       /* their ranks; of the file's hints */
    int64_t low, high;    /* the bytes of all ranks are in [low, high) of the file */
    int64_t domain, step; /* bytes of a domain, and of a window */
    int64_t rounds;
    int64_t unit; /* power of two; divides all bounds of pieces, domains and windows */
};

/* Whether the hints, or short pieces without a hint, ask for the exchange.  `later`: the call does
 * not block.  The same on all ranks. */
bool wm_plan_wanted(const struct wm_file *f, bool write, bool later);
/* How the ranks divide a collective access, for weft_info. */
const char *wm_plan_summary(void);
/* Numbers whose largest of all ranks make the plan.  ID: calls.h, with the offer of onehost.c.
 * STATE: an error, else mixed offsets, else how much smaller the unit is than the largest one. */
enum {
    WM_PLAN_ID,
    WM_PLAN_NOT_ID,
    WM_PLAN_STATE,
    WM_PLAN_LOW,
    WM_PLAN_HIGH,
    WM_PLAN_MOST,
    WM_PLAN_VALUES
};
/* The error class of any rank; 0: none. */
int wm_plan_err(const int64_t *v);
/* This rank's numbers, without ids.  `op` NULL or an error: no access. */
void wm_plan_numbers(const struct wm_iop *op, int err, int64_t *v);
/* The plan that all ranks come to.  p->agg has been set. */
void wm_plan_make(const struct wm_file *f, bool write, const int64_t *v, struct wm_plan *p);
/* The window of aggregator number i in a round: [*from, *to), empty beyond the end. */
void wm_plan_window(const struct wm_plan *p, int i, int64_t round, int64_t *from, int64_t *to);
/* The ranks that aggregate, kept in the hints until they change; NULL: no memory. */
const int *wm_plan_aggregators(const struct wm_file *f, int *n);

#endif
