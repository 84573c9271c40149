/* SPDX-License-Identifier: BSD-3-Clause */
/* NVLinks between devices, from NVIDIA's management library.  The library is opened at run time;
 * without it no links are shown.  Links to a switch count for every pair of devices with such
 * links.  One thread. */
#include "launcher/info/gpus.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define LINKS_MAX 32 /* current devices have 18 */

/* nvmlPciInfo_t of the functions with suffix _v2; values of NVML 11 to 13. */
struct pci {
    char legacy_id[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char id[32];
};
struct lib {
    int (*init)(void);
    int (*shutdown)(void);
    int (*by_pci)(const char *id, void **device);
    int (*link_state)(void *device, unsigned link, unsigned *active);
    int (*link_remote)(void *device, unsigned link, struct pci *remote);
};
struct links { /* of one device */
    int direct[INFO_GPUS], switched;
};

static bool load(struct lib *l)
{
    void *so = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!so)
        return false;
    *(void **)&l->init = dlsym(so, "nvmlInit_v2");
    *(void **)&l->shutdown = dlsym(so, "nvmlShutdown");
    *(void **)&l->by_pci = dlsym(so, "nvmlDeviceGetHandleByPciBusId_v2");
    *(void **)&l->link_state = dlsym(so, "nvmlDeviceGetNvLinkState");
    *(void **)&l->link_remote = dlsym(so, "nvmlDeviceGetNvLinkRemotePciInfo_v2");
    return l->init && l->shutdown && l->by_pci && l->link_state && l->link_remote && !l->init();
}

/* Index of the device at that address; -1: not a device of the list, but a switch.  The library
 * writes the domain with eight digits. */
static int device_at(const struct info_gpus *gpus, const struct pci *where)
{
    char id[16];
    snprintf(id, sizeof id, "%04x:%02x:%02x.0", where->domain & 0xffff, where->bus & 0xff,
             where->device & 0x1f);
    for (int i = 0; i < gpus->n; i++)
        if (!strcasecmp(id, gpus->dev[i].pci))
            return i;
    return -1;
}

static bool count(const struct lib *l, const struct info_gpus *gpus, int ordinal, struct links *out)
{
    void *device;
    struct pci remote;
    if (l->by_pci(gpus->dev[ordinal].pci, &device))
        return false;
    for (unsigned k = 0; k < LINKS_MAX; k++) {
        unsigned active = 0;
        if (l->link_state(device, k, &active) || !active || l->link_remote(device, k, &remote))
            continue;
        int peer = device_at(gpus, &remote);
        if (peer >= 0)
            out->direct[peer]++;
        else
            out->switched++;
    }
    return true;
}

void info_nvlinks(struct info_gpus *gpus)
{
    struct lib l;
    struct links links[INFO_GPUS] = { 0 };
    bool known = load(&l);
    for (int i = 0; known && i < gpus->n; i++)
        known = count(&l, gpus, i, &links[i]);
    for (int i = 0; i < gpus->n; i++)
        for (int j = 0; j < gpus->n; j++) {
            int a = links[i].switched, b = links[j].switched;
            int n = links[i].direct[j] + (i == j ? 0 : a < b ? a : b);
            gpus->nvlinks[i][j] = known ? n : -1;
        }
    if (known)
        l.shutdown();
}
