/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices, ports and GIDs as they were found, before rails are made of them.  Private to
 * runtime/ib and its tests. */
#ifndef RT_IB_DEV_H
#define RT_IB_DEV_H

#include "runtime/ib/ib.h"

struct rt_ib_dev {
    struct ibv_context *ctx;
    struct ibv_pd *pd;          /* NULL until a rail of this device is in use */
    struct ibv_device_attr attr;
    char name[64];
    int numa;
    bool near;
    bool rc;                    /* an InfiniBand or RoCE adapter: reliable connections by verbs */
    bool iwarp;
};

struct rt_ib_gid {
    int index;                  /* -1: none */
    union ibv_gid gid;
    bool v2;                    /* RoCE v2 */
    uint8_t prefix_len;         /* of the interface's subnet, in bits of the GID; 0 unknown */
    char ifname[16];
};

struct rt_ib_port {
    struct rt_ib_dev *dev;
    uint8_t num;
    struct ibv_port_attr attr;
    struct rt_ib_gid gid;
    uint32_t mbit;              /* of the link, Mbit/s of data */
    int rank;                   /* place in cfg.ib_hca's list; 0 where it names none */
    char why_not[200];          /* empty: may be used */
};

/* Opens every device of this machine, whatever the settings; what cannot be opened is left out and
 * named at level debug.  devs and ports are arrays of max; *n: how many of each. */
int rt_ib_find(struct rt_ib_dev *devs, int max_devs, struct rt_ib_port *ports, int max_ports,
               int *ndevs);
void rt_ib_drop(struct rt_ib_dev *d);
/* Sorts the ports, usable ones first and best first, with why_not filled by the settings. */
void rt_ib_rank(struct rt_ib_port *ports, int n);

/* ---- settings: hca.c ---- */

/* Whether `list` (cfg.ib_hca) names this port: its place from 0, or -1.  An empty list names all
 * at place 0, and so does ^LIST of those that LIST does not name. */
int rt_ib_listed(const char *list, const char *dev, int port);
/* The first word of the list that is no NAME or NAME:PORT, NULL when all are; *len: its length. */
const char *rt_ib_list_bad(const char *list, int *len);

/* ---- GIDs: gid.c ---- */

/* What is known of the network interface a GID belongs to. */
enum rt_ib_if { RT_IB_IF_UNKNOWN, RT_IB_IF_DOWN, RT_IB_IF_NO_ADDRESS, RT_IB_IF_UP };
/* How good a GID is for RoCE; the highest is taken, < 0: not usable.  v2 before v1, an address that
 * an interface has before one that none has, IPv4 before IPv6 before link-local. */
int rt_ib_gid_score(const union ibv_gid *gid, bool v2, enum rt_ib_if state);
/* The entries of a port's table that are in use, malloc'ed, without prefix_len. */
int rt_ib_list_gids(struct ibv_context *c, const char *dev, uint8_t port, int table_len,
                    struct rt_ib_gid **out);
/* The GID to use of this port, by cfg.ib_gid_index or the best. */
void rt_ib_choose_gid(struct ibv_context *c, const char *dev, uint8_t port, bool roce,
                      int table_len, struct rt_ib_gid *out);
bool rt_ib_gid_is_v4(const union ibv_gid *gid);
bool rt_ib_gid_is_zero(const union ibv_gid *gid);

/* ---- the machine: place.c ---- */

/* One line of a file under /sys/class/infiniband/DEV/; false: it is not there. */
bool rt_ib_sysfs(const char *dev, const char *file, char *text, size_t len);
/* Whether a list such as "0-15,32-47" and this thread's cores meet; true when unknown. */
bool rt_ib_may_run_on(const char *cpulist);
/* Mbit/s of data of a link, from verbs' codes. */
uint32_t rt_ib_mbit(unsigned width, unsigned speed);

#endif
