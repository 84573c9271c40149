/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of runtime/gpu that copy and launch: the copies and launches of one context.
 * Private to them and their tests; under the domain's lock.
 *
 * An operation waits in a list, belongs to a flight, or lies in the ring of the polling kernel.
 * Then it is in the list of ended operations until rt_gpu_progress() calls its done(). */
#ifndef RT_GPU_COPY_H
#define RT_GPU_COPY_H

#include "runtime/gpu/gpu_int.h"
#include "runtime/gpu/move_kernels.h"

/* ---- model.c ---- */

/* A group of n copies of this length that start together, n >= 1: predicted time until all are
 * done, and the best way.  UINT64_MAX: this way is impossible. */
uint64_t rt_gpu_cost_group_ns(enum rt_gpu_way way, enum rt_gpu_link link, size_t len, unsigned n);
enum rt_gpu_way rt_gpu_choose_group(enum rt_gpu_link link, size_t len, unsigned n, bool linger,
                                    bool kernels);

/* A reduction by the polling kernel or by a launch (RT_GPU_WAY_BATCH); len: bytes of a source. */
uint64_t rt_gpu_cost_fold_ns(enum rt_gpu_way way, enum rt_gpu_link link, size_t len);

/* ---- launch.c ---- */

/* Graphs of one kernel each.  Every user that launches has an instance of its own, because two
 * launches of one instance run one after another.  graph NULL: none. */
struct move_graphs {
    cu_graph graph;
    cu_graph_node node;
    uint32_t refused; /* a bit for each kernel that is launched without a graph */
};
struct move_state;
void move_graphs_init(struct move_state *m); /* a failure only makes launches slower */
void move_graphs_fini(struct move_state *m);
/* All launches in streams of runtime/gpu.  exec: the caller's instance, or NULL. */
cu_result move_kernel(struct move_state *m, cu_graph_exec exec, enum rt_gpu_kernel k, unsigned grid,
                      unsigned block, cu_stream s, void *params);

/* ---- recall of kernels that start late; recall.c ---- */

/* The last launch of one stream: it is recalled, keeps its copies, or is not decided yet. */
enum move_recall_state { MOVE_KEPT, MOVE_MAY_BE_LATE, MOVE_ASKED, MOVE_RECALLED };
struct move_recall_words { /* pinned host memory: what a copy engine stores, and has loaded */
    uint32_t number, pad;
    struct rt_gpu_recall seen;
};
struct move_recall {
    struct move_recall_words *pinned;
    cu_ptr word;              /* struct rt_gpu_recall */
    uint32_t number;          /* of the launch */
    uint32_t before, started; /* blocks that have started before it, and by its end */
    unsigned looks;
    enum move_recall_state state;
};
void move_recall_init(struct move_recall *r, struct move_recall_words *pinned, cu_ptr word);
/* A kernel was launched, of which nblocks count themselves in the word. */
void move_recall_launched(struct move_recall *r, uint32_t number, unsigned nblocks);
/* One look, 1 ms after the last, at a launch that has not ended.  True: it has not started, and
 * will do nothing when it does. */
bool move_recall_look(struct move_state *m, struct move_recall *r);

/* ---- flights: work handed to the driver at once that ends at once; flight.c ---- */

/* Kinds, as ranges of move_state.flights.  There are two batches: one runs while the next is
 * launched.  More launches and copies of engines than these wait for a flight; eight are two for
 * each engine stream. */
#define MOVE_BATCHES 2
#define MOVE_LAUNCHES 6
#define MOVE_ENGINES 8
#define MOVE_FLIGHTS (MOVE_BATCHES + MOVE_LAUNCHES + MOVE_ENGINES)
enum move_kind { MOVE_BATCH, MOVE_LAUNCH, MOVE_ENGINE };

/* Runs in `stream` and has ended when the flag of its line is `value`.  Where streams cannot store,
 * or a store would delay a copy from a peer, an event replaces the word.  A batch that has not
 * started for long is recalled: copy engines do its copies, and the batch copies nothing. */
struct move_flight {
    struct rt_list ops;
    bool by_event, recalled;
    uint64_t order;           /* position in its stream: a stream's flights end in this order */
    struct rt_gpu_flag *line; /* in pinned memory */
    uint32_t value;
    cu_stream stream;
    cu_event event;     /* made when first needed */
    cu_graph_exec exec; /* for batches and launches */
};

/* ---- the polling kernel's ring; linger.c ---- */

/* A reduction that can be launched, or an atomic change; fold.c, atomic.c.  In the ring its op->dst
 * is NULL and its op->len is the length used to choose the number of blocks. */
struct move_fold {
    union {
        struct rt_gpu_fold_args args;
        struct rt_gpu_atomic_args atomic;
    };
    enum rt_gpu_kernel k;
    unsigned grid;
    size_t weight; /* bytes of a copy that takes the same time */
};

struct move_linger {
    struct rt_list ops; /* posted, oldest first */
    unsigned n;         /* length of `ops`; less than RT_GPU_RING_SLOTS */
    struct rt_gpu_desc *ring;
    struct rt_gpu_words *words;
    cu_ptr work;
    cu_stream stream;
    cu_graph_exec exec;
    /* Sequence numbers of the last descriptor posted and of the last seen done. */
    uint32_t posted, reaped;
    uint32_t launch; /* number of the last launch */
    unsigned blocks; /* of that launch: many only if it was for a long copy */
    bool many;       /* a long copy could not be posted: the next launch has many blocks */
    bool running;    /* it has not been seen to have left */
    bool off;        /* it could not be launched, and will not be tried again */
    bool recalled;   /* recalled, and has not left yet */
    struct move_recall recall;
    struct move_fold folds[RT_GPU_RING_SLOTS]; /* by slot, in case the kernel does not take them */
};

/* Small copies may be posted; also one of this length, which takes too long for a kernel of one
 * block. */
bool move_linger_on(const struct move_state *m);
bool move_linger_takes(struct move_state *m, size_t len);
/* Posts op and launches the kernel if it does not run.  If the launch fails, everything posted
 * waits in m->small again, or is launched, and the kernel is off. */
void move_linger_post(struct move_state *m, struct rt_gpu_op *op);
/* The descriptor of a reduction, except its sequence number; false: the ring does not support this
 * reduction, or a launch is better. */
bool move_linger_describe(const struct move_fold *f, enum rt_gpu_link link,
                          struct rt_gpu_desc *out);
void move_linger_post_fold(struct move_state *m, const struct move_fold *f,
                           const struct rt_gpu_desc *desc, struct rt_gpu_op *op);
int move_linger_poll(struct move_state *m); /* completes what is done */
/* The kernel has left with descriptors undone: it has to be launched again, with the context
 * current. */
bool move_linger_gone(const struct move_state *m);
void move_linger_start(struct move_state *m);
void move_linger_look(struct move_state *m); /* like move_flights_look() */

/* ---- one context: copy.c ---- */

/* A reduction as requested, with what fold.c has found out for it: programs repeat reductions. */
#define MOVE_KNOWN 8u /* reductions; another one in the same place replaces the first */
struct move_known {
    struct rt_gpu_fold asked; /* nsrc 0: none */
    struct move_fold fold;
    bool ring; /* it goes to the ring, as `desc` */
    struct rt_gpu_desc desc;
};

#define MOVE_SEEN 32u /* sets of two granules remembered; others are classified again */
struct move_state {
    struct rt_gpu *g;
    struct rt_list link;     /* in the list of all */
    int nactive;             /* operations that have not ended */
    bool broken;             /* the context has failed: every operation ends with -RT_EGPU */
    struct rt_list small;    /* waiting copies for which a kernel is best, */
    struct rt_list large;    /* for which the copy engine is best, */
    struct rt_list launches; /* and launches */
    unsigned nsmall, nlarge;
    uint32_t busy; /* a bit for each flight */
    struct move_flight flights[MOVE_FLIGHTS];
    cu_stream batch[MOVE_BATCHES];
    struct move_recall recall[MOVE_BATCHES];
    unsigned next_engine; /* streams take turns */
    /* of the engine streams, for copies within the device; bounce.c */
    struct rt_gpu_stage *bounce[RT_GPU_ENGINES];
    uint64_t norders;
    unsigned nevents;   /* running flights that end with an event */
    unsigned nrecalled; /* recalled batches that have not ended */
    bool reported_late; /* reported that kernels do not start */
    bool no_kernels; /* copy engines do all copies: a kernel is recalled, or gpu_engines is set */
    cu_stream asked; /* stream of the last event that was queried */
    struct move_linger linger;
    struct move_graphs graphs;
    struct rt_gpu_pinned pinned; /* lines, ring, words */
    cu_ptr device;               /* struct rt_gpu_line[], work */
    uint64_t looked;             /* when the streams were last queried for errors, rt_ticks() */
    unsigned polls;
    /* What lies in a granule of 2 MiB; only speed depends on it, so it may be out of date.  Both
     * ends of a repeated copy are remembered, also if they belong to one set. */
    struct move_seen {
        uint64_t granule;
        int8_t place;
    } seen[MOVE_SEEN][2];
    unsigned nseen;
    struct { /* of the last copy, of `len` > 0 bytes */
        size_t len;
        unsigned key;
        enum rt_gpu_way way;
    } chosen;
    struct move_known known[MOVE_KNOWN]; /* by places and length */
};

/* The first step of each operation.  False: it has ended already. */
bool move_begin(struct rt_gpu *g, struct rt_gpu_op *op);
/* Many copies at once are faster in a batch or in launches: whether the ring is best for one more
 * that has just come. */
bool move_ring_is_idle(const struct move_state *m);
/* rt_gpu_launch() of an operation that has begun. */
void move_launch(struct move_state *m, enum rt_gpu_kernel k, unsigned grid, unsigned block,
                 const void *params, size_t nbytes, struct rt_gpu_op *op);
/* Removes op from its list; the next progress call calls done(err). */
void move_end(struct move_state *m, struct rt_gpu_op *op, int err);
/* A call for m has returned r: logged, and every operation of m ends with -RT_EGPU. */
void move_fail(struct move_state *m, cu_result r, const char *what);
/* A copy that was handed to a kernel, which will not do it: copy engines do it. */
void move_by_engine(struct move_state *m, struct rt_gpu_op *op);
/* Sets m->no_kernels.  Kernels do not start, because kernels of the application fill the device:
 * copy engines do all copies until the recalled kernels have ended. */
void move_kernels_look(struct move_state *m);
void move_report_late(struct move_state *m);
/* Whether the context itself has failed, and not only one call. */
bool move_is_dead(struct move_state *m, cu_result r);

/* flight.c.  All with the context current.  ..._start() take from the waiting lists what fits into
 * one flight; false: no flight of the kind is free. */
int move_flights_init(struct move_state *m);
void move_flights_fini(struct move_state *m);
bool move_has_free(const struct move_state *m, enum move_kind kind);
bool move_is_busy(const struct move_state *m, enum move_kind kind);
bool move_batch_start(struct move_state *m, struct rt_list *from, unsigned *nwaiting);
bool move_engine_start(struct move_state *m);
/* Whether `before` is running in a stream and a flight is free for a copy behind it; if so, starts
 * the copy, which has begun. */
bool move_engine_can_follow(const struct move_state *m, const struct rt_gpu_op *before);
void move_engine_behind(struct move_state *m, struct rt_gpu_op *op, const struct rt_gpu_op *before);
bool move_launch_start(struct move_state *m, enum rt_gpu_kernel k, unsigned grid, unsigned block,
                       const void *params, size_t nbytes, struct rt_gpu_op *op);
int move_flights_poll(struct move_state *m);
/* Queries the streams of running flights; a failure ends every operation. */
void move_flights_look(struct move_state *m);
enum rt_gpu_link move_link(struct move_state *m, const void *dst, const void *src);
bool move_is_from_host(struct move_state *m, const struct rt_gpu_op *op);
/* bounce.c.  Enqueues op, which its flight contains, as copies through pinned memory, if
 * that is its way: *r is the driver's answer.  With the context current. */
bool move_bounce(struct move_state *m, const struct rt_gpu_op *op, cu_stream s, cu_result *r);

#endif
