/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens librdmacm and fills the table of its functions; finds the address of a device.  One thread
 * at a time.  The library stays open until the process ends. */
#include "runtime/ib/cm.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <string.h>

const struct rt_cm_api *rt_cm;

static struct rt_cm_api table;

#define NAME(field, version, result, params) \
    { "rdma_" #field, "RDMACM_" #version, offsetof(struct rt_cm_api, field), true },
static const struct rt_ib_symbol symbols[] = { CM_FUNCTIONS(NAME) };

static struct rt_ib_lib lib = {
    .so = "librdmacm.so.1",
    .symbols = symbols,
    .n = sizeof symbols / sizeof *symbols,
    .table = &table,
};

int rt_cm_load(void)
{
    int err = rt_cm ? 0 : rt_ib_lib_open(&lib);
    if (!err)
        rt_cm = &table;
    return err;
}

const char *rt_cm_why_not(void) { return lib.why_not; }

/* Whether rdma_cm resolves this address to this port. */
static bool leads_to(struct rdma_event_channel *ch, struct sockaddr *at, const char *dev,
                     uint8_t port)
{
    struct rdma_cm_id *id;
    if (rt_cm->create_id(ch, &id, NULL, RDMA_PS_TCP))
        return false;
    bool found = rt_cm->bind_addr(id, at) == 0 && id->verbs &&
                 !strcmp(rt_ib->get_device_name(id->verbs->device), dev) && id->port_num == port;
    rt_cm->destroy_id(id);
    return found;
}

static bool as_gid(const struct sockaddr *at, union ibv_gid *gid)
{
    static const union ibv_gid mapped = { .raw = { [10] = 0xff, [11] = 0xff } };
    *gid = mapped;
    if (at->sa_family == AF_INET)
        memcpy(gid->raw + 12, &((const struct sockaddr_in *)(const void *)at)->sin_addr, 4);
    else if (at->sa_family == AF_INET6)
        memcpy(gid->raw, &((const struct sockaddr_in6 *)(const void *)at)->sin6_addr, 16);
    return at->sa_family == AF_INET || at->sa_family == AF_INET6;
}

int rt_cm_address(const char *dev, uint8_t port, union ibv_gid *gid, char *ifname)
{
    struct ifaddrs *all;
    struct rdma_event_channel *ch = rt_cm->create_event_channel();
    int err = -RT_ENOENT;
    if (!ch)
        return -RT_ESYS;
    if (getifaddrs(&all) < 0) {
        rt_cm->destroy_event_channel(ch);
        return -RT_ESYS;
    }
    /* IPv4 first, as in the choice of GIDs. */
    for (int family = AF_INET; err && family; family = family == AF_INET ? AF_INET6 : 0)
        for (const struct ifaddrs *a = all; a && err; a = a->ifa_next) {
            if (!(a->ifa_flags & IFF_UP) || (a->ifa_flags & IFF_LOOPBACK) || !a->ifa_addr ||
                a->ifa_addr->sa_family != family || !leads_to(ch, a->ifa_addr, dev, port))
                continue;
            as_gid(a->ifa_addr, gid);
            snprintf(ifname, IF_NAMESIZE, "%s", a->ifa_name);
            err = 0;
        }
    freeifaddrs(all);
    rt_cm->destroy_event_channel(ch);
    return err;
}
