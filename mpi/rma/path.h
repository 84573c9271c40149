/* SPDX-License-Identifier: BSD-3-Clause */
/* The path from an origin to the memory of a target: a pure function of facts, which target.c
 * gathers.  weft_info --rma calls the same function.  Any thread. */
#ifndef WM_RMA_PATH_H
#define WM_RMA_PATH_H

#include <stdbool.h>
#include <stdint.h>

/* How an origin reaches the memory of a target: messages, copies between processes, a pointer,
 * operations of this process's device on mapped device memory (map.c, acc_origin.c; other
 * operations by messages), puts and gets of the transport (net.c; other operations by messages). */
enum wm_rma_path { WM_PATH_AM, WM_PATH_CMA, WM_PATH_DIRECT, WM_PATH_DEVICE, WM_PATH_RDMA };
extern const char *const wm_rma_path_names[];

struct wm_rma_facts {
    uint8_t force;  /* value of the setting rma_path (format.h) */
    bool same_host; /* the target's control block is in the window's file */
    bool self;      /* the target is this process */
    uint8_t where;  /* enum wm_rma_where, if on the same host */
    bool device;    /* it has device memory in the window, if on the same host */
    bool mapped;    /* that memory can be mapped: it has a key */
    bool rdma;      /* the transport to it accesses memory of windows, and this is no dynamic one */
    bool readable;  /* the system permits process_vm_readv, if on the same host */
};

struct wm_rma_choice {
    enum wm_rma_path path;
    const char *reason; /* a clause about the target, "it" */
};

struct wm_rma_choice wm_rma_choose(const struct wm_rma_facts *f);

#endif
