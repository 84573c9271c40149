/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices, ports and GIDs as found, before rails are made of them.  Private to runtime/ib and its
 * tests. */
#ifndef RT_IB_DEV_H
#define RT_IB_DEV_H

#include "runtime/ib/ib.h"

struct rt_ib_dev {
    struct ibv_context *ctx;
    struct ibv_pd *pd; /* NULL until a rail of this device is in use */
    struct ibv_device_attr attr;
    char name[64];
    int numa;
    bool near;
    bool rc; /* InfiniBand or RoCE: reliable connections by verbs */
    bool iwarp;
};

struct rt_ib_gid {
    int index; /* -1: none */
    union ibv_gid gid;
    bool v2; /* RoCE v2 */
    char ifname[16];
};

struct rt_ib_port {
    struct rt_ib_dev *dev;
    uint8_t num;
    struct ibv_port_attr attr;
    struct rt_ib_gid gid;
    uint32_t mbit;     /* data rate of the link, Mbit/s */
    int rank;          /* place in cfg.ib_hca's list; 0 for an empty list or ^LIST */
    char why_not[200]; /* why the port is not used; empty: usable */
};

/* Opens all devices of this host, whatever the settings, and fills `why_not` of each port by its
 * state and the settings.  A device that cannot be opened is left out and logged at level debug.
 * devs and ports are arrays of max_devs and max_ports.  Returns the number of ports; *ndevs: number
 * of devices. */
int rt_ib_find(struct rt_ib_dev *devs, int max_devs, struct rt_ib_port *ports, int max_ports,
               int *ndevs);
void rt_ib_drop(struct rt_ib_dev *d);
/* Excludes ports that are much slower than the fastest, unless cfg.ib_hca names ports, and sorts
 * the ports: usable ones first, best first. */
void rt_ib_rank(struct rt_ib_port *ports, int n);

/* ---- settings: hca.c ---- */

/* The place from 0 of this port in `list` (cfg.ib_hca), or -1.  An empty list names all ports at
 * place 0; ^LIST names at place 0 all ports that LIST does not name. */
int rt_ib_listed(const char *list, const char *dev, int port);
/* The first word of the list that is not NAME or NAME:PORT, or NULL; *len: its length. */
const char *rt_ib_list_bad(const char *list, int *len);

/* ---- GIDs: gid.c ---- */

/* State of the network interface of a GID. */
enum rt_ib_if { RT_IB_IF_UNKNOWN, RT_IB_IF_DOWN, RT_IB_IF_NO_ADDRESS, RT_IB_IF_UP };
/* How suitable a GID is for RoCE: the highest score is used, < 0: not usable.  v2 before v1; an
 * address that an interface has before one that no interface has; IPv4 before IPv6 before
 * link-local. */
int rt_ib_gid_score(const union ibv_gid *gid, bool v2, enum rt_ib_if state);
/* Lists the used entries of a port's GID table, malloc'ed; returns their number, 0 without memory.
 */
int rt_ib_list_gids(struct ibv_context *c, const char *dev, uint8_t port, int table_len,
                    struct rt_ib_gid **out);
/* Chooses the GID of this port: cfg.ib_gid_index, or the best. */
void rt_ib_choose_gid(struct ibv_context *c, const char *dev, uint8_t port, bool roce,
                      int table_len, struct rt_ib_gid *out);

/* ---- the host: location.c ---- */

/* Reads a line of a file under /sys/class/infiniband/DEV/.  False: the file does not exist. */
bool rt_ib_sysfs(const char *dev, const char *file, char *text, size_t len);
/* Whether a list such as "0-15,32-47" contains a core on which this thread may run; true if
 * unknown. */
bool rt_ib_may_run_on(const char *cpulist);
/* Data rate of a link in Mbit/s, from the codes of verbs. */
uint32_t rt_ib_mbit(unsigned width, unsigned speed);

#endif
