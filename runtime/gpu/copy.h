/* SPDX-License-Identifier: BSD-3-Clause */
/* What copy.c, launch.c, flight.c, linger.c and model.c share: the copies and launches of one
 * context.  Private to them and their tests; under the domain's lock.
 *
 * An operation waits in a list, is part of a flight or lies in the ring of the lingering kernel,
 * and is then in the list of ended ones until rt_gpu_progress() calls its done(). */
#ifndef RT_GPU_COPY_H
#define RT_GPU_COPY_H

#include "runtime/gpu/gpu_int.h"
#include "runtime/gpu/kernel.h"

/* ---- model.c ---- */

/* A group of n copies of this length that go together, n >= 1: predicted time until all are done,
 * and the best way.  UINT64_MAX: this way does not go. */
uint64_t rt_gpu_cost_group_ns(enum rt_gpu_way way, enum rt_gpu_link link, size_t len, unsigned n);
enum rt_gpu_way rt_gpu_choose_group(enum rt_gpu_link link, size_t len, unsigned n, bool linger,
                                    bool kernels);

/* A reduction by the lingering kernel or by a launch (RT_GPU_WAY_BATCH); len: bytes of a source. */
uint64_t rt_gpu_cost_fold_ns(enum rt_gpu_way way, enum rt_gpu_link link, size_t len);

/* ---- launch.c ---- */

/* A graph of one kernel, of which everybody who launches has an instance of his own, because two
 * launches of one run one after another.  graph NULL: there are none. */
struct move_graphs {
    cu_graph graph;
    cu_graph_node node;
    uint32_t refused; /* a bit per kernel: this one is launched without */
};
struct move_state;
void move_graphs_init(struct move_state *m); /* what goes wrong makes launches slower */
void move_graphs_fini(struct move_state *m);
/* All launches in streams of runtime/gpu.  exec: of who launches, or NULL. */
cu_result move_kernel(struct move_state *m, cu_graph_exec exec, enum rt_gpu_kernel k, unsigned grid,
                      unsigned block, cu_stream s, void *params);

/* ---- flights: what was handed to the driver at once and ends at once; flight.c ---- */

/* Kinds, as ranges of move_state.flights.  Two batches: one runs while the next is launched. */
#define MOVE_BATCHES 2
#define MOVE_LAUNCHES 6
#define MOVE_ENGINES 8
#define MOVE_FLIGHTS (MOVE_BATCHES + MOVE_LAUNCHES + MOVE_ENGINES)
enum move_kind { MOVE_BATCH, MOVE_LAUNCH, MOVE_ENGINE };

/* It runs in `stream` and has ended when the flag of its line is `value`.  Where streams cannot
 * store, or a copy from a peer would be held up by it, an event stands for the word.  A batch that
 * has not started for long is recalled: its copies go by the engines, and it copies nothing. */
struct move_flight {
    struct rt_list ops;
    bool by_event, recalled;
    unsigned looks;           /* of move_flights_look() since it was handed over */
    uint64_t order;           /* of its start: a stream's flights end in this order */
    struct rt_gpu_flag *line; /* of pinned memory */
    uint32_t value;
    cu_stream stream;
    cu_event event;     /* made when first needed */
    cu_graph_exec exec; /* of batches and launches */
};

/* ---- the lingering kernel's ring; linger.c ---- */

/* A reduction that can be launched; fold.c.  In the ring its op->dst is NULL, its op->len what
 * counts to choose the number of blocks. */
struct move_fold {
    struct rt_gpu_fold_args args;
    enum rt_gpu_kernel k;
    unsigned grid;
    size_t weight; /* bytes of a copy that takes as long */
};

struct move_linger {
    struct rt_list ops; /* posted, oldest first */
    unsigned n;         /* how many; fewer than RT_GPU_RING_SLOTS */
    struct rt_gpu_desc *ring;
    struct rt_gpu_words *words;
    cu_ptr work;
    cu_stream stream;
    cu_graph_exec exec;
    uint32_t posted, reaped; /* sequence numbers of the last one posted and seen done */
    uint32_t launch;         /* number of the last launch */
    unsigned blocks;         /* which it has: many only when it was launched for a long copy */
    bool many;               /* a long copy could not be taken: the next one has many */
    bool running;            /* it has not been seen to have left */
    bool off;                /* it could not be launched: never again */
    bool recalled;           /* it was recalled and has not left yet */
    unsigned looks;          /* of move_linger_look() since it was launched */
    struct move_fold folds[RT_GPU_RING_SLOTS]; /* by slot, should the kernel not take them */
};

/* Small copies may be posted; one of this length, too, which a kernel of one block would take too
 * long for. */
bool move_linger_on(const struct move_state *m);
bool move_linger_takes(struct move_state *m, size_t len);
/* Posts op and launches the kernel when it is not there.  When that fails all that was posted waits
 * again in m->small, or is launched, and the kernel is off. */
void move_linger_post(struct move_state *m, struct rt_gpu_op *op);
/* The descriptor of a reduction, but for its number; false: the ring cannot take one like it, or a
 * launch is better. */
bool move_linger_describe(const struct move_fold *f, enum rt_gpu_link link,
                          struct rt_gpu_desc *out);
void move_linger_post_fold(struct move_state *m, const struct move_fold *f,
                           const struct rt_gpu_desc *desc, struct rt_gpu_op *op);
int move_linger_poll(struct move_state *m); /* ends what is done */
/* The kernel has left something behind: it has to be started again, with the context current. */
bool move_linger_gone(const struct move_state *m);
void move_linger_start(struct move_state *m);
void move_linger_look(struct move_state *m); /* as move_flights_look() */

/* ---- one context: copy.c ---- */

/* A reduction as it was asked for, and what has been found out for it: programs repeat them.
 * fold.c. */
#define MOVE_KNOWN 8u
struct move_known {
    struct rt_gpu_fold asked; /* nsrc 0: none */
    struct move_fold fold;
    bool ring; /* it is for the ring, as `desc` */
    struct rt_gpu_desc desc;
};

#define MOVE_SEEN 64u
struct move_state {
    struct rt_gpu *g;
    struct rt_list link;     /* of all */
    int nactive;             /* operations that have not ended */
    bool broken;             /* the context has failed: everything ends with -RT_EGPU */
    struct rt_list small;    /* waiting copies that a kernel does best, */
    struct rt_list large;    /* those that the copy engine does best, */
    struct rt_list launches; /* and launches */
    unsigned nsmall, nlarge;
    uint32_t busy; /* a bit per flight */
    struct move_flight flights[MOVE_FLIGHTS];
    cu_stream batch[MOVE_BATCHES];
    unsigned next_engine; /* streams take turns */
    uint64_t norders;
    unsigned nevents;   /* running flights that end with events */
    unsigned nrecalled; /* batches that were recalled and have not ended */
    bool told_late;     /* that kernels do not start */
    bool no_kernels;    /* copies go by the engines alone, for now or always */
    cu_stream asked;    /* stream of the last event that was asked for */
    struct move_linger linger;
    struct move_graphs graphs;
    struct rt_gpu_pinned pinned; /* lines, ring, words */
    cu_ptr device;               /* counters, work */
    uint64_t looked;             /* when the streams were last asked for errors, rt_gpu_clock() */
    unsigned polls;
    struct { /* what lies in a granule of 2 MiB; decides speed only, so it may be old */
        uint64_t granule;
        int8_t place;
    } seen[MOVE_SEEN];
    unsigned nseen;
    struct { /* for the last copy, of `len` > 0 bytes */
        size_t len;
        unsigned key;
        enum rt_gpu_way way;
    } chosen;
    struct move_known known[MOVE_KNOWN]; /* by places and length */
};

/* What each operation begins with.  False: it has ended already. */
bool move_begin(struct rt_gpu *g, struct rt_gpu_op *op);
/* A crowd is better off in a batch or in launches: whether the ring is for one more that has just
 * come. */
bool move_ring_is_idle(const struct move_state *m);
/* rt_gpu_launch() of what has begun. */
void move_launch(struct move_state *m, enum rt_gpu_kernel k, unsigned grid, unsigned block,
                 const void *params, size_t nbytes, struct rt_gpu_op *op);
/* Takes op out of whatever list and lets the next progress call done(err). */
void move_end(struct move_state *m, struct rt_gpu_op *op, int err);
/* A call for m has answered r: logged, and everything of m ends with -RT_EGPU. */
void move_fail(struct move_state *m, cu_result r, const char *what);
/* A copy that was handed to a kernel, which will not do it: by the engines. */
void move_by_engine(struct move_state *m, struct rt_gpu_op *op);
/* Sets m->no_kernels.  Kernels do not start, because the application's fill the device: copies go
 * by the engines until the recalled kernels have ended. */
void move_kernels_look(struct move_state *m);
void move_tell_late(struct move_state *m);
#define MOVE_LATE_LOOKS 2u /* looks are 1 ms apart: 100 times what the start of a kernel takes */
/* Whether the context itself has failed, and not only one call. */
bool move_is_dead(struct move_state *m, cu_result r);

/* flight.c.  All with the context current.  ..._start() take from the waiting lists what goes
 * together; false: no flight of the kind is free. */
int move_flights_init(struct move_state *m);
void move_flights_fini(struct move_state *m);
bool move_has_free(const struct move_state *m, enum move_kind kind);
bool move_is_busy(const struct move_state *m, enum move_kind kind);
bool move_batch_start(struct move_state *m, struct rt_list *from, unsigned *nwaiting);
bool move_engine_start(struct move_state *m);
/* Whether `before` is running in a stream, and a flight is free for one behind it; starts that
 * one, which has begun. */
bool move_engine_can_follow(const struct move_state *m, const struct rt_gpu_op *before);
void move_engine_behind(struct move_state *m, struct rt_gpu_op *op, const struct rt_gpu_op *before);
bool move_launch_start(struct move_state *m, enum rt_gpu_kernel k, unsigned grid, unsigned block,
                       const void *params, size_t nbytes, struct rt_gpu_op *op);
int move_flights_poll(struct move_state *m);
/* Asks the streams of running flights; a failure ends everything. */
void move_flights_look(struct move_state *m);
enum rt_gpu_link move_link(struct move_state *m, const void *dst, const void *src);

#endif
