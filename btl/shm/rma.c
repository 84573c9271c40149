/* SPDX-License-Identifier: BSD-3-Clause */
/* Large data of btl/shm: registered regions, put() and get().
 *
 * put() streams chunks through the ring of the pair, and the target's progress copies each chunk to
 * its place, so both cores copy at the same time.  A later message cannot overtake the chunks.
 * With CMA (process_vm_readv, process_vm_writev) one side copies alone, which suits oversubscribed
 * nodes.  Both run in progress(), piece by piece, so that small messages never wait behind a large
 * transfer.  A chunk names its region by index and generation: data for memory that is no longer
 * registered are dropped.  The engine serialises calls on the instance. */
#include "btl/shm/shm.h"
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "runtime/base/idle.h"
#include "runtime/base/log.h"
#include "runtime/mem/activity.h"
#include "runtime/mem/peer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>

/* Shorter chunks let both cores copy at the same time, longer ones cost fewer cache lines beside
 * the data.  On two Zen 5 cores of one L3, 8 and 16 KiB are equal (64 KiB in 1.3 us), 4 KiB
 * takes 1.7 times as long.  Without a shared cache, where a line takes 0.25 us, 64 KiB take 3.9 us
 * with 8 KiB, 3.1 with 16 or 32 KiB.  Where streaming itself is slow, the engine measures it
 * against CMA (mpi/p2p/choose.c). */
#define CHUNK RING_LEN_MAX
/* A streamed put leaves this much of the ring free, so that it never blocks messages: the longest
 * message and the tail that it may have to skip. */
#define LEAVE_BYTES (2 * RING_LEN_MAX)
#define LEAVE_SLOTS (RING_SLOTS / 4)
/* One system call of CMA moves this much (about 20 us at 13 GB/s) before other messages get a turn.
 * On a slower machine they wait longer in proportion. */
#define CMA_PIECE (256u << 10)

/* Early bytes of one message: they leave room for other messages.  Only the first bytes gain, while
 * the handshake is under way (0.3 us, in which 16 KiB are copied), but a message that is early as a
 * whole needs no handshake at all. */
#define EARLY_BYTES (64u << 10)

/* Rates for the engine, in MB/s, from the measurement above.  CMA on one side alone reached 13000
 * to 15000.  They only divide a message between put and get; the engine measures whether dividing
 * is faster. */
#define STREAM_MB_PER_S 50000
#define CMA_MB_PER_S 14000

enum { LARGE_AUTO, LARGE_CMA, LARGE_COPY }; /* cfg.shm_large */

#define PROBE_MAGIC 0x77656674636d6131u
static uint64_t probe_word = PROBE_MAGIC; /* peers read it to test whether CMA works on this
                                           * process */

struct shm_key {
    uint32_t region, gen;
    uint64_t base, len;
    uint32_t window, pad; /* window: 1: puts and gets by CMA only, at once in their place */
};

struct shm_chunk {
    uint32_t region, gen;
    uint64_t off;
}; /* in the slot; the payload is in the byte ring */

struct shm_rmem {
    struct btl_rmem base;
    struct btl_shm_peer *peer;
    struct shm_key key;
};

struct shm_xfer { /* a put or get in progress, in btl_shm_peer.xfers */
    struct rt_list link;
    struct btl_op *op; /* borrowed until done() */
    struct shm_key key;
    uint64_t off;
    char *local;
    size_t len, pos; /* pos: bytes moved so far */
    bool get, cma;
};

/* Whether this host lets the process read other processes' memory.  Each peer is tested at the
 * first attach. */
static bool cma_available(void)
{
    char scope = '0';
    FILE *f = fopen("/proc/sys/kernel/yama/ptrace_scope", "r");

    if (f) {
        if (fread(&scope, 1, 1, f) != 1)
            scope = '0';
        fclose(f);
    }
    if (scope > '1')
        return false; /* only administrators may, for any peer */
    if (scope == '1')
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    return rt_peer_offered();
}

void btl_shm_rma_open(struct btl_shm *b, struct btl_caps *caps)
{
    bool wanted = cfg.shm_large != LARGE_COPY;

    b->cma = wanted && cma_available();
    /* If ranks share a core, streaming costs a context switch for each full ring. */
    b->choose = b->cma && cfg.shm_large == LARGE_AUTO && !rt_idle_oversubscribed();
    if (wanted && !b->cma)
        log_at(BTL, cfg.shm_large == LARGE_CMA ? RT_LOG_WARN : RT_LOG_INFO,
               "process_vm_readv or process_vm_writev is not permitted here (container "
               "without CAP_SYS_PTRACE, or yama): "
               "large messages are streamed through shared memory instead");
    rt_store_release(&b->home->probe_addr, (uint64_t)(uintptr_t)&probe_word);
    caps->flags |= BTL_PUT | (b->cma ? BTL_GET : 0) | (b->choose ? BTL_CHOOSE : 0) |
                   (b->cma ? BTL_WINDOW : 0);
    caps->early_max = EARLY_BYTES;
    caps->rma_mem = RT_MEM_HOST_BITS;
    caps->key_len = sizeof(struct shm_key);
    caps->put_mb_per_s = b->cma ? CMA_MB_PER_S : STREAM_MB_PER_S;
    caps->get_mb_per_s = b->cma ? CMA_MB_PER_S : 0;
    caps->mb_per_s = b->cma ? 2 * CMA_MB_PER_S : STREAM_MB_PER_S;
}

void btl_shm_rma_close(struct btl_shm *b) { btl_regions_fini(&b->regions); }

/* ---- registered memory ---- */

int btl_shm_mem_reg(struct btl *btl, void *base, size_t len, const struct rt_gpu_ptr *at,
                    struct btl_mem **out)
{
    return at ? -RT_ENOTSUP : btl_region_add(&((struct btl_shm *)btl)->regions, base, len, out);
}

int btl_shm_window_reg(struct btl *btl, void *base, size_t len, struct btl_mem **out)
{
    int err = btl_shm_mem_reg(btl, base, len, NULL, out);
    if (!err)
        (*out)->window = true;
    return err;
}

void btl_shm_mem_dereg(struct btl_mem *m) { btl_region_drop(m); }

int btl_shm_mem_key(const struct btl_mem *m, void *key)
{
    struct shm_key k = { .region = m->region,
                         .gen = m->gen,
                         .base = (uintptr_t)m->base,
                         .len = m->len,
                         .window = m->window };
    memcpy(key, &k, sizeof k);
    return 0;
}

/* A chunk has arrived: copies it to its place if that memory is still registered. */
void btl_shm_chunk_in(struct btl_shm *b, const struct ring_slot *s, const void *data, size_t len)
{
    struct shm_chunk c;

    memcpy(&c, s->data, sizeof c);
    char *to = btl_region_at(&b->regions, c.region, c.gen, c.off, len);
    if (rt_likely(to))
        memcpy(to, data, len);
    else
        log_debug(BTL, "dropped %zu bytes for memory that is no longer registered", len);
}

/* ---- attached memory ---- */

/* Tests CMA by reading a known word of the peer's memory, once.  The peer stored the word's address
 * before it could send a key. */
static bool cma_probe(struct btl_shm_peer *p)
{
    const struct rt_bell *bell = p->tx.bell;
    uint64_t copy = 0;
    struct iovec to = { &copy, sizeof copy };
    struct iovec from = { (void *)(uintptr_t)rt_load_acquire(&p->home->probe_addr), sizeof copy };

    if (rt_bell_same_pids(bell) &&
        process_vm_readv((pid_t)bell->pid, &to, 1, &from, 1, 0) == sizeof copy &&
        copy == PROBE_MAGIC)
        return true;
    log_info(
        BTL,
        "process_vm_readv does not reach rank %u%s: %m; streaming through shared memory instead",
        p->base.proc.rank, rt_boot_of_job(p->base.proc.ns));
    return false;
}

int btl_shm_attach(struct btl_peer *peer, const void *key, const struct rt_gpu_ptr *near,
                   struct btl_rmem **out)
{
    (void)near;
    struct btl_shm_peer *p = (struct btl_shm_peer *)peer;
    struct shm_rmem *r;

    if (p->lost)
        return -RT_EPEER;
    r = malloc(sizeof *r);
    if (!r)
        return -RT_ENOMEM;
    if (((struct btl_shm *)peer->btl)->cma && !p->cma_probed) {
        p->cma_probed = true;
        p->cma = cma_probe(p);
    }
    r->base = (struct btl_rmem){ .ptr = NULL };
    r->peer = p;
    memcpy(&r->key, key, sizeof r->key);
    if (r->key.window && !p->cma) {
        free(r);
        return -RT_ENOTSUP;
    }
    *out = &r->base;
    return 0;
}

void btl_shm_detach(struct btl_rmem *r) { free(r); }

/* ---- transfers ---- */

static int push_chunk(struct ring_tx *t, const struct shm_xfer *x, uint32_t len)
{
    struct shm_chunk c = { x->key.region, x->key.gen, x->off + x->pos };

    if (!ring_fits(t, LEAVE_SLOTS + 1, len, LEAVE_BYTES)) {
        btl_shm_ring_refill(t);
        if (!ring_fits(t, LEAVE_SLOTS + 1, len, LEAVE_BYTES))
            return -RT_EAGAIN;
    }
    memcpy(ring_bytes_take(t, len), x->local + x->pos, len);
    struct ring_slot *s = ring_slot_next(t);
    memcpy(s->data, &c, sizeof c);
    ring_slot_fill(t, s, len | RING_WORD_CHUNK);
    return 0;
}

/* Fills the ring.  0: all data are in the ring, so the put is done; -RT_EAGAIN: call again
 * later. */
static int stream_step(struct btl_shm_peer *p, struct shm_xfer *x)
{
    size_t before = x->pos;

    while (x->pos < x->len) {
        uint32_t len = x->len - x->pos < CHUNK ? (uint32_t)(x->len - x->pos) : CHUNK;
        if (push_chunk(&p->tx, x, len) < 0)
            return x->pos == before ? btl_shm_blocked(p) : -RT_EAGAIN;
        x->pos += len;
        rt_activity_moved(len);
        rt_bell_ring_at(p->tx.bell);
    }
    return 0;
}

/* Makes one system call.  If a put is refused, its rest is streamed, but not into a window; if a
 * get is refused, the engine must replace it. */
static int cma_step(struct btl_shm_peer *p, struct shm_xfer *x)
{
    size_t len = x->len - x->pos < CMA_PIECE ? x->len - x->pos : CMA_PIECE;
    struct iovec here = { x->local + x->pos, len };
    struct iovec there = { (void *)(uintptr_t)(x->key.base + x->off + x->pos), len };
    pid_t pid = (pid_t)p->tx.bell->pid;

    if (len == 0)
        return 0;
    ssize_t n = x->get ? process_vm_readv(pid, &here, 1, &there, 1, 0)
                       : process_vm_writev(pid, &here, 1, &there, 1, 0);
    if (n > 0) {
        x->pos += (size_t)n;
        rt_activity_moved((uint64_t)n);
        return x->pos == x->len ? 0 : -RT_EAGAIN;
    }
    if (n < 0 && errno == ESRCH) {
        p->lost = true;
        return -RT_EPEER;
    }
    log_info(BTL, "process_vm_%s of rank %u%s failed: %m; streaming through shared memory instead",
             x->get ? "readv" : "writev", p->base.proc.rank, rt_boot_of_job(p->base.proc.ns));
    if (x->get || x->key.window) {
        p->cma = false;
        return -RT_EPERM;
    }
    x->cma = false; /* for this transfer only: the engine still relies on get */
    int err = btl_shm_tx_open(p, true);
    return err < 0 ? err : -RT_EAGAIN;
}

static void xfer_finish(struct shm_xfer *x, int err)
{
    struct btl_op *op = x->op;

    rt_list_del(&x->link);
    free(x);
    op->done(op, err); /* may start another transfer */
}

int btl_shm_xfers_step(struct btl_shm_peer *p)
{
    int n = 0;

    while (!rt_list_empty(&p->xfers)) {
        struct shm_xfer *x = rt_container(p->xfers.next, struct shm_xfer, link);
        size_t before = x->pos;
        int err = p->lost ? -RT_EPEER : x->cma ? cma_step(p, x) : stream_step(p, x);
        if (err == -RT_EAGAIN) {
            n += x->pos != before;
            break;
        }
        xfer_finish(x, err);
        n++;
    }
    return n;
}

void btl_shm_xfers_drop(struct btl_shm_peer *p)
{
    while (!rt_list_empty(&p->xfers)) {
        struct shm_xfer *x = rt_container(p->xfers.next, struct shm_xfer, link);
        rt_list_del(&x->link);
        free(x);
    }
}

static int xfer_start(struct shm_rmem *r, size_t off, void *local, size_t len, bool get,
                      struct btl_op *op)
{
    struct btl_shm_peer *p = r->peer;

    if (p->lost)
        return -RT_EPEER;
    if (off > r->key.len || len > r->key.len - off)
        return -RT_EINVAL;
    bool alone = get || r->key.window; /* the target does not take part */
    if (alone && !p->cma)
        return -RT_ENOTSUP;
    /* Processes of other jobs may share the cores by now. */
    bool stream = ((struct btl_shm *)p->base.btl)->choose && !rt_idle_oversubscribed();
    bool cma = alone || (p->cma && (r->base.shared || !stream));
    if (!cma) {
        int err = btl_shm_tx_open(p, true);
        if (err < 0)
            return err;
    }
    struct shm_xfer *x = malloc(sizeof *x);
    if (!x)
        return -RT_ENOMEM;
    *x = (struct shm_xfer){
        .op = op, .key = r->key, .off = off, .local = local, .len = len, .get = get, .cma = cma
    };
    bool first = rt_list_empty(&p->xfers);
    rt_list_append(&p->xfers, &x->link);
    btl_shm_need_work(p);
    if (first && !x->cma)
        stream_step(p, x); /* the target can begin at once; progress() calls done() */
    return 0;
}

int btl_shm_put(struct btl_rmem *r, size_t off, struct btl_mem *m, const void *src, size_t len,
                struct btl_op *op)
{
    (void)m;
    return xfer_start((struct shm_rmem *)r, off, (void *)(uintptr_t)src, len, false, op);
}

int btl_shm_get(struct btl_rmem *r, size_t off, struct btl_mem *m, void *dst, size_t len,
                struct btl_op *op)
{
    (void)m;
    return xfer_start((struct shm_rmem *)r, off, dst, len, true, op);
}
