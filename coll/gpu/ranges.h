/* SPDX-License-Identifier: BSD-3-Clause */
/* The buffers of all ranks in a call that devices carry out.  Each rank describes its own ranges;
 * the ranks exchange the descriptors; each rank maps the ranges in the others' descriptors:
 *
 *   coll_gpu_ranges_describe(), coll_gpu_range_register()    this rank's descriptor
 *   (the caller fills in the others')
 *   coll_gpu_ranges_read(), _attach(), _view()               the input of coll_gpu_make_plan()
 *   coll_gpu_ranges_release()
 *
 * The caller exchanges the descriptors, because votes on a board (gate.c) must not wait, while
 * stream collectives wait for messages (mpi/stream).  The caller also makes the mappings and owns
 * them, because their ends differ: the end of the call, or the time when a stream has passed it.
 * Under the domain's lock. */
#ifndef COLL_GPU_RANGES_H
#define COLL_GPU_RANGES_H

#include "coll/coll.h"
#include "coll/gpu/plan.h"

/* Descriptor: what a rank publishes about its buffers. */
struct coll_gpu_post {
    char key[COLL_GPU_RANGES][COLL_DEV_KEY];
    size_t len[COLL_GPU_RANGES];
    uint64_t word;  /* signature: struct coll_gpu_own */
    uint64_t turns; /* names the rank's device: rt_gpu_turns_of() */
    uint32_t has;   /* bit per range */
    uint32_t publishes;
    uint32_t pages;  /* bit per range: its allocation consists of whole large pages */
    uint32_t direct; /* the device that does the work has a separate link to each other device */
    uint32_t apart;  /* a range cannot be mapped: all ranks use messages for the call */
    uint32_t staged; /* a range is staging memory: its data come later (staging.c) */
    uint32_t pad[2];
    uint64_t offsets[]; /* [size] */
};
#define COLL_GPU_IN_PLACE 1u /* bit of `word`: the rank's input is overwritten */
/* size: of the team; 0: in kinds of calls that publish no offsets. */
static inline size_t coll_gpu_post_nbytes(int size)
{
    return sizeof(struct coll_gpu_post) + (size_t)size * sizeof(uint64_t);
}

struct coll_gpu_ranges { /* zeroed before first use */
    struct coll_team *team;
    struct coll_gpu_own own;
    struct coll_dev_mem mem[COLL_GPU_RANGES]; /* reg set: must be released */
    const struct rt_gpu_ptr *near; /* memory on the device that does the work; NULL: no work on this
                                    * rank */
    /* From the descriptors of all ranks. */
    bool in_place;    /* some rank's input is overwritten, or is staged */
    bool large_pages; /* all ranks' results lie in allocations of large pages */
    bool direct;      /* set in the descriptors of all ranks that have a device */
    bool in_turns;    /* a rank works for another: as in struct coll_gpu_view */
    char *posts;      /* [size], stride bytes apart */
    size_t stride;
    char **at[COLL_GPU_RANGES]; /* [size], like the arrays below: as in struct coll_gpu_view */
    size_t *len[COLL_GPU_RANGES];
    int *worker;
    uint64_t *word; /* owned; begins the memory of all arrays */
    const uint64_t **offsets;
};

/* Makes zeroed room, unless it is there.  `before`: bytes of the caller before each descriptor of
 * `nbytes`; both are multiples of 8.  0 or -RT_ENOMEM. */
int coll_gpu_ranges_init(struct coll_gpu_ranges *r, struct coll_team *t, size_t before,
                         size_t nbytes);
void coll_gpu_ranges_fini(struct coll_gpu_ranges *r); /* after _release() */

static inline struct coll_gpu_post *coll_gpu_post_of(const struct coll_gpu_ranges *r, int rank)
{
    return (struct coll_gpu_post *)(void *)(r->posts + (size_t)rank * r->stride);
}

/* Fills in `own` and the part of this rank's descriptor that follows from the arguments.  Returns
 * as coll_gpu_own(). */
int coll_gpu_ranges_describe(struct coll_gpu_ranges *r, const struct coll_args *a);
/* Registers the memory of a range of this rank, and puts its key into the descriptor.  1: the key
 * has changed; 0: it has not; or an error of coll_team_ops.dev_describe(). */
int coll_gpu_range_register(struct coll_gpu_ranges *r, enum coll_gpu_range w);
void coll_gpu_ranges_release(struct coll_gpu_ranges *r);

/* Reads all ranks' descriptors. */
void coll_gpu_ranges_read(struct coll_gpu_ranges *r);
/* Finds the addresses of all ranges for the device that does the work; attach() maps those that are
 * not this rank's own memory on that device.  1: an address has changed; 0; or the first error of
 * attach(). */
int coll_gpu_ranges_attach(struct coll_gpu_ranges *r,
                           int (*attach)(void *arg, enum coll_gpu_range w, int rank, char **at),
                           void *arg);
struct coll_gpu_view coll_gpu_ranges_view(const struct coll_gpu_ranges *r,
                                          const struct coll_args *a);

#endif
