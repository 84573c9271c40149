/* SPDX-License-Identifier: BSD-3-Clause */
/* Chooses the GID of a port.  A RoCE port has a GID for each address and VLAN of its interface, in
 * two versions.  Packets of version 2 can be routed.  Only a GID whose address belongs to an
 * interface of this network namespace gets answers. */
#include "runtime/base/cfg.h"
#include "runtime/ib/dev.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TABLE_MAX 4096 /* entries, for all ports of a device */

static bool is_v4(const union ibv_gid *gid)
{
    static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
    return !memcmp(gid->raw, mapped, sizeof mapped);
}

static bool is_zero(const union ibv_gid *gid)
{
    static const union ibv_gid zero;
    return !memcmp(gid, &zero, sizeof zero);
}

int rt_ib_gid_score(const union ibv_gid *gid, bool v2, enum rt_ib_if state)
{
    if (is_zero(gid) || state == RT_IB_IF_DOWN)
        return -1;
    int score = state == RT_IB_IF_UP ? 1000 : state == RT_IB_IF_UNKNOWN ? 500 : 0;
    score += v2 ? 100 : 0;
    if (is_v4(gid))
        return score + 40;
    if (gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80)
        return score + 10; /* link-local */
    return score + ((gid->raw[0] & 0xfe) == 0xfc ? 20 : 30);
}

/* Whether `a` is the GID's address. */
static bool is_address(const struct ifaddrs *a, const union ibv_gid *gid)
{
    if (a->ifa_addr->sa_family == AF_INET && is_v4(gid)) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)a->ifa_addr;
        return !memcmp(&in->sin_addr, gid->raw + 12, 4);
    }
    if (a->ifa_addr->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)(const void *)a->ifa_addr;
        return !memcmp(&in->sin6_addr, gid->raw, 16);
    }
    return false;
}

/* State of the GID's interface; fills in its name if that is unknown. */
static enum rt_ib_if look_at_interface(struct rt_ib_gid *g, const struct ifaddrs *all)
{
    enum rt_ib_if state = g->ifname[0] ? RT_IB_IF_DOWN : RT_IB_IF_UNKNOWN;
    for (const struct ifaddrs *a = all; a; a = a->ifa_next) {
        bool same = !strcmp(a->ifa_name, g->ifname);
        bool up = (a->ifa_flags & IFF_UP) && (a->ifa_flags & IFF_RUNNING);
        if (g->ifname[0] && (!same || !up))
            continue;
        if (same && state == RT_IB_IF_DOWN)
            state = RT_IB_IF_NO_ADDRESS;
        if (a->ifa_addr && up && is_address(a, &g->gid)) {
            if (!g->ifname[0])
                snprintf(g->ifname, sizeof g->ifname, "%s", a->ifa_name);
            return RT_IB_IF_UP;
        }
    }
    return state;
}

static void add(struct rt_ib_gid *g, int index, const union ibv_gid *gid, bool v2, uint32_t ifindex)
{
    char name[IF_NAMESIZE];
    *g = (struct rt_ib_gid){ .index = index, .gid = *gid, .v2 = v2 };
    if (ifindex && if_indextoname(ifindex, name))
        snprintf(g->ifname, sizeof g->ifname, "%s", name);
}

/* Reads the table of the library; -1: the library has none (before rdma-core 33), or refuses. */
static int list_by_table(struct ibv_context *c, uint8_t port, struct rt_ib_gid *out, int max)
{
    int n = 0;
    struct ibv_gid_entry *e = rt_ib->query_gid_table ? calloc(TABLE_MAX, sizeof *e) : NULL;
    ssize_t all = e ? rt_ib->query_gid_table(c, e, TABLE_MAX, 0, sizeof *e) : -1;
    for (ssize_t i = 0; i < all && n < max; i++)
        if (e[i].port_num == port)
            add(&out[n++], (int)e[i].gid_index, &e[i].gid, e[i].gid_type == IBV_GID_TYPE_ROCE_V2,
                e[i].ndev_ifindex);
    free(e);
    return all > 0 ? n : -1;
}

/* Reads the table entry by entry, with the kernel's files. */
static int list_by_entry(struct ibv_context *c, const char *dev, uint8_t port,
                         struct rt_ib_gid *out, int max)
{
    int n = 0;
    for (int i = 0; i < max; i++) {
        char file[64], text[64];
        union ibv_gid gid;
        if (rt_ib->query_gid(c, port, i, &gid) || is_zero(&gid))
            continue;
        snprintf(file, sizeof file, "ports/%u/gid_attrs/types/%d", port, i);
        bool v2 = rt_ib_sysfs(dev, file, text, sizeof text) && !strcmp(text, "RoCE v2");
        snprintf(file, sizeof file, "ports/%u/gid_attrs/ndevs/%d", port, i);
        uint32_t ifindex = rt_ib_sysfs(dev, file, text, sizeof text) ? if_nametoindex(text) : 0;
        add(&out[n++], i, &gid, v2, ifindex);
    }
    return n;
}

int rt_ib_list_gids(struct ibv_context *c, const char *dev, uint8_t port, int table_len,
                    struct rt_ib_gid **out)
{
    int max = table_len > 0 && table_len < TABLE_MAX ? table_len : 256;
    struct rt_ib_gid *g = calloc((size_t)max, sizeof *g);
    *out = g;
    if (!g)
        return 0;
    int n = list_by_table(c, port, g, max);
    return n >= 0 ? n : list_by_entry(c, dev, port, g, max);
}

void rt_ib_choose_gid(struct ibv_context *c, const char *dev, uint8_t port, bool roce,
                      int table_len, struct rt_ib_gid *out)
{
    struct rt_ib_gid *g;
    struct ifaddrs *all = NULL;
    int best = -1, n = rt_ib_list_gids(c, dev, port, table_len, &g);
    if (roce && getifaddrs(&all) < 0)
        all = NULL;
    *out = (struct rt_ib_gid){ .index = -1 };
    for (int i = 0; i < n; i++) {
        enum rt_ib_if state = look_at_interface(&g[i], all);
        int score = roce ? rt_ib_gid_score(&g[i].gid, g[i].v2, state) : 1;
        if (cfg.ib_gid_index >= 0)
            score = g[i].index == cfg.ib_gid_index ? 1 : -1;
        if (score > best) { /* the first of equal scores */
            best = score;
            *out = g[i];
        }
    }
    if (all)
        freeifaddrs(all);
    free(g);
}
