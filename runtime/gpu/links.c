/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether a device's NVLinks lead to other devices or to a switch.  NVIDIA's management library
 * knows; it is opened when a collective first needs the answer and closed again.  Without the
 * library the driver is asked how the device is joined to each other device, which is not always
 * enough.  No machine with direct links has been measured: decisions for such machines rest on a
 * model (coll/gpu/plan_engine.c).  Under the domain's lock. */
#include "runtime/gpu/links.h"
#include "runtime/base/log.h"
#include "runtime/gpu/gpu_int.h"

#include <dlfcn.h>

#define LINKS_MAX 32  /* today's devices have at most 18 */
#define REMOTE_GPU 0u /* nvmlIntNvLinkDeviceType_t, NVML 11.4 to 13 */
#define REMOTE_SWITCH 2u

struct nvml {
    int (*init)(void);
    int (*shutdown)(void);
    int (*by_pci)(const char *id, void **device);
    int (*link_state)(void *device, unsigned link, unsigned *active);
    int (*link_remote)(void *device, unsigned link, unsigned *type);
};

static bool find(void *so, struct nvml *l)
{
    *(void **)&l->init = dlsym(so, "nvmlInit_v2");
    *(void **)&l->shutdown = dlsym(so, "nvmlShutdown");
    *(void **)&l->by_pci = dlsym(so, "nvmlDeviceGetHandleByPciBusId_v2");
    *(void **)&l->link_state = dlsym(so, "nvmlDeviceGetNvLinkState");
    *(void **)&l->link_remote = dlsym(so, "nvmlDeviceGetNvLinkRemoteDeviceType");
    return l->init && l->shutdown && l->by_pci && l->link_state && l->link_remote;
}

/* A device with links of both kinds counts as one at a switch, and so does a device whose links
 * NVML cannot name. */
static enum rt_gpu_links look(const struct nvml *l, const char *pci)
{
    int n = 0, direct = 0;
    void *device;
    if (l->by_pci(pci, &device))
        return RT_GPU_LINKS_UNKNOWN;
    for (unsigned k = 0; k < LINKS_MAX; k++) {
        unsigned active = 0, type = REMOTE_SWITCH;
        if (l->link_state(device, k, &active) || !active)
            continue;
        n++;
        direct += !l->link_remote(device, k, &type) && type == REMOTE_GPU;
    }
    return n == 0 ? RT_GPU_LINKS_NONE : direct == n ? RT_GPU_LINKS_DIRECT : RT_GPU_LINKS_SWITCH;
}

static enum rt_gpu_links by_library(const char *pci)
{
    enum rt_gpu_links links = RT_GPU_LINKS_UNKNOWN;
    struct nvml l;
    void *so = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!so)
        return links;
    if (find(so, &l) && !l.init()) {
        links = look(&l, pci);
        l.shutdown();
    }
    dlclose(so);
    return links;
}

/* Atomics between devices need NVLink.  A switch treats all pairs alike.  So devices of which only
 * some are joined, or some better than others, have links of their own.  If all pairs are alike,
 * both are possible. */
static enum rt_gpu_links by_driver(int ordinal)
{
    int n = 0, npeers = 0, njoined = 0, first = 0;
    bool alike = true;
    cu_device d, peer;
    if (!rt_cuda.device_get_p2p_attribute || rt_cuda.device_get(&d, ordinal) ||
        rt_cuda.device_get_count(&n))
        return RT_GPU_LINKS_UNKNOWN;
    for (int i = 0; i < n; i++) {
        int atomics = 0, rank = 0;
        if (i == ordinal || rt_cuda.device_get(&peer, i) ||
            rt_cuda.device_get_p2p_attribute(&atomics, CU_P2P_NATIVE_ATOMICS, d, peer) ||
            rt_cuda.device_get_p2p_attribute(&rank, CU_P2P_PERFORMANCE_RANK, d, peer))
            continue;
        first = npeers++ ? first : rank;
        alike = alike && rank == first;
        njoined += atomics != 0;
    }
    if (npeers == 0)
        return RT_GPU_LINKS_UNKNOWN;
    if (njoined == 0)
        return RT_GPU_LINKS_NONE;
    return njoined < npeers || !alike ? RT_GPU_LINKS_DIRECT : RT_GPU_LINKS_UNKNOWN;
}

enum rt_gpu_links rt_gpu_links_at(const struct rt_gpu_info *device)
{
    enum rt_gpu_links links = by_library(device->pci);
    return links == RT_GPU_LINKS_UNKNOWN ? by_driver(device->ordinal) : links;
}

enum rt_gpu_links rt_gpu_links(struct rt_gpu *g)
{
    if (!g->links.asked) {
        g->links.asked = true;
        g->links.kind = rt_gpu_links_at(&g->info);
        log_info(GPU, "NVLinks of GPU %d: %s", g->info.ordinal, rt_gpu_links_names[g->links.kind]);
    }
    return g->links.kind;
}

bool rt_gpu_links_direct(struct rt_gpu *g) { return rt_gpu_links_are_direct(rt_gpu_links(g)); }
