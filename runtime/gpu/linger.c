/* SPDX-License-Identifier: BSD-3-Clause */
/* The host's side of the lingering kernel: a ring of descriptors in pinned memory that a kernel
 * polls for a while.  It is launched when a small copy comes alone, leaves after cfg.gpu_linger_us,
 * or a quarter of it without work, and is launched again when it left a descriptor behind.  Copies
 * end in the order in which they were posted.  Under the domain's lock. */
#include "runtime/gpu/copy.h"
#include "runtime/base/cfg.h"
#include "runtime/base/log.h"
#include "runtime/gpu/move.h"

bool move_linger_on(const struct move_state *m)
{
    const struct rt_gpu *g = m->g;

    return cfg.gpu_linger_us > 0 && !g->shared && !m->linger.off && g->fn[RT_GPU_LINGER];
}

/* The kernel numbered l->launch has ended, and so has all that it took.  `left` is its last store
 * and is looked at first, so that what is then read of `done` is final. */
static void look_left(struct move_linger *l)
{
    if (l->running && rt_load_acquire(&l->words->left) == l->launch)
        l->running = false;
}

bool move_linger_takes(struct move_state *m, size_t len)
{
    if (!move_linger_on(m))
        return false;
    if (len <= WEFT_LINGER_ONE)
        return true;
    look_left(&m->linger);
    return !m->linger.running || m->linger.blocks > 1;
}

/* The kernel is not there and cannot be launched: its copies go another way, unless the context
 * has failed. */
static void give_up(struct move_state *m, cu_result r)
{
    struct move_linger *l = &m->linger;

    l->off = true;
    if (move_is_dead(m, r)) {
        move_fail(m, r, "cuLaunchKernel");
        return;
    }
    rt_cuda_error(r, "cuLaunchKernel");
    log_warn(GPU, "the kernel for small copies on GPU %d cannot be launched: they take a launch "
             "each from now on", m->g->info.ordinal);
    for (; l->n; l->n--, m->nsmall++) {
        struct rt_list *op = l->ops.next;
        rt_list_del(op);
        rt_list_append(&m->small, op);
    }
}

/* Copies that it has done and that only wait to be seen need no kernel. */
bool move_linger_gone(const struct move_state *m)
{
    const struct move_linger *l = &m->linger;

    return l->n && !l->running && rt_load_acquire(&l->words->done) != l->posted;
}

/* The last kernel has left, so `done` is final; it may be ahead of what was reaped, and nothing may
 * be copied twice: an operation that has ended has given its buffers back. */
void move_linger_start(struct move_state *m)
{
    struct move_linger *l = &m->linger;
    uint64_t life_ns = (uint64_t)cfg.gpu_linger_us * 1000;
    struct rt_gpu_linger p = { .ring = (uintptr_t)l->ring,
                               .words = (uintptr_t)l->words,
                               .work = l->work,
                               .next = rt_load_acquire(&l->words->done) + 1,
                               .launch = l->launch + 1,
                               .idle_ns = life_ns / 4,
                               .life_ns = life_ns };
    struct rt_list *i;
    l->blocks = 1;
    rt_list_each(i, &l->ops)
        if (rt_container(i, struct rt_gpu_op, link)->len > WEFT_LINGER_ONE)
            l->blocks = WEFT_LINGER_MANY;
    cu_result r = rt_cuda.launch_kernel(m->g->fn[RT_GPU_LINGER], l->blocks, 1, 1,
                                        WEFT_LINGER_THREADS, 1, 1, 0, l->stream,
                                        (void *[]){ &p }, NULL);
    if (r != CU_OK) {
        give_up(m, r);
        return;
    }
    l->launch++;
    l->running = true;
}

/* The sequence number is stored last, at both ends of the line: a load that shows it twice has all
 * of the descriptor.  The kernel reads a slot only when its number is due, and the slot's last
 * number is 64 behind, so nothing need be cleared. */
void move_linger_post(struct move_state *m, struct rt_gpu_op *op)
{
    struct move_linger *l = &m->linger;
    uint32_t seq = ++l->posted;
    struct rt_gpu_desc *d = &l->ring[seq % RT_GPU_RING_SLOTS];

    d->dst = (uintptr_t)op->dst;
    d->src = (uintptr_t)op->src;
    d->len = op->len;
    rt_store_release(&d->seq_too, seq);
    rt_store_release(&d->seq, seq);
    rt_list_append(&l->ops, &op->link);
    l->n++;
    look_left(l);
    if (!l->running)
        move_linger_start(m);
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

void move_linger_look(struct move_state *m)
{
    struct move_linger *l = &m->linger;

    if (!l->n || !l->running)
        return;
    cu_result r = rt_cuda.stream_query(l->stream);
    look_left(l);
    if (r == CU_ERROR_NOT_READY || (r == CU_OK && !l->running))
        return;
    move_fail(m, r, r == CU_OK ? "the lingering kernel has ended without saying so"
                               : "copying device memory by the lingering kernel");
}
