/* SPDX-License-Identifier: BSD-3-Clause */
/* A management library for the fake CUDA driver: the libnvidia-ml.so.1 of the build tree.  All
 * devices have four links, to what FAKE_CUDA_LINKS names (direct: other devices; switch); without
 * the variable the library does not start.  There is one function of each type that
 * runtime/gpu/links.c and launcher/info/nvml.c call. */
#include <stdlib.h>
#include <string.h>

#define NOT_FOUND 6
#define NOT_SUPPORTED 3
#define EXPORT __attribute__((visibility("default")))

EXPORT int nvmlInit_v2(void);
EXPORT int nvmlShutdown(void);
EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **device);
EXPORT int nvmlDeviceGetNvLinkState(void *device, unsigned link, unsigned *active);
EXPORT int nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned link, unsigned *type);

int nvmlInit_v2(void) { return getenv("FAKE_CUDA_LINKS") ? 0 : NOT_SUPPORTED; }

int nvmlShutdown(void) { return 0; }

int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **device)
{
    static char any;
    *device = &any;
    return strncmp(id, "0000:", 5) ? NOT_FOUND : 0;
}

int nvmlDeviceGetNvLinkState(void *device, unsigned link, unsigned *active)
{
    (void)device;
    *active = link < 4 && strcmp(getenv("FAKE_CUDA_LINKS"), "none");
    return 0;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned link, unsigned *type)
{
    (void)device, (void)link;
    *type = strcmp(getenv("FAKE_CUDA_LINKS"), "direct") ? 2 : 0;
    return 0;
}
