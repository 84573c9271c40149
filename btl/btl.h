/* SPDX-License-Identifier: BSD-3-Clause */
/* The transport contract: all that the message engine asks of shared memory, NVLink, verbs or TCP.
 *
 * Life: open() makes instances; address() yields what peers need, published through runtime/boot;
 * add_peer() connects lazily and answers -RT_EUNREACH when this transport does not lead there;
 * send() and put()/get() move data; progress() and poll() make all upward calls; del_peer(),
 * close().  Calls on one instance are serialised by the engine: transports hold no locks.  "Would
 * block" is one code everywhere: -RT_EAGAIN, and then nothing has happened. */
#ifndef BTL_BTL_H
#define BTL_BTL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "runtime/boot/boot.h"
#include "runtime/base/memkind.h"

struct btl;
struct btl_peer;

/* Message header, carried beside up to caps.eager_max bytes.  Only mpi/p2p gives the fields a
 * meaning; 12 bytes, so that with the transport's own word it is 16 and a 64-byte cache line
 * carries 48 bytes of payload. */
struct btl_hdr {
    uint32_t ctx; /* message kind and communicator context */
    int32_t tag;
    uint32_t src; /* sender's rank in the communicator */
};

#define BTL_PUT 1u      /* put() works */
#define BTL_GET 2u      /* get() works */
#define BTL_PTR 4u      /* attach() gives a plain pointer */
#define BTL_AMO 8u      /* amo() works, on memory of peers that have it too */
#define BTL_CHOOSE 16u  /* put alone and put beside get differ: the engine measures which wins */
#define BTL_WHOLE 32u   /* put and get share one wire: a message goes by that of the higher rate */
#define BTL_EXPECT 64u  /* expect() works */

struct btl_caps { /* constant after open(); btl_check() compares them with the pointers */
    uint32_t flags;
    uint32_t send_mem, rma_mem;    /* RT_MEM_BIT set that send() / put(),get() accept directly */
    size_t eager_max;              /* most payload one send() carries; 0 without send() */
    size_t key_len;                /* bytes written by mem_key(), at most BTL_KEY_MAX */
    uint32_t latency_ns, mb_per_s; /* estimates: rank transports, cut pipelines */
    uint32_t put_mb_per_s, get_mb_per_s; /* put and get at the same time share a message in this
                                            proportion; 0 = not offered */
};
#define BTL_KEY_MAX 32

/* Completion of a put or get.  Embedded by the caller, lent until done(); err 0 or -RT_E... */
struct btl_op {
    void (*done)(struct btl_op *op, int err);
};

/* Attached peer memory; ptr set when plain loads and stores or a kernel may use it.  `shared` is
 * the engine's word to a transport with BTL_CHOOSE: the peer gets the rest of the message
 * meanwhile.  `awaited` is its word to one with expect(): the peer has called that. */
struct btl_rmem {
    void *ptr;
    bool shared, awaited;
};

/* One atomic operation on 8 bytes of a peer's memory. */
enum btl_amo_code { BTL_AMO_ADD, BTL_AMO_CAS };
struct btl_amo {
    enum btl_amo_code code;
    uint64_t operand, compare; /* added; stored if `compare` stands there */
    uint64_t *before;          /* what stood there; lent until done() */
};

struct btl_mem;    /* registered local memory, private to the transport */
struct rt_gpu_ptr; /* runtime/gpu/gpu.h */

/* A connection to one process.  First member of btl_shm_peer and so on. */
struct btl_peer {
    struct btl *btl;
    struct rt_proc proc;
    void *up; /* the engine's: set by it after add_peer(), NULL for a peer that spoke first */
};

/* Calls upwards, made only from inside progress() and poll().  From inside them the engine may call
 * send(), put() and get() of any peer, but not progress() or poll(). */
struct btl_up {
    /* A message has arrived.  data is valid during the call only: copy or match at once. */
    void (*recv)(void *arg, struct btl_peer *from, const struct btl_hdr *h, const void *data,
                 size_t len);
    /* The peer is lost.  Called once; every op of the peer has been or will be completed with an
     * error. */
    void (*down)(void *arg, struct btl_peer *peer, int err);
    void *arg;
};

struct btl_ops {
    const char *name, *help;
    /* Leads to other hosts: opened only when the job has some, or when cfg.btl names nothing else
     * that carries messages between processes. */
    bool remote;
    /* Makes up to max instances of what is on this machine; returns how many, 0 = nothing here, or
     * an error. */
    int (*open)(const struct btl_up *up, struct btl **out, int max);
    void (*close)(struct btl *b);
    /* Writes the blob that peers' add_peer() needs; returns its length, 0 when none is needed. */
    int (*address)(struct btl *b, void *buf, size_t len);
    /* Connects; addr NULL when address() said 0, and for a process that spoke first.
     * -RT_EUNREACH: not this way.  Of a process that spoke first, or was added before, it gives the
     * peer that recv() has named. */
    int (*add_peer)(struct btl *b, const struct rt_proc *proc, const void *addr, size_t len,
                    struct btl_peer **out);
    void (*del_peer)(struct btl_peer *p);
    /* Optional: false when a message to this peer would have to connect first, because none has
     * passed yet and none is on its way.  NULL: it never has to. */
    bool (*connected)(const struct btl_peer *p);
    /* Eager message with copy semantics: buf is free on return.  len <= caps.eager_max.  Messages
     * to one peer arrive in the order of the calls.  NULL: remote memory only (btl_has_messages).
     */
    int (*send)(struct btl_peer *p, const struct btl_hdr *h, const void *buf, size_t len);
    /* at: what runtime/gpu says of device memory, asked just now; NULL: host memory. */
    int (*mem_reg)(struct btl *b, void *base, size_t len, const struct rt_gpu_ptr *at,
                   struct btl_mem **out);
    void (*mem_dereg)(struct btl_mem *m);
    /* Writes caps.key_len bytes that let the peer attach. */
    int (*mem_key)(const struct btl_mem *m, void *key);
    /* Optional, BTL_EXPECT: op->done(op, 0) when this peer's puts have filled all of m, each byte
     * once.  Saves the trip that tells so: puts to such memory (`awaited`) are done when src is
     * free.  It never comes when the peer is lost or m is deregistered before. */
    void (*expect)(struct btl_mem *m, struct btl_peer *from, struct btl_op *op);
    /* Optional: gives this peer what it needs beside the key (a descriptor), once; called before
     * the key is sent to it, each time.  An error: this peer cannot attach, the key is of no use.
     */
    int (*mem_offer)(struct btl_peer *p, struct btl_mem *m);
    /* Opens the peer's memory once, then reuse.  near: the same of the local memory that put()
     * and get() will use, whose device copies; NULL: host memory.  -RT_EUNREACH: the devices have
     * no access to each other; -RT_ENOTSUP: not this memory, or not now.  Then the message has to
     * go another way. */
    int (*attach)(struct btl_peer *p, const void *key, const struct rt_gpu_ptr *near,
                  struct btl_rmem **out);
    void (*detach)(struct btl_rmem *r);
    /* Optional, both or none, for who uses the same memory again and again.  park: the memory may
     * be unmapped meanwhile.  retake: r is attached as it was; false: attach() has to look anew.
     * Both are cheap; detach() ends what is parked, too. */
    void (*park)(struct btl_rmem *r);
    bool (*retake)(struct btl_rmem *r);
    /* One-sided copy to / from attached memory at byte offset off.  m: this side's registration of
     * src or dst, where there is one; device memory of a transport with messages needs it.  done()
     * means that the data is visible at its destination before any later send() to that peer
     * arrives, unless the memory is `awaited`. */
    int (*put)(struct btl_rmem *r, size_t off, struct btl_mem *m, const void *src, size_t len,
               struct btl_op *op);
    int (*get)(struct btl_rmem *r, size_t off, struct btl_mem *m, void *dst, size_t len,
               struct btl_op *op);
    /* Optional, BTL_AMO: an atomic operation at an offset that is a multiple of 8, of host memory
     * that is so, too.  Atomic among all amo() of this transport on that memory, not with loads and
     * stores of the CPU, which must keep off meanwhile.  -RT_ENOTSUP: not this memory. */
    int (*amo)(struct btl_rmem *r, size_t off, const struct btl_amo *a, struct btl_op *op);
    /* Moves everything that can move; returns the number of events handled; never blocks.  Where
     * the copies are runtime/gpu's (btl/cuda), they and their done() belong to rt_gpu_progress(),
     * which the engine calls beside this. */
    int (*progress)(struct btl *b);
    /* Optional: the same for messages from one peer only, for a blocking receive from a known
     * source. */
    int (*poll)(struct btl_peer *p);
    /* Optional, for transports to whose events no process of this host rings: before a sleep it
     * gives a descriptor that will be readable when progress() has work, and has asked for that to
     * be told.  The engine calls progress() once more before it sleeps.  It lowers *limit_us to the
     * time until progress() has to look at its timers; when it sets an earlier one, it rings this
     * process's bell.  -RT_EAGAIN: it has work now. */
    int (*sleep_fd)(struct btl *b, int *limit_us);
    /* Optional, for transports that keep what was sent in this process: the process may be about to
     * end.  0: all that was sent has left it, and the peers know that its end is no accident; else
     * -RT_EAGAIN: progress(), then ask again.  The connections may still be used afterwards. */
    int (*leave)(struct btl *b);
};

struct btl {
    const struct btl_ops *ops;
    struct btl_caps caps;
}; /* first member of btl_shm, btl_cuda, ... */

/* False: the transport only moves memory, beside another that carries messages. */
static inline bool btl_has_messages(const struct btl *b) { return b->ops->send != NULL; }

extern const struct btl_ops *const btl_all[]; /* NULL-terminated, best first */
const struct btl_ops *btl_find(const char *name);
/* 0 when caps and function pointers agree, else -RT_EINTERN with the disagreement logged. */
int btl_check(const struct btl *b);
/* Length of a pair region that rt_node_open() must be given, before open(). */
size_t btl_node_pair_nbytes(void);
/* Where in a rank's own pair region, rt_node_pair(r, r), the transports publish what peers read. */
#define BTL_NODE_SHM 0u
#define BTL_NODE_CUDA (64u << 10)

#endif
