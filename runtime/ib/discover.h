/* SPDX-License-Identifier: BSD-3-Clause */
/* RDMA devices for weft_info: the devices of the host, those that would be used, and the reasons
 * for the others.  Needs no headers of verbs; in a build without them it finds no device.  One
 * thread. */
#ifndef RT_IB_DISCOVER_H
#define RT_IB_DISCOVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rt_gpu_ptr;

#define RT_IB_SEEN_GIDS 16

struct rt_ib_seen_gid {
    int index;
    uint8_t gid[16];
    bool v2;
    char ifname[16];
};

struct rt_ib_seen { /* one port */
    char dev[64];
    int port;
    char fw[64];
    uint32_t vendor, part;
    int numa;  /* -1: unknown */
    bool near; /* to cores on which this process may run */
    bool roce, active;
    uint32_t mbit;         /* data rate; 0: unknown */
    unsigned mtu, max_mtu; /* bytes */
    uint16_t lid;
    int gid_index; /* in use; -1: none */
    int ngids;     /* in the table; the first RT_IB_SEEN_GIDS are listed */
    struct rt_ib_seen_gid gid[RT_IB_SEEN_GIDS];
    char ifname[16];   /* RoCE: interface of the GID in use */
    char why_not[200]; /* empty: would be used */
};
/* Lists the ports: first those that would be used, in their order.  0: none; *why: the reason. */
int rt_ib_scan(struct rt_ib_seen *out, int max, const char **why);
/* Tests whether device memory can be registered on this device.  "dma-buf", "nvidia-peermem", or
 * "no: ...".  The text is valid until the next call. */
const char *rt_ib_scan_gpu(const char *dev, const struct rt_gpu_ptr *at, bool *works);
/* Why registrations of host memory would not be cached; NULL: they would. */
const char *rt_ib_scan_cache(void);

#endif
