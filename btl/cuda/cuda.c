/* SPDX-License-Identifier: BSD-3-Clause */
/* GPU memory between processes: opening and closing, peers, attachments, copies.  No call here
 * initialises the driver.  On a host without a GPU the transport does not open; with a GPU,
 * MPI_Init opens a socket.  progress() reads three words; the copies and their completion belong to
 * rt_gpu_progress().  The engine serialises calls on the instance; no locks. */
#include "btl/cuda/cuda.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/mem/deaths.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Estimates to rank transports, measured between two H200 over NVLink.  Only their order against
 * other transports counts, so any GPU link may have them. */
#define LATENCY_NS 3000
#define MB_PER_S 380000
/* Calls of progress() for each one that tests an export for freed memory, which takes 0.1 us. */
#define LOOK_EVERY 64u
/* close() waits this long for copies for which no process has waited. */
#define CLOSE_NS 5000000000u

struct cuda_op { /* a copy in progress */
    struct rt_gpu_op op;
    struct btl_op *up; /* borrowed until done() */
    struct btl_cuda *b;
    struct cuda_op *next;
};

struct cuda_rmem {
    struct btl_rmem base;
    struct btl_cuda *b;
    struct rt_gpu *g; /* device whose copies use the memory */
    bool near;        /* the local buffer lies on that device */
    size_t len;
    struct cuda_import *import; /* NULL: memory of this process */
    uint64_t ended;             /* btl_cuda_imports_ended() when it was unpinned */
    bool unpinned;              /* holds no reference to the import */
    struct cuda_rmem *next;
};

/* ---- devices in use ---- */

static void share_with(const struct cuda_table *t)
{
    uint32_t n = rt_load_acquire(&t->nuuids);

    for (struct rt_gpu *g = rt_gpu_next(NULL); g; g = rt_gpu_next(g))
        for (uint32_t i = 0; i < n && i < CUDA_UUIDS; i++)
            if (!memcmp(t->uuid[i], rt_gpu_info(g)->uuid, sizeof t->uuid[i]))
                rt_gpu_set_shared(g);
}

/* The table of local rank i, or of peer i of another job; NULL: none. */
static struct cuda_table *other_table(const struct btl_cuda *b, int i)
{
    if (i >= rt_node.size)
        return b->peers[i] ? b->peers[i]->table : NULL;
    return i != rt_node.rank && rt_node_reserve(cuda_table_of(i), CUDA_HEAD_NBYTES) == 0
               ? cuda_table_of(i)
               : NULL;
}

/* Finds other processes that use a device of this process: the polling kernel would block their
 * kernels. */
static void devices_look(const struct btl_cuda *b)
{
    for (int i = 0; i < b->npeers; i++) {
        const struct cuda_table *t = other_table(b, i);
        if (t)
            share_with(t);
    }
}

/* Contexts have been made or destroyed: publishes the devices that this process uses. */
static void devices_tell(struct btl_cuda *b)
{
    uint32_t n = 0;

    b->era = rt_gpu_era;
    for (struct rt_gpu *g = rt_gpu_next(NULL); g && n < CUDA_UUIDS; g = rt_gpu_next(g))
        memcpy(b->table->uuid[n++], rt_gpu_info(g)->uuid, sizeof b->table->uuid[0]);
    rt_store_release(&b->table->nuuids, n);
    for (int i = 0; n && i < b->npeers; i++) {
        struct cuda_table *t = other_table(b, i);
        if (t)
            rt_fetch_add(&t->devices, 1u);
    }
    rt_fence(); /* publish before reading: of two processes that begin at once, at least one sees
                 * the other */
    devices_look(b);
}

/* ---- opening and closing ---- */

static void wait_for_copies(struct btl_cuda *b)
{
    uint64_t end = rt_now_ns() + CLOSE_NS;

    while (b->nops && rt_now_ns() < end)
        rt_gpu_progress();
    if (b->nops)
        log_warn(BTL, "%u copies between GPUs have not ended; their memory is not freed", b->nops);
}

#define LIST_FREE(type, list) \
    for (type *x = (list), *next; x; x = next) { \
        next = x->next; \
        free(x); \
    }

static void cuda_close(struct btl *btl)
{
    struct btl_cuda *b = (struct btl_cuda *)btl;

    wait_for_copies(b);
    rt_fetch_and(&rt_node.bells[rt_node.rank].regions, ~BTL_REGION_CUDA);
    if (b->table)
        rt_store_release(&b->table->nuuids, 0u);
    btl_cuda_socket_close(b);
    for (int i = 0; i < b->npeers; i++)
        if (b->peers[i]) {
            btl_cuda_imports_close(b, b->peers[i]);
            free(b->peers[i]);
        }
    btl_cuda_exports_close(b);
    free(b->peers);
    LIST_FREE(struct cuda_op, b->free_ops);
    LIST_FREE(struct cuda_rmem, b->free_rmems);
    if (!b->nops)
        free(b);
}

static int cuda_open(const struct btl_up *up, struct btl **out, int max)
{
    int err = -RT_ENOMEM;
    (void)up; /* no messages arrive here, and another transport finds lost peers */

    if (max < 1 || !rt_gpu_watch || !rt_node.base)
        return 0;
    struct btl_cuda *b = calloc(1, sizeof *b);
    if (!b)
        return err;
    b->peers = calloc((size_t)rt_node.size, sizeof *b->peers);
    if (!b->peers)
        goto err_close;
    b->npeers = rt_node.size;
    err = rt_node_reserve(cuda_table_of(rt_node.rank), CUDA_HEAD_NBYTES);
    if (err < 0)
        goto err_close;
    b->table = cuda_table_of(rt_node.rank);
    err = btl_cuda_socket_open(b);
    if (err < 0)
        goto err_close;
    /* after the socket's name */
    rt_fetch_or(&rt_node.bells[rt_node.rank].regions, BTL_REGION_CUDA);
    b->base.ops = &btl_cuda_ops;
    b->base.caps = (struct btl_caps){
        .flags = BTL_PUT | BTL_GET | BTL_PTR,
        .rma_mem = RT_MEM_DEVICE_BITS,
        .key_len = sizeof(struct cuda_key),
        .latency_ns = LATENCY_NS,
        .mb_per_s = MB_PER_S,
        .put_mb_per_s = MB_PER_S,
        .get_mb_per_s = MB_PER_S,
    };
    out[0] = &b->base;
    return 1;
err_close:
    cuda_close(&b->base);
    return err;
}

static int cuda_address(struct btl *b, void *buf, size_t len)
{
    (void)b;
    (void)buf;
    (void)len;
    return 0; /* peers need only the node segment */
}

bool btl_cuda_gone(const struct btl_cuda_peer *p)
{
    return p->other ? rt_others_gone_now(p->other) : rt_node_gone_now(p->number);
}

int btl_cuda_table_reserve(struct btl_cuda_peer *p)
{
    int err = p->table_there ? 0 : rt_node_reserve(p->table, CUDA_HEAD_NBYTES);

    p->table_there = err == 0;
    return err;
}

/* A number that no process of another job has. */
static int free_number(struct btl_cuda *b)
{
    int i = rt_node.size;

    while (i < b->npeers && b->peers[i])
        i++;
    if (i < b->npeers)
        return i;
    int n = 2 * b->npeers;
    struct btl_cuda_peer **more = realloc(b->peers, (size_t)n * sizeof *more);
    if (!more)
        return -RT_ENOMEM;
    memset(more + b->npeers, 0, (size_t)(n - b->npeers) * sizeof *more);
    b->peers = more;
    b->npeers = n;
    return i;
}

static int peer_make(struct btl_cuda *b, struct rt_proc proc, int number, struct rt_other *o,
                     struct btl_cuda_peer **out)
{
    struct btl_cuda_peer *p = number < 0 ? NULL : calloc(1, sizeof *p);

    if (!p)
        return -RT_ENOMEM;
    *p = (struct btl_cuda_peer){ .base = { .btl = &b->base, .proc = proc },
                                 .number = number,
                                 .self = number == rt_node.rank,
                                 .other = o,
                                 .segment = o ? o->base : rt_node.base,
                                 .table = o ? cuda_table_of_other(o) : cuda_table_of(number),
                                 .bell = o ? o->bell : &rt_node.bells[number],
                                 .table_there = o != NULL,
                                 .sock = -1 };
    b->peers[number] = p;
    *out = p;
    return 0;
}

/* A process of another job. */
static int guest_get(struct btl_cuda *b, struct rt_proc proc, struct btl_cuda_peer **out)
{
    struct rt_other *o = rt_others_find(proc);

    if (!o || o->ended || !(rt_load_acquire(&o->bell->regions) & BTL_REGION_CUDA))
        return -RT_EUNREACH;
    for (int i = rt_node.size; i < b->npeers; i++)
        if (b->peers[i] && b->peers[i]->other == o) {
            *out = b->peers[i];
            return 0;
        }
    int err = peer_make(b, proc, free_number(b), o, out);
    if (err < 0)
        return err;
    /* It has this process on its list, or sees this process's devices when it adds it. */
    rt_fetch_add(&(*out)->table->devices, 1u);
    rt_fence(); /* on this process's list before reading */
    share_with((*out)->table);
    return 0;
}

static int cuda_add_peer(struct btl *btl, const struct rt_proc *proc, const void *addr, size_t len,
                         struct btl_peer **out)
{
    struct btl_cuda *b = (struct btl_cuda *)btl;
    struct btl_cuda_peer *p;
    int err = 0;
    (void)addr;
    (void)len;

    if (proc->ns != 0) {
        err = guest_get(b, *proc, &p);
    } else {
        int local = proc->rank < (uint32_t)rt_boot.size ? rt_node_local(proc->rank) : -1;
        p = local >= 0 ? b->peers[local] : NULL;
        err = local < 0 ? -RT_EUNREACH : p ? 0 : peer_make(b, *proc, local, NULL, &p);
    }
    if (err == 0)
        *out = &p->base;
    return err;
}

void btl_cuda_peer_free(struct btl_cuda *b, struct btl_cuda_peer *p)
{
    if (p->table || p->nleft)
        return;
    b->peers[p->number] = NULL;
    free(p->imports);
    free(p);
}

static void cuda_del_peer(struct btl_peer *peer)
{
    struct btl_cuda_peer *p = (struct btl_cuda_peer *)peer;
    struct btl_cuda *b = (struct btl_cuda *)peer->btl;

    if (p->sock >= 0)
        close(p->sock);
    p->sock = -1;
    peer->up = NULL;
    if (p->other) {
        btl_cuda_exports_forget(b, p, false);
        p->other = NULL;
        p->table = NULL;
    }
    btl_cuda_imports_drop(b, p);
}

/* ---- attachments ---- */

/* Makes memory of this process accessible to the device of another of its buffers. */
static int reach_own(struct rt_gpu *g, const struct cuda_key *k)
{
    struct rt_gpu_ptr at;
    int err = rt_gpu_query((const void *)(uintptr_t)k->addr, k->len, &at);

    return err < 0 ? err : rt_gpu_reach(g, &at);
}

static int cuda_attach(struct btl_peer *peer, const void *key, const struct rt_gpu_ptr *near,
                       struct btl_rmem **out)
{
    struct btl_cuda_peer *p = (struct btl_cuda_peer *)peer;
    struct btl_cuda *b = (struct btl_cuda *)peer->btl;
    struct cuda_import *import = NULL;
    struct cuda_key k;

    if (!near)
        return -RT_ENOTSUP; /* not for host buffers */
    struct rt_gpu *g = near->g;
    memcpy(&k, key, sizeof k);
    struct cuda_rmem *r = b->free_rmems ? b->free_rmems : calloc(1, sizeof *r);
    if (!r)
        return -RT_ENOMEM;
    b->free_rmems = r->next;
    int err = p->self ? reach_own(g, &k) : btl_cuda_import_get(b, p, &k, g, &import);
    if (err < 0) {
        r->next = b->free_rmems;
        b->free_rmems = r;
        return err;
    }
    *r = (struct cuda_rmem){
        .b = b, .g = g, .near = rt_gpu_lies_on(g, near), .len = k.len, .import = import
    };
    r->base.ptr = import ? import->base + k.off : (char *)(uintptr_t)k.addr;
    *out = &r->base;
    return 0;
}

static void cuda_detach(struct btl_rmem *rmem)
{
    struct cuda_rmem *r = (struct cuda_rmem *)rmem;

    if (r->import && !r->unpinned)
        btl_cuda_import_put(r->import);
    r->next = r->b->free_rmems;
    r->b->free_rmems = r;
}

static void cuda_unpin(struct btl_rmem *rmem)
{
    struct cuda_rmem *r = (struct cuda_rmem *)rmem;

    r->unpinned = true;
    if (!r->import)
        return;
    r->ended = btl_cuda_imports_ended(r->b);
    btl_cuda_import_put(r->import);
}

/* Never repins memory of this process: each use tests it again. */
static bool cuda_repin(struct btl_rmem *rmem)
{
    struct cuda_rmem *r = (struct cuda_rmem *)rmem;

    if (!r->import || !btl_cuda_import_again(r->b, r->import, r->ended))
        return false;
    r->unpinned = false;
    return true;
}

/* ---- copies ---- */

static void copied(struct rt_gpu_op *op, int err)
{
    struct cuda_op *o = (struct cuda_op *)op;
    struct btl_op *up = o->up;

    o->next = o->b->free_ops;
    o->b->free_ops = o;
    o->b->nops--;
    up->done(up, err); /* may start another copy */
}

static int op_take(struct cuda_rmem *r, size_t off, size_t len, struct btl_op *up,
                   struct rt_gpu_op **out)
{
    struct btl_cuda *b = r->b;

    if (off > r->len || len > r->len - off)
        return -RT_EINVAL;
    struct cuda_op *o = b->free_ops ? b->free_ops : calloc(1, sizeof *o);
    if (!o)
        return -RT_ENOMEM;
    b->free_ops = o->next;
    o->op.done = copied;
    o->up = up;
    o->b = b;
    b->nops++;
    *out = &o->op;
    return 0;
}

static int cuda_put(struct btl_rmem *rmem, size_t off, struct btl_mem *m, const void *src,
                    size_t len, struct btl_op *op)
{
    struct cuda_rmem *r = (struct cuda_rmem *)rmem;
    struct rt_gpu_op *o;
    int err = op_take(r, off, len, op, &o);
    (void)m;

    if (err == 0)
        rt_gpu_copy(r->g, (char *)rmem->ptr + off, src, len, o);
    return err;
}

static int cuda_get(struct btl_rmem *rmem, size_t off, struct btl_mem *m, void *dst, size_t len,
                    struct btl_op *op)
{
    struct cuda_rmem *r = (struct cuda_rmem *)rmem;
    struct rt_gpu_op *o;
    int err = op_take(r, off, len, op, &o);
    (void)m;

    if (err < 0)
        return err;
    if (r->near)
        rt_gpu_copy_near(r->g, dst, (char *)rmem->ptr + off, len, o);
    else
        rt_gpu_copy(r->g, dst, (char *)rmem->ptr + off, len, o);
    return 0;
}

static int cuda_progress(struct btl *btl)
{
    struct btl_cuda *b = (struct btl_cuda *)btl;

    if (rt_unlikely(b->era != rt_gpu_era)) {
        devices_tell(b);
        btl_cuda_imports_look(b, true);
    }
    uint32_t n = rt_load_acquire(&b->table->fds_sent);
    if (rt_unlikely(n != b->fds_seen)) {
        b->fds_seen = n;
        btl_cuda_fds_drain(b);
    }
    n = rt_load_acquire(&b->table->devices);
    if (rt_unlikely(n != b->devices_seen)) {
        b->devices_seen = n;
        devices_look(b);
    }
    n = rt_load_acquire(&b->table->freed);
    if (rt_unlikely(n != b->freed_seen)) {
        b->freed_seen = n;
        btl_cuda_imports_look(b, false);
    }
    if (b->exports && ++b->nlooks % LOOK_EVERY == 0)
        btl_cuda_exports_look(b, 1);
    return 0;
}

const struct btl_ops btl_cuda_ops = {
    .name = "cuda",
    .help = "GPU memory between the processes of a host",
    .open = cuda_open,
    .close = cuda_close,
    .address = cuda_address,
    .add_peer = cuda_add_peer,
    .del_peer = cuda_del_peer,
    .mem_reg = btl_cuda_mem_reg,
    .mem_dereg = btl_cuda_mem_dereg,
    .mem_key = btl_cuda_mem_key,
    .mem_offer = btl_cuda_mem_offer,
    .attach = cuda_attach,
    .detach = cuda_detach,
    .unpin = cuda_unpin,
    .repin = cuda_repin,
    .put = cuda_put,
    .get = cuda_get,
    .progress = cuda_progress,
};
