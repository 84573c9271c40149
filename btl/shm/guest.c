/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers of other jobs.  The regions of the segment for pairs of ranks belong to one job, so the
 * ring from a process to a process of another job is a block of the writer's segment, allocated
 * with the first message.  The writer announces the block in the reader's home.  The writer frees
 * the block only after the reader has ended, because the reader may still poll the ring. */
#include "btl/shm/shm.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"

#include <stdlib.h>

static int make(struct btl_shm *b, struct rt_other *o, struct btl_shm_peer **out)
{
    size_t n = (size_t)rt_node.size + b->nguests + 1;
    struct btl_shm_peer **rx = realloc(b->rx, n * sizeof *rx);
    struct btl_shm_peer *p = rx ? aligned_alloc(RT_CACHE_LINE, sizeof *p) : NULL;
    b->rx = rx ? rx : b->rx;
    if (!p)
        return -RT_ENOMEM;
    *p = (struct btl_shm_peer){ .base = { .btl = &b->base, .proc = o->proc },
                                .rank = -1,
                                .other = o,
                                .home = (struct shm_home *)((char *)o->own + BTL_NODE_SHM),
                                .next = b->guests };
    ring_tx_init(&p->tx, NULL, o->bell);
    rt_list_init(&p->work);
    rt_list_init(&p->xfers);
    b->guests = p;
    b->nguests++;
    rt_others_hold(o);
    *out = p;
    return 0;
}

int btl_shm_guest_get(struct btl_shm *b, struct rt_proc proc, struct btl_shm_peer **out)
{
    struct rt_other *o = rt_others_find(proc);
    if (!o || o->ended)
        return -RT_EUNREACH;
    for (struct btl_shm_peer *p = b->guests; p; p = p->next)
        if (p->other == o) {
            *out = p;
            return 0;
        }
    return make(b, o, out);
}

/* ---- announcements ---- */

static int post_take(struct btl_shm *b, const struct shm_post *post)
{
    struct rt_proc proc;
    struct btl_shm_peer *p;
    bool known = rt_boot_proc(post->from, &proc) == 0 && proc.ns != 0;
    if (known && rt_others_meeting(proc)) /* it has left the meeting before this process */
        return -RT_EAGAIN;
    if (!known || !rt_others_find(proc)) {
        log_warn(BTL, "a process that this process has not met announces messages; ignored");
        return 0;
    }
    int err = btl_shm_guest_get(b, proc, &p);
    if (err < 0)
        return err;
    if (p->rx_on || post->off > p->other->nbytes - sizeof(struct ring_mem))
        return 0;
    ring_rx_init(&p->rx, (struct ring_mem *)(p->other->base + post->off));
    btl_shm_rx_add(b, p);
    return 0;
}

void btl_shm_posts_take(struct btl_shm *b, uint64_t n)
{
    bool later = false;
    for (uint32_t i = 0; i < SHM_POSTS; i++) {
        struct shm_post *post = &b->home->posts[i];
        /* pairs with the release in post() */
        if (rt_load_acquire(&post->state) != SHM_POST_FULL)
            continue;
        int err = post_take(b, post);
        if (err == -RT_EAGAIN || err == -RT_ENOMEM)
            later = true; /* the next call tries again */
        else              /* taken, or the process has ended */
            rt_store_release(&post->state, SHM_POST_FREE);
    }
    if (!later)
        b->posts_seen = n;
}

static int post(struct btl_shm_peer *p)
{
    for (uint32_t i = 0; i < SHM_POSTS; i++) {
        struct shm_post *post = &p->home->posts[i];
        uint32_t state = SHM_POST_FREE;
        if (!rt_cas(&post->state, &state, SHM_POST_CLAIMED))
            continue;
        post->from = rt_boot_name((struct rt_proc){ 0, (uint32_t)rt_boot.rank });
        post->off = p->ring_off;
        rt_store_release(&post->state, SHM_POST_FULL); /* after the contents */
        rt_fetch_add(&p->home->nposts, 1u);
        rt_bell_ring_at(p->tx.bell);
        return 0;
    }
    return -RT_EAGAIN;
}

int btl_shm_guest_open(struct btl_shm_peer *p)
{
    struct ring_tx *t = &p->tx;
    if (t->slots_open)
        return 0;
    if (p->lost)
        return -RT_EPEER;
    if (!p->ring_off) {
        size_t off = rt_node_alloc(sizeof(struct ring_mem));
        if (off == SIZE_MAX)
            return -RT_ENOSPC;
        p->ring_off = off;
        t->mem = rt_node_at(off);
        rt_node_populate(t->mem, sizeof *t->mem);
    }
    int err = post(p);
    if (err < 0)
        return err;
    t->slots_open = t->bytes_open = true;
    t->limit = RING_SLOTS;
    t->bytes_limit = RING_BYTES;
    return 0;
}

/* ---- their end ---- */

void btl_shm_guest_close(struct btl_shm_peer *p)
{
    struct btl_shm *b = (struct btl_shm *)p->base.btl;
    for (int i = 0; p->rx_on && i < b->nrx; i++)
        if (b->rx[i] == p)
            b->rx[i] = b->rx[--b->nrx];
    p->rx_on = false;
    if (p->ring_off)
        rt_node_free(p->ring_off, sizeof(struct ring_mem));
    p->ring_off = 0;
    ring_tx_init(&p->tx, NULL, NULL); /* without room: each send finds that p is lost */
    rt_others_release(p->other);
    p->other = NULL;
}
