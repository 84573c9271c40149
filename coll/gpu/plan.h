/* SPDX-License-Identifier: BSD-3-Clause */
/* What one rank's device does in a collective whose ranks have all mapped each other's buffers: a
 * list of reductions, copies and barriers.  A plan is a pure function of the call and of addresses,
 * so that a test can make the plans of all ranks in one process and carry them out on the CPU.
 *
 * A rank describes up to two ranges of its memory.  SEND: what it contributes (in place: where that
 * lies in the receive buffer), RECV: what it defines, or, in place, the whole receive buffer.  The
 * address of a range is that of its lowest byte; a rank that has none has NULL.
 *
 * Before a plan begins all ranks have entered the call and attached what they need; after its end
 * all ranks meet again, so no rank leaves while another still uses its memory.  Steps between two
 * barriers that do not name each other run in any order, at the same time, and ranks race: what one
 * rank writes between two barriers no other rank touches between them. */
#ifndef COLL_GPU_PLAN_H
#define COLL_GPU_PLAN_H

#include "coll/coll.h"

enum coll_gpu_range { COLL_GPU_SEND, COLL_GPU_RECV, COLL_GPU_RANGES };

/* What a rank knows of its own part before it meets the others. */
struct coll_gpu_own {
    const char *at[COLL_GPU_RANGES]; /* NULL: this rank has none */
    size_t len[COLL_GPU_RANGES];
    size_t scratch;   /* bytes of this device's memory that the plan wants beside */
    bool publishes;   /* offsets[r], by rank: where, in this rank's range, what concerns r begins */
};
/* Fills it and, where it publishes, offsets[0..size).  -RT_ENOTSUP: this call cannot be planned
 * (a derived datatype with gaps, an operation without a kernel, too many ranks); a fact that this
 * rank alone may know. */
int coll_gpu_own(const struct coll_team *t, const struct coll_args *a, struct coll_gpu_own *out,
                 uint64_t *offsets);

/* All ranks' ranges as this rank addresses them. */
struct coll_gpu_view {
    int rank, size;
    const struct coll_args *a;
    char *const *at[COLL_GPU_RANGES];        /* [range][rank]; NULL where there is none */
    const uint64_t *const *offsets;          /* [rank][rank], of those who publish, else NULL */
    char *scratch;
    size_t scratch_len; /* at least what was asked for */
};

enum coll_gpu_verb { COLL_GPU_FOLD, COLL_GPU_COPY, COLL_GPU_BARRIER };
struct coll_gpu_step {
    enum coll_gpu_verb verb;
    int after; /* index of a step, behind the last barrier, that must have ended; -1: none */
    union {
        struct rt_gpu_fold fold;
        struct {
            void *dst;
            const void *src;
            size_t len;
        } copy;
    };
};
struct coll_gpu_plan { /* zeroed before first use; may be used again */
    struct coll_gpu_step *step; /* owned */
    int n, room;
};
/* 0, -RT_ENOMEM, or -RT_ETRUNC when the ranks' arguments do not agree. */
int coll_gpu_make_plan(const struct coll_gpu_view *v, struct coll_gpu_plan *out);
void coll_gpu_free_plan(struct coll_gpu_plan *p);

#endif
