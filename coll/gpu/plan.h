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
 * all ranks meet again, so no rank leaves while another still uses its memory.  Steps that neither
 * name each other nor are held apart by posts run in any order, at the same time, and ranks race:
 * what one writes no other touches. */
#ifndef COLL_GPU_PLAN_H
#define COLL_GPU_PLAN_H

#include "coll/coll.h"

enum coll_gpu_range { COLL_GPU_SEND, COLL_GPU_RECV, COLL_GPU_RANGES };

/* What a rank knows of its own part before it meets the others. */
struct coll_gpu_own {
    const char *at[COLL_GPU_RANGES]; /* NULL: this rank has none */
    size_t len[COLL_GPU_RANGES];
    /* For the others' views: what the ranks must have alike, and in bit 0 whether the plan
     * overwrites input of this rank. */
    uint64_t word;
    size_t scratch; /* bytes of this device's memory that the plan wants beside */
    bool swaps; /* wants no scratch where rt_gpu_can_fold() says RT_GPU_FOLD_EACH of RT_GPU_U8 */
    bool publishes; /* offsets[r], by rank: where, in this rank's range, what concerns r begins */
    bool folds;     /* needs a kernel for these: ask rt_gpu_can_fold() */
    uint8_t type, code;
};
#define COLL_GPU_SCRATCH_UNIT RT_GPU_STAGE_LARGE
#define COLL_GPU_SCRATCH_MAX (5 * COLL_GPU_SCRATCH_UNIT) /* no plan wants more */
#define COLL_GPU_RANKS_MAX 64                            /* larger teams are not planned */
/* Fills it and, where it publishes, offsets[0..size).  -RT_ENOTSUP: this call cannot be planned
 * (a derived datatype with gaps, an operation without a kernel, too many ranks); a fact that this
 * rank alone may know. */
int coll_gpu_own(const struct coll_team *t, const struct coll_args *a, struct coll_gpu_own *out,
                 uint64_t *offsets);

/* All ranks' ranges as this rank addresses them. */
struct coll_gpu_view {
    int rank, size;
    const struct coll_args *a;
    char *const *at[COLL_GPU_RANGES];   /* [range][rank]; NULL where there is none */
    const size_t *len[COLL_GPU_RANGES]; /* [range][rank] */
    const uint64_t *word;               /* [rank] */
    const uint64_t *const *offsets;     /* [rank][rank], of those who publish, else NULL */
    char *const *scratch; /* buffers of COLL_GPU_SCRATCH_UNIT bytes, in all what was asked for */
    bool kernels;     /* this device folds, copies and swaps; without, copies do what they can */
    bool large_pages; /* alike on all ranks: engines put at full speed into all results */
    bool direct; /* alike on all ranks: each two devices have a link that no other two share */
    bool
        background; /* alike on all ranks: hosts are elsewhere, so that posts and chunks are late */
    bool in_order; /* alike on all ranks: steps run one after another, only one is under way */
};

/* POST holds up nothing: it is made when all folds and copies before it in the list have ended, or,
 * with `after`, that one and those that it waits for; always behind the posts before it.  AWAIT:
 * what follows in the list begins when every rank has made so many posts.  BARRIER: a post, and the
 * await of as many as that makes.  All ranks of a call make the same number of posts. */
enum coll_gpu_verb {
    COLL_GPU_FOLD,
    COLL_GPU_COPY,
    COLL_GPU_BARRIER,
    COLL_GPU_POST,
    COLL_GPU_AWAIT
};
#define COLL_GPU_POSTS_MAX 4000 /* of a plan; calls that need more are not planned */
struct coll_gpu_step {
    enum coll_gpu_verb verb;
    int after; /* index of an earlier fold or copy that must have ended; -1: none, of a POST all */
    union {
        int posts; /* AWAIT: of every rank; BARRIER: likewise, the number of its own */
        struct rt_gpu_fold fold;
        struct {
            void *dst;
            const void *src;
            size_t len;
            bool near; /* set by run.c, as that of the fold; false in a plan */
        } copy;
    };
};
struct coll_gpu_plan {          /* zeroed before first use; may be used again */
    struct coll_gpu_step *step; /* owned */
    int n, room;
};
/* 0, -RT_ENOMEM, or -RT_ETRUNC when the ranks' arguments do not agree; most such calls are found by
 * all ranks alike. */
int coll_gpu_make_plan(const struct coll_gpu_view *v, struct coll_gpu_plan *out);
void coll_gpu_free_plan(struct coll_gpu_plan *p);

/* How an allreduce goes; for measurements, the same on all ranks.  AUTO decides by length. */
enum coll_gpu_way {
    COLL_GPU_AUTO,
    COLL_GPU_ONE_SHOT, /* everybody folds everything */
    COLL_GPU_TWO_SHOT, /* the owner of a block folds it and stores it to all */
    COLL_GPU_PUT,      /* the same, but copy engines bring it to the others */
    COLL_GPU_ENGINE,   /* copy engines carry all, folds are local; not in place */
    COLL_GPU_MIXED, /* the same, but for a part of each chunk, which kernels fold over the link */
    COLL_GPU_WAYS
};
extern enum coll_gpu_way coll_gpu_way;
/* What `coll_gpu_way` says or, if nothing, WEFT_COLL or the table of choices: algs.c. */
enum coll_gpu_way coll_gpu_asked_way(int size, int64_t nbytes, bool direct);
/* What becomes of it; any_overwritten: some rank's input lies where its result goes; large_pages,
 * direct: as in struct coll_gpu_view. */
enum coll_gpu_way coll_gpu_allreduce_way(int size, int64_t nbytes, bool any_overwritten,
                                         bool large_pages, bool direct);

#endif
