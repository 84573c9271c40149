/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens librdmacm and fills the table of its functions; which address leads to a device.  One
 * thread at a time.  The library stays open for the rest of the process. */
#include "runtime/ib/cm.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"

#include <dlfcn.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <string.h>

const struct rt_cm_api *rt_cm;

static struct {
    struct rt_cm_api table;
    char why_not[256];
} lib;

#define NAME(field, version, result, params) \
    { "rdma_" #field, "RDMACM_" #version, offsetof(struct rt_cm_api, field) },
static const struct {
    const char *symbol, *version;
    size_t off;
} names[] = { CM_FUNCTIONS(NAME) };

int rt_cm_load(void)
{
    if (rt_cm)
        return 0;
    if (lib.why_not[0])
        return -RT_ENOENT;
    void *so = dlopen("librdmacm.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!so) {
        const char *text = dlerror();
        snprintf(lib.why_not, sizeof lib.why_not, "%s", text ? text : "no librdmacm.so.1");
        return -RT_ENOENT;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *f = dlvsym(so, names[i].symbol, names[i].version);
        memcpy((char *)&lib.table + names[i].off, &f, sizeof f);
        if (!f) {
            snprintf(lib.why_not, sizeof lib.why_not, "librdmacm.so.1 is too old: it has no %s",
                     names[i].symbol);
            dlclose(so);
            return -RT_ENOENT;
        }
    }
    rt_cm = &lib.table;
    return 0;
}

const char *rt_cm_why_not(void) { return lib.why_not; }

/* Whether rdma_cm finds this port when it is given the address. */
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
    /* IPv4 first, as GIDs are chosen. */
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
