/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether a device's NVLinks lead to other devices or to a switch.  The driver cannot be asked, so
 * NVIDIA's management library is, opened when a collective first wants to know and closed again.
 * Without the library nothing is known.  No machine with direct links has been measured: what
 * rests on them is a model (coll/gpu/plan_engine.c).  Under the domain's lock. */
#include "runtime/base/log.h"
#include "runtime/gpu/gpu_int.h"

#include <dlfcn.h>

#define LINKS_MAX 32 /* a device of today has 18 */
#define REMOTE_GPU 0u /* nvmlIntNvLinkDeviceType_t, NVML 11.4 to 13 */
#define REMOTE_SWITCH 2u

const char *const rt_gpu_links_names[] = {
    [RT_GPU_LINKS_UNKNOWN] = "unknown",
    [RT_GPU_LINKS_NONE] = "none",
    [RT_GPU_LINKS_SWITCH] = "to a switch",
    [RT_GPU_LINKS_DIRECT] = "to other devices",
};

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

/* A device with links of both kinds is taken for one at a switch, as is what NVML cannot name. */
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

enum rt_gpu_links rt_gpu_links_at(const char *pci)
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

bool rt_gpu_links_direct(struct rt_gpu *g)
{
    if (!g->links_asked) {
        g->links_asked = true;
        g->links = rt_gpu_links_at(g->info.pci);
        log_info(GPU, "NVLinks of GPU %d: %s", g->info.ordinal, rt_gpu_links_names[g->links]);
    }
    return g->links == RT_GPU_LINKS_DIRECT;
}
