/* SPDX-License-Identifier: BSD-3-Clause */
/* RDMA devices for btl/verbs: the ports that this process uses, the addresses of peers, and
 * registered memory.  The transport makes the queue pairs.
 *
 * Thread rule: the caller serialises all calls (the domain's lock). */
#ifndef RT_IB_IB_H
#define RT_IB_IB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "runtime/base/list.h"
#include "runtime/ib/driver.h"

struct rt_gpu_ptr; /* runtime/gpu/gpu.h */
struct rt_ib_held; /* private to runtime/ib */

/* A port in use.  Constant from rt_ib_open() to rt_ib_close().  Rails of one device share context
 * and protection domain. */
struct rt_ib_rail {
    int index;       /* 0 .. n - 1; copies keep it */
    int device;      /* rails of one device have the same number, 0 .. RT_IB_DEVICES - 1 */
    const char *dev; /* "mlx5_0" */
    uint8_t port;
    struct ibv_context *ctx;
    struct ibv_pd *pd;
    struct ibv_device_attr attr;
    bool roce;     /* Ethernet: addressed by GID; otherwise InfiniBand, by LID */
    bool iwarp;    /* sets `roce`, too; connects by rdma_cm only, the GID is an IP address */
    bool need_grh; /* always, or (InfiniBand) if the fabric requires it */
    uint16_t lid;
    uint8_t gid_index;
    union ibv_gid gid;
    uint64_t subnet;   /* InfiniBand: the GID's prefix (network order); 0 for RoCE */
    enum ibv_mtu mtu;  /* active, limited by cfg.ib_mtu */
    uint32_t max_msg;  /* longest RDMA operation, bytes */
    uint32_t mb_per_s; /* of the link */
    int numa;          /* NUMA node of the device, -1 unknown */
    bool near;         /* this process may run on cores near the device */
    char ifname[16];   /* RoCE: its network interface */
};
#define RT_IB_DEVICES 8

/* Whether the host has RDMA devices: one access(2). */
bool rt_ib_possible(void);
/* Opens the devices and fills in the ports to use, best first, according to the settings ib_...
 * Returns their number; 0: none (the reason is logged at level debug); -RT_EINVAL: a setting is
 * wrong, logged; -RT_ENOMEM.  Reference-counted: each call that returns n > 0 needs an
 * rt_ib_close(). */
int rt_ib_open(struct rt_ib_rail *out, int max);
void rt_ib_close(void);

/* ---- addressing ---- */

/* Address of a rail, for peers: 24 bytes, sent as they are. */
struct rt_ib_addr {
    uint8_t gid[16];
    uint16_t lid;            /* little endian */
    uint8_t roce, mtu, rate; /* roce 2: iWARP; rate: units of 2.5 Gbit/s, at most 255 */
    uint8_t grh;             /* packets to the rail need the global header */
    uint8_t unused[2];
};
void rt_ib_addr(const struct rt_ib_rail *r, struct rt_ib_addr *out);
/* Fills the address vector for RC (ibv_modify_qp to RTR) and UD, with the given service level and
 * traffic class. */
void rt_ib_ah_attr(const struct rt_ib_rail *r, const struct rt_ib_addr *to, uint8_t sl,
                   uint8_t traffic_class, struct ibv_ah_attr *out);
/* The path MTU for both ends. */
enum ibv_mtu rt_ib_mtu(const struct rt_ib_rail *r, const struct rt_ib_addr *to);

/* ---- registered memory: reg.c ---- */

/* A registration that covers the requested memory, for local and remote read and write.  Remote
 * addresses are the owner's virtual addresses.  `writable` false: the process or the device may not
 * write the memory; local and remote reads only. */
struct rt_ib_mr {
    uint32_t lkey, rkey;
    bool writable;
    bool gpu; /* data written to it need rt_ib_flush() */
};
/* Cached if the system reports unmapped memory (runtime/mem/regcache.h), otherwise registered each
 * time.  at: what runtime/gpu has just returned for device memory; the whole allocation is
 * registered.  -RT_ENOTSUP: device memory, or this kind of device memory, cannot be registered on
 * this host, logged once; stage the data.  -RT_ENOMEM: the limit of locked memory, logged with
 * advice.  -RT_EINVAL: no such memory. */
int rt_ib_reg(const struct rt_ib_rail *r, void *base, size_t len, const struct rt_gpu_ptr *at,
              struct rt_ib_mr **out);
/* Host memory for a window: not cached, because it stays registered as long as its window; remote
 * writes are visible in the order in which they complete.  -RT_EPERM: it may only be read. */
int rt_ib_reg_window(const struct rt_ib_rail *r, void *base, size_t len, struct rt_ib_mr **out);
void rt_ib_dereg(struct rt_ib_mr *mr); /* releases one of these */

/* Set of RT_MEM_BIT: kinds of device memory that rt_ib_reg() may be able to register; the first
 * attempt shows it. */
uint32_t rt_ib_gpu_mem(void);
/* For messages: how this device registers device memory, or why it cannot; NULL before the first
 * attempt. */
const char *rt_ib_gpu_how(const struct rt_ib_rail *r);

/* ---- order of data that arrive in device memory: flush.c ---- */

/* When the host sees the completion of a write into device memory (its own get, or a peer's put
 * announced by a message), the GPU may not see the data yet.  A flush orders them.  Embedded by the
 * caller, borrowed until done(). */
struct rt_ib_flush {
    void (*done)(struct rt_ib_flush *f, int err); /* 0, or -RT_EPEER: the device is in error */
    struct rt_list link; /* the following fields are private to runtime/ib */
    const struct rt_ib_held *held;
};
/* Makes all data completed so far in `mr` (mr->gpu) visible to its GPU.  0: done; -RT_EAGAIN: in
 * progress, rt_ib_flush_progress() will call done(); another error: impossible, logged. */
int rt_ib_flush(const struct rt_ib_rail *r, struct rt_ib_mr *mr, struct rt_ib_flush *f);
/* Whether a flush may be necessary: not for host memory, nor if the platform keeps the order. */
bool rt_ib_flush_needed(const struct rt_ib_mr *mr);
void rt_ib_flush_cancel(struct rt_ib_flush *f); /* in progress; done() is not called */
int rt_ib_flush_progress(void);                 /* number completed */
extern int rt_ib_nflushes;                      /* in progress */

#endif
