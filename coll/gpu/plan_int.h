/* SPDX-License-Identifier: BSD-3-Clause */
/* Between the files that make plans.  Lengths and offsets are bytes; a reduction's "vector" is
 * what one rank contributes. */
#ifndef COLL_GPU_PLAN_INT_H
#define COLL_GPU_PLAN_INT_H

#include "coll/gpu/plan.h"

/* Cuts lie at multiples of this from the begin of a range: whole cache lines of the device, and
 * whole elements of every type. */
#define COLL_GPU_LINE 128
/* Lengths at which plans change; a test makes them small. */
struct coll_gpu_limits {
    int64_t step;       /* what a step that is started, seen to its end by the host and followed by
                           a barrier costs, in bytes that a link moves meanwhile */
    int64_t kernel_max; /* longer copies are better left to copy engines */
    int by_kernel;      /* 128ths that a kernel carries beside an engine, when mixed */
    int64_t one_shot_extra; /* bytes more on a link that are cheaper than stores to other devices */
    int64_t owner_min;      /* blocks below this are not cut further */
    int64_t engine_min;  /* over a link: from here on engines carry what two ranks' kernels fold, */
    int64_t many_min;    /* and what is folded by more ranks */
    int64_t put_min;     /* from here on they bring what more than two ranks fold to the others */
    int64_t engine_move; /* and both ways at once what kernels copy */
    int64_t engine_chunk; /* what copy engines bring to the others at once */
    int64_t unit;         /* scratch memory comes in these; nothing in it crosses one */
    int64_t chain;        /* intermediate results of folds of more ranks than a step has sources */
};
extern struct coll_gpu_limits coll_gpu_limits;
#define COLL_GPU_PLACES 4 /* of scratch for all but chains */

/* ---- the call's shape: plan_own.c ---- */

struct coll_gpu_part {
    int64_t off, len; /* from the buffer's address */
};
/* Block i of the send or receive side of a call that has one for each rank. */
struct coll_gpu_part coll_gpu_part(const struct coll_args *a, enum coll_gpu_range side, int i);
/* A reduction's vector, and the part of it that rank i gets of a reduce_scatter. */
struct coll_gpu_part coll_gpu_vector(const struct coll_args *a, int size);
struct coll_gpu_part coll_gpu_share(const struct coll_args *a, int i);
bool coll_gpu_is_reduction(enum coll_kind kind); /* or scan */
/* False: this operation has no kernel on this layout. */
bool coll_gpu_arith(const struct coll_args *a, uint8_t *type, uint8_t *code, int64_t *elem);
/* Scratch that a plan wants, but for chains. */
size_t coll_gpu_scratch(const struct coll_args *a, int rank, int size);
/* Where the place for chains begins: behind the rest. */
static inline int64_t coll_gpu_chain_at(int64_t scratch)
{
    return (scratch + coll_gpu_limits.chain - 1) / coll_gpu_limits.chain * coll_gpu_limits.chain;
}
/* Whether this rank's own part is already in its place. */
bool coll_gpu_is_in_place(const struct coll_args *a, int rank);

/* A part of what a pair of ranks exchanges in an alltoall in place: [from, to) is mine to move. */
struct coll_gpu_swap {
    int64_t from, to;
};
struct coll_gpu_swap coll_gpu_swap(int64_t len, int rank, int peer);
/* The places in scratch through which it goes. */
struct coll_gpu_places {
    int64_t len, nbytes; /* of each; of scratch in all */
    int n, per_unit;
};
struct coll_gpu_places coll_gpu_swap_places(const struct coll_args *a, int rank, int size);

/* ---- making steps: plan.c ---- */

struct coll_gpu_make {
    const struct coll_gpu_view *v;
    struct coll_gpu_plan *out;
    int err; /* first one; nothing is added any more */
    int rank, size;
    bool in_place;        /* this rank's own part is where it belongs */
    bool any_overwritten; /* in any rank, input by results */
    uint8_t type, code;   /* reductions */
    int64_t elem;
    char *chain; /* room for intermediate results when size > RT_GPU_FOLD_PLACES */
    int posts;
    int chain_busy; /* last step that uses it; -1: none since the last barrier */
};
static inline bool coll_gpu_overwritten(const struct coll_gpu_make *m, int rank)
{
    return m->v->word[rank] & 1;
}
static inline char *coll_gpu_scratch_at(const struct coll_gpu_make *m, int64_t off)
{
    return m->v->scratch[off / coll_gpu_limits.unit] + off % coll_gpu_limits.unit;
}
/* Where [off, off + len) of a rank's range is; an error when that is not inside. */
char *coll_gpu_peer(struct coll_gpu_make *m, enum coll_gpu_range r, int rank, int64_t off,
                    int64_t len);
/* Where the block of rank `whose` begins in another rank's published range. */
int64_t coll_gpu_published(struct coll_gpu_make *m, int rank, int whose);
/* All return the index of the last step made, or `after` when there was nothing to do. */
int coll_gpu_copy(struct coll_gpu_make *m, void *dst, const void *src, int64_t len, int after);
/* Whether engines copy better than kernels when all ranks copy to all others. */
bool coll_gpu_engines_move(const struct coll_gpu_make *m, int64_t len);
/* The longest block that goes to several ranks by one kernel where otherwise each goes by a step of
 * its own: any, where steps run one after another and each destination has links of its own. */
int64_t coll_gpu_together_max(const struct coll_gpu_make *m);
/* The same by a kernel, when long and where there are kernels. */
void coll_gpu_kernel_copy(struct coll_gpu_make *m, void *dst, const void *src, int64_t len);
void coll_gpu_barrier(struct coll_gpu_make *m);
void coll_gpu_post(struct coll_gpu_make *m);
void coll_gpu_post_after(struct coll_gpu_make *m, int after);
void coll_gpu_await(struct coll_gpu_make *m, int posts);
/* All ranks, i from 0 to size - 1: this one, then the others in an order in which every rank goes
 * on its own.  Of a power of two, two that meet at a third because one is late part there again. */
int coll_gpu_other(const struct coll_gpu_make *m, int i);
/* One source to several places; by a kernel up to `most` bytes in all. */
void coll_gpu_fan_out(struct coll_gpu_make *m, const void *src, int64_t len, char *const *dst,
                      int ndst, int64_t most);
struct rt_gpu_fold *coll_gpu_fold_step(struct coll_gpu_make *m, int after);
/* Completes a step of one source, or of several (which then is made RT_GPU_FOLD_EACH): a copy, of
 * the widest elements in which all of it can be moved. */
void coll_gpu_as_copy(struct rt_gpu_fold *f, int64_t len);
/* Where part i of `parts` begins; i == parts: the end. */
int64_t coll_gpu_cut(int64_t len, int parts, int i);

/* Brings this part of the own result to the others, one after another; the last copy:
 * plan_engine.c.
 */
int coll_gpu_put_result(struct coll_gpu_make *m, int64_t off, int64_t len, int after);
/* Bytes [off, off + len) of all vectors, folded, to every rank's result: plan_fold.c. */
void coll_gpu_fold_to_all(struct coll_gpu_make *m, int64_t off, int64_t len);

void coll_gpu_plan_allreduce(struct coll_gpu_make *m);
/* Long reductions not in place: plan_engine.c; of two ranks (reduce, reduce_scatter, scan), and
 * allreduce. */
bool coll_gpu_pair_does(const struct coll_gpu_make *m);
void coll_gpu_plan_pair(struct coll_gpu_make *m);
void coll_gpu_plan_by_engine(struct coll_gpu_make *m, int64_t nbytes, bool mixed);
void coll_gpu_plan_reduce(struct coll_gpu_make *m);
void coll_gpu_plan_reduce_scatter(struct coll_gpu_make *m);
void coll_gpu_plan_scan(struct coll_gpu_make *m); /* and exscan */
void coll_gpu_plan_bcast(struct coll_gpu_make *m);
void coll_gpu_plan_gather(struct coll_gpu_make *m);
void coll_gpu_plan_scatter(struct coll_gpu_make *m);
void coll_gpu_plan_allgather(struct coll_gpu_make *m);
void coll_gpu_plan_alltoall(struct coll_gpu_make *m);

#endif
