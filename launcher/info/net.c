/* SPDX-License-Identifier: BSD-3-Clause */
/* weft_info --net: transports between hosts.  Shows the network interfaces that btl/tcp uses, the
 * RDMA ports that runtime/ib uses, their distance from the GPUs and from the cores of this process,
 * which of them would be used, and what limits the speed.  One thread. */
#include "btl/tcp/addr.h"
#include "launcher/info/gpus.h"
#include "launcher/info/info.h"
#include "runtime/base/cfg.h"
#include "runtime/ib/discover.h"
#include "runtime/topo/topo.h"

#include <arpa/inet.h>
#include <hwloc.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define PORTS_MAX 32

static struct {
    bool asked;
    struct rt_ib_seen port[PORTS_MAX];
    int nports, nused;
    const char *why; /* reason, if there is no port */
    struct btl_tcp *tcp;
} net;

static void look(void)
{
    if (net.asked)
        return;
    net.asked = true;
    net.nports = rt_ib_scan(net.port, PORTS_MAX, &net.why);
    for (int i = 0; i < net.nports; i++)
        net.nused += !net.port[i].why_not[0];
    net.tcp = calloc(1, sizeof *net.tcp);
    if (net.tcp && tcp_ifs_find(net.tcp) < 0)
        net.tcp->nifs = 0;
}

/* ---- transports ---- */

static const char *rate_text(uint32_t mbit, char *text, size_t len)
{
    if (!mbit)
        snprintf(text, len, "rate unknown");
    else if (mbit % 1000 == 0)
        snprintf(text, len, "%u Gbit/s", mbit / 1000);
    else
        snprintf(text, len, "%u Mbit/s", mbit);
    return text;
}

static void print_verbs(void)
{
    if (!info_listed("verbs"))
        printf("  verbs  not used: WEFT_BTL excludes it\n");
    else if (!net.nused)
        printf("  verbs  not used: %s\n",
               net.nports ? "no port of an RDMA device can be used" : net.why);
    else
        for (int i = 0; i < net.nused; i++) {
            char rate[32];
            printf("  %-6s %s:%d, %s\n", i ? "" : "verbs", net.port[i].dev, net.port[i].port,
                   rate_text(net.port[i].mbit, rate, sizeof rate));
        }
}

static int print_transports(void)
{
    bool verbs = net.nused && info_listed("verbs"), tcp = net.tcp && net.tcp->nifs;
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    printf("Between %s and other hosts, in this order:\n", host);
    print_verbs();
    if (!info_listed("tcp"))
        printf("  tcp    not used: WEFT_BTL excludes it\n");
    else if (!tcp)
        printf("  tcp    not used: no network interface is up and has an address%s\n",
               cfg.tcp_if[0] ? " that WEFT_TCP_IF names" : "");
    else
        printf("  tcp    %d address%s\n", net.tcp->nifs, net.tcp->nifs == 1 ? "" : "es");
    tcp = tcp && info_listed("tcp");
    if (!verbs && !tcp)
        printf("  no transport reaches other hosts\n");
    return verbs || tcp ? 0 : 1;
}

/* Address and prefix of an entry of getifaddrs(); false: no IP address. */
static bool address_of(const struct ifaddrs *a, struct tcp_if *out)
{
    const uint8_t *mask;
    *out = (struct tcp_if){ 0 };
    if (!a->ifa_addr || !a->ifa_netmask)
        return false;
    if (a->ifa_addr->sa_family == AF_INET) {
        out->family = 4;
        memcpy(out->addr, &((const struct sockaddr_in *)(const void *)a->ifa_addr)->sin_addr, 4);
        mask =
            (const uint8_t *)&((const struct sockaddr_in *)(const void *)a->ifa_netmask)->sin_addr;
    } else if (a->ifa_addr->sa_family == AF_INET6) {
        out->family = 6;
        memcpy(out->addr, &((const struct sockaddr_in6 *)(const void *)a->ifa_addr)->sin6_addr, 16);
        mask = (const uint8_t *)&((const struct sockaddr_in6 *)(const void *)a->ifa_netmask)
                   ->sin6_addr;
    } else {
        return false;
    }
    for (int i = 0; i < (out->family == 4 ? 4 : 16); i++)
        out->prefix += (uint8_t)__builtin_popcount(mask[i]);
    return true;
}

/* How btl/tcp treats this address. */
static const char *tcp_verdict(const struct tcp_if *i, const struct ifaddrs *a)
{
    for (int k = 0; net.tcp && k < net.tcp->nifs; k++)
        if (net.tcp->ifs[k].family == i->family && !memcmp(net.tcp->ifs[k].addr, i->addr, 16))
            return info_listed("tcp") ? "tcp" : "tcp, if WEFT_BTL included it";
    if (!(a->ifa_flags & IFF_UP))
        return "not used: the interface is down";
    if (i->family == 6 && i->addr[0] == 0xfe && (i->addr[1] & 0xc0) == 0x80)
        return "not used: link-local";
    if (a->ifa_flags & IFF_LOOPBACK)
        return "between processes of this host";
    return cfg.tcp_if[0] ? "not used: WEFT_TCP_IF excludes it" : "not used";
}

static long if_number(const char *name, const char *file)
{
    char path[128], text[32];
    snprintf(path, sizeof path, "/sys/class/net/%.32s/%s", name, file);
    FILE *f = fopen(path, "re");
    if (!f)
        return -1;
    long n = fgets(text, sizeof text, f) ? strtol(text, NULL, 10) : -1;
    fclose(f);
    return n;
}

static void print_if(const struct ifaddrs *a)
{
    char rate[32];
    long mbit = if_number(a->ifa_name, "speed"), mtu = if_number(a->ifa_name, "mtu");
    bool lo = a->ifa_flags & IFF_LOOPBACK;
    printf("  %-14s %s, %s, MTU %ld", a->ifa_name,
           !(a->ifa_flags & IFF_UP)     ? "down"
           : a->ifa_flags & IFF_RUNNING ? "up"
                                        : "no link",
           lo ? "loopback" : rate_text(mbit > 0 ? (uint32_t)mbit : 0, rate, sizeof rate), mtu);
    for (int i = 0; i < net.nports; i++)
        if (!strcmp(net.port[i].ifname, a->ifa_name))
            printf(", RDMA by %s:%d", net.port[i].dev, net.port[i].port);
    printf("\n");
}

static void print_interfaces(void)
{
    struct ifaddrs *all;
    printf("\nNetwork interfaces:\n");
    if (getifaddrs(&all) < 0) {
        printf("  cannot be listed: %m\n");
        return;
    }
    for (const struct ifaddrs *a = all; a; a = a->ifa_next) {
        bool first = true; /* the kernel lists each interface first without an IP address */
        for (const struct ifaddrs *b = all; b != a; b = b->ifa_next)
            first = first && strcmp(a->ifa_name, b->ifa_name);
        if (!first)
            continue;
        print_if(a);
        for (const struct ifaddrs *b = all; b; b = b->ifa_next) {
            struct tcp_if i;
            char ip[INET6_ADDRSTRLEN + 8];
            if (strcmp(a->ifa_name, b->ifa_name) || !address_of(b, &i))
                continue;
            inet_ntop(i.family == 4 ? AF_INET : AF_INET6, i.addr, ip, INET6_ADDRSTRLEN);
            snprintf(ip + strlen(ip), 8, "/%u", i.prefix);
            printf("  %14s   %-44s %s\n", "", ip, tcp_verdict(&i, b));
        }
    }
    freeifaddrs(all);
}

/* ---- RDMA ports ---- */

static const char *gid_text(const uint8_t *gid, char *text)
{
    static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
    bool v4 = !memcmp(gid, mapped, 12);
    inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? gid + 12 : gid, text, INET6_ADDRSTRLEN);
    return text;
}

static void print_gids(const struct rt_ib_seen *p, bool verbose)
{
    char text[INET6_ADDRSTRLEN];
    for (int i = 0; i < p->ngids && i < RT_IB_SEEN_GIDS; i++) {
        const struct rt_ib_seen_gid *g = &p->gid[i];
        if (!verbose && g->index != p->gid_index)
            continue;
        printf("    GID %-3d %-39s %s%s%s%s\n", g->index, gid_text(g->gid, text),
               !p->roce ? "InfiniBand"
               : g->v2  ? "RoCE v2"
                        : "RoCE v1",
               g->ifname[0] ? ", " : "", g->ifname,
               g->index == p->gid_index && verbose ? ", taken" : "");
    }
    if (verbose && p->ngids > RT_IB_SEEN_GIDS)
        printf("    and %d more GIDs\n", p->ngids - RT_IB_SEEN_GIDS);
}

static void print_port(const struct rt_ib_seen *p, int rail, bool verbose)
{
    char rate[32], where[32] = "unknown";
    if (p->numa >= 0)
        snprintf(where, sizeof where, "%d", p->numa);
    printf("  %s:%d  %s, %s, %s, MTU %u of %u", p->dev, p->port,
           p->roce ? "Ethernet" : "InfiniBand", p->active ? "active" : "not active",
           rate_text(p->mbit, rate, sizeof rate), p->mtu, p->max_mtu);
    if (!p->roce)
        printf(", LID %u", p->lid);
    printf("\n    vendor 0x%04x, part %u, firmware %s, NUMA node %s, %s this process's cores\n",
           p->vendor, p->part, p->fw[0] ? p->fw : "unknown", where, p->near ? "near" : "far from");
    print_gids(p, verbose);
    if (p->why_not[0])
        printf("    not used: %s\n", p->why_not);
    else
        printf("    rail %d\n", rail);
}

static void print_rdma(bool verbose)
{
    int rail = 0;
    printf("\nRDMA devices:\n");
    if (!net.nports)
        printf("  none: %s\n", net.why);
    for (int i = 0; i < net.nports; i++) {
        print_port(&net.port[i], rail, verbose);
        rail += !net.port[i].why_not[0];
    }
    if (!net.nused)
        return;
    const char *why = rt_ib_scan_cache();
    printf("  registrations of host memory are %s%s\n", why ? "made for each message: " : "kept",
           why ? why : "");
}

/* The PCI device of an RDMA device; NULL for a software device. */
static hwloc_obj_t pci_of(hwloc_topology_t hw, const char *dev)
{
    for (hwloc_obj_t o = NULL; (o = hwloc_get_next_osdev(hw, o));)
        if (o->name && !strcmp(o->name, dev)) {
            while (o && o->type != HWLOC_OBJ_PCI_DEVICE)
                o = o->parent;
            return o;
        }
    return NULL;
}

static const char *distance(hwloc_topology_t hw, hwloc_obj_t a, hwloc_obj_t b)
{
    if (!a || !b)
        return "unknown";
    hwloc_obj_t up = hwloc_get_common_ancestor_obj(hw, a, b);
    if (up->type == HWLOC_OBJ_BRIDGE)
        return up->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI ? "same PCIe switch"
                                                                      : "same PCIe root";
    hwloc_obj_t ha = hwloc_get_non_io_ancestor_obj(hw, a);
    hwloc_obj_t hb = hwloc_get_non_io_ancestor_obj(hw, b);
    if (ha == hb && ha != hwloc_get_root_obj(hw))
        return "same NUMA node";
    return hwloc_get_nbobjs_by_type(hw, HWLOC_OBJ_NUMANODE) > 1 ? "other NUMA node"
                                                                : "same NUMA node";
}

/* A trial with a small piece of GPU memory. */
struct trial {
    struct rt_gpu_stage *s;
    struct rt_gpu_ptr at;
};

static bool trial_begin(int ordinal, struct trial *t)
{
    struct rt_gpu *g;
    t->s = NULL;
    if (rt_gpu_primary(ordinal, &g) || rt_gpu_stage_take(g, false, RT_GPU_STAGE_SMALL, &t->s))
        return false;
    return rt_gpu_query(t->s->p, t->s->len, &t->at) == 0;
}

static void trial_end(struct trial *t)
{
    if (t->s)
        rt_gpu_stage_give(t->s);
}

static void print_gpu(const struct rt_gpu_info *gpu, hwloc_topology_t hw)
{
    static const char *const after[] = {
        [RT_GPU_ORDERED] = "nothing is needed",
        [RT_GPU_FLUSH] = "the CUDA driver flushes",
        [RT_GPU_READ_BACK] = "the device reads a byte back",
    };
    struct rt_gpu_rdma facts = { 0 };
    struct trial t;
    int fd = -1;
    size_t off;
    bool works, ready = trial_begin(gpu->ordinal, &t);
    rt_gpu_rdma_facts(gpu->ordinal, &facts);
    if (ready && rt_gpu_dmabuf(&t.at, t.at.base, t.at.len, &fd, &off) == 0)
        close(fd);
    printf("  GPU %d: %s; after a device has written to its memory %s\n", gpu->ordinal,
           fd >= 0 ? "gives dma-bufs" : "gives no dma-buf", after[facts.order]);
    for (int k = 0; k < net.nused; k++) {
        const char *dev = net.port[k].dev;
        hwloc_obj_t pci = hwloc_get_pcidev_by_busidstring(hw, gpu->pci);
        if (k && !strcmp(dev, net.port[k - 1].dev))
            continue;
        printf("    %s: %s; registration: %s\n", dev, distance(hw, pci, pci_of(hw, dev)),
               ready ? rt_ib_scan_gpu(dev, &t.at, &works) : "no GPU memory for a trial");
    }
    trial_end(&t);
}

static void print_gpus(void)
{
    const struct info_gpus *gpus = info_gpus();
    hwloc_topology_t hw = rt_topo_hwloc();
    if (!gpus->n || !hw)
        return;
    printf("\nGPUs and RDMA devices:\n");
    for (int i = 0; i < gpus->n; i++)
        print_gpu(&gpus->dev[i], hw);
}

/* ---- what is missing ---- */

static void check_ports(void)
{
    char found[300];
    if (!net.nports) {
        bool there = access("/sys/class/infiniband", F_OK) == 0 || cfg.ib_hca[0];
        info_say(!there, "RDMA", there ? net.why : "no device; TCP is used between hosts",
                 "see weft_info --net");
        return;
    }
    snprintf(found, sizeof found, "%d of %d port%s used", net.nused, net.nports,
             net.nports == 1 ? "" : "s");
    if (net.nused || cfg.ib_hca[0]) { /* all ports, or those that the user selected */
        info_say(true, "RDMA", found, "");
        return;
    }
    snprintf(found, sizeof found, "%s:%d: %s", net.port[0].dev, net.port[0].port,
             net.port[0].why_not);
    info_say(false, "RDMA", found, "bring the port or its interface up; TCP is used until then");
}

static void check_locked(void)
{
    struct rlimit limit;
    char found[96];
    getrlimit(RLIMIT_MEMLOCK, &limit);
    bool good = limit.rlim_cur == RLIM_INFINITY || geteuid() == 0;
    snprintf(found, sizeof found, "%s", good ? "no limit" : "");
    if (!good)
        snprintf(found, sizeof found, "%llu KiB allowed", (unsigned long long)limit.rlim_cur >> 10);
    info_say(good, "locked memory", found,
             "RDMA registers memory by locking it: ulimit -l "
             "unlimited, /etc/security/limits.conf, LimitMEMLOCK=infinity of slurmd or sshd");
}

void info_doctor_net(void)
{
    look();
    check_ports();
    if (!net.nused)
        return;
    check_locked();
    const char *why = rt_ib_scan_cache();
    info_say(!why, "kept registrations", why ? why : "userfaultfd works",
             "each large message registers its buffer until then");
    const struct info_gpus *gpus = info_gpus();
    bool module = access("/sys/module/nvidia_peermem", F_OK) == 0;
    for (int i = 0; i < gpus->n; i++) {
        struct rt_gpu_rdma facts = { 0 };
        char what[32];
        rt_gpu_rdma_facts(gpus->dev[i].ordinal, &facts);
        snprintf(what, sizeof what, "GPU %d and RDMA", gpus->dev[i].ordinal);
        info_say(facts.dmabuf || module, what,
                 facts.dmabuf ? "dma-buf"
                 : module     ? "nvidia-peermem"
                              : "no way to register memory",
                 "use the open GPU kernel module with Linux 5.12 and rdma-core 34 or later, or "
                 "modprobe nvidia-peermem; messages are staged through host memory until then");
    }
}

int info_net(bool verbose)
{
    look();
    int code = print_transports();
    print_interfaces();
    print_rdma(verbose);
    print_gpus();
    printf("\nWhat limits the speed (all findings: weft_info --doctor):\n");
    info_doctor_net();
    return code;
}
