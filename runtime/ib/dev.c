/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the RDMA devices of this host and their ports, determines which ports may be used and why
 * others may not, and sorts them.  One thread at a time. */
#include "runtime/ib/dev.h"
#include "runtime/base/cfg.h"
#include "runtime/base/log.h"
#include "runtime/ib/cm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A port slower than 1 / SLOW_PART of the fastest is for other traffic (management), unless a
 * setting names it: striping a message over unequal links gains little and may lose. */
#define SLOW_PART 2

static bool open_dev(struct ibv_device *d, struct rt_ib_dev *out)
{
    char text[4096];
    const char *name = rt_ib->get_device_name(d);
    struct ibv_context *ctx = rt_ib->open_device(d);
    if (!ctx) {
        log_debug(
            IB,
            "%s cannot be opened: %m (check the rights of /dev/infiniband/uverbs*, or install "
            "its provider)",
            name);
        return false;
    }
    *out = (struct rt_ib_dev){ .ctx = ctx,
                               .numa = -1,
                               .near = true,
                               .rc = d->transport_type == IBV_TRANSPORT_IB,
                               .iwarp = d->transport_type == IBV_TRANSPORT_IWARP };
    snprintf(out->name, sizeof out->name, "%s", name);
    int err = rt_ib->query_device(ctx, &out->attr);
    if (err) {
        log_debug(IB, "%s: ibv_query_device: %s", name, strerror(err));
        rt_ib->close_device(ctx);
        return false;
    }
    if (rt_ib_sysfs(name, "device/numa_node", text, sizeof text))
        out->numa = (int)strtol(text, NULL, 10);
    if (rt_ib_sysfs(name, "device/local_cpulist", text, sizeof text))
        out->near = rt_ib_may_run_on(text);
    return true;
}

static const char *state_text(enum ibv_port_state s)
{
    switch (s) {
    case IBV_PORT_DOWN:
        return "no link";
    case IBV_PORT_INIT:
        return "link is up, but no subnet manager has configured it";
    case IBV_PORT_ARMED:
        return "being configured";
    default:
        return "not active";
    }
}

/* Sets the reason why this port cannot be used, regardless of the other ports. */
static void judge(struct rt_ib_port *p)
{
    bool roce = p->attr.link_layer == IBV_LINK_LAYER_ETHERNET;
    char *why = p->why_not;
    size_t len = sizeof p->why_not;
    if (p->dev->iwarp && cfg.verbs_connect != RT_CM_ALWAYS) /* tested with siw only, and in part */
        snprintf(why, len, "iWARP is used only with WEFT_VERBS_CONNECT=cm");
    else if (p->dev->iwarp && rt_cm_load())
        snprintf(why, len, "iWARP connects by rdma_cm only: %s", rt_cm_why_not());
    else if (p->dev->iwarp && p->gid.index < 0)
        snprintf(why, len, "has no IP address, which iWARP needs");
    else if (!p->dev->rc && !p->dev->iwarp)
        snprintf(why, len, "this kind of device has no reliable connections");
    else if (p->attr.state != IBV_PORT_ACTIVE && p->attr.state != IBV_PORT_ACTIVE_DEFER)
        snprintf(why, len, "%s", state_text(p->attr.state));
    else if (p->gid.index < 0 && cfg.ib_gid_index >= 0)
        snprintf(why, len, "has no GID %d (WEFT_IB_GID_INDEX)", cfg.ib_gid_index);
    else if (roce && p->gid.index < 0)
        snprintf(why, len, "its network interface is down or has no address");
    else if ((p->rank = rt_ib_listed(cfg.ib_hca, p->dev->name, p->num)) < 0)
        snprintf(why, len, "excluded by WEFT_IB_HCA");
}

static void choose_address(struct rt_ib_port *p)
{
    struct rt_ib_dev *d = p->dev;
    p->gid = (struct rt_ib_gid){ .index = -1 };
    if (!d->iwarp)
        rt_ib_choose_gid(d->ctx, d->name, p->num, p->attr.link_layer == IBV_LINK_LAYER_ETHERNET,
                         p->attr.gid_tbl_len, &p->gid);
    else if (rt_cm_load() == 0 && rt_cm_address(d->name, p->num, &p->gid.gid, p->gid.ifname) == 0)
        p->gid.index = 0;
}

static int look_at_ports(struct rt_ib_dev *d, struct rt_ib_port *ports, int max)
{
    int n = 0;
    for (uint8_t num = 1; num <= d->attr.phys_port_cnt && n < max; num++) {
        struct rt_ib_port *p = &ports[n];
        *p = (struct rt_ib_port){ .dev = d, .num = num };
        int err = rt_ib_query_port(d->ctx, num, &p->attr);
        if (err) {
            log_debug(IB, "%s port %u: ibv_query_port: %s", d->name, num, strerror(err));
            continue;
        }
        p->mbit = rt_ib_mbit(p->attr.active_width, p->attr.active_speed);
        choose_address(p);
        judge(p);
        n++;
    }
    return n;
}

int rt_ib_find(struct rt_ib_dev *devs, int max_devs, struct rt_ib_port *ports, int max_ports,
               int *ndevs)
{
    int nports = 0, listed = 0;
    *ndevs = 0;
    struct ibv_device **list = rt_ib->get_device_list(&listed);
    if (!list) {
        log_debug(IB, "ibv_get_device_list: %m");
        return 0;
    }
    for (int i = 0; i < listed && *ndevs < max_devs; i++) {
        struct rt_ib_dev *d = &devs[*ndevs];
        if (!open_dev(list[i], d))
            continue;
        ++*ndevs;
        nports += look_at_ports(d, ports + nports, max_ports - nports);
    }
    rt_ib->free_device_list(list);
    return nports;
}

void rt_ib_drop(struct rt_ib_dev *d)
{
    if (d->pd && rt_ib->dealloc_pd(d->pd))
        log_warn(IB, "%s: ibv_dealloc_pd: %m", d->name);
    if (d->ctx && rt_ib->close_device(d->ctx))
        log_warn(IB, "%s: ibv_close_device: %m", d->name);
    d->pd = NULL;
    d->ctx = NULL;
}

static int compare(const void *va, const void *vb)
{
    const struct rt_ib_port *a = va, *b = vb;
    bool bad_a = a->why_not[0], bad_b = b->why_not[0];
    if (bad_a != bad_b)
        return bad_a - bad_b;
    if (a->rank != b->rank)
        return a->rank - b->rank;
    if (a->dev->near != b->dev->near)
        return b->dev->near - a->dev->near;
    if (a->mbit != b->mbit)
        return a->mbit < b->mbit ? 1 : -1;
    int by_name = strcmp(a->dev->name, b->dev->name);
    return by_name ? by_name : (int)a->num - (int)b->num;
}

void rt_ib_rank(struct rt_ib_port *ports, int n)
{
    const struct rt_ib_port *fastest = NULL;
    bool named = cfg.ib_hca[0] && cfg.ib_hca[0] != '^';
    for (int i = 0; i < n; i++)
        if (!ports[i].why_not[0] && (!fastest || ports[i].mbit > fastest->mbit))
            fastest = &ports[i];
    for (int i = 0; i < n && fastest && !named; i++)
        if (!ports[i].why_not[0] && ports[i].mbit < fastest->mbit / SLOW_PART)
            snprintf(ports[i].why_not, sizeof ports[i].why_not,
                     "much slower than %s:%u; to use it set WEFT_IB_HCA=%s:%u", fastest->dev->name,
                     fastest->num, ports[i].dev->name, ports[i].num);
    qsort(ports, (size_t)n, sizeof *ports, compare);
}
