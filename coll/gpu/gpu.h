/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives whose buffers are device memory on all ranks of a team on one node: what the files of
 * coll/gpu share, and their interface to coll.c.  gate.c says how the ranks agree that a call goes
 * this way, run.c carries it out.  Under the domain's lock; nothing here blocks. */
#ifndef COLL_GPU_GPU_H
#define COLL_GPU_GPU_H

#include "coll/coll.h"
#include "coll/gpu/plan.h"
#include "runtime/base/atomic.h"
#include "runtime/mem/node.h"

#define COLL_GPU_FIXED 64 /* persistent calls on device memory that a team has at a time */
#define COLL_GPU_SLOTS 4  /* device calls of a team that a rank has under way at a time */
/* Calls that have ended of which a rank keeps the structs: a window of nonblocking ones, which is
 * known again; each new call looks through them, and each has some memory for every rank. */
#define COLL_GPU_SPARE 32

/* What a rank says to the others: two lines, of which only the first is written by calls with host
 * buffers.  Numbers of calls begin with 1. */
struct coll_gpu_word {
    _Alignas(RT_CACHE_LINE) uint64_t passed; /* last call for which this rank has said yes or no */
    uint64_t open; /* its device calls that have not ended */
    uint64_t yes[COLL_GPU_SLOTS]; /* the slot's last call with device buffers */
    uint32_t version[COLL_GPU_SLOTS]; /* of the slot's post; written before `yes` */
    _Alignas(RT_CACHE_LINE) uint64_t at[COLL_GPU_SLOTS]; /* how far that call is: COLL_GPU_AT */
    uint64_t inits; /* last persistent call for which this rank has said yes or no */
    uint64_t fixed; /* offset + 1 of its struct coll_gpu_entry[FIXED]; written before `number` */
    uint64_t area;  /* offset + 1 of its struct coll_gpu_post[SLOTS]; written before `yes` */
};
_Static_assert(sizeof(struct coll_gpu_word) == 2 * RT_CACHE_LINE, "two lines");
#define COLL_GPU_AT(number, phase) ((number) << 24 | (phase))
#define COLL_GPU_READY 1u     /* all that it needs is mapped; one more with each post */
#define COLL_GPU_END 0xfffffu /* neither it nor its device uses the others' memory any more */
#define COLL_GPU_PHASE 0xfffffu
#define COLL_GPU_DECLINED 0x100000u /* not this way after all; it has written nothing */
#define COLL_GPU_FAILED 0x200000u
#define COLL_GPU_MISMATCH 0x400000u /* with FAILED: the ranks' arguments do not agree */

struct coll_gpu_head {
    _Alignas(RT_CACHE_LINE) uint32_t devices; /* some rank has said yes, once: ranks may sleep */
};

/* One call's part of a rank's area; complete before the rank says yes. */
struct coll_gpu_post {
    char key[COLL_GPU_RANGES][COLL_DEV_KEY];
    size_t len[COLL_GPU_RANGES];
    uint64_t word; /* struct coll_gpu_own */
    uint32_t has;  /* bit per range */
    uint32_t publishes;
    uint32_t pages; /* bit per range: its allocation is whole large pages */
    uint32_t direct; /* the device that does the work has links of its own to each other one */
    uint32_t apart; /* some range cannot be mapped: the call goes by messages on all ranks */
    uint32_t pad[5];
    uint64_t offsets[]; /* [size] */
};
#define COLL_GPU_UNITS (COLL_GPU_SCRATCH_MAX / COLL_GPU_SCRATCH_UNIT)
#define COLL_GPU_IN_PLACE 1u /* bit of `word`: its input is overwritten */

/* A persistent call's part of a rank's memory; its post lies behind it. */
struct coll_gpu_entry {
    _Alignas(RT_CACHE_LINE) uint64_t number; /* of the call; 0: being written */
    uint64_t at;                             /* how far its start is: COLL_GPU_AT */
};

/* What a plan depends on of a layout: of those with gaps only elements with a hole at their end are
 * planned. */
struct coll_gpu_shape {
    int64_t size; /* -1: no layout */
    int64_t lb, true_lb, extent;
    uint8_t elem;
    bool contig;
};
/* What a call's struct was used for last: mappings.c. */
struct coll_gpu_asked {
    bool known, background;
    enum coll_kind kind;
    int root, op;
    enum coll_gpu_way way;
    const void *sbuf, *rbuf;
    int64_t scount, rcount;
    struct coll_gpu_shape stype, rtype;
    const struct rt_gpu *g; /* whose device did the work */
};

/* A call that waits for its turn, for the others, or is being carried out; kept for the next one.
 */
struct coll_gpu_call {
    struct coll_gpu *gate;
    struct coll_task *task;
    struct coll_gpu_call *next;         /* of the undecided, in order; or of the spare ones */
    uint64_t number;                    /* of the call; of a persistent one's start */
    uint64_t init;                      /* a persistent call's number; 0: not persistent */
    int (*go)(struct coll_gpu_call *c); /* what its step does; as coll_task.step */
    int slot;
    bool device, posted, said_yes;
    bool far; /* this rank does not try to map anything: coll_gpu.far */
    bool booked; /* of a schedule: not among the undecided, and may be decided out of order */
    bool known;  /* it is the call that the struct was last used for */
    int heard;             /* ranks that have said yes, or that have come to the phase waited for */
    uint64_t look_at;      /* clock, when to look whether those waited for are alive */
    uint32_t seen;         /* flags of all ranks: DECLINED, FAILED */
    uint32_t target;       /* the phase that others are waited for in */
    uint32_t phase, flags; /* this rank's own */
    int err;
    uint64_t failed_at; /* clock, of a mismatch that WEFT_CHECK is to report; 0: not yet */
    /* Of a vote: what the task gets when it is won. */
    int (*step)(struct coll_task *k);
    void (*cleanup)(struct coll_task *k);
    void *state;
    /* Of mappings.c. */
    struct coll_gpu_asked asked;
    struct coll_gpu_own own;
    struct coll_dev_mem mem[COLL_GPU_RANGES]; /* reg set: to be released */
    const struct rt_gpu_ptr *near; /* whose device does the work; NULL: nothing to do here */
    struct rt_gpu_stage *scratch[COLL_GPU_UNITS];
    char *scratch_at[COLL_GPU_UNITS];
    int nscratch;
    bool in_place;    /* some rank's input is overwritten */
    bool large_pages; /* all ranks' results lie in such allocations */
    bool direct;      /* all ranks that have a device say so of it */
    bool parked;      /* the mappings wait for the same call */
    char *posts;       /* [size] of coll_gpu_post_nbytes(): copies of all ranks' */
    uint32_t *version; /* [size]: theirs; 0: not to be used again */
    struct coll_dev_map *map[COLL_GPU_RANGES]; /* [size]; att set: attached, or parked */
    char **at[COLL_GPU_RANGES];                /* [size], as these */
    size_t *len[COLL_GPU_RANGES];
    uint64_t *word;
    const uint64_t **offsets;
    /* Of run.c. */
    bool planned; /* the plan is what would be made again */
    struct coll_gpu_plan plan;
    struct coll_gpu_op *op; /* [nops], one a step of the plan */
    int nops;
    int started, lead; /* all steps before these have been started; have ended and been said */
    int wait;          /* the next step that waits for others */
    int said;          /* the last POST or BARRIER that has been said */
    int running;
};

struct coll_gpu { /* this rank's view; private memory */
    struct coll_team *team; /* whose ranks have the words: all, or those of this host */
    bool votes;             /* ranks say whether a schedule of coll/hier runs on their devices */
    uint64_t agreed[COLL_GPU_SLOTS]; /* votes: the slot's last one for which all have said yes */
    struct coll_gpu_head *head;
    struct coll_gpu_word *word, *own;    /* [size]; this rank's */
    struct coll_gpu_call *first, **last; /* undecided calls, in order */
    struct coll_gpu_call *spare;         /* the one used last first */
    int nspare;
    struct coll_gpu_call *in[COLL_GPU_SLOTS];
    char *area;
    uint32_t in_area[COLL_GPU_SLOTS]; /* versions of the posts in it */
    uint32_t version;                 /* the last one of this rank */
    /* Persistent calls: those that have said yes, this rank's entries. */
    bool in_use[COLL_GPU_FIXED];
    char *fixed;
    int hurry;         /* calls that wait for nobody when they are started */
    bool no_area;      /* this rank says no to everything */
    /* After a rank's memory could not be reached: device calls in which this rank does not try
     * again, and how many it was the last time.  The next one may be of other memory. */
    unsigned far, far_last;
    uint64_t redo; /* a call that could not start when the others had begun by messages; or 0 */
};

/* ---- for coll.c ---- */

size_t coll_gpu_nbytes(int size); /* of the team's shared memory */
/* Sets t->gpu where there may be device memory, else says no to all calls.  `words`: t, or the
 * ranks of this host, who vote about t's calls. */
int coll_gpu_attach(struct coll_team *t, struct coll_team *words, void *shared);
/* Gives back what is kept of calls that have ended, while the team's ops can do so. */
void coll_gpu_forget(struct coll_team *t);
void coll_gpu_fini(struct coll_team *t);
bool coll_gpu_quiet(const struct coll_team *t, const struct coll_team *words, void *shared);
/* Starts a call that coll_gpu_pass() has not let through. */
int coll_gpu_start(struct coll_task *k);
/* Gives a call of a schedule on the device its number; its first step meets the others. */
void coll_gpu_book(struct coll_task *k);

void coll_gpu_wake(struct coll_gpu *g);
/* After this rank's word has been stored: whoever sleeps and waits for it is woken. */
static inline void coll_gpu_has_said(struct coll_gpu *g)
{
    __atomic_signal_fence(__ATOMIC_SEQ_CST); /* the other half is a sleeper's membarrier */
    if (rt_unlikely(rt_node.fence_needed))   /* which is missing here */
        rt_fence();
    if (rt_unlikely(rt_load_relaxed(&g->head->devices)))
        coll_gpu_wake(g);
}
/* A rank without data, in a call whose ranks may have different counts, cannot say what memory it
 * would have been in: it says yes where device memory has been seen. */
bool coll_gpu_has_nothing(const struct coll_team *t, const struct coll_args *a);
/* A call with host buffers says so and needs no gate, when no call before it is undecided.  False:
 * coll_gpu_start(). */
static inline bool coll_gpu_pass(struct coll_team *t, const struct coll_args *a)
{
    struct coll_gpu *g = t->gpu;
    if (rt_unlikely(a->mem != RT_MEM_HOST || g->first))
        return false;
    if (rt_unlikely(rt_load_relaxed(&g->head->devices)) &&
        (g->redo || coll_gpu_has_nothing(t, a)))
        return false;
    rt_store_release(&g->own->passed, ++t->gate_calls);
    coll_gpu_has_said(g);
    return true;
}

/* A persistent call is made; says yes or no, waits for nobody.  Yes: k->fixed is set. */
void coll_gpu_prepare(struct coll_task *k);
void coll_gpu_unprepare(struct coll_task *k);
int coll_gpu_restart(struct coll_task *k); /* with k->fixed set */

/* ---- between gate.c, persistent.c, mappings.c and run.c ---- */

struct coll_gpu_call *coll_gpu_call_take(struct coll_gpu *g, struct coll_task *k);
void coll_gpu_call_spare(struct coll_gpu_call *c);
size_t coll_gpu_post_nbytes(const struct coll_gpu *g);
size_t coll_gpu_fixed_nbytes(const struct coll_gpu *g);
struct coll_gpu_entry *coll_gpu_entry_of(const struct coll_gpu_call *c, int rank);
extern const struct coll_alg coll_gpu_alg;
/* Whether a rank that this one waits for is no more; asked now and then. */
bool coll_gpu_is_gone(struct coll_gpu_call *c, int rank);
struct coll_gpu_post *coll_gpu_post_of(const struct coll_gpu_call *c, int rank);
/* Whether the struct was last used for a call with these arguments. */
bool coll_gpu_knows(const struct coll_gpu_call *c, const struct coll_task *k);
void coll_gpu_unlearn(struct coll_gpu_call *c);
/* Describes this rank's buffers: 0, or -RT_E...: say no. */
int coll_gpu_describe(struct coll_gpu_call *c);
/* Puts this rank's post where the others read it unless it is there; the post's version. */
uint32_t coll_gpu_put_post(const struct coll_gpu_call *c, uint32_t there);
/* Maps all ranks' ranges by their posts. */
int coll_gpu_map(struct coll_gpu_call *c);
/* Whether its device does more than copies. */
bool coll_gpu_has_kernels(const struct coll_gpu_call *c);
/* All have said yes: the steps from here to the end. */
int coll_gpu_run(struct coll_gpu_call *c);
/* The two halves of that: maps all ranges and makes the plan; carries it out, when all are READY.
 * A plan that has been made may be carried out again. */
int coll_gpu_get_ready(struct coll_gpu_call *c, bool *in_place);
int coll_gpu_carry_out(struct coll_gpu_call *c);
/* This rank goes no further: says so and waits for the others' word. */
int coll_gpu_end(struct coll_gpu_call *c);
/* Whether the memory is what it was when it was described. */
bool coll_gpu_stands(const struct coll_gpu_call *c);
/* Gives back what describing and running took. */
void coll_gpu_release(struct coll_gpu_call *c);
void coll_gpu_free(struct coll_gpu_call *c);
/* Says how far this rank is, with its flags. */
void coll_gpu_say(struct coll_gpu_call *c, uint32_t phase);
/* 1 when all are there, or have ended; their flags are in c->seen.  0: not yet. */
int coll_gpu_all_at(struct coll_gpu_call *c, uint32_t phase);
/* Gives the others some microseconds to come to this phase, or, 0, to say yes. */
void coll_gpu_wait_a_moment(struct coll_gpu_call *c, uint32_t phase);
/* The call goes through host memory. */
int coll_gpu_stage(struct coll_gpu_call *c);
/* The call is over, with this result. */
int coll_gpu_over(struct coll_gpu_call *c, int err);

/* Votes (vote.c).  Writes the schedule and keeps it with the call; false: this rank says no. */
bool coll_gpu_vote(struct coll_gpu_call *c);
/* Whether all know that the slot's last vote was won. */
bool coll_gpu_vote_is_known(const struct coll_gpu *g, int slot);
/* All have said yes: says that this rank knows. */
void coll_gpu_vote_won(struct coll_gpu_call *c);
/* Frees the schedule. */
void coll_gpu_vote_lost(struct coll_gpu_call *c);

/* What carries a plan out; a test has its own. */
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
    bool (*direct)(struct rt_gpu *g); /* linked to every other device without a switch */
} * coll_gpu_engine;

#endif
