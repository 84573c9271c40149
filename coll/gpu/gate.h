/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives whose buffers are device memory on all ranks of a team on one node: declarations for
 * the files of coll/gpu, and their interface to coll/start.  gate.c holds the vote on a call, run.c
 * carries the call out.  Under the domain's lock; no function here blocks. */
#ifndef COLL_GPU_GATE_H
#define COLL_GPU_GATE_H

#include "coll/board.h"
#include "coll/coll.h"
#include "coll/gpu/plan.h"
#include "coll/gpu/ranges.h"
#include "runtime/gpu/op.h"

/* Structs of ended calls that a rank keeps, so that a window of nonblocking calls is recognised
 * when it is repeated.  Each new call searches them, and each has some memory for every rank. */
#define COLL_GPU_SPARE 32

#define COLL_GPU_UNITS (COLL_GPU_SCRATCH_MAX / COLL_GPU_SCRATCH_UNIT)

/* The properties of a layout on which a plan depends: the only layouts with gaps that are planned
 * are elements with a hole at their end. */
struct coll_gpu_shape {
    int64_t size; /* -1: no layout */
    int64_t lb, true_lb, extent;
    uint8_t elem;
    bool contig;
};
/* The arguments for which a call's struct was last used: mappings.c. */
struct coll_gpu_asked {
    bool known, background;
    enum coll_kind kind;
    int root, op;
    enum coll_gpu_way way;
    const void *sbuf, *rbuf;
    int64_t scount, rcount;
    struct coll_gpu_shape stype, rtype;
    const struct rt_gpu *g; /* the device that did the work */
};

/* Staging memory in place of ranges that others cannot map: staging.c. */
struct coll_gpu_staging {
    struct coll_gpu_staged {
        struct rt_gpu_op op;
        struct coll_gpu_staging *all;
        struct rt_gpu_stage *mem; /* NULL: none */
        char *user;               /* the memory for which `mem` stands */
        size_t len;
        bool is_input;
    } part[COLL_GPU_RANGES];
    char *result; /* where the user expects the RECV range; NULL: there */
    int running;  /* copies */
    int err;
};

/* State that is kept beside the ranges, and the mappings of the other ranks' ranges: mappings.c. */
struct coll_gpu_maps {
    bool far;   /* this rank does not try to map memory: coll_gpu.far */
    bool known; /* the struct was last used for the same call */
    struct coll_gpu_asked asked;
    struct coll_gpu_staging staging;
    struct rt_gpu_stage *scratch[COLL_GPU_UNITS];
    char *scratch_at[COLL_GPU_UNITS];
    int nscratch;
    bool unpinned;            /* the mappings are unpinned */
    uint32_t *version;        /* [size]: of the descriptors; 0: do not use the copy again */
    struct coll_dev_map *map; /* [range][rank]; att set: attached, pinned or unpinned */
};

/* A plan while it is carried out: run.c. */
struct coll_gpu_run {
    bool planned; /* making the plan again would give the same plan */
    struct coll_gpu_plan plan;
    struct coll_gpu_op *op; /* [nops], one per step of the plan */
    int nops;
    int started, lead; /* all steps before these: have been started; have ended and been
                        * published */
    int wait;          /* the next step that waits for others */
    int posted;        /* the last POST or BARRIER that was published */
    int running;
    uint64_t began;     /* clock, of a plan whose time is measured (turns.c); 0: it is not */
    uint64_t failed_at; /* clock, of a mismatch that WEFT_CHECK will report; 0: none yet */
};

/* A call that waits for its turn or for the other ranks, or that is carried out.  Kept for the next
 * call. */
struct coll_gpu_call {
    struct coll_gpu *gate;
    struct coll_task *task;
    struct coll_gpu_call *next;         /* in the queue of undecided calls, or in the list of spare
                                         * structs */
    int (*go)(struct coll_gpu_call *c); /* current step function; as coll_task.step */
    struct coll_board_call on;
    const struct rt_gpu_ptr *found; /* coll_args.found, while the call is started; NULL */
    bool device;                    /* this rank may vote yes */
    bool voted;
    bool booked; /* part of a schedule: not in the queue of undecided calls, decided in any order */
    struct {     /* of a vote on a schedule: the task's fields after all have voted yes */
        int (*step)(struct coll_task *k);
        void (*cleanup)(struct coll_task *k);
        void *state;
    } schedule;
    struct coll_gpu_ranges ranges; /* posts: copies of the entries on the board */
    struct coll_gpu_maps maps;
    struct coll_gpu_run run;
};

/* What ranks vote on: calls (gate.c) or schedules (vote.c). */
struct coll_gpu_subject {
    bool (*offer)(struct coll_gpu_call *c); /* writes the data of a yes vote; false: veto */
    int (*won)(struct coll_gpu_call *c);    /* all ranks have voted yes; a step function */
    void (*lost)(struct coll_gpu_call *c);  /* undoes offer(); NULL-able */
};
extern const struct coll_gpu_subject coll_gpu_schedules;

/* Calls that a rank does not try in a way that has failed, or was slow: more after each failure. */
struct coll_gpu_backoff {
    unsigned left, last; /* calls from now on; as `left` was after the last failure */
};

struct coll_gpu {            /* this rank's view; private memory */
    struct coll_board board; /* its team: all ranks, or those of this host */
    const struct coll_gpu_subject *subject;
    bool (*write)(struct coll_task *k);  /* of votes on schedules: writes one into the task; false:
                                          * veto */
    struct coll_gpu_call *first, **last; /* undecided calls, in order */
    struct coll_gpu_call *spare;         /* most recently used first */
    int nspare;
    uint32_t version;            /* last version of this rank's descriptors */
    int hurry;                   /* calls that do not wait at their start */
    struct coll_gpu_backoff far; /* memory could not be mapped; a later call may use other memory */
    struct coll_gpu_backoff turn; /* kernels waited for the turn of this process: turns.c */
    uint64_t redo; /* a call that could not start while the others had begun to use messages; or
                    * 0 */
};

/* ---- for coll/start ---- */

/* Sets t->gpu if there may be device memory.  `local`: t, or the team of this host's ranks, which
 * vote on schedules for t's calls, written by write().  0 or -RT_ENOMEM. */
int coll_gpu_create(struct coll_team *t, struct coll_team *local,
                    bool (*write)(struct coll_task *k));
/* `shared`: zeroed memory of coll_board_nbytes().  Without t->gpu vetoes all calls in advance. */
void coll_gpu_attach(struct coll_team *t, const struct coll_team *local, void *shared);
/* Releases what is kept of ended calls, while the team's ops can still be called. */
void coll_gpu_forget(struct coll_team *t);
void coll_gpu_fini(struct coll_team *t);
/* Starts a call for which coll_gpu_pass() has returned false.  0 or -RT_E...: not started. */
int coll_gpu_start(struct coll_task *k);
/* In a call whose ranks may have different counts, a rank without data cannot know its kind of
 * memory: it votes yes if device memory has been seen. */
bool coll_gpu_has_nothing(const struct coll_team *t, const struct coll_args *a);
/* Vetoes a call with host buffers, if no earlier call is undecided; the call then needs nothing
 * more from coll/gpu.  False: use coll_gpu_start(). */
static inline bool coll_gpu_pass(struct coll_team *t, const struct coll_args *a)
{
    struct coll_gpu *g = t->gpu;
    if (rt_unlikely(a->mem != RT_MEM_HOST || g->first))
        return false;
    if (rt_unlikely(rt_load_relaxed(&g->board.head->used)) &&
        (g->redo || coll_gpu_has_nothing(t, a)))
        return false;
    coll_board_veto(&g->board, COLL_BOARD_CALLS, ++t->gate_calls);
    return true;
}

/* Creates a persistent call and votes on it without waiting.  k->fixed is set if this rank voted
 * yes. */
void coll_gpu_prepare(struct coll_task *k);
void coll_gpu_unprepare(struct coll_task *k);
int coll_gpu_restart(struct coll_task *k); /* only if k->fixed is set; returns 0 */

/* ---- interfaces between gate.c, persistent.c, mappings.c and run.c ---- */

/* Unless described otherwise, functions that return int return as coll_task.step.
 * coll_gpu_call_take() returns NULL if there is no memory. */
struct coll_gpu_call *coll_gpu_call_take(struct coll_gpu *g, struct coll_task *k,
                                         enum coll_board_row row, uint64_t number);
void coll_gpu_call_spare(struct coll_gpu_call *c);
extern const struct coll_alg coll_gpu_alg;
/* Whether the struct was last used for a call with these arguments. */
bool coll_gpu_knows(const struct coll_gpu_call *c, const struct coll_task *k);
void coll_gpu_unlearn(struct coll_gpu_call *c);
/* Describes this rank's buffers.  0, or -RT_E...: veto. */
int coll_gpu_describe(struct coll_gpu_call *c);
/* Copies this rank's descriptor into its entry, unless it is there. */
void coll_gpu_put_post(const struct coll_gpu_call *c);
/* Maps the ranges in all ranks' descriptors.  -RT_E... on failure; -RT_ENOTSUP: a rank has set
 * `apart`. */
int coll_gpu_map(struct coll_gpu_call *c);
/* Puts staging memory in the place of a range that others cannot map.  0, or -RT_E...: the range is
 * as before.  staging.c */
int coll_gpu_staging_take(struct coll_gpu_call *c, enum coll_gpu_range w);
bool coll_gpu_is_staged(const struct coll_gpu_call *c);
/* Start copying the input into it, the result out of it; until none is `running`. */
void coll_gpu_staging_in(struct coll_gpu_call *c);
void coll_gpu_staging_out(struct coll_gpu_call *c);
void coll_gpu_staging_give(struct coll_gpu_call *c); /* tolerates none */
/* Whether the rank's device has kernels besides copies. */
bool coll_gpu_has_kernels(const struct coll_gpu_call *c);
/* All ranks have voted yes: runs the call to its end. */
int coll_gpu_run(struct coll_gpu_call *c);
/* The two parts of coll_gpu_run(): map all ranges and make the plan (0 or -RT_E..., stored in
 * c->on); carry out the plan when all ranks are READY.  A plan may be carried out repeatedly. */
int coll_gpu_get_ready(struct coll_gpu_call *c, bool *in_place);
int coll_gpu_carry_out(struct coll_gpu_call *c);
/* Publishes END for this rank and waits for the others. */
int coll_gpu_end(struct coll_gpu_call *c);
/* Whether the buffers are still the memory that was described. */
bool coll_gpu_stands(const struct coll_gpu_call *c);
/* Whether this rank sends a call, which it has described, through host memory, because its kernels
 * have had to wait for their turn lately; at the begin and at the end of a plan.  turns.c */
bool coll_gpu_avoids_turns(struct coll_gpu_call *c);
void coll_gpu_turn_begin(struct coll_gpu_call *c);
void coll_gpu_turn_end(struct coll_gpu_call *c);
bool coll_gpu_backs_off(struct coll_gpu_backoff *b);
void coll_gpu_tried(struct coll_gpu_backoff *b, bool failed);
/* Releases what describing and running have taken. */
void coll_gpu_release(struct coll_gpu_call *c);
void coll_gpu_free(struct coll_gpu_call *c);
/* Waits some microseconds until the others reach this phase or (0) vote yes. */
void coll_gpu_wait_a_moment(struct coll_gpu_call *c, uint32_t phase);
/* Carries the call out in host memory. */
int coll_gpu_stage(struct coll_gpu_call *c);
/* Ends the call with this result. */
int coll_gpu_over(struct coll_gpu_call *c, int err);

/* Functions that carry out plans; a test has its own. */
extern const struct coll_gpu_engine {
    bool (*kernels)(struct rt_gpu *g);
    bool (*can_fold)(struct rt_gpu *g, unsigned type, unsigned code);
    void (*fold)(struct rt_gpu *g, const struct rt_gpu_fold *f, struct rt_gpu_op *op);
    void (*copy)(struct rt_gpu *g, void *dst, const void *src, size_t len, struct rt_gpu_op *op);
    bool (*copy_behind)(struct rt_gpu *g, void *dst, const void *src, size_t len,
                        struct rt_gpu_op *op, const struct rt_gpu_op *before); /* NULL-able */
    int (*take)(struct rt_gpu *g, bool host, size_t nbytes, struct rt_gpu_stage **out);
    void (*give)(struct rt_gpu_stage *s);
    int (*query)(const void *p, size_t len, struct rt_gpu_ptr *out);
    void (*copy_near)(struct rt_gpu *g, void *dst, const void *src, size_t len,
                      struct rt_gpu_op *op);
    bool (*lies_on)(const struct rt_gpu *g, const struct rt_gpu_ptr *p);
    bool (*direct)(struct rt_gpu *g); /* links to every other device without a switch */
} * coll_gpu_engine;

#endif
