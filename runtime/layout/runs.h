/* SPDX-License-Identifier: BSD-3-Clause */
/* A layout as a list of runs, and as a map between packed positions and offsets: for files, whose
 * bytes are addressed by offsets, and for transfers that gather from many places.  Elements of the
 * layout follow each other without end, `extent` bytes apart; offsets are relative to the first
 * element.  No state; any thread. */
#ifndef RT_LAYOUT_RUNS_H
#define RT_LAYOUT_RUNS_H

#include "runtime/layout/layout.h"

struct rt_run {
    int64_t off, len;
};

/* Stores the runs of the packed bytes [pos, pos + len) in packed order; adjacent runs are joined.
 * Stores at most `max` runs and their number *n, and returns the packed bytes in them.  O(log
 * blocks) plus O(runs). */
int64_t rt_layout_runs(const struct rt_layout *l, int64_t pos, int64_t len, struct rt_run *runs,
                       int max, int *n);
/* The offset of packed byte `pos`. */
int64_t rt_layout_offset(const struct rt_layout *l, int64_t pos);

struct rt_layout_facts {
    bool ordered;  /* in one element and from element to element, every byte has a larger offset
                    * than the byte before it in packed order */
    int64_t first; /* lowest offset of an element */
    int64_t nruns; /* pieces of an element; neighbours may be adjacent */
    int64_t gcd;   /* greatest common divisor of all offsets and lengths of pieces and the extent;
                    * 0: no data */
};
void rt_layout_facts(const struct rt_layout *l, struct rt_layout_facts *out);
/* Number of packed bytes with an offset less than `off`; for ordered layouts.  O(log blocks). */
int64_t rt_layout_below(const struct rt_layout *l, int64_t off);

#endif
