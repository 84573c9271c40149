/* SPDX-License-Identifier: BSD-3-Clause */
/* The RDMA part of weft_info.  One thread. */
#include "runtime/ib/discover.h"
#include "runtime/base/cfg.h"
#include "runtime/gpu/gpu.h"
#include "runtime/ib/rail.h"
#include "runtime/mem/watch.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PORTS 64

static void describe_gids(const struct rt_ib_port *p, struct rt_ib_seen *s)
{
    struct rt_ib_gid *g = NULL;
    s->ngids = rt_ib_list_gids(p->dev->ctx, p->dev->name, p->num, p->attr.gid_tbl_len, &g);
    for (int i = 0; i < s->ngids && i < RT_IB_SEEN_GIDS; i++) {
        s->gid[i] = (struct rt_ib_seen_gid){ .index = g[i].index, .v2 = g[i].v2 };
        memcpy(s->gid[i].gid, g[i].gid.raw, sizeof s->gid[i].gid);
        memcpy(s->gid[i].ifname, g[i].ifname, sizeof s->gid[i].ifname);
    }
    free(g);
}

static void describe(const struct rt_ib_port *p, struct rt_ib_seen *s)
{
    const struct rt_ib_dev *d = p->dev;
    *s = (struct rt_ib_seen){
        .port = p->num,
        .vendor = d->attr.vendor_id,
        .part = d->attr.vendor_part_id,
        .numa = d->numa,
        .near = d->near,
        .roce = p->attr.link_layer == IBV_LINK_LAYER_ETHERNET,
        .active = p->attr.state == IBV_PORT_ACTIVE || p->attr.state == IBV_PORT_ACTIVE_DEFER,
        .mbit = p->mbit,
        .mtu = 128u << p->attr.active_mtu,
        .max_mtu = 128u << p->attr.max_mtu,
        .lid = p->attr.lid,
        .gid_index = p->gid.index,
    };
    snprintf(s->dev, sizeof s->dev, "%s", d->name);
    snprintf(s->fw, sizeof s->fw, "%.63s", d->attr.fw_ver);
    snprintf(s->ifname, sizeof s->ifname, "%s", p->gid.ifname);
    snprintf(s->why_not, sizeof s->why_not, "%s", p->why_not);
    describe_gids(p, s);
}

/* Counts the kernel's devices, whether or not this process may open them. */
static int count_kernel(char *first, size_t len)
{
    int n = 0;
    DIR *d = opendir("/sys/class/infiniband");
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.' && n++ == 0)
            snprintf(first, len, "%.63s", e->d_name);
    if (d)
        closedir(d);
    return n;
}

static const char *why_none(void)
{
    static char text[400];
    char first[64] = "";
    int n = count_kernel(first, sizeof first);
    if (!n)
        return "this machine has no RDMA device, or its kernel module is not loaded";
    if (!rt_ib)
        snprintf(text, sizeof text,
                 "the kernel has %d, %s first, but libibverbs cannot be used: "
                 "%.200s",
                 n, first, rt_ib_why_not());
    else
        snprintf(text, sizeof text,
                 "the kernel has %d, %s first, but none can be opened: rights of"
                 " /dev/infiniband/uverbs* (in containers: --device=/dev/infiniband), or the "
                 "provider's library (package ibverbs-providers) is missing",
                 n, first);
    return text;
}

int rt_ib_scan(struct rt_ib_seen *out, int max, const char **why)
{
    struct found {
        struct rt_ib_dev dev[PORTS];
        struct rt_ib_port port[PORTS];
    } *f = calloc(1, sizeof *f);
    int n = 0, ndevs = 0, len;
    const char *bad = rt_ib_list_bad(cfg.ib_hca, &len);
    if (bad) {
        static char text[160];
        snprintf(text, sizeof text, "WEFT_IB_HCA: '%.*s' is not DEVICE or DEVICE:PORT",
                 len < 64 ? len : 64, bad);
        *why = text;
        free(f);
        return 0;
    }
    if (f && rt_ib_possible() && rt_ib_load() == 0)
        n = rt_ib_find(f->dev, PORTS, f->port, PORTS, &ndevs);
    if (!n)
        *why = why_none();
    if (n)
        rt_ib_rank(f->port, n);
    n = n < max ? n : max;
    for (int i = 0; i < n; i++)
        describe(&f->port[i], &out[i]);
    for (int i = 0; i < ndevs; i++)
        rt_ib_drop(&f->dev[i]);
    free(f);
    return n;
}

const char *rt_ib_scan_gpu(const char *dev, const struct rt_gpu_ptr *at, bool *works)
{
    static char text[200];
    struct rt_ib_rail rail[RT_IB_RAILS];
    struct rt_ib_mr *mr;
    int n = rt_ib_open(rail, RT_IB_RAILS);
    *works = false;
    snprintf(text, sizeof text, "not tried: %.63s is not used", dev);
    for (int i = 0; i < n; i++) {
        if (strcmp(rail[i].dev, dev))
            continue;
        *works = rt_ib_reg(&rail[i], (void *)at->base, at->len, at, &mr) == 0;
        const char *how = rt_ib_gpu_how(&rail[i]);
        snprintf(text, sizeof text, "%s", how ? how : "no");
        if (*works)
            rt_ib_dereg(mr);
        break;
    }
    if (n > 0)
        rt_ib_close();
    return text;
}

const char *rt_ib_scan_cache(void)
{
    if (!cfg.ib_cache)
        return "WEFT_IB_CACHE is 0";
    if (rt_watch_open())
        return rt_watch_why_not();
    rt_watch_close();
    return NULL;
}
