/* SPDX-License-Identifier: BSD-3-Clause */
/* The transport contract: all that the message engine asks of shared memory, NVLink, verbs or TCP.
 *
 * Life: open() makes instances.  address() returns the data that peers need, which runtime/boot
 * publishes.  add_peer() prepares a connection, which may be set up later, and returns -RT_EUNREACH
 * if this transport cannot reach the process.  send(), put() and get() move data.  progress() and
 * poll() make all upward calls.  At the end: del_peer(), close().  The engine serialises the calls
 * on an instance, so transports hold no locks.  The only code for "would block" is -RT_EAGAIN; such
 * a call has had no effect. */
#ifndef BTL_BTL_H
#define BTL_BTL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "runtime/boot/boot.h"
#include "runtime/base/memkind.h"

struct btl;
struct btl_peer;

/* Message header, sent with up to caps.eager_max bytes.  Only mpi/p2p gives the fields a meaning.
 * 12 bytes, so that the header and the transport's own word are 16 bytes and a 64-byte cache line
 * has room for 48 bytes of payload. */
struct btl_hdr {
    uint32_t ctx; /* message kind and communicator context */
    int32_t tag;
    uint32_t src; /* sender's rank in the communicator */
};

#define BTL_PUT 1u /* put() works */
#define BTL_GET 2u /* get() works */
#define BTL_PTR 4u /* attach() gives a plain pointer */
/* Put alone and put combined with get differ: the engine measures which is faster. */
#define BTL_CHOOSE 16u
/* Put and get share one wire: a message uses the one with the higher rate. */
#define BTL_WHOLE 32u
#define BTL_EXPECT 64u  /* expect() works */
#define BTL_WINDOW 128u /* window_reg(), put() and get() work */

struct btl_caps { /* constant after open(); btl_check() compares them with the pointers */
    uint32_t flags;
    uint32_t send_mem, rma_mem; /* sets of RT_MEM_BIT that send() and put(), get() accept
                                 * directly */
    size_t eager_max;           /* largest payload of a send(); 0 without send() */
    /* Bytes of a long message that the engine may send as messages behind its announcement, without
     * waiting for the receiver; 0: none.  For transports that carry a put like messages. */
    size_t early_max;
    size_t key_len;                /* bytes written by mem_key(), at most BTL_KEY_MAX */
    uint32_t latency_ns, mb_per_s; /* estimates, to rank transports and to choose the length of
                                    * pieces */
    uint32_t put_mb_per_s, get_mb_per_s; /* put and get share a message in this proportion if used
                                          * at the same time; 0: not offered */
};
#define BTL_KEY_MAX 32
#define BTL_HEAD_MAX 64u

/* Completion of a put or get.  Embedded by the caller and borrowed until done(); err: 0 or
 * -RT_E... */
struct btl_op {
    void (*done)(struct btl_op *op, int err);
};

/* Attached memory of a peer.  ptr: not NULL if plain loads and stores or a kernel may use the
 * memory.  The engine sets the two flags: `shared`, for a transport with BTL_CHOOSE, if the peer
 * gets the rest of the message at the same time; `awaited`, for a transport with expect(), if the
 * peer has called expect(). */
struct btl_rmem {
    void *ptr;
    bool shared, awaited;
};

struct btl_mem;    /* registered local memory, private to the transport */
struct rt_gpu_ptr; /* runtime/gpu/gpu.h */

/* A connection to one process.  First member of btl_shm_peer and so on. */
struct btl_peer {
    struct btl *btl;
    struct rt_proc proc;
    void *up; /* owned by the engine, which sets it after add_peer(); NULL for a peer that connected
               * first */
};

/* Upward calls, made only inside progress() and poll().  In an upward call the engine may call
 * send(), put() and get() of any peer, but not progress() or poll(). */
struct btl_up {
    /* A message has arrived.  data is valid only during the call: match it or copy it at once. */
    void (*recv)(void *arg, struct btl_peer *from, const struct btl_hdr *h, const void *data,
                 size_t len);
    /* The peer is lost.  Called once; every op of the peer has been or will be completed with an
     * error.  err 0: it has ended normally, with no op in progress. */
    void (*down)(void *arg, struct btl_peer *peer, int err);
    void *arg;
    int lane; /* 0: the first instance.  Others, of transports with `lanes`, have their own channels
               * to the same number in other processes */
};

struct btl_ops {
    const char *name, *help;
    /* Reaches other hosts: opened only if the job has other hosts, or if cfg.btl names no other
     * transport that carries messages between processes. */
    bool remote;
    bool other_jobs; /* reaches processes of other jobs (rt_proc.ns > 0), by their cards
                      * (runtime/boot/jobs.h) */
    /* Makes up to max instances from the hardware of this host.  Returns their number, 0 if there
     * is no hardware, or an error. */
    int (*open)(const struct btl_up *up, struct btl **out, int max);
    void (*close)(struct btl *b); /* after leave(), does not wait for other processes */
    /* Optional: how many instances a process may open, one a lane; the same in all processes of the
     * host.  NULL: one. */
    int (*lanes)(void);
    /* Writes the address that add_peer() of peers needs.  Returns its length, 0 if none is
     * needed. */
    int (*address)(struct btl *b, void *buf, size_t len);
    /* Connects.  addr is NULL if address() returned 0, and for a process that connected first.
     * -RT_EUNREACH: this transport cannot reach the process.  For a process that connected first,
     * or that was added before, *out is the peer that recv() has named. */
    int (*add_peer)(struct btl *b, const struct rt_proc *proc, const void *addr, size_t len,
                    struct btl_peer **out);
    void (*del_peer)(struct btl_peer *p);
    /* Optional: false if a message to this peer would have to set up a connection first: there is
     * none, and none is being set up.  NULL: never necessary. */
    bool (*connected)(const struct btl_peer *p);
    /* Eager message with copy semantics: buf is free on return.  len <= caps.eager_max.  Messages
     * to one peer arrive in the order of the calls.  -RT_EAGAIN: no room; -RT_EPEER: the peer is
     * lost.  NULL: remote memory access only (btl_has_messages). */
    int (*send)(struct btl_peer *p, const struct btl_hdr *h, const void *buf, size_t len);
    /* Optional: the same with `head`, of at most BTL_HEAD_MAX bytes, in front of the payload.  A
     * caller whose data lie apart from its head need not copy them. */
    int (*send_head)(struct btl_peer *p, const struct btl_hdr *h, const void *head, size_t head_len,
                     const void *buf, size_t len);
    /* Optional, both or none: short messages to one peer that are sent between hold() and release()
     * leave together.  The pairs may nest; progress() may not be called in between. */
    void (*hold)(struct btl *b);
    void (*release)(struct btl *b);
    /* Registers memory.  at: what runtime/gpu has just returned for device memory; NULL: host
     * memory.  -RT_ENOTSUP: the transport does not access this kind of memory. */
    int (*mem_reg)(struct btl *b, void *base, size_t len, const struct rt_gpu_ptr *at,
                   struct btl_mem **out);
    /* Optional, BTL_WINDOW: registers host memory for puts and gets of peers at any time, without
     * help of this process.  When a put to it is done, its data are visible to every process that
     * learns of it in any way, not only to receivers of later messages of the same peer.
     * -RT_EPERM: this process may only read the memory. */
    int (*window_reg)(struct btl *b, void *base, size_t len, struct btl_mem **out);
    void (*mem_dereg)(struct btl_mem *m);
    /* Writes caps.key_len bytes with which a peer can attach the memory. */
    int (*mem_key)(const struct btl_mem *m, void *key);
    /* Optional, BTL_EXPECT: op->done(op, 0) when this peer's puts have filled all of m, each byte
     * once.  This saves a message: puts to such memory (`awaited`) are done when src is free.
     * done() is never called if the peer is lost or m is deregistered before. */
    void (*expect)(struct btl_mem *m, struct btl_peer *from, struct btl_op *op);
    /* Optional: gives this peer once what it needs besides the key (a descriptor).  Call it each
     * time before sending the key.  An error: this peer cannot attach the memory, so the key is
     * useless. */
    int (*mem_offer)(struct btl_peer *p, struct btl_mem *m);
    /* Attaches the peer's memory for repeated use.  near: what runtime/gpu returns for the local
     * memory that put() and get() will use, whose device copies; NULL: host memory.  -RT_EUNREACH:
     * the devices cannot access each other; -RT_ENOTSUP: not possible for this memory, or not now.
     * In both cases the message must take another path. */
    int (*attach)(struct btl_peer *p, const void *key, const struct rt_gpu_ptr *near,
                  struct btl_rmem **out);
    void (*detach)(struct btl_rmem *r);
    /* Optional, both or none, for memory that is used repeatedly.  The first call unpins an
     * attachment: the memory may be unmapped until the second call repins it.  True: r is attached
     * as before; false: the memory must be attached again.  Both are cheap.  detach() also takes
     * unpinned memory. */
    void (*unpin)(struct btl_rmem *r);
    bool (*repin)(struct btl_rmem *r);
    /* One-sided copy to or from attached memory at byte offset off.  m: the local registration of
     * src or dst, or NULL; a transport with messages needs it for device memory.  done() means that
     * the data are visible at the destination before any later send() to that peer arrives, unless
     * the memory is `awaited`.  -RT_EINVAL: the range is outside the attached memory; -RT_EPEER. */
    int (*put)(struct btl_rmem *r, size_t off, struct btl_mem *m, const void *src, size_t len,
               struct btl_op *op);
    int (*get)(struct btl_rmem *r, size_t off, struct btl_mem *m, void *dst, size_t len,
               struct btl_op *op);
    /* Advances all operations; returns the number of events handled; never blocks.  If runtime/gpu
     * makes the copies (btl/cuda), rt_gpu_progress() advances them and calls their done(); the
     * engine calls it besides progress(). */
    int (*progress)(struct btl *b);
    /* Optional: the same for messages from one peer only, for a blocking receive from a known
     * source. */
    int (*poll)(struct btl_peer *p);
    /* Optional, for transports whose events do not ring this process's doorbell.  Before a sleep it
     * returns a descriptor that becomes readable when progress() has work, and arms the
     * notification.  The engine calls progress() once more before it sleeps.  *limit_us is lowered
     * to the time until the transport's next timer; if the transport sets an earlier timer later,
     * it rings this process's doorbell.  -RT_EAGAIN: there is work now; -RT_ENOTSUP: no descriptor
     * is needed now. */
    int (*sleep_fd)(struct btl *b, int *limit_us);
    /* Optional, for transports that keep sent data in this process: the process may be about to
     * end.  0: all sent data have left the process, and the peers know that its end is normal;
     * -RT_EAGAIN: call progress(), then leave() again.  The connections may still be used
     * afterwards. */
    int (*leave)(struct btl *b);
};

struct btl {
    const struct btl_ops *ops;
    struct btl_caps caps;
}; /* first member of btl_shm, btl_cuda, ... */

/* False: the transport only moves memory; another transport carries messages. */
static inline bool btl_has_messages(const struct btl *b) { return b->ops->send != NULL; }

/* 0 if caps and function pointers agree, otherwise -RT_EINTERN, logged with the difference. */
int btl_check(const struct btl *b);
/* Offsets in a rank's own pair region, rt_node_pair(r, r), at which transports publish data for
 * peers. */
#define BTL_NODE_SHM 0u
#define BTL_NODE_CUDA (64u << 10)
/* Bits of rt_bell.regions. */
#define BTL_REGION_CUDA 1u

#endif
