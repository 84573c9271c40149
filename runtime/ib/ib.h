/* SPDX-License-Identifier: BSD-3-Clause */
/* RDMA devices, as btl/verbs sees them: which ports of which devices this process uses, how a peer
 * is addressed from there, and registered memory.  How queue pairs use them is the transport's.
 *
 * Thread rule: all calls are serialised by the caller (the domain's lock). */
#ifndef RT_IB_IB_H
#define RT_IB_IB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "runtime/base/list.h"
#include "runtime/ib/api.h"

struct rt_gpu_ptr; /* runtime/gpu/gpu.h */
struct rt_ib_held; /* private to runtime/ib */

/* One port in use.  Constant from rt_ib_open() to rt_ib_close(); two rails of one device share
 * context and protection domain. */
struct rt_ib_rail {
    int index;               /* 0 .. n - 1; copies keep it */
    int device;              /* rails of one device have the same number, 0 .. RT_IB_DEVICES - 1 */
    const char *dev;         /* "mlx5_0" */
    uint8_t port;
    struct ibv_context *ctx;
    struct ibv_pd *pd;
    struct ibv_device_attr attr;
    bool roce;               /* Ethernet: addressed by GID; else InfiniBand, by LID */
    bool iwarp;              /* `roce` too; connects by rdma_cm only, the GID is an IP address */
    bool need_grh;           /* always, or (InfiniBand) where the fabric demands it */
    uint16_t lid;
    uint8_t gid_index;
    union ibv_gid gid;
    uint64_t subnet;         /* InfiniBand: the GID's prefix (network order); 0 for RoCE */
    uint8_t prefix_len;      /* RoCE: length of the GID's subnet in bits of the GID, 0 unknown */
    enum ibv_mtu mtu;        /* active, limited by cfg.ib_mtu */
    uint32_t max_msg;        /* longest RDMA operation, bytes */
    uint32_t mb_per_s;       /* of the link */
    int numa;                /* NUMA node of the device, -1 unknown */
    bool near;               /* this process may run on cores near the device */
    char ifname[16];         /* RoCE: its network interface */
};
#define RT_IB_DEVICES 8

/* Whether the machine has RDMA devices at all: one access(2). */
bool rt_ib_possible(void);
/* Opens the devices and fills in the ports to use, best first, by the settings ib_...; 0: none
 * (why, at level debug); -RT_EINVAL: a setting is wrong, logged.  Counted: each success with n > 0
 * needs an rt_ib_close(). */
int rt_ib_open(struct rt_ib_rail *out, int max);
void rt_ib_close(void);

/* ---- addressing ---- */

/* Where a rail can be reached: what a peer must know, 24 bytes, to be sent as it is. */
struct rt_ib_addr {
    uint8_t gid[16];
    uint16_t lid; /* little endian */
    uint8_t roce, mtu, prefix_len, rate; /* roce 2: iWARP; rate: in 2.5 Gbit/s, at most 255 */
    uint8_t grh, unused;                 /* grh: packets to it need the global header */
};
void rt_ib_addr(const struct rt_ib_rail *r, struct rt_ib_addr *out);
/* 0: this rail does not lead there; 1: perhaps, over a router; 2: same subnet.  Tolerates any
 * bytes. */
int rt_ib_reach(const struct rt_ib_rail *r, const struct rt_ib_addr *to);
/* Address vector for RC (ibv_modify_qp to RTR) and UD; service level, traffic class and hop limit
 * as given. */
void rt_ib_ah_attr(const struct rt_ib_rail *r, const struct rt_ib_addr *to, uint8_t sl,
                   uint8_t traffic_class, struct ibv_ah_attr *out);
/* The path MTU that both ends take. */
enum ibv_mtu rt_ib_mtu(const struct rt_ib_rail *r, const struct rt_ib_addr *to);

/* ---- registered memory: reg.c ---- */

/* A registration that covers the memory asked for, with local and remote read, write and (host
 * memory) atomics; remote addresses are the owner's virtual addresses.  `writable` false: memory
 * that the process itself may not write, or the device not: local and remote reads only. */
struct rt_ib_mr {
    uint32_t lkey, rkey;
    bool writable;
    bool gpu; /* rt_ib_flush() after what is written to it */
};
/* Cached where the system tells of unmapped memory (runtime/mem/regcache.h), else registered anew.
 * at: of device memory, asked just now; the whole allocation is registered.  -RT_ENOTSUP: device
 * memory cannot be registered here, or not this kind; said once, stage it.  -RT_ENOMEM: the limit
 * of locked memory, logged with what to do.  -RT_EINVAL: no such memory. */
int rt_ib_reg(const struct rt_ib_rail *r, void *base, size_t len, const struct rt_gpu_ptr *at,
              struct rt_ib_mr **out);
/* Host memory whose bytes are believed without a completion (a ring that is polled in memory):
 * written in order, whatever cfg.ib_relaxed says.  Not cached. */
int rt_ib_reg_strict(const struct rt_ib_rail *r, void *base, size_t len, struct rt_ib_mr **out);
void rt_ib_dereg(struct rt_ib_mr *mr); /* gives back one rt_ib_reg() or rt_ib_reg_strict() */

/* RT_MEM_BIT set of device memory that may be good for rt_ib_reg(); which is known at the first
 * try. */
uint32_t rt_ib_gpu_mem(void);
/* For people: how device memory is registered with this device, or why it cannot be; NULL before
 * the first try. */
const char *rt_ib_gpu_how(const struct rt_ib_rail *r);
const char *rt_ib_cache_why_not(void); /* why host registrations are not kept; NULL: they are */

/* ---- order of what arrives in device memory: flush.c ---- */

/* When the host sees the completion of a write into device memory (of its own get, or a peer's put
 * that a message announces), the GPU need not see the data yet.  Embedded by the caller, lent until
 * done(). */
struct rt_ib_flush {
    void (*done)(struct rt_ib_flush *f, int err); /* 0, or -RT_EPEER: the device is in error */
    struct rt_list link;                          /* the rest is runtime/ib's */
    const struct rt_ib_held *held;
};
/* Makes all that has been completed so far in `mr` (mr->gpu) visible to its GPU.  0: it is;
 * -RT_EAGAIN: under way, done() is called from rt_ib_flush_progress(); another error: it cannot be
 * done, logged. */
int rt_ib_flush(const struct rt_ib_rail *r, struct rt_ib_mr *mr, struct rt_ib_flush *f);
/* Whether that is ever more than a look: not of host memory, nor where the platform keeps order.
 */
bool rt_ib_flush_needed(const struct rt_ib_mr *mr);
void rt_ib_flush_cancel(struct rt_ib_flush *f); /* under way; done() is not called */
int rt_ib_flush_progress(void); /* number completed */
extern int rt_ib_nflushes;      /* under way */

#endif
