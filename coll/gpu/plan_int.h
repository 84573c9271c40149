/* SPDX-License-Identifier: BSD-3-Clause */
/* Interfaces between the files that make plans.  Lengths and offsets are in bytes; the "vector" of
 * a reduction is the contribution of one rank. */
#ifndef COLL_GPU_PLAN_INT_H
#define COLL_GPU_PLAN_INT_H

#include "coll/gpu/plan.h"

/* Ranges are cut at multiples of this length from their beginning: whole cache lines of the device,
 * and whole elements of every type. */
#define COLL_GPU_LINE 128
/* Lengths at which plans change; a test makes them small. */
struct coll_gpu_limits {
    int64_t step;       /* cost of a step that the host starts, waits for and follows with a
                         * barrier, as bytes that a link moves in that time */
    int64_t kernel_max; /* for longer copies copy engines are better */
    int by_kernel;      /* 128ths that a kernel moves besides an engine, if mixed */
    /* additional bytes on a link that are cheaper than stores to other devices */
    int64_t one_shot_extra;
    int64_t owner_min;    /* shorter blocks are not divided */
    int64_t engine_min;   /* least bytes for copy engines instead of kernels: folds of two ranks, */
    int64_t many_min;     /* folds of more ranks, */
    int64_t put_min;      /* copying results of more than two ranks to the others, */
    int64_t engine_move;  /* and copies in both directions */
    int64_t engine_chunk; /* length of a copy engine's chunk */
    int64_t unit;         /* length of a scratch buffer; no piece crosses its end */
    int64_t chain; /* room for intermediate results, for more ranks than a fold has sources */
};
extern struct coll_gpu_limits coll_gpu_limits;
#define COLL_GPU_PLACES 4 /* units of scratch, not counting chains */

/* ---- the call's shape: plan_own.c ---- */

struct coll_gpu_part {
    int64_t off, len; /* from the buffer's address */
};
/* Block i of a side that has a block for each rank. */
struct coll_gpu_part coll_gpu_part(const struct coll_args *a, enum coll_gpu_range side, int i);
/* A reduction's vector, and the part that rank i gets in a reduce_scatter. */
struct coll_gpu_part coll_gpu_vector(const struct coll_args *a, int size);
struct coll_gpu_part coll_gpu_share(const struct coll_args *a, int i);
/* False: no kernel for this operation and layout. */
bool coll_gpu_arith(const struct coll_args *a, uint8_t *type, uint8_t *code, int64_t *elem);
/* Scratch that a plan needs, without that for chains. */
size_t coll_gpu_scratch(const struct coll_args *a, int rank, int size);
/* Start of the part for chains, after the rest. */
static inline int64_t coll_gpu_chain_at(int64_t scratch)
{
    return (scratch + coll_gpu_limits.chain - 1) / coll_gpu_limits.chain * coll_gpu_limits.chain;
}

/* The bytes [from, to) of a block that this rank moves in an in-place alltoall; its peer moves the
 * others. */
struct coll_gpu_swap {
    int64_t from, to;
};
struct coll_gpu_swap coll_gpu_swap(int64_t len, int rank, int peer);
/* The places in scratch through which the bytes go. */
struct coll_gpu_places {
    int64_t len, nbytes; /* of each; of scratch in all */
    int n, per_unit;
};
struct coll_gpu_places coll_gpu_swap_places(const struct coll_args *a, int rank, int size);

/* ---- making steps: plan.c ---- */

struct coll_gpu_make {
    const struct coll_gpu_view *v;
    struct coll_gpu_plan *out;
    int err; /* the first error; nothing is added after it */
    int rank, size;
    int nworkers, nth;    /* ranks that work; this rank's place among them, -1: it does not */
    bool in_place;        /* this rank's own part is in its place */
    bool any_overwritten; /* on some rank results overwrite input */
    uint8_t type, code;   /* for reductions */
    int64_t elem;
    char *chain; /* room for intermediate results if size > RT_GPU_FOLD_PLACES */
    int posts;
    int chain_busy; /* last step that uses `chain`; -1: none since the last barrier */
};
static inline bool coll_gpu_overwritten(const struct coll_gpu_make *m, int rank)
{
    return m->v->word[rank] & 1;
}
/* Whether a rank works for another; then plans have no steps through scratch and no engines. */
static inline bool coll_gpu_in_turns(const struct coll_gpu_make *m)
{
    return m->nworkers < m->size;
}
/* Whether this rank works for rank i. */
static inline bool coll_gpu_works_for(const struct coll_gpu_make *m, int i)
{
    return (m->v->worker ? m->v->worker[i] : i) == m->rank;
}
static inline char *coll_gpu_scratch_at(const struct coll_gpu_make *m, int64_t off)
{
    return m->v->scratch[off / coll_gpu_limits.unit] + off % coll_gpu_limits.unit;
}
/* Address of [off, off + len) in a rank's range; an error if outside. */
char *coll_gpu_peer(struct coll_gpu_make *m, enum coll_gpu_range r, int rank, int64_t off,
                    int64_t len);
/* Start of the block of rank `whose` in another rank's published range. */
int64_t coll_gpu_published(struct coll_gpu_make *m, int rank, int whose);
/* These functions return the index of the last step made, or `after` if there was nothing to do. */
int coll_gpu_copy(struct coll_gpu_make *m, void *dst, const void *src, int64_t len, int after);
/* Whether copy engines are faster than kernels when all ranks copy to all others. */
bool coll_gpu_engines_move(const struct coll_gpu_make *m, int64_t len);
/* The longest block that one kernel stores to several ranks; a longer block is a step of its own.
 * No limit where steps run one after another and each destination has direct links. */
int64_t coll_gpu_together_max(const struct coll_gpu_make *m);
/* The same copy, by a kernel if it is long and there are kernels. */
void coll_gpu_kernel_copy(struct coll_gpu_make *m, void *dst, const void *src, int64_t len);
void coll_gpu_barrier(struct coll_gpu_make *m);
void coll_gpu_post(struct coll_gpu_make *m);
void coll_gpu_post_after(struct coll_gpu_make *m, int after);
void coll_gpu_await(struct coll_gpu_make *m, int posts);
/* For i from 0 to size - 1: this rank, then the others, in an order in which the ranks use
 * different destinations at the same time.  If the size is a power of two, two ranks that meet at a
 * destination because one is late go to different ones next. */
int coll_gpu_other(const struct coll_gpu_make *m, int i);
/* Copies a source to several places; by a kernel up to `most` bytes in all. */
void coll_gpu_fan_out(struct coll_gpu_make *m, const void *src, int64_t len, char *const *dst,
                      int ndst, int64_t most);
struct rt_gpu_fold *coll_gpu_fold_step(struct coll_gpu_make *m, int after);
/* Completes a step with one source, or with several sources (whose code the caller then sets to
 * RT_GPU_FOLD_EACH), as a copy of the widest possible elements. */
void coll_gpu_as_copy(struct rt_gpu_fold *f, int64_t len);
/* Where part i of `parts` begins; i == parts: the end. */
int64_t coll_gpu_cut(int64_t len, int parts, int i);

/* Copies this part of the own result to the others, one after another; returns the last copy:
 * plan_engine.c. */
int coll_gpu_put_result(struct coll_gpu_make *m, int64_t off, int64_t len, int after);
/* Folds bytes [off, off + len) of all vectors into every rank's result: plan_fold.c. */
void coll_gpu_fold_to_all(struct coll_gpu_make *m, int64_t off, int64_t len);

void coll_gpu_plan_allreduce(struct coll_gpu_make *m);
/* Long reductions that are not in place, in plan_engine.c: of two ranks (reduce, reduce_scatter,
 * scan), and allreduce. */
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
/* The same for ranks that share devices in turns (not bcast, alltoallv and alltoallw):
 * plan_turns.c. */
void coll_gpu_plan_in_turns(struct coll_gpu_make *m);

#endif
