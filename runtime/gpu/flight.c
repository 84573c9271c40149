/* SPDX-License-Identifier: BSD-3-Clause */
/* Flights: copies and kernels that were handed to the driver together, and the words in pinned
 * memory that report their completion.  Nothing here waits for a device.  Under the domain's
 * lock. */
#include "runtime/gpu/flight.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/gpu/bounce.h"
#include "runtime/gpu/context.h"
#include "runtime/gpu/driver.h"
#include "runtime/gpu/images.h"
#include "runtime/gpu/launch.h"
#include "runtime/gpu/move.h"
#include "runtime/gpu/place.h"
#include "runtime/gpu/recall.h"

#include <stdlib.h>
#include <string.h>

/* Blocks of a batch: enough to fill the link.  To another GPU (NVLink 4): 400 GB/s times 1.5 us are
 * 600 KiB in flight, 40 blocks with 16 KiB each; the rest of the device is left to the application.
 * A faster link would need more blocks for its full rate; long copies go by the copy engines
 * anyway.  On a smaller GPU at most one for each multiprocessor, where four fit. */
static const unsigned batch_blocks[RT_GPU_LINKS] = {
    [RT_GPU_LINK_LOCAL] = 132,
    [RT_GPU_LINK_PEER] = 64,
    [RT_GPU_LINK_HOST] = 16,
    [RT_GPU_LINK_PUT] = 64,
};
/* A batch takes at most this many bytes, because the first copies of a long batch would wait for
 * the last: up to 0.1 ms at 400 GB/s, longer on a slower link. */
#define BATCH_NBYTES (32u << 20)
/* If many copies wait, several share a flight of the copy engine, and so one store of a word.  The
 * copies of a flight run one after another, so a short group is enough. */
#define GROUP_COPIES 4u
#define GROUP_NBYTES (8u << 20)
#define LAUNCH_NBYTES 2048 /* longest parameters of a kernel */
struct launch_head {       /* the beginning of the parameters */
    uint64_t flag, counter;
    uint32_t value;
};
#define HEAD_MATCHES(type) \
    _Static_assert(offsetof(struct type, flag) == offsetof(struct launch_head, flag) && \
                       offsetof(struct type, counter) == offsetof(struct launch_head, counter) && \
                       offsetof(struct type, value) == offsetof(struct launch_head, value) && \
                       sizeof(struct type) <= LAUNCH_NBYTES, \
                   "kernels that end with a flag have it in one place")
HEAD_MATCHES(rt_gpu_batch);
HEAD_MATCHES(rt_gpu_pack);
HEAD_MATCHES(rt_gpu_fold_args);
HEAD_MATCHES(rt_gpu_atomic_args);

/* ---- a flight's life ---- */

static uint32_t free_mask(const struct move_state *m, enum move_kind kind)
{
    return ~m->busy & (uint32_t)kind;
}

bool move_is_busy(const struct move_state *m, enum move_kind kind)
{
    return (m->busy & (uint32_t)kind) != 0;
}

bool move_has_free(const struct move_state *m, enum move_kind kind)
{
    return free_mask(m, kind) != 0;
}

/* The lowest free flight, with a value that its words do not hold; not busy before something
 * runs. */
static struct move_flight *take(struct move_state *m, enum move_kind kind)
{
    uint32_t mask = free_mask(m, kind);

    if (!mask)
        return NULL;
    struct move_flight *f = &m->flights[__builtin_ctz(mask)];
    f->value++;
    f->by_event = false;
    return f;
}

static unsigned index_of(const struct move_state *m, const struct move_flight *f)
{
    return (unsigned)(f - m->flights);
}

static void end_all(struct move_state *m, struct rt_list *ops, int err)
{
    while (!rt_list_empty(ops))
        move_end(m, rt_container(ops->next, struct rt_gpu_op, link), err);
}

/* A call on behalf of f alone has returned r. */
static void fail_flight(struct move_state *m, struct move_flight *f, cu_result r, const char *what)
{
    if (move_is_dead(m, r)) {
        move_fail(m, r, what);
    } else {
        rt_cuda_error(r, what);
    }
    end_all(m, &f->ops, -RT_EGPU);
}

static cu_ptr word_of(const struct move_flight *f) { return (cu_ptr)(uintptr_t)&f->line->flag; }

static void set_busy(struct move_state *m, struct move_flight *f)
{
    m->busy |= 1u << index_of(m, f);
    f->order = ++m->norders;
    m->nevents += f->by_event;
}

static void set_free(struct move_state *m, struct move_flight *f)
{
    m->busy &= ~(1u << index_of(m, f));
    m->nevents -= f->by_event;
    m->late.nbatches -= f->recalled;
    f->recalled = false;
}

/* A block of a batch has seen the recall, although the host had seen the start. */
static bool has_skipped(const struct move_flight *f)
{
    return !f->by_event && rt_load_acquire(&f->line->skipped) == f->value;
}

static void all_by_engine(struct move_state *m, struct move_flight *f)
{
    while (!rt_list_empty(&f->ops))
        move_by_engine(m, rt_container(f->ops.next, struct rt_gpu_op, link));
}

/* f has not started.  If it has started meanwhile, some of its blocks may have seen the recall:
 * move_flights_poll() copies again what they have skipped. */
static void recall(struct move_state *m, struct move_flight *f)
{
    f->recalled = true;
    m->late.nbatches++;
    move_report_late(m);
    all_by_engine(m, f);
}

/* f ends after the work in `s` up to here. */
static cu_result mark(struct move_flight *f, cu_stream s)
{
    f->stream = s;
    if (!f->by_event)
        return rt_cuda.stream_write_value32(s, word_of(f), f->value, 0);
    if (!f->event) {
        cu_result r = rt_cuda.event_create(&f->event, CU_EVENT_DISABLE_TIMING);
        if (r != CU_OK)
            return r;
    }
    return rt_cuda.event_record(f->event, s);
}

/* ---- kernels ---- */

/* Launches with f's word and the counter of its stream in the head of the parameters. */
static void launch(struct move_state *m, struct move_flight *f, enum rt_gpu_kernel k, unsigned grid,
                   unsigned block, void *params)
{
    unsigned i = index_of(m, f), stream = i < MOVE_BATCHES ? i : MOVE_BATCHES;
    struct launch_head head = { word_of(f), m->memory.device + stream * sizeof(struct rt_gpu_line),
                                f->value };

    f->stream = i < MOVE_BATCHES ? m->batch[i] : m->g->kernels;
    memcpy(params, &head, offsetof(struct launch_head, value) + sizeof head.value);
    cu_result r = move_kernel(m, f->exec, k, grid, block, f->stream, params);
    if (r != CU_OK) {
        fail_flight(m, f, r, "cuLaunchKernel");
        return;
    }
    set_busy(m, f);
    if (i < MOVE_BATCHES)
        move_recall_launched(&m->late.batch[i], f->value, grid);
}

bool move_batch_start(struct move_state *m, struct rt_list *from, unsigned *nwaiting)
{
    struct move_flight *f = take(m, MOVE_BATCH);
    struct rt_gpu_batch b; /* not cleared: 1.6 KiB, and the kernel reads n moves */
    size_t npieces = 0, nbytes = 0;
    unsigned most = 1, budget = rt_gpu_most_blocks(m->g, 1);

    if (!f)
        return false;
    b.n = 0;
    b.near = true;
    while (!rt_list_empty(from) && b.n < RT_GPU_BATCH_MAX) {
        struct rt_gpu_op *op = rt_container(from->next, struct rt_gpu_op, link);
        if (b.n && nbytes + op->len > BATCH_NBYTES)
            break;
        unsigned blocks = batch_blocks[move_link(m, op->dst, op->src)];
        if (blocks > budget)
            blocks = budget;
        b.move[b.n++] = (struct rt_gpu_move){ (uintptr_t)op->dst, (uintptr_t)op->src, op->len };
        b.near &= op->near;
        npieces += (op->len + WEFT_BATCH_PIECE - 1) / WEFT_BATCH_PIECE;
        nbytes += op->len;
        most = blocks > most ? blocks : most;
        rt_list_del(&op->link);
        rt_list_append(&f->ops, &op->link);
        --*nwaiting;
    }
    launch(m, f, RT_GPU_BATCH, npieces < most ? (unsigned)npieces : most, WEFT_BATCH_THREADS, &b);
    return true;
}

/* ---- launches, some of which wait ---- */

static void launch_start(struct move_state *m, enum rt_gpu_kernel k, unsigned grid, unsigned block,
                         const void *params, size_t nbytes, struct rt_gpu_op *op)
{
    struct move_flight *f = take(m, MOVE_LAUNCH);
    _Alignas(16) char copy[LAUNCH_NBYTES];

    if (nbytes > sizeof copy)
        RT_BUG("a kernel with %zu bytes of parameters", nbytes);
    memcpy(copy, params, nbytes);
    rt_list_del(&op->link);
    rt_list_append(&f->ops, &op->link);
    launch(m, f, k, grid, block, copy);
}

static void launch_waits(struct move_state *m, const struct move_launch *what, const void *params)
{
    struct move_launch *w = malloc(sizeof *w + what->nbytes);

    if (!w) {
        log_error(GPU, "no memory for the parameters of a kernel");
        move_end(m, what->op, -RT_ENOMEM);
        return;
    }
    *w = *what;
    memcpy(w->params, params, w->nbytes);
    rt_list_append(&m->queue.launches, &w->link);
}

void move_launch(struct move_state *m, enum rt_gpu_kernel k, unsigned grid, unsigned block,
                 const void *params, size_t nbytes, struct rt_gpu_op *op)
{
    struct rt_gpu *g = m->g;

    if (!g->fn[k]) {
        log_error(GPU, "GPU %d has no kernel number %d", g->info.ordinal, (int)k);
        move_end(m, op, -RT_EGPU);
        return;
    }
    struct move_launch w = { .op = op, .k = k, .grid = grid, .block = block, .nbytes = nbytes };
    if (!rt_list_empty(&m->queue.launches) || !move_has_free(m, MOVE_LAUNCH)) {
        launch_waits(m, &w, params);
        return;
    }
    int in = rt_gpu_enter(g);
    if (in < 0) {
        move_end(m, op, -RT_EGPU);
        move_end_everything(m);
        return;
    }
    launch_start(m, k, grid, block, params, nbytes, op);
    rt_gpu_leave(in);
}

/* Removed from the list before the start: a start that finds the context dead ends everything in
 * the list. */
void move_launches_start(struct move_state *m)
{
    while (!rt_list_empty(&m->queue.launches) && move_has_free(m, MOVE_LAUNCH)) {
        struct move_launch *w = rt_container(m->queue.launches.next, struct move_launch, link);
        rt_list_del(&w->link);
        launch_start(m, w->k, w->grid, w->block, w->params, w->nbytes, w->op);
        free(w);
    }
}

/* ---- copy engines ---- */

/* A stream's store of a word behind a copy from a peer makes the copy 6 us longer (H200, driver
 * 580); querying an event costs the host 1.5 us each time, where reading a word is free. */
static void choose_end(const struct move_state *m, struct move_flight *f, enum move_way w)
{
    f->by_event = !m->g->stream_writes || w == MOVE_FROM_PEER;
}

/* Each direction over PCIe has half of the streams; copies between devices use all in turn. */
static cu_stream next_stream(struct move_state *m, enum move_way w)
{
    unsigned n = w == MOVE_TO_HOST || w == MOVE_FROM_HOST ? RT_GPU_ENGINES / 2 : RT_GPU_ENGINES;

    return m->g->engine[m->next_engine++ % n + (w == MOVE_FROM_HOST ? RT_GPU_ENGINES - n : 0)];
}

/* Whether op is the only copy by engines.  Its flight contains it already. */
static bool is_alone(const struct move_state *m, const struct rt_gpu_op *op)
{
    return !m->queue.nlarge && op->link.next == op->link.prev && !move_is_busy(m, MOVE_ENGINE);
}

static cu_result copy_async(struct move_state *m, const struct rt_gpu_op *op, cu_stream s)
{
    cu_result r;

    if (move_bounce(m, op, is_alone(m, op), s, &r))
        return r;
    return rt_cuda.memcpy_async((cu_ptr)(uintptr_t)op->dst, (cu_ptr)(uintptr_t)op->src, op->len, s);
}

/* op is in its flight.  Copies that the driver refuses end at once, alone. */
static bool engine_copy(struct move_state *m, struct rt_gpu_op *op, cu_stream s)
{
    cu_result r = copy_async(m, op, s);
    if (r == CU_OK)
        return true;
    if (move_is_dead(m, r)) {
        move_fail(m, r, "cuMemcpyAsync");
        return false;
    }
    rt_cuda_error(r, "cuMemcpyAsync");
    move_end(m, op, -RT_EGPU);
    return false;
}

/* Marks the end of the copies of f, which run in `s`.  If no word or event can, the host waits for
 * them, so that the buffers are not used before; the next copies are tried again. */
static void engine_mark(struct move_state *m, struct move_flight *f, cu_stream s)
{
    cu_result r = mark(f, s);

    if (r == CU_OK) {
        set_busy(m, f);
        return;
    }
    if (move_is_dead(m, r)) {
        move_fail(m, r, "recording an event behind a copy");
        return;
    }
    rt_cuda_error(r, "recording an event behind a copy");
    log_warn(GPU,
             "no event can be recorded behind a copy on GPU %d: waiting for the stream instead",
             m->g->info.ordinal);
    r = rt_cuda.stream_synchronize(s);
    if (r == CU_OK)
        end_all(m, &f->ops, 0);
    else
        move_fail(m, r, "waiting for a copy");
}

static void engine_group(struct move_state *m, struct move_flight *f, unsigned most)
{
    enum move_way w = move_way(m, rt_container(m->queue.large.next, struct rt_gpu_op, link));
    cu_stream s = next_stream(m, w);
    size_t nbytes = 0;

    choose_end(m, f, w);
    for (unsigned n = 0; n < most && !rt_list_empty(&m->queue.large); n++) {
        struct rt_gpu_op *op = rt_container(m->queue.large.next, struct rt_gpu_op, link);
        if (n && (nbytes + op->len > GROUP_NBYTES || move_way(m, op) != w))
            break;
        nbytes += op->len;
        m->queue.nlarge--;
        rt_list_del(&op->link);
        rt_list_append(&f->ops, &op->link);
        engine_copy(m, op, s);
        if (m->broken)
            return;
    }
    if (!rt_list_empty(&f->ops))
        engine_mark(m, f, s);
}

bool move_engine_start(struct move_state *m)
{
    struct move_flight *f = take(m, MOVE_ENGINE);

    if (!f)
        return false;
    unsigned nfree = (unsigned)__builtin_popcount(free_mask(m, MOVE_ENGINE));
    unsigned share = (m->queue.nlarge + nfree - 1) / nfree;
    engine_group(m, f, share < GROUP_COPIES ? share : GROUP_COPIES);
    return true;
}

static const struct move_flight *flight_of(const struct move_state *m, const struct rt_gpu_op *op)
{
    for (uint32_t left = m->busy & MOVE_ENGINE; left; left &= left - 1) {
        const struct move_flight *f = &m->flights[__builtin_ctz(left)];
        for (const struct rt_list *l = f->ops.next; l != &f->ops; l = l->next)
            if (l == &op->link)
                return f;
    }
    return NULL;
}

bool move_engine_can_follow(const struct move_state *m, const struct rt_gpu_op *before)
{
    return free_mask(m, MOVE_ENGINE) && flight_of(m, before);
}

void move_engine_behind(struct move_state *m, struct rt_gpu_op *op, const struct rt_gpu_op *before)
{
    cu_stream s = flight_of(m, before)->stream;
    struct move_flight *f = take(m, MOVE_ENGINE);

    choose_end(m, f, move_way(m, op));
    rt_list_append(&f->ops, &op->link);
    if (engine_copy(m, op, s))
        engine_mark(m, f, s);
}

/* ---- ends ---- */

/* CU_OK, CU_ERROR_NOT_READY, or the error. */
static cu_result ask(const struct move_flight *f)
{
    if (f->by_event)
        return rt_cuda.event_query(f->event);
    return rt_load_acquire(&f->line->flag) == f->value ? CU_OK : CU_ERROR_NOT_READY;
}

/* Not yet, or impossible while something is captured: queried again later. */
static bool says_nothing(cu_result r)
{
    return r == CU_ERROR_NOT_READY || rt_cuda_fault(r) == RT_CUDA_CAPTURE;
}

/* The one flight whose event is queried in this poll: the oldest of another stream than last time,
 * else the oldest. */
static struct move_flight *next_by_event(struct move_state *m)
{
    struct move_flight *oldest = NULL, *other = NULL;

    for (uint32_t left = m->nevents ? m->busy : 0; left; left &= left - 1) {
        struct move_flight *f = &m->flights[__builtin_ctz(left)];
        if (!f->by_event)
            continue;
        if (!oldest || f->order < oldest->order)
            oldest = f;
        if (f->stream != m->asked && (!other || f->order < other->order))
            other = f;
    }
    if (other)
        oldest = other;
    m->asked = oldest ? oldest->stream : NULL;
    return oldest;
}

int move_flights_poll(struct move_state *m)
{
    struct move_flight *asked = next_by_event(m);
    int n = 0;

    for (uint32_t left = m->busy; left; left &= left - 1) {
        struct move_flight *f = &m->flights[__builtin_ctz(left)];
        cu_result r = f->by_event && f != asked ? CU_ERROR_NOT_READY : ask(f);
        if (says_nothing(r))
            continue;
        if (r != CU_OK) {
            move_fail(m, r, "waiting for a copy");
            return n + 1;
        }
        set_free(m, f);
        if (has_skipped(f))
            all_by_engine(m, f);
        end_all(m, &f->ops, 0);
        n++;
    }
    return n;
}

/* A stream that has ended without storing the word at its end is an error, too. */
void move_flights_look(struct move_state *m)
{
    for (uint32_t left = m->busy; left; left &= left - 1) {
        struct move_flight *f = &m->flights[__builtin_ctz(left)];
        cu_result r = rt_cuda.stream_query(f->stream);
        unsigned i = index_of(m, f);
        if (i < MOVE_BATCHES && !f->recalled && move_recall_look(m, &m->late.batch[i]))
            recall(m, f);
        if (r == CU_OK)
            r = ask(f);
        else if (says_nothing(r))
            continue;
        if (r == CU_OK)
            continue;
        move_fail(m, r,
                  r == CU_ERROR_NOT_READY
                      ? "a stream has ended, but its completion word was not stored"
                      : "copying device memory");
        return;
    }
}

/* ---- life ---- */

int move_flights_init(struct move_state *m)
{
    int least = 0, greatest = 0;
    cu_result r = rt_cuda.ctx_get_stream_priority_range(&least, &greatest);

    for (int i = 0; r == CU_OK && i < MOVE_BATCHES; i++)
        r = rt_cuda.stream_create_with_priority(&m->batch[i], CU_STREAM_NON_BLOCKING, greatest);
    if (r == CU_OK)
        r = rt_cuda.stream_create_with_priority(&m->linger.stream, CU_STREAM_NON_BLOCKING,
                                                greatest);
    if (r == CU_ERROR_OUT_OF_MEMORY) { /* streams take memory of the device */
        log_info(GPU, "GPU %d has no memory left for streams: its copies go without kernels",
                 m->g->info.ordinal);
        rt_gpu_images_unload(m->g);
        return 0;
    }
    if (r != CU_OK)
        return rt_cuda_error(r, "making streams for copies");
    move_graphs_init(m);
    return 0;
}

void move_flights_fini(struct move_state *m)
{
    move_graphs_fini(m);
    for (int i = 0; i < MOVE_BATCHES; i++)
        if (m->batch[i])
            rt_cuda.stream_destroy(m->batch[i]);
    if (m->linger.stream)
        rt_cuda.stream_destroy(m->linger.stream);
    for (int i = 0; i < MOVE_FLIGHTS; i++)
        if (m->flights[i].event)
            rt_cuda.event_destroy(m->flights[i].event);
}
