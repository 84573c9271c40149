/* SPDX-License-Identifier: BSD-3-Clause */
/* The copies and launches of one context.  Private to the files of runtime/gpu that copy and
 * launch, and their tests; under the domain's lock.
 *
 * An operation waits in a list, belongs to a flight, or lies in the ring of the polling kernel.
 * Then it is in the list of ended operations until rt_gpu_progress() calls its done(). */
#ifndef RT_GPU_MOVE_STATE_H
#define RT_GPU_MOVE_STATE_H

#include "runtime/base/atomic.h"
#include "runtime/gpu/gpu_int.h"
#include "runtime/gpu/move_kernels.h"
#include "runtime/gpu/op.h"
#include "runtime/gpu/pinned.h"

/* ---- launch.c ---- */

/* Graphs of one kernel each.  Every user that launches has an instance of its own, because two
 * launches of one instance run one after another.  graph NULL: none. */
struct move_graphs {
    cu_graph graph;
    cu_graph_node node;
    uint32_t refused; /* a bit for each kernel that is launched without a graph */
};

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

/* ---- flights: work handed to the driver at once that ends at once; flight.c ---- */

/* Kinds, as ranges of move_state.flights.  There are two batches: one runs while the next is
 * launched.  More launches and copies of engines than these wait for a flight; eight are two for
 * each engine stream. */
#define MOVE_BATCHES 2
#define MOVE_LAUNCHES 6
#define MOVE_ENGINES 8
#define MOVE_FLIGHTS (MOVE_BATCHES + MOVE_LAUNCHES + MOVE_ENGINES)
enum move_kind { /* a bit for each flight, as in move_state.busy */
                 MOVE_BATCH = (1 << MOVE_BATCHES) - 1,
                 MOVE_LAUNCH = ((1 << MOVE_LAUNCHES) - 1) << MOVE_BATCHES,
                 MOVE_ENGINE = ((1 << MOVE_ENGINES) - 1) << (MOVE_BATCHES + MOVE_LAUNCHES)
};

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

struct move_launch { /* waits until a flight is free */
    struct rt_list link;
    struct rt_gpu_op *op;
    enum rt_gpu_kernel k;
    unsigned grid, block;
    size_t nbytes;
    _Alignas(16) char params[];
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

struct move_known;

#define MOVE_SEEN 32u /* sets of two granules remembered; others are classified again */
struct move_state {
    struct rt_gpu *g;
    struct rt_list link; /* in the list of all */
    int nactive;         /* operations that have not ended */
    bool broken;         /* the context has failed: every operation ends with -RT_EGPU */
    bool no_kernels; /* copy engines do all copies: a kernel is recalled, or gpu_engines is set */
    struct {         /* what waits */
        struct rt_list small;    /* copies for which a kernel is best, */
        struct rt_list large;    /* for which the copy engine is best, */
        struct rt_list launches; /* and launches */
        unsigned nsmall, nlarge;
    } queue;

    /* flight.c's */
    uint32_t busy; /* a bit for each flight */
    struct move_flight flights[MOVE_FLIGHTS];
    cu_stream batch[MOVE_BATCHES];
    unsigned next_engine; /* streams take turns */
    uint64_t norders;
    unsigned nevents; /* running flights that end with an event */
    cu_stream asked;  /* stream of the last event that was queried */

    struct { /* recall.c's */
        struct move_recall batch[MOVE_BATCHES];
        unsigned nbatches; /* recalled batches that have not ended */
        bool reported;     /* reported that kernels do not start */
    } late;
    struct rt_gpu_stage
        *bounce[RT_GPU_ENGINES]; /* of the engine streams, for copies within the device */
    struct move_linger linger;
    struct move_graphs graphs;
    struct move_known *known; /* fold.c's; NULL before the first reduction */
    /* place.c's: what lies in a granule of 2 MiB; only speed depends on it, so it may be out of
     * date.  Both ends of a repeated copy are remembered, also if they belong to one set. */
    struct {
        struct move_seen {
            uint64_t granule;
            int8_t place;
        } sets[MOVE_SEEN][2];
        unsigned nlooks;
    } seen;

    /* copy.c's */
    struct {
        struct rt_gpu_pinned pinned; /* lines, ring, words */
        cu_ptr device;               /* struct rt_gpu_line[], work */
    } memory;
    struct {
        uint64_t ticks; /* when the streams were last queried for errors */
        unsigned npolls;
    } look;
    struct { /* of the last copy, of `len` > 0 bytes */
        size_t len;
        unsigned key;
        enum rt_gpu_way way;
    } chosen;
};

#endif
