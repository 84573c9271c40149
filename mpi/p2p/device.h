/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to mpi: messages whose buffer is device memory (design: top of device.c).  Under the
 * domain's lock. */
#ifndef WM_P2P_DEVICE_H
#define WM_P2P_DEVICE_H

#include "mpi/p2p/engine.h"
#include "mpi/p2p/resolve.h"
#include "mpi/p2p/scattered.h"

/* The extra state of a request with a device buffer; from a free list. */
struct wm_dev {
    struct rt_gpu_ptr at; /* location of the buffer */
    struct rt_gpu_op op;  /* the copy of an eager message, or between buffers of this process */
    struct rt_gpu_stage *stage; /* holds an eager message until it is copied */
    struct wm_preq *q;
    bool scattered; /* data in several allocations: works only as pieces of packed host memory */
    bool exported;  /* send: the key in the RTS names the buffer */
    bool has_key;   /* receive: `key` is set */
    char key[BTL_KEY_MAX]; /* receive: key of the sender's buffer, kept for the case that the sender
                              cannot write */
    int fail;              /* an eager message was too long */
    struct wm_dev *next;   /* link in the list of spare ones */
};

/* Gives q the struct wm_dev of its buffer, which is not host memory, and marks q.  0, -RT_ENOMEM,
 * or the error of mem. */
int wm_dev_open(struct wm_preq *q, const struct wm_mem *mem);
/* The same for a new receive, unless its buffer is host memory; mem: as wm_msg.mem.  0 or
 * -RT_E... */
static inline int wm_dev_resolve(struct wm_preq *q, const struct wm_mem *mem)
{
    struct wm_mem found;
    if (rt_likely(!mem))
        mem = wm_resolve_now(q->buf, q->count, q->layout, q->nbytes, &found);
    return rt_unlikely(mem && mem->kind != WM_MEMORY_HOST) ? wm_dev_open(q, mem) : 0;
}
void wm_dev_close(struct wm_preq *q);

/* A nonblocking call has started r.  A program may start many long messages of device memory before
 * it waits for them; without progress in between, none of them would have begun.  So some calls
 * make progress.  Not each call: a pass over everything takes a quarter of the time of starting a
 * message.  Shorter messages are faster in large batches.  Measured on 2 x H200 in windows, one way
 * and both ways, in GB/s, without and with progress: 64 KiB 95 and 155, 70 and 116; 512 KiB 261 and
 * 456, 258 and 474; 1 MiB 307 and 565, 310 and 594.  On another machine a wrong limit costs at most
 * such a difference. */
#define WM_DEV_ADVANCE 4
#define WM_DEV_ADVANCE_NBYTES (512 << 10)
static inline void wm_dev_advance(struct wm_domain *d, const struct rt_req *r)
{
    if (rt_unlikely(r->flags & RT_REQ_DEVICE) &&
        ((const struct wm_preq *)r)->nbytes >= WM_DEV_ADVANCE_NBYTES &&
        ++d->ndev_started % WM_DEV_ADVANCE == 0)
        wm_progress(d);
}

/* Starts a rendezvous of a new send request.  0 or -RT_E... */
int wm_dev_send(struct wm_preq *q);
/* A rendezvous with a device buffer at either end has found its receive. */
void wm_dev_recv(struct wm_preq *q, const struct wm_rts *rts);
/* The sender cannot write into the receiver's buffer: takes another way. */
void wm_dev_put_refused(struct wm_preq *q);
/* Waits for the end of a message with a device buffer, as wm_domain_wait() does. */
void wm_dev_wait(struct wm_preq *q);
/* Copies an eager message to the device; completes the request when the data are there. */
void wm_dev_deliver(struct wm_preq *q, const struct wm_key *k, const void *data, size_t len);
/* A sub-message of pieces, not a message of a user. */
static inline bool wm_is_piece(const struct wm_preq *q) { return q->coll && q->tag < 0; }

/* Packs or unpacks device memory; complete on return.  The first for a buffer on the GPU `g`, the
 * second for any buffer that is not host memory.  `packed` is memory of the same device or any host
 * memory; host memory when the data are scattered. 0 or -RT_E... */
int wm_dev_move_now(struct rt_gpu *g, const struct wm_packing *p);
int wm_dev_move(const struct wm_mem *mem, const struct wm_packing *p);
/* The same for a user's buffer in any memory. */
static inline int wm_move(const struct wm_mem *mem, const struct wm_packing *p)
{
    if (rt_unlikely(mem->kind != WM_MEMORY_HOST))
        return wm_dev_move(mem, p);
    if (p->pack)
        rt_layout_pack(p->l, p->count, p->user, p->pos, p->packed, p->len);
    else
        rt_layout_unpack(p->l, p->count, p->user, p->pos, p->packed, p->len);
    return 0;
}
/* The same for a buffer that has not been resolved. */
static inline int wm_move_now(const struct wm_packing *p)
{
    struct wm_mem mem;
    int err = wm_resolve(p->user, p->count, p->l, p->len, &mem);
    return err < 0 ? err : wm_move(&mem, p);
}

static inline int wm_pack_now(const struct wm_mem *mem, const struct rt_layout *l, int64_t count,
                              const void *buf, int64_t pos, void *out, int64_t nbytes)
{
    return wm_move(mem, &(struct wm_packing){ l, count, (char *)(uintptr_t)buf, pos, (char *)out,
                                              nbytes, true });
}
static inline int wm_unpack_now(const struct wm_mem *mem, const struct rt_layout *l, int64_t count,
                                void *buf, int64_t pos, const void *in, int64_t nbytes)
{
    return wm_move(mem, &(struct wm_packing){ l, count, (char *)buf, pos, (char *)(uintptr_t)in,
                                              nbytes, false });
}

/* MPI_Finalize has left this message of device memory unfinished and has released its device. */
static inline bool wm_dev_gone(const struct wm_preq *q)
{
    return q->dev && !q->dev->at.g && !q->dev->scattered;
}

/* Waits for copies and releases what is kept for devices: before rt_gpu_fini(). */
void wm_dev_rest(struct wm_domain *d);
void wm_dev_fini(struct wm_domain *d);

#endif
