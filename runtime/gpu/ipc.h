/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of other processes. */
#ifndef RT_GPU_IPC_H
#define RT_GPU_IPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rt_gpu;
struct rt_gpu_ptr;

enum rt_gpu_share { RT_GPU_SHARE_NONE, RT_GPU_SHARE_LEGACY, RT_GPU_SHARE_VMM };
/* Everything another process needs to map an allocation, except the descriptors, which travel over
 * a Unix socket. */
struct rt_gpu_export {
    uint8_t how; /* enum rt_gpu_share */
    uint8_t uuid[16];
    union {
        uint8_t handle[64];
        uint64_t part; /* VMM: bytes of each mapping but the last */
    };
    uint64_t base, len; /* in the exporter's address space */
};
/* Descriptors of the mappings of VMM memory, in their order; n is 0 for other memory.  With more
 * mappings, memory is not exported: 64 of 20 MiB, as PyTorch makes them, are 1.25 GiB. */
#define RT_GPU_PARTS 64
struct rt_gpu_fds {
    int n;
    int fd[RT_GPU_PARTS];
};
void rt_gpu_fds_close(struct rt_gpu_fds *f);
/* For tools: memory of a kind that can be exported, on g's device; it exists until the process
 * ends.  -RT_ENOMEM, -RT_EGPU, logged. */
int rt_gpu_alloc(struct rt_gpu *g, enum rt_gpu_share how, size_t len, void **out);
/* *fds: descriptors to send with it, which the caller closes.  -RT_ENOTSUP: this memory cannot be
 * exported; -RT_EGPU: the context is lost. */
int rt_gpu_export_mem(const struct rt_gpu_ptr *p, struct rt_gpu_export *out,
                      struct rt_gpu_fds *fds);
struct rt_gpu_import; /* a mapping of another process's allocation */
/* Maps it for use by g's device (the descriptors remain the caller's).  -RT_EUNREACH: the devices
 * have no access to each other; -RT_ENOTSUP: the driver refuses this memory; both are reported
 * once, with what happens instead.  -RT_EAGAIN: memory that has been freed there but is still
 * mapped here lies at the same address, and unmapping it could wait for the application's kernels;
 * it may be mapped later (rt_gpu_run_deferred()).  -RT_ENOMEM: the driver has no memory for it.
 * -RT_EGPU: g is lost.  Takes 3 to 4 ms. */
int rt_gpu_import(struct rt_gpu *g, const struct rt_gpu_export *e, const struct rt_gpu_fds *fds,
                  struct rt_gpu_import **out, void **base);
void rt_gpu_unimport(struct rt_gpu_import *m);
/* False when the context in which it was mapped has gone: then only rt_gpu_unimport() is
 * allowed. */
bool rt_gpu_import_alive(const struct rt_gpu_import *m);
/* Whether copies of g may use memory of another device of this process; enables its device's access
 * to the other's memory.  -RT_EUNREACH; -RT_EGPU. */
int rt_gpu_reach(struct rt_gpu *g, const struct rt_gpu_ptr *p);

/* Unmaps what is left of other processes' memory; makes no call with g->lost. */
void rt_gpu_ipc_fini(struct rt_gpu *g);

#endif
