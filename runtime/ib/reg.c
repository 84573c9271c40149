/* SPDX-License-Identifier: BSD-3-Clause */
/* Registered memory.  All calls are serialised by the caller. */
#include "runtime/ib/rail.h"
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define ACCESS_READ ((unsigned)IBV_ACCESS_REMOTE_READ)
#define ACCESS_FULL \
    (ACCESS_READ | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)

struct held {
    struct rt_ib_mr mr; /* first: what the transport sees */
    struct ibv_mr *verbs;
};

/* Payload may arrive in any order where the device offers that: it is believed only after the
 * completion, or a flag that is sent after it. */
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

static int reg_host(const struct rt_ib_dev *d, void *base, size_t len, struct held *h)
{
    h->verbs = reg_as(d->pd, base, len, with_ordering(ACCESS_FULL));
    h->mr.writable = h->verbs != NULL;
    if (!h->verbs && (errno == EFAULT || errno == EACCES || errno == EPERM))
        h->verbs = reg_as(d->pd, base, len, with_ordering(ACCESS_READ)); /* constants */
    return h->verbs ? 0 : -errno;
}

int rt_ib_reg(const struct rt_ib_rail *r, void *base, size_t len, const struct rt_gpu_ptr *at,
              struct rt_ib_mr **out)
{
    const struct rt_ib_dev *d = rt_ib_device(r->device);
    if (at)
        return -RT_ENOTSUP;
    struct held *h = calloc(1, sizeof *h);
    if (!h)
        return -RT_ENOMEM;
    int err = reg_host(d, base, len, h);
    if (err) {
        log_info(IB, "%s cannot register %p+%zu: %s", d->name, base, len, strerror(-err));
        free(h);
        return err == -ENOMEM ? -RT_ENOMEM : -RT_EINVAL;
    }
    h->mr.lkey = h->verbs->lkey;
    h->mr.rkey = h->verbs->rkey;
    *out = &h->mr;
    return 0;
}

void rt_ib_dereg(struct rt_ib_mr *mr)
{
    struct held *h = (struct held *)mr;
    if (rt_ib->dereg_mr(h->verbs))
        log_warn(IB, "ibv_dereg_mr: %m");
    free(h);
}

void rt_ib_reg_close(void) { }
