/* SPDX-License-Identifier: BSD-3-Clause */
/* The cost model of device copies: cost.def as functions.  Any thread; no state. */
#ifndef RT_GPU_MODEL_H
#define RT_GPU_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Which way a copy of this length goes, and its predicted time; for the choice itself and for
 * weft_info --paths. */
enum rt_gpu_way { RT_GPU_WAY_LINGER, RT_GPU_WAY_BATCH, RT_GPU_WAY_ENGINE, RT_GPU_WAYS };
/* PEER: from another device; PUT: to another device. */
enum rt_gpu_link {
    RT_GPU_LINK_LOCAL,
    RT_GPU_LINK_PEER,
    RT_GPU_LINK_HOST,
    RT_GPU_LINK_PUT,
    RT_GPU_LINKS
};
extern const char *const rt_gpu_way_names[RT_GPU_WAYS];
uint64_t rt_gpu_cost_ns(enum rt_gpu_way way, enum rt_gpu_link link, size_t len);
/* Which process copies a message of this length between two devices: RT_GPU_LINK_PEER, the receiver
 * reads; RT_GPU_LINK_PUT, the receiver asks the sender to write.  large_pages: into such memory. */
enum rt_gpu_link rt_gpu_side(size_t len, bool large_pages);
/* The fastest way.  linger: the polling kernel takes this copy; kernels: kernels may copy. */
enum rt_gpu_way rt_gpu_choose(enum rt_gpu_link link, size_t len, bool linger, bool kernels);

/* A group of n copies of this length that start together, n >= 1: predicted time until all are
 * done, and the best way.  UINT64_MAX: this way is impossible. */
uint64_t rt_gpu_cost_group_ns(enum rt_gpu_way way, enum rt_gpu_link link, size_t len, unsigned n);
enum rt_gpu_way rt_gpu_choose_group(enum rt_gpu_link link, size_t len, unsigned n, bool linger,
                                    bool kernels);

/* A reduction by the polling kernel or by a launch (RT_GPU_WAY_BATCH); len: bytes of a source. */
uint64_t rt_gpu_cost_fold_ns(enum rt_gpu_way way, enum rt_gpu_link link, size_t len);

/* How a device is joined to others by NVLink (links.c); rows LINKS of cost.def. */
enum rt_gpu_links {
    RT_GPU_LINKS_UNKNOWN, /* planned for as a switch */
    RT_GPU_LINKS_NONE,
    RT_GPU_LINKS_SWITCH, /* all other devices share a device's links */
    RT_GPU_LINKS_DIRECT, /* each other device has links of its own */
};
extern const char *const rt_gpu_links_names[];
/* Whether copy engines copy to several devices at the same time (rows LINKS of cost.def). */
bool rt_gpu_links_are_direct(enum rt_gpu_links kind);

/* The most bytes that a rank receives in a short collective on a stream: push_kernels.h. */
size_t rt_gpu_push_max(void);
/* The most bytes, of all ranks, of a collective that is faster through host memory than after
 * waiting for a turn on a device. */
size_t rt_gpu_turn_max(void);

#endif
