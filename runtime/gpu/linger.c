/* SPDX-License-Identifier: BSD-3-Clause */
/* The host's side of the polling kernel: a ring of descriptors in pinned memory that a kernel polls
 * for a while.  It is launched when a small copy comes alone, leaves after cfg.gpu_linger_us, or
 * after IDLE_NS without work, and is launched again if it has left a descriptor undone.
 * Copies complete in the order in which they were posted.  Under the domain's lock. */
#include "runtime/gpu/linger.h"
#include "runtime/base/cfg.h"
#include "runtime/base/log.h"
#include "runtime/gpu/context.h"
#include "runtime/gpu/driver.h"
#include "runtime/gpu/flight.h"
#include "runtime/gpu/fold_kernels.h"
#include "runtime/gpu/launch.h"
#include "runtime/gpu/move.h"
#include "runtime/gpu/recall.h"

#include <string.h>

/* It leaves after this time without work, or after a quarter of its life if that is shorter: a
 * program that waits for
 * the device in one thread then waits no longer than this, because no work is posted meanwhile.  So
 * its life may be long: a launch adds 8 us to a message (H200), to every 22nd short message if the
 * life is 200 us.  Where launches take longer, more messages wait for one. */
#define IDLE_NS 50000u

/* Its limit while it stays: an eighth of the multiprocessors. */
static unsigned most_blocks(const struct move_state *m)
{
    unsigned n = (unsigned)m->g->info.nsm / 8, most = rt_gpu_most_blocks(m->g, 1);

    n = n < most ? n : most;
    return n < 1 ? 1 : n < WEFT_LINGER_MANY ? n : WEFT_LINGER_MANY;
}

static bool is_on(const struct move_state *m)
{
    const struct rt_gpu *g = m->g;

    return cfg.gpu_linger_us > 0 && !g->shared && !m->linger.off && !m->no_kernels &&
           g->fn[RT_GPU_LINGER];
}

/* The kernel of launch l->launch has ended, and with it everything that it took.  `left` is its
 * last store and is read first, so that the value of `done` read afterwards is final. */
static void look_left(struct move_linger *l)
{
    if (l->running && rt_load_acquire(&l->words->left) == l->launch) {
        l->running = false;
        l->recalled = false;
    }
}

bool move_linger_takes(struct move_state *m, size_t len)
{
    if (rt_unlikely(m->no_kernels))
        move_kernels_look(m);
    if (!is_on(m))
        return false;
    if (len <= WEFT_LINGER_ONE)
        return true;
    look_left(&m->linger);
    if (!m->linger.running || m->linger.blocks > 1)
        return true;
    m->linger.many = true;
    return false;
}

/* Posted descriptors that are not done go by `copies` or, reductions, by launches. */
static void other_ways(struct move_state *m, struct rt_list *copies, unsigned *ncopies)
{
    struct move_linger *l = &m->linger;

    while (l->n && !m->broken) {
        struct rt_gpu_op *op = rt_container(l->ops.next, struct rt_gpu_op, link);
        const struct move_fold *f = op->src;
        l->n--;
        rt_list_del(&op->link);
        rt_list_init(&op->link);
        if (op->dst) {
            rt_list_append(copies, &op->link);
            ++*ncopies;
        } else {
            move_launch(m, f->k, f->grid, WEFT_FOLD_THREADS, &f->args, sizeof f->args, op);
        }
    }
}

/* The kernel does not run and cannot be launched: what it has not done goes another way, unless the
 * context has failed.  What it has done is complete: a reduction in place must not be done
 * twice. */
static void give_up(struct move_state *m, cu_result r)
{
    struct move_linger *l = &m->linger;

    move_linger_poll(m);
    l->off = true;
    if (move_is_dead(m, r)) {
        move_fail(m, r, "cuLaunchKernel");
        return;
    }
    rt_cuda_error(r, "cuLaunchKernel");
    log_warn(GPU,
             "the polling kernel on GPU %d cannot be launched: each short copy launches a "
             "kernel from now on",
             m->g->info.ordinal);
    other_ways(m, &m->queue.small, &m->queue.nsmall);
}

/* Copies that it has done and that only have to be noticed need no kernel. */
bool move_linger_gone(const struct move_state *m)
{
    const struct move_linger *l = &m->linger;

    return l->n && !l->running && rt_load_acquire(&l->words->done) != l->posted;
}

/* The last kernel has left, so `done` is final.  It may be ahead of what was reaped, and nothing
 * may be copied twice: an operation that has ended has returned its buffers to the user. */
void move_linger_start(struct move_state *m)
{
    struct move_linger *l = &m->linger;
    uint64_t life_ns = (uint64_t)cfg.gpu_linger_us * 1000;
    struct rt_gpu_linger p = { .ring = (uintptr_t)l->ring,
                               .words = (uintptr_t)l->words,
                               .work = l->work,
                               .next = rt_load_acquire(&l->words->done) + 1,
                               .launch = l->launch + 1,
                               .recall = l->recall.word,
                               .idle_ns = life_ns / 4 < IDLE_NS ? life_ns / 4 : IDLE_NS,
                               .life_ns = life_ns };
    struct rt_list *i;
    p.first = l->ring[p.next % RT_GPU_RING_SLOTS]; /* also in the ring, until it is done */
    l->blocks = l->many ? most_blocks(m) : 1;
    l->many = false;
    rt_list_each (i, &l->ops)
        if (rt_container(i, struct rt_gpu_op, link)->len > WEFT_LINGER_ONE)
            l->blocks = most_blocks(m);
    cu_result r = move_kernel(m, l->exec, RT_GPU_LINGER, l->blocks, WEFT_LINGER_THREADS, l->stream,
                              &p);
    if (r != CU_OK) {
        give_up(m, r);
        return;
    }
    l->launch++;
    l->running = true;
    move_recall_launched(&l->recall, l->launch, 1);
}

/* The sequence number is stored last, at both ends of the line: a load that shows it twice has read
 * the whole line.  The kernel reads a slot only when its number is due, and the slot's last number
 * is 64 lower, so nothing has to be cleared. */
static void post(struct move_state *m, struct rt_gpu_desc *d, struct rt_gpu_op *op)
{
    struct move_linger *l = &m->linger;
    uint32_t seq = ++l->posted;

    rt_store_release(&d->seq_too, seq);
    rt_store_release(&d->seq, seq);
    rt_list_append(&l->ops, &op->link);
    l->n++;
    look_left(l);
    if (l->running) /* the driver is not called: a call takes as long as the rest */
        return;
    int in = rt_gpu_enter(m->g);
    if (in < 0)
        return; /* lost: the next progress ends every operation */
    move_linger_start(m);
    rt_gpu_leave(in);
}

static unsigned next_slot(const struct move_linger *l)
{
    return (l->posted + 1) % RT_GPU_RING_SLOTS;
}

void move_linger_post(struct move_state *m, struct rt_gpu_op *op)
{
    struct rt_gpu_desc *d = &m->linger.ring[next_slot(&m->linger)];

    d->fold = 0;
    d->dst = (uintptr_t)op->dst;
    d->src = (uintptr_t)op->src;
    d->len = (uint32_t)op->len;
    d->near = op->near;
    post(m, d, op);
}

/* ---- reductions ---- */

static const struct {
    uint8_t kind, nbytes;
} ring_kinds[RT_GPU_KERNELS] = {
    [RT_GPU_FOLD_BITS] = { RT_GPU_RING_BITS, 1 }, [RT_GPU_FOLD_4] = { RT_GPU_RING_4, 4 },
    [RT_GPU_FOLD_8] = { RT_GPU_RING_8, 8 },       [RT_GPU_FOLD_F16] = { RT_GPU_RING_F16, 2 },
    [RT_GPU_FOLD_BF16] = { RT_GPU_RING_BF16, 2 },
};

/* The longest unit of whole elements that divides the length and all addresses; 0: none. */
static unsigned ring_unit(const struct rt_gpu_fold_args *a, uint64_t nbytes, unsigned least)
{
    bool few = a->nsrc <= RT_GPU_RING_WIDE || a->code == RT_GPU_FOLD_EACH;
    uint64_t any = nbytes | (few && nbytes > RT_GPU_RING_SHORT ? 16 : 8);

    for (unsigned i = 0; i < a->nsrc; i++)
        any |= a->src[i];
    for (unsigned i = 0; i < a->ndst; i++)
        any |= a->dst[i];
    unsigned unit = (unsigned)(any & -any);
    return unit < least ? 0 : unit;
}

/* Whether the destinations are the first sources. */
static bool same_places(const struct rt_gpu_fold_args *a)
{
    unsigned i = 0;

    while (i < a->ndst && i < a->nsrc && a->dst[i] == a->src[i])
        i++;
    return i == a->ndst;
}

/* Whether it is not worth a launch.  With more sources or shorter units less is in flight, as if
 * the reduction were longer; for a launch, and for copies, the bytes count that cross the link. */
static bool ring_is_better(const struct rt_gpu_fold_args *a, unsigned unit, uint64_t nbytes,
                           enum rt_gpu_link link)
{
    uint64_t far = a->nsrc > 2 ? a->nsrc - 1 : 1, slow;

    if (nbytes <= RT_GPU_RING_SHORT)
        slow = 1;
    else if (a->code == RT_GPU_FOLD_EACH)
        slow = far * (16 / unit);
    else
        slow = unit == 16 ? (a->nsrc <= 2 ? 1 : 2) : (a->nsrc <= 4 ? 3 : 6) * (8 / unit);
    return rt_gpu_cost_fold_ns(RT_GPU_WAY_LINGER, link, nbytes * slow) <
           rt_gpu_cost_fold_ns(RT_GPU_WAY_BATCH, link, nbytes * far);
}

bool move_linger_describe(const struct move_fold *f, enum rt_gpu_link link, struct rt_gpu_desc *out)
{
    const struct rt_gpu_fold_args *a = &f->args;
    uint64_t nbytes = a->count * ring_kinds[f->k].nbytes, place[2 * RT_GPU_FOLD_PLACES];
    unsigned kind = ring_kinds[f->k].kind, unit = ring_unit(a, nbytes, ring_kinds[f->k].nbytes);
    bool same = same_places(a);
    unsigned n = a->nsrc + (same ? 0 : a->ndst);

    if (!kind || !unit || n > RT_GPU_RING_PLACES || a->nsrc > RT_GPU_RING_SOURCES ||
        nbytes > WEFT_LINGER_FOLD_MOST || !ring_is_better(a, unit, nbytes, link))
        return false;
    memset(place, 0, sizeof place);
    memcpy(place, a->src, a->nsrc * sizeof *place);
    memcpy(place + a->nsrc, a->dst, a->ndst * sizeof *place);
    *out = (struct rt_gpu_desc){
        .fold = RT_GPU_RING_FOLD(kind, a->type, a->code, a->nsrc, a->ndst, unit, same),
        .dst = place[0],
        .src = place[1],
        .len = (uint32_t)nbytes,
        .near = a->near,
    };
    memcpy(out->more, place + 2, sizeof out->more);
    memcpy(out->far, place + RT_GPU_RING_NEAR, sizeof out->far);
    return true;
}

void move_linger_post_fold(struct move_state *m, const struct move_fold *f,
                           const struct rt_gpu_desc *desc, struct rt_gpu_op *op)
{
    struct move_linger *l = &m->linger;
    struct rt_gpu_desc *d = &l->ring[next_slot(l)];

    d->fold = desc->fold;
    d->dst = desc->dst;
    d->src = desc->src;
    d->len = desc->len;
    d->near = desc->near;
    memcpy(d->more, desc->more, sizeof d->more);
    if (desc->fold & RT_GPU_RING_FAR) {
        memcpy(d->far, desc->far, sizeof d->far);
        rt_store_release(&d->seq_far_too, l->posted + 1);
        rt_store_release(&d->seq_far, l->posted + 1);
    }
    l->folds[next_slot(l)] = *f;
    op->dst = NULL;
    op->src = &l->folds[next_slot(l)];
    op->len = f->weight;
    post(m, d, op);
}

int move_linger_poll(struct move_state *m)
{
    struct move_linger *l = &m->linger;
    int n = 0;

    if (!l->n)
        return 0;
    look_left(l);
    uint32_t done = rt_load_acquire(&l->words->done);
    for (; l->n && (int32_t)(done - l->reaped) > 0; n++) {
        l->reaped++;
        l->n--;
        move_end(m, rt_container(l->ops.next, struct rt_gpu_op, link), 0);
    }
    return n;
}

/* The kernel has not started.  It will leave when it starts, and the next launch begins behind what
 * was posted.  If it has started meanwhile, it may leave, too, and is launched again for the rest.
 */
static void recall(struct move_state *m)
{
    struct move_linger *l = &m->linger;

    move_linger_poll(m); /* what the launch before has done */
    l->recalled = true;
    move_report_late(m);
    l->reaped = l->posted;
    rt_store_release(&l->words->done, l->posted);
    other_ways(m, &m->queue.large, &m->queue.nlarge);
}

void move_linger_look(struct move_state *m)
{
    struct move_linger *l = &m->linger;

    look_left(l);
    if (l->n && l->running && !l->recalled && move_recall_look(m, &l->recall))
        recall(m);
    if (!l->n || !l->running)
        return;
    cu_result r = rt_cuda.stream_query(l->stream);
    look_left(l);
    enum rt_cuda_fault fault = rt_cuda_fault(r);
    if (r == CU_ERROR_NOT_READY || fault == RT_CUDA_CAPTURE || (r == CU_OK && !l->running))
        return;
    move_fail(m, r,
              r == CU_OK ? "the polling kernel has ended, but its completion word was not stored"
                         : "copying device memory by the polling kernel");
}
