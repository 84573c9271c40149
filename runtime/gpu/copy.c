/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies that complete later.  An operation waits in its context's list until one of three can take
 * it: the ring of the polling kernel (a small copy that comes alone), a batch (all small copies
 * that have come while two batches were running), the copy engines (large copies).  The cost model
 * decides.  Progress reads the words that report completion, starts waiting operations, and calls
 * done().  Under the domain's lock. */
#include "runtime/gpu/copy.h"
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/base/ticks.h"
#include "runtime/gpu/context.h"
#include "runtime/gpu/driver.h"
#include "runtime/gpu/flight.h"
#include "runtime/gpu/images.h"
#include "runtime/gpu/launch.h"
#include "runtime/gpu/linger.h"
#include "runtime/gpu/move.h"
#include "runtime/gpu/place.h"
#include "runtime/gpu/recall.h"

#include <stdlib.h>
#include <string.h>

/* Copies in the ring at a time: with more, the next ones gather for a batch. */
#define RING_COPIES 2u
#define RING_BESIDE 2u /* the same while a batch runs */
/* While the ring or a batch is busy, a batch starts only with this number of copies or bytes: in
 * the time of a launch (H200: 10 us, 3.7 of them the processor's) the link moves 3 MiB, or the
 * processor starts 10 messages.  Where launches are cheaper, smaller batches would start earlier:
 * at most one launch later than the best. */
#define GATHER_COPIES 16u
#define GATHER_NBYTES (2u << 20)
/* Polls after which streams are queried for errors, if this time has passed as well.  It bounds how
 * late an error is noticed, not the speed. */
#define LOOK_POLLS 64u
#define LOOK_MS 1u

/* Pinned memory: a line for each flight, the ring, the kernel's words, and what is recalled.
 * Device memory: a line for each stream of batches, for launches, and for the polling kernel, and
 * that kernel's work. */
#define LINGER_LINE (MOVE_BATCHES + 1)
#define NLINES (LINGER_LINE + 1)
struct pinned {
    struct rt_gpu_flag lines[MOVE_FLIGHTS];
    struct rt_gpu_desc ring[RT_GPU_RING_SLOTS];
    struct rt_gpu_words words;
    struct move_recall_words recall[NLINES];
};
#define DEVICE_NBYTES (NLINES * sizeof(struct rt_gpu_line) + sizeof(struct rt_gpu_work))
_Static_assert(sizeof(struct rt_gpu_line) == RT_CACHE_LINE &&
                   offsetof(struct rt_gpu_line, recall) % sizeof(uint64_t) == 0,
               "a word of 64 bits that one atomic operation changes");
_Static_assert(NLINES * sizeof(struct rt_gpu_line) % 128 == 0,
               "the work begins at a line of the device");
_Static_assert(sizeof(struct rt_gpu_desc) == 128 && offsetof(struct pinned, ring) % 128 == 0,
               "a descriptor is what a warp loads at once");
_Static_assert(offsetof(struct rt_gpu_desc, near) == WEFT_TASK_NEAR * sizeof(uint32_t),
               "where kernels look for it");

static struct rt_list contexts = { &contexts, &contexts };

/* ---- starting what waits; the context is current ---- */

/* Kernels of processes that share a device take turns of many microseconds (150 us for 8 bytes,
 * H200); copy engines do not take turns. */
static bool kernels_copy(const struct move_state *m)
{
    return rt_gpu_has_kernels(m->g) && !m->g->shared && !m->no_kernels;
}

/* The ring's copies run one after another, so it is for the first few; many at once are faster in a
 * batch. */
static bool is_for_ring(struct move_state *m)
{
    struct rt_gpu_op *op = rt_container(m->queue.small.next, struct rt_gpu_op, link);

    return m->queue.nsmall && m->queue.nsmall + m->linger.n <= RING_COPIES &&
           !move_is_busy(m, MOVE_BATCH) && move_linger_takes(m, op->len) &&
           rt_gpu_choose_group(move_link(m, op->dst, op->src), op->len,
                               m->queue.nsmall + m->linger.n, true, true) == RT_GPU_WAY_LINGER;
}

/* Whether a batch of the waiting copies should start now; `busy`: something runs whose end is worth
 * waiting for. */
static bool has_gathered(const struct move_state *m, const struct rt_list *waiting, unsigned n,
                         bool busy)
{
    struct rt_list *l;
    size_t nbytes = 0;

    if (n == 0 || !move_has_free(m, MOVE_BATCH))
        return false;
    if (n >= GATHER_COPIES || !(busy || move_is_busy(m, MOVE_BATCH)))
        return true;
    rt_list_each (l, waiting)
        nbytes += rt_container(l, struct rt_gpu_op, link)->len;
    return nbytes >= GATHER_NBYTES;
}

/* A batch runs, and too few copies wait for the next one: the ring takes some of them meanwhile,
 * which costs no launch. */
static bool ring_helps(struct move_state *m)
{
    struct rt_gpu_op *op = rt_container(m->queue.small.next, struct rt_gpu_op, link);

    return m->queue.nsmall && m->linger.n < RING_BESIDE && move_is_busy(m, MOVE_BATCH) &&
           move_linger_takes(m, op->len) &&
           !has_gathered(m, &m->queue.small, m->queue.nsmall, true) &&
           rt_gpu_choose(move_link(m, op->dst, op->src), op->len, true, true) == RT_GPU_WAY_LINGER;
}

static void pump_small(struct move_state *m)
{
    while (m->queue.nsmall && !kernels_copy(m)) { /* they came before that was known */
        m->queue.nsmall--;
        move_by_engine(m, rt_container(m->queue.small.next, struct rt_gpu_op, link));
    }
    bool ring = is_for_ring(m);

    while (m->queue.nsmall && (ring || ring_helps(m))) {
        struct rt_gpu_op *op = rt_container(m->queue.small.next, struct rt_gpu_op, link);
        if (!move_linger_takes(m, op->len))
            break;
        m->queue.nsmall--;
        rt_list_del(&op->link);
        move_linger_post(m, op);
    }
    while (has_gathered(m, &m->queue.small, m->queue.nsmall, m->linger.n > 0))
        move_batch_start(m, &m->queue.small, &m->queue.nsmall);
}

/* Many copies that would go to the engines one by one may be faster in a batch. */
static bool crowd_is_for_batch(struct move_state *m)
{
    if (m->queue.nlarge < 2 || !kernels_copy(m) || !move_has_free(m, MOVE_BATCH))
        return false;
    struct rt_gpu_op *op = rt_container(m->queue.large.next, struct rt_gpu_op, link);
    enum rt_gpu_link link = move_link(m, op->dst, op->src);
    return rt_gpu_choose_group(link, op->len, m->queue.nlarge, false, true) == RT_GPU_WAY_BATCH;
}

static void pump_large(struct move_state *m)
{
    while (crowd_is_for_batch(m)) { /* the ring may be busy for long with other, short copies */
        if (!has_gathered(m, &m->queue.large, m->queue.nlarge, false))
            return;
        move_batch_start(m, &m->queue.large, &m->queue.nlarge);
    }
    while (m->queue.nlarge && move_engine_start(m))
        ;
}

static void pump(struct move_state *m)
{
    if (!m->queue.nsmall && !m->queue.nlarge && rt_list_empty(&m->queue.launches) &&
        !move_linger_gone(m))
        return;
    int in = rt_gpu_enter(m->g);
    if (in < 0) {
        move_end_everything(m);
        return;
    }
    if (move_linger_gone(m))
        move_linger_start(m);
    pump_small(m);
    pump_large(m);
    move_launches_start(m);
    rt_gpu_leave(in);
}

/* ---- what others call ---- */

bool move_begin(struct rt_gpu *g, struct rt_gpu_op *op)
{
    struct move_state *m = g->move;

    op->g = g;
    op->err = 0;
    rt_list_init(&op->link);
    rt_gpu_nactive++;
    if (m && !m->broken && !g->lost) {
        m->nactive++;
        return true;
    }
    move_refuse(op);
    return false;
}

/* While others run, copies that are fastest in a batch wait for the next progress, so that all that
 * come until then start together; otherwise they start at once. */
static bool starts_now(const struct move_state *m, enum rt_gpu_link link, size_t len)
{
    if (!move_has_free(m, MOVE_ENGINE))
        return false;
    return !move_is_busy(m, MOVE_ENGINE) ||
           rt_gpu_choose_group(link, len, MOVE_ENGINES, false, kernels_copy(m)) ==
               RT_GPU_WAY_ENGINE;
}

/* The next copy often has the same places and length. */
static inline enum rt_gpu_way way_for(struct move_state *m, enum rt_gpu_link link, size_t len)
{
    bool ring = move_linger_takes(m, len);
    bool kernels = ring || kernels_copy(m);
    unsigned key = (unsigned)link << 2 | (unsigned)ring << 1 | kernels;

    if (rt_unlikely(m->chosen.len != len || m->chosen.key != key)) {
        m->chosen.way = rt_gpu_choose(link, len, ring, kernels);
        m->chosen.len = len;
        m->chosen.key = key;
    }
    return m->chosen.way;
}

/* Nothing small waits or runs: the choice that was made for one copy is still valid. */
static bool is_alone(const struct move_state *m)
{
    return !m->queue.nsmall && !m->linger.n && !move_is_busy(m, MOVE_BATCH);
}

bool move_ring_is_idle(const struct move_state *m)
{
    return !m->queue.nsmall && m->linger.n < RING_COPIES && !move_is_busy(m, MOVE_BATCH);
}

static void copy(struct rt_gpu *g, void *dst, const void *src, size_t len, struct rt_gpu_op *op)
{
    struct move_state *m = g->move;

    op->dst = dst;
    op->src = src;
    op->len = len;
    if (!move_begin(g, op))
        return;
    if (len == 0) {
        move_end(m, op, 0);
        return;
    }
    enum rt_gpu_link link = move_link(m, dst, src);
    enum rt_gpu_way way = way_for(m, link, len);
    if (way == RT_GPU_WAY_LINGER && is_alone(m)) {
        move_linger_post(m, op);
        return;
    }
    if (way != RT_GPU_WAY_ENGINE) {
        rt_list_append(&m->queue.small, &op->link);
        m->queue.nsmall++;
        if (is_for_ring(m) || (!m->linger.n && !move_is_busy(m, MOVE_BATCH)))
            pump(m);
        return;
    }
    rt_list_append(&m->queue.large, &op->link);
    m->queue.nlarge++;
    if (starts_now(m, link, len))
        pump(m);
}

void rt_gpu_copy(struct rt_gpu *g, void *dst, const void *src, size_t len, struct rt_gpu_op *op)
{
    op->near = false;
    copy(g, dst, src, len, op);
}

void rt_gpu_copy_near(struct rt_gpu *g, void *dst, const void *src, size_t len,
                      struct rt_gpu_op *op)
{
    op->near = g->near_fence;
    copy(g, dst, src, len, op);
}

void rt_gpu_copies_more(struct rt_gpu *g)
{
    struct move_state *m = g->move;

    if (m && m->queue.nsmall && has_gathered(m, &m->queue.small, m->queue.nsmall, true))
        pump(m);
}

bool rt_gpu_copy_behind(struct rt_gpu *g, void *dst, const void *src, size_t len,
                        struct rt_gpu_op *op, const struct rt_gpu_op *before)
{
    struct move_state *m = g->move;

    if (!m || m->broken || g->lost || !len || before->g != g ||
        way_for(m, move_link(m, dst, src), len) != RT_GPU_WAY_ENGINE ||
        !move_engine_can_follow(m, before))
        return false;
    int in = rt_gpu_enter(g);
    if (in < 0)
        return false;
    op->dst = dst;
    op->src = src;
    op->len = len;
    op->near = false;
    move_begin(g, op);
    move_engine_behind(m, op, before);
    rt_gpu_leave(in);
    return true;
}

void rt_gpu_launch(struct rt_gpu *g, enum rt_gpu_kernel k, unsigned grid, unsigned block,
                   const void *params, size_t nbytes, struct rt_gpu_op *op)
{
    if (move_begin(g, op))
        move_launch(g->move, k, grid, block, params, nbytes, op);
}

/* ---- copies that are complete on return ---- */

int rt_gpu_copy_now(struct rt_gpu *g, void *dst, const void *src, size_t len)
{
    if (len == 0)
        return 0;
    int in = rt_gpu_enter(g);
    if (in < 0)
        return g->lost ? rt_gpu_gone(g) : in;
    cu_result r = rt_cuda.memcpy_async((cu_ptr)(uintptr_t)dst, (cu_ptr)(uintptr_t)src, len, g->now);
    if (r == CU_OK)
        r = rt_cuda.stream_synchronize(g->now);
    rt_gpu_leave(in);
    if (r == CU_OK)
        return 0;
    return rt_gpu_check_lost(g, r) ? rt_gpu_gone(g) : rt_cuda_error(r, "copying device memory");
}

/* ---- progress ---- */

static void look_for_errors(struct move_state *m)
{
    uint64_t now = rt_ticks();

    if (now - m->look.ticks < rt_ticks_in_ms(LOOK_MS))
        return;
    m->look.ticks = now;
    int in = rt_gpu_enter(m->g);
    if (in < 0) {
        move_end_everything(m);
        return;
    }
    int was = rt_gpu_capture_relax(); /* once for all queries */
    move_flights_look(m);
    move_linger_look(m);
    rt_gpu_capture_restore(was);
    rt_gpu_leave(in);
}

static int poll_context(struct move_state *m)
{
    int n = 0;

    if (m->g->lost && !m->broken)
        move_end_everything(m);
    if (m->broken)
        return 0;
    n += move_flights_poll(m);
    n += move_linger_poll(m);
    if (++m->look.npolls % LOOK_POLLS == 0 && m->nactive)
        look_for_errors(m);
    pump(m);
    return n;
}

int rt_gpu_progress_slow(void)
{
    struct rt_list *l, *next;
    int n = 0;

    rt_list_each_safe (l, next, &contexts) {
        struct move_state *m = rt_container(l, struct move_state, link);
        if (m->nactive)
            n += poll_context(m);
    }
    return n + move_call_ended();
}

static void wait_done(struct rt_gpu_op *op, int err)
{
    struct rt_gpu_wait *w = (struct rt_gpu_wait *)op;
    w->err = err;
    w->done = true;
}

void rt_gpu_wait_begin(struct rt_gpu_wait *w) { *w = (struct rt_gpu_wait){ .op.done = wait_done }; }

int rt_gpu_wait(struct rt_gpu_wait *w)
{
    while (!w->done) {
        rt_gpu_progress();
        rt_relax();
    }
    return w->err;
}

/* ---- life ---- */

static cu_result memory_take(struct move_state *m)
{
    cu_result r = rt_gpu_pinned_take(&m->memory.pinned, sizeof(struct pinned));
    if (r != CU_OK)
        return r;
    r = rt_cuda.mem_alloc(&m->memory.device, DEVICE_NBYTES);
    if (r == CU_ERROR_OUT_OF_MEMORY) {
        log_warn(GPU, "GPU %d has no %zu bytes left for MPI: its copies go without kernels, slower",
                 m->g->info.ordinal, (size_t)DEVICE_NBYTES);
        m->memory.device = 0;
        rt_gpu_images_unload(m->g);
        return CU_OK;
    }
    m->g->held += r == CU_OK ? DEVICE_NBYTES : 0; /* as long as the context is used */
    if (r == CU_OK)
        r = rt_cuda.memset_d8_async(m->memory.device, 0, DEVICE_NBYTES, m->g->kernels);
    if (r == CU_OK) /* once, at the start: kernels of other streams use this memory */
        r = rt_cuda.stream_synchronize(m->g->kernels);
    return r;
}

static void recalls_init(struct move_state *m, struct pinned *p)
{
    cu_ptr first = m->memory.device + offsetof(struct rt_gpu_line, recall);

    for (unsigned i = 0; i < MOVE_BATCHES; i++)
        move_recall_init(&m->late.batch[i], &p->recall[i], first + i * sizeof(struct rt_gpu_line));
    move_recall_init(&m->linger.recall, &p->recall[LINGER_LINE],
                     first + LINGER_LINE * sizeof(struct rt_gpu_line));
}

int rt_gpu_move_init(struct rt_gpu *g)
{
    struct move_state *m = calloc(1, sizeof *m);

    if (!m) {
        log_error(GPU, "no memory for the state of copies");
        return -RT_ENOMEM;
    }
    m->g = g;
    g->move = m;
    rt_list_init(&m->queue.small);
    rt_list_init(&m->queue.large);
    rt_list_init(&m->queue.launches);
    rt_list_init(&m->linger.ops);
    for (int i = 0; i < MOVE_FLIGHTS; i++)
        rt_list_init(&m->flights[i].ops);
    rt_list_append(&contexts, &m->link);
    m->no_kernels = cfg.gpu_engines;
    cu_result r = memory_take(m);
    if (r != CU_OK)
        return rt_cuda_error(r, "memory for copies");
    struct pinned *p = m->memory.pinned.p;
    memset(p, 0, sizeof *p);
    for (int i = 0; i < MOVE_FLIGHTS; i++)
        m->flights[i].line = &p->lines[i];
    m->linger.ring = p->ring;
    m->linger.words = &p->words;
    m->linger.work = m->memory.device + NLINES * sizeof(struct rt_gpu_line);
    recalls_init(m, p);
    return move_flights_init(m);
}

/* Errors do not matter any more. */
static void wait_for_streams(struct move_state *m)
{
    for (int i = 0; i < MOVE_BATCHES; i++)
        if (m->batch[i])
            rt_cuda.stream_synchronize(m->batch[i]);
    for (int i = 0; i < RT_GPU_ENGINES; i++)
        if (m->g->engine[i])
            rt_cuda.stream_synchronize(m->g->engine[i]);
    if (m->g->kernels)
        rt_cuda.stream_synchronize(m->g->kernels);
    if (m->linger.stream)
        rt_cuda.stream_synchronize(m->linger.stream);
}

void rt_gpu_move_fini(struct rt_gpu *g)
{
    struct move_state *m = g->move;

    if (!m)
        return;
    if (!g->lost) {
        wait_for_streams(m);
        if (!m->broken && m->memory.pinned.p) {
            move_flights_poll(m);
            move_linger_poll(m);
        }
    }
    move_end_everything(m);
    g->move = NULL;
    move_call_ended();
    if (!g->lost) {
        move_flights_fini(m);
        if (m->memory.device)
            rt_cuda.mem_free(m->memory.device);
    }
    free(m->known);
    rt_gpu_pinned_give(&m->memory.pinned, g->lost);
    rt_list_del(&m->link);
    free(m);
}
