/* SPDX-License-Identifier: BSD-3-Clause */
/* The ports in use: opened for the first user, closed after the last; addresses of peers.  The
 * caller serialises all calls. */
#include "runtime/ib/rail.h"
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Ports examined; further ports are ignored. */
#define MAX_PORTS 64

static struct {
    int users, nrails, ndevs;
    struct rt_ib_dev dev[RT_IB_DEVICES];
    struct rt_ib_rail rail[RT_IB_RAILS];
} ib;

bool rt_ib_possible(void) { return access("/sys/class/infiniband", F_OK) == 0; }

struct rt_ib_dev *rt_ib_device(int i) { return i < ib.ndevs ? &ib.dev[i] : NULL; }

const struct rt_ib_rail *rt_ib_rail(int i) { return i < ib.nrails ? &ib.rail[i] : NULL; }

static enum ibv_mtu limited_mtu(enum ibv_mtu active)
{
    int wanted = cfg.ib_mtu; /* 0: auto; other values are those of enum ibv_mtu */
    return wanted && wanted < (int)active ? (enum ibv_mtu)wanted : active;
}

static void make_rail(const struct rt_ib_port *p, struct rt_ib_rail *r)
{
    const struct rt_ib_dev *d = p->dev;
    *r = (struct rt_ib_rail){
        .dev = d->name,
        .port = p->num,
        .ctx = d->ctx,
        .pd = d->pd,
        .attr = d->attr,
        .roce = p->attr.link_layer == IBV_LINK_LAYER_ETHERNET || d->iwarp,
        .iwarp = d->iwarp,
        .lid = p->attr.lid,
        .gid_index = (uint8_t)(p->gid.index < 0 ? 0 : p->gid.index),
        .gid = p->gid.gid,
        .mtu = limited_mtu(p->attr.active_mtu),
        .max_msg = p->attr.max_msg_sz ? p->attr.max_msg_sz : 1u << 30,
        .mb_per_s = p->mbit ? p->mbit / 8 : 1000,
        .numa = d->numa,
        .near = d->near,
        .need_grh = p->attr.link_layer == IBV_LINK_LAYER_ETHERNET || p->attr.lid == 0 ||
                    (p->attr.flags & IBV_QPF_GRH_REQUIRED),
    };
    r->subnet = r->roce ? 0 : r->gid.global.subnet_prefix;
    memcpy(r->ifname, p->gid.ifname, sizeof r->ifname);
}

/* Moves the port's device from the devices found to the devices in use, unless it is there.
 * Returns its number, or -1: no room, or no protection domain. */
static int keep_device(struct rt_ib_port *p)
{
    for (int i = 0; i < ib.ndevs; i++)
        if (p->dev == &ib.dev[i] || p->dev->ctx == ib.dev[i].ctx)
            return i;
    if (ib.ndevs == RT_IB_DEVICES)
        return -1;
    struct rt_ib_dev *d = &ib.dev[ib.ndevs];
    *d = *p->dev;
    d->pd = rt_ib->alloc_pd(d->ctx);
    if (!d->pd) {
        log_warn(IB, "%s is not used: ibv_alloc_pd: %m", d->name);
        return -1;
    }
    return ib.ndevs++;
}

static bool is_kept(const struct rt_ib_dev *d)
{
    for (int i = 0; i < ib.ndevs; i++)
        if (ib.dev[i].ctx == d->ctx)
            return true;
    return false;
}

static void take_ports(struct rt_ib_port *ports, int nports)
{
    for (int i = 0; i < nports; i++) {
        struct rt_ib_port *p = &ports[i];
        if (p->why_not[0] || ib.nrails == RT_IB_RAILS) {
            log_debug(IB, "%s:%u is not used: %s", p->dev->name, p->num,
                      p->why_not[0] ? p->why_not : "enough other ports are in use");
            continue;
        }
        int device = keep_device(p);
        if (device < 0)
            continue;
        p->dev = &ib.dev[device];
        struct rt_ib_rail *r = &ib.rail[ib.nrails];
        make_rail(p, r);
        r->index = ib.nrails++;
        r->device = device;
        log_debug(IB, "%s:%u is rail %d: %s, %u MB/s, MTU %u, GID %u %s", r->dev, r->port, r->index,
                  r->iwarp  ? "iWARP"
                  : r->roce ? "RoCE"
                            : "InfiniBand",
                  r->mb_per_s, 128u << r->mtu, r->gid_index, r->ifname);
    }
}

static int check_settings(void)
{
    int len = 0;
    const char *bad = rt_ib_list_bad(cfg.ib_hca, &len);
    if (!bad)
        return 0;
    log_error(IB,
              "WEFT_IB_HCA: '%.*s' is not DEVICE or DEVICE:PORT, as in mlx5_0,mlx5_1:2 or "
              "^mlx5_3",
              len, bad);
    return -RT_EINVAL;
}

static int open_all(void)
{
    struct found {
        struct rt_ib_dev dev[MAX_PORTS];
        struct rt_ib_port port[MAX_PORTS];
    } * f;
    int ndevs = 0;
    if (rt_ib_load()) {
        log_debug(IB, "no RDMA: %s", rt_ib_why_not());
        return 0;
    }
    f = calloc(1, sizeof *f);
    if (!f)
        return -RT_ENOMEM;
    int nports = rt_ib_find(f->dev, MAX_PORTS, f->port, MAX_PORTS, &ndevs);
    rt_ib_rank(f->port, nports);
    take_ports(f->port, nports);
    for (int i = 0; i < ndevs; i++)
        if (!is_kept(&f->dev[i]))
            rt_ib_drop(&f->dev[i]);
    if (!ib.nrails && nports && cfg.ib_hca[0])
        log_warn(IB, "WEFT_IB_HCA=%s selects no RDMA port: %s:%u %s; weft_info --net lists all",
                 cfg.ib_hca, f->port[0].dev->name, f->port[0].num, f->port[0].why_not);
    free(f);
    return ib.nrails;
}

int rt_ib_open(struct rt_ib_rail *out, int max)
{
    int err = check_settings();
    if (err || !rt_ib_possible())
        return err;
    if (!ib.users && (err = open_all()) <= 0)
        return err;
    ib.users++;
    int n = ib.nrails < max ? ib.nrails : max;
    memcpy(out, ib.rail, (size_t)n * sizeof *out);
    return n;
}

void rt_ib_close(void)
{
    if (!ib.users || --ib.users)
        return;
    rt_ib_flush_close();
    rt_ib_reg_close();
    for (int i = 0; i < ib.ndevs; i++)
        rt_ib_drop(&ib.dev[i]);
    ib.ndevs = ib.nrails = 0;
}

/* ---- addressing ---- */

void rt_ib_addr(const struct rt_ib_rail *r, struct rt_ib_addr *out)
{
    uint32_t rate = r->mb_per_s * 8 / 2500;
    *out = (struct rt_ib_addr){
        .lid = htole16(r->lid),
        .roce = r->iwarp ? 2 : r->roce,
        .mtu = (uint8_t)r->mtu,
        .rate = (uint8_t)(rate < 255 ? rate : 255),
        .grh = r->need_grh,
    };
    memcpy(out->gid, r->gid.raw, sizeof out->gid);
}

void rt_ib_ah_attr(const struct rt_ib_rail *r, const struct rt_ib_addr *to, uint8_t sl,
                   uint8_t traffic_class, struct ibv_ah_attr *out)
{
    *out = (struct ibv_ah_attr){ .dlid = le16toh(to->lid), .sl = sl, .port_num = r->port };
    /* InfiniBand needs the global header only beyond the subnet. */
    if (!r->need_grh && !to->grh && !memcmp(to->gid, r->gid.raw, 8))
        return;
    out->is_global = 1;
    memcpy(out->grh.dgid.raw, to->gid, sizeof to->gid);
    out->grh.sgid_index = r->gid_index;
    out->grh.hop_limit = 64; /* 255 would work, too; 1 would not leave the subnet */
    out->grh.traffic_class = traffic_class;
}

enum ibv_mtu rt_ib_mtu(const struct rt_ib_rail *r, const struct rt_ib_addr *to)
{
    bool known = to->mtu >= IBV_MTU_256 && to->mtu <= IBV_MTU_4096;
    return known && to->mtu < r->mtu ? (enum ibv_mtu)to->mtu : r->mtu;
}
