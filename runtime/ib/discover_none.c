/* SPDX-License-Identifier: BSD-3-Clause */
/* Replaces discover.c in a build without the headers of libibverbs. */
#include "runtime/ib/discover.h"

static const char reason[] = "this Weft was built without the headers of libibverbs (Debian, "
                             "Ubuntu: libibverbs-dev; Fedora: rdma-core-devel): build it again";

int rt_ib_scan(struct rt_ib_seen *out, int max, const char **why)
{
    (void)out, (void)max;
    *why = reason;
    return 0;
}

const char *rt_ib_scan_gpu(const char *dev, const struct rt_gpu_ptr *at, bool *works)
{
    (void)dev, (void)at;
    *works = false;
    return reason;
}

const char *rt_ib_scan_cache(void) { return reason; }
