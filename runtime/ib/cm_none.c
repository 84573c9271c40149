/* SPDX-License-Identifier: BSD-3-Clause */
/* Replaces cm.c in a library built without the headers of rdma_cm. */
#include "runtime/base/err.h"
#include "runtime/ib/cm.h"

const struct rt_cm_api *rt_cm;

int rt_cm_load(void) { return -RT_ENOENT; }

const char *rt_cm_why_not(void) { return "this library was built without rdma/rdma_cma.h"; }

int rt_cm_address(const char *dev, uint8_t port, union ibv_gid *gid, char *ifname)
{
    (void)dev;
    (void)port;
    (void)gid;
    (void)ifname;
    return -RT_ENOENT;
}
