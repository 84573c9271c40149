/* SPDX-License-Identifier: BSD-3-Clause */
/* The work of one rank's device in a collective whose ranks have mapped each other's buffers: a
 * list of reductions, copies and barriers.  A plan is a pure function of the call and of addresses,
 * so a test can make the plans of all ranks in one process and carry them out on the CPU.
 *
 * A rank describes up to two ranges of its memory.  SEND: its contribution (in place: that part of
 * the receive buffer).  RECV: the memory that the call writes, or, in place, the whole receive
 * buffer.  The address of a range is that of its lowest byte; NULL: no range.
 *
 * Before a plan begins, all ranks have entered the call and attached the memory that they need.
 * After its end all ranks meet again, so no rank leaves while another uses its memory.  Steps that
 * are not ordered by `after` or by posts run in any order and at the same time, on one rank and
 * between ranks: memory that one step writes must not be accessed by another. */
#ifndef COLL_GPU_PLAN_H
#define COLL_GPU_PLAN_H

#include "coll/coll.h"

enum coll_gpu_range { COLL_GPU_SEND, COLL_GPU_RECV, COLL_GPU_RANGES };

/* A rank's own part of a call, known before it meets the others. */
struct coll_gpu_own {
    const char *at[COLL_GPU_RANGES]; /* NULL: no range */
    size_t len[COLL_GPU_RANGES];
    /* Signature for the other ranks: the arguments that must agree, and in bit 0 whether the plan
     * overwrites input of this rank. */
    uint64_t word;
    size_t scratch; /* bytes of temporary device memory that the plan needs */
    bool swaps;     /* no scratch needed where rt_gpu_can_fold() supports RT_GPU_FOLD_EACH of
                     * RT_GPU_U8 */
    /* offsets[r]: where in this rank's range the block for or from rank r begins */
    bool publishes;
    bool folds; /* needs a kernel for `type` and `code`: test with rt_gpu_can_fold() */
    uint8_t type, code;
};
#define COLL_GPU_SCRATCH_UNIT RT_GPU_STAGE_LARGE
#define COLL_GPU_SCRATCH_MAX (5 * COLL_GPU_SCRATCH_UNIT) /* most that a plan needs */
#define COLL_GPU_RANKS_MAX 64                            /* larger teams have no plans */
/* Fills *out and, if it publishes, offsets[0..size).  -RT_ENOTSUP: there is no plan for this call
 * (a derived datatype with gaps, an operation without a kernel, too many ranks); other ranks may
 * come to another result. */
int coll_gpu_own(const struct coll_team *t, const struct coll_args *a, struct coll_gpu_own *out,
                 uint64_t *offsets);

/* The ranges of all ranks, as this rank addresses them. */
struct coll_gpu_view {
    int rank, size;
    const struct coll_args *a;
    char *const *at[COLL_GPU_RANGES];   /* [range][rank]; NULL: no range */
    const size_t *len[COLL_GPU_RANGES]; /* [range][rank] */
    const uint64_t *word;               /* [rank] */
    const uint64_t *const *offsets;     /* [rank][rank] of the ranks that publish, otherwise NULL */
    char *const *scratch; /* buffers of COLL_GPU_SCRATCH_UNIT bytes, in all own.scratch bytes */
    bool kernels;     /* this device has kernels for folds, copies and swaps; otherwise only copies
                       * are used */
    bool large_pages; /* the same on all ranks: engines put into all results at full speed */
    bool direct;      /* the same on all ranks: each pair of devices has a link of its own */
    bool background;  /* the same on all ranks: the hosts' threads do not call progress: posts are
                       * late */
    bool in_order;    /* the same on all ranks: steps run one after another */
    /* [rank], the same on all ranks: the rank whose process does the work of this rank's device;
     * NULL: every rank does its own.  Where contexts of processes take turns on a device, the first
     * rank of the device works for all, so no kernel waits for a turn. */
    const int *worker;
};

/* POST does not block later steps.  It is published when all folds and copies before it in the list
 * have ended, or, with `after`, when that step and those before it in its chain have; posts are
 * published in order.  AWAIT: later steps in the list begin when every rank has made this many
 * posts.  BARRIER: a post and an AWAIT of the same number of posts.  All ranks of a call make the
 * same number of posts. */
enum coll_gpu_verb {
    COLL_GPU_FOLD,
    COLL_GPU_COPY,
    COLL_GPU_BARRIER,
    COLL_GPU_POST,
    COLL_GPU_AWAIT
};
#define COLL_GPU_POSTS_MAX 4000 /* of a plan; there is no plan for calls that need more */
struct coll_gpu_step {
    enum coll_gpu_verb verb;
    int after; /* index of an earlier fold or copy that must have ended; -1: none, for a POST all */
    union {
        int posts; /* AWAIT: posts of every rank to wait for; BARRIER: the same, including its
                    * own */
        struct rt_gpu_fold fold;
        struct {
            void *dst;
            const void *src;
            size_t len;
            bool near; /* set by run.c, as fold.near is; false in a plan */
        } copy;
    };
};
struct coll_gpu_plan {          /* zeroed before first use; may be reused */
    struct coll_gpu_step *step; /* owned */
    int n, room;
};
/* 0; -RT_ENOMEM; -RT_ENOTSUP: there is no plan, or it would need too many posts; -RT_ETRUNC: the
 * ranks' arguments do not agree, which mostly all ranks detect alike. */
int coll_gpu_make_plan(const struct coll_gpu_view *v, struct coll_gpu_plan *out);
void coll_gpu_free_plan(struct coll_gpu_plan *p);

/* How an allreduce moves data; set for measurements, the same on all ranks.  AUTO decides by
 * length. */
enum coll_gpu_way {
    COLL_GPU_AUTO,
    COLL_GPU_ONE_SHOT, /* every rank folds everything */
    COLL_GPU_TWO_SHOT, /* the owner of a block folds it and stores it to all */
    COLL_GPU_PUT,      /* the same, but copy engines copy it to the others */
    COLL_GPU_ENGINE,   /* copy engines move all data, folds are local; not in place */
    /* the same, but kernels fold a part of each chunk over the link */
    COLL_GPU_MIXED,
    COLL_GPU_WAYS
};
extern enum coll_gpu_way coll_gpu_way;
/* The value of `coll_gpu_way` or, if AUTO, of WEFT_COLL or the tuning table: plan_names.c. */
enum coll_gpu_way coll_gpu_asked_way(int size, int64_t nbytes, bool direct);
/* The way that is used; any_overwritten: some rank's result lies over its input; large_pages,
 * direct: as in struct coll_gpu_view. */
enum coll_gpu_way coll_gpu_allreduce_way(int size, int64_t nbytes, bool any_overwritten,
                                         bool large_pages, bool direct);

/* Plans that have names, for WEFT_COLL and the tuning table: plan_names.c. */
extern const struct coll_alg coll_gpu_algs[];

#endif
