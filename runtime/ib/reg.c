/* SPDX-License-Identifier: BSD-3-Clause */
/* Registered memory: host memory as pages; device memory by a dma-buf or, if the kernel module
 * nvidia-peermem is loaded, by address.  Registrations are cached where possible
 * (runtime/mem/regcache.h).  The caller serialises all calls. */
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/gpu/gpu.h"
#include "runtime/ib/rail.h"
#include "runtime/mem/regcache.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define ACCESS_READ ((unsigned)IBV_ACCESS_REMOTE_READ)
#define ACCESS_WRITE \
    (ACCESS_READ | (unsigned)IBV_ACCESS_LOCAL_WRITE | (unsigned)IBV_ACCESS_REMOTE_WRITE)

static struct {
    struct rt_regcache *cache; /* made at the first registration */
    bool reported_locked, reported_gpu;
    /* Per device: methods of registering device memory that will never work, and the result for
     * messages. */
    struct {
        bool no_dmabuf, no_peermem;
        char how[160];
    } gpu[RT_IB_DEVICES];
} reg;

/* Payload may arrive in any order if the device supports this: it is used only after the
 * completion, or after a message that was sent later. */
static unsigned with_ordering(unsigned access)
{
    return cfg.ib_relaxed && rt_ib->reg_mr_iova2 ? access | IBV_ACCESS_RELAXED_ORDERING : access;
}

static struct ibv_mr *reg_as(struct ibv_pd *pd, void *base, size_t len, unsigned access)
{
    if (access & IBV_ACCESS_OPTIONAL_RANGE)
        return rt_ib->reg_mr_iova2(pd, base, len, (uintptr_t)base, access);
    return rt_ib->reg_mr(pd, base, len, (int)access);
}

/* ---- device memory ---- */

static struct ibv_mr *by_dmabuf(const struct rt_ib_dev *d, uintptr_t start, size_t len,
                                const struct rt_gpu_ptr *at)
{
    int fd;
    size_t off;
    struct rt_gpu_rdma facts;
    if (!rt_ib->reg_dmabuf_mr || !rt_gpu_rdma_facts(at->ordinal, &facts) || !facts.dmabuf) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    if (rt_gpu_dmabuf(at, start, len, &fd, &off)) {
        errno = ENXIO; /* refused by the GPU's driver, not by the adapter */
        return NULL;
    }
    struct ibv_mr *mr = rt_ib->reg_dmabuf_mr(d->pd, off, len, start, fd,
                                             (int)with_ordering(ACCESS_WRITE));
    int err = errno;
    close(fd); /* the registration keeps the memory */
    errno = err;
    return mr;
}

static struct ibv_mr *by_address(const struct rt_ib_dev *d, uintptr_t start, size_t len,
                                 const struct rt_gpu_ptr *at)
{
    rt_gpu_sync_copies(at);
    return reg_as(d->pd, (void *)start, len, with_ordering(ACCESS_WRITE));
}

/* A method that the device or kernel does not support is not tried again.  Memory that one method
 * refuses may still work with the other. */
static bool for_good(int err)
{
    return err == EOPNOTSUPP || err == ENOSYS || err == EPROTONOSUPPORT;
}

static bool has_peermem(void)
{
    return !access("/sys/module/nvidia_peermem", F_OK) || !access("/sys/module/nv_peer_mem", F_OK);
}

uint32_t rt_ib_gpu_mem(void)
{
    return rt_gpu_watch && (rt_ib->reg_dmabuf_mr || has_peermem())
               ? RT_MEM_DEVICE_BITS & ~RT_MEM_BIT(RT_MEM_MANAGED)
               : 0;
}

static int reg_gpu(struct rt_ib_dev *d, int device, uintptr_t start, size_t len,
                   const struct rt_gpu_ptr *at, struct ibv_mr **out)
{
    int dmabuf_err = EOPNOTSUPP, address_err = EOPNOTSUPP;
    struct ibv_mr *mr = NULL;
    if (at->kind == RT_MEM_MANAGED || !at->single)
        return -RT_ENOTSUP; /* memory that moves between host and device; or several allocations */
    if (reg.gpu[device].no_dmabuf && reg.gpu[device].no_peermem)
        return -RT_ENOTSUP;
    if (!reg.gpu[device].no_dmabuf && !(mr = by_dmabuf(d, start, len, at))) {
        dmabuf_err = errno;
        reg.gpu[device].no_dmabuf = for_good(dmabuf_err);
    }
    if (mr)
        snprintf(reg.gpu[device].how, sizeof reg.gpu[device].how, "dma-buf");
    else if (!reg.gpu[device].no_peermem && !(mr = by_address(d, start, len, at)))
        address_err = errno;
    else if (mr)
        snprintf(reg.gpu[device].how, sizeof reg.gpu[device].how, "nvidia-peermem");
    if (mr) {
        *out = mr;
        return 0;
    }
    /* Without the module the kernel knows no such address. */
    if (!has_peermem())
        reg.gpu[device].no_peermem = true;
    snprintf(reg.gpu[device].how, sizeof reg.gpu[device].how,
             "no: by dma-buf %s, by nvidia-peermem %s; staged through host memory",
             dmabuf_err == ENXIO ? "the CUDA driver refuses" : strerror(dmabuf_err),
             reg.gpu[device].no_peermem ? "the module is not loaded" : strerror(address_err));
    if (!reg.reported_gpu)
        log_info(IB, "%s cannot register device memory: %s", d->name, reg.gpu[device].how);
    reg.reported_gpu = true;
    return -RT_ENOTSUP;
}

const char *rt_ib_gpu_how(const struct rt_ib_rail *r)
{
    const char *how = reg.gpu[r->device].how;
    return *how ? how : NULL;
}

/* ---- host memory ---- */

/* Users' buffers need no registration (mpi/p2p/rndv.c), at the cost of two copies. */
static void log_locked_limit(const struct rt_ib_dev *d, size_t len)
{
    const char *then = "; such messages are copied through small buffers";
    struct rlimit limit = { 0, 0 };
    if (reg.reported_locked)
        return;
    reg.reported_locked = true;
    getrlimit(RLIMIT_MEMLOCK, &limit);
    if (limit.rlim_cur == RLIM_INFINITY)
        log_warn(IB, "%s cannot register %zu bytes: no memory for its tables%s", d->name, len,
                 then);
    else
        log_warn(IB,
                 "%s cannot register %zu bytes: this process may lock %zu KiB of memory%s; "
                 "raise it (ulimit -l unlimited, /etc/security/limits.conf, LimitMEMLOCK=infinity "
                 "of the service that starts jobs)",
                 d->name, len, (size_t)limit.rlim_cur >> 10, then);
}

static bool may_not_write(int err) { return err == EFAULT || err == EACCES || err == EPERM; }

/* 0: registered; 1: registered for reading only, which may be temporary: do not cache it. */
static int reg_host(const struct rt_ib_dev *d, void *base, size_t len, struct ibv_mr **out)
{
    struct ibv_mr *mr = reg_as(d->pd, base, len, with_ordering(ACCESS_WRITE));
    int err = errno, answer = 0;
    if (!mr && may_not_write(err)) {
        mr = reg_as(d->pd, base, len, with_ordering(ACCESS_READ));
        err = errno;
        answer = 1;
    }
    if (mr) {
        *out = mr;
        return answer;
    }
    /* Some drivers return ENOMEM for unmapped addresses, too. */
    bool mapped = msync(base, len, MS_ASYNC) == 0 || errno != ENOMEM;
    if (mapped && (err == ENOMEM || err == EAGAIN))
        return -RT_ENOMEM;
    log_info(IB, "%s cannot register %p+%zu: %s", d->name, base, len, strerror(err));
    return -RT_EINVAL;
}

/* ---- callbacks of the cache ---- */

static int make(int device, uintptr_t start, size_t len, const struct rt_gpu_ptr *at,
                struct rt_ib_held **out)
{
    struct rt_ib_dev *d = rt_ib_device(device);
    struct rt_ib_held *h = calloc(1, sizeof *h);
    if (!h)
        return -RT_ENOMEM;
    int got = at ? reg_gpu(d, device, start, len, at, &h->verbs)
                 : reg_host(d, (void *)start, len, &h->verbs);
    if (got < 0) {
        free(h);
        return got;
    }
    h->mr = (struct rt_ib_mr){
        .lkey = h->verbs->lkey, .rkey = h->verbs->rkey, .writable = got == 0, .gpu = at != NULL
    };
    h->ordinal = at ? at->ordinal : -1;
    h->g = at ? at->g : NULL;
    h->era = rt_gpu_era;
    h->device = device;
    h->start = start;
    *out = h;
    return got;
}

static void unmake(struct rt_ib_held *h)
{
    int err = rt_ib->dereg_mr(h->verbs);
    if (err)
        log_warn(IB, "ibv_dereg_mr of %#lx: %s", (unsigned long)h->start, strerror(err));
    free(h);
}

static int cache_reg(void *arg, int slot, uintptr_t start, size_t len, const struct rt_gpu_ptr *at,
                     void **out)
{
    struct rt_ib_held *h = NULL;
    (void)arg;
    int got = make(slot, start, len, at, &h);
    if (got >= 0)
        *out = h;
    return got;
}

static void cache_dereg(void *arg, int slot, void *held)
{
    (void)arg, (void)slot;
    unmake(held);
}

static const struct rt_regcache_ops cache_ops = { cache_reg, cache_dereg };

/* ---- for the transport ---- */

int rt_ib_reg(const struct rt_ib_rail *r, void *base, size_t len, const struct rt_gpu_ptr *at,
              struct rt_ib_mr **out)
{
    struct rt_reg *got;
    int err = 0;
    if (!reg.cache)
        err = rt_regcache_create(&cache_ops, NULL, (size_t)cfg.ib_cache, &reg.cache);
    if (err)
        return err;
    err = rt_regcache_get(reg.cache, base, len, at, r->device, &got);
    if (err == -RT_ENOMEM && !at)
        log_locked_limit(rt_ib_device(r->device), len);
    if (err)
        return err;
    struct rt_ib_held *h = got->slot[r->device];
    h->reg = got;
    *out = &h->mr;
    return 0;
}

int rt_ib_reg_window(const struct rt_ib_rail *r, void *base, size_t len, struct rt_ib_mr **out)
{
    struct rt_ib_dev *d = rt_ib_device(r->device);
    struct rt_ib_held *h = calloc(1, sizeof *h);
    if (!h)
        return -RT_ENOMEM;
    h->verbs = reg_as(d->pd, base, len, ACCESS_WRITE);
    if (!h->verbs) {
        int err = errno;
        free(h);
        log_info(IB, "%s cannot register %p+%zu for a window: %s", d->name, base, len,
                 strerror(err));
        return may_not_write(err) ? -RT_EPERM : err == ENOMEM ? -RT_ENOMEM : -RT_EINVAL;
    }
    h->mr = (struct rt_ib_mr){ .lkey = h->verbs->lkey, .rkey = h->verbs->rkey, .writable = true };
    h->ordinal = -1;
    h->device = r->device;
    h->start = (uintptr_t)base;
    *out = &h->mr;
    return 0;
}

void rt_ib_dereg(struct rt_ib_mr *mr)
{
    struct rt_ib_held *h = (struct rt_ib_held *)mr;
    if (h->reg)
        rt_regcache_put(reg.cache, h->reg);
    else
        unmake(h);
}

void rt_ib_reg_close(void)
{
    rt_regcache_destroy(reg.cache);
    memset(&reg, 0, sizeof reg);
}
