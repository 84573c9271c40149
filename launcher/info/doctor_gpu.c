/* SPDX-License-Identifier: BSD-3-Clause */
/* weft_info --doctor on GPUs: what prevents the use of device buffers, or makes messages between
 * them slower than this machine allows.  Nothing is changed, in particular no setting of the kernel
 * module.  One thread. */
#include "launcher/info/gpus.h"
#include "launcher/info/info.h"
#include "runtime/base/cfg.h"
#include "runtime/gpu/gpu.h"
#include "runtime/gpu/images.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { GPU_AUTO, GPU_ON, GPU_OFF }; /* cfg.gpu */

static unsigned long sys_number(const char *device, const char *file)
{
    char path[320], text[32] = "";
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%.255s/%s", device, file);
    FILE *f = fopen(path, "re");
    if (!f)
        return 0;
    char *got = fgets(text, sizeof text, f);
    fclose(f);
    return got ? strtoul(text, NULL, 16) : 0;
}

/* NVIDIA displays and 3D controllers that the kernel lists, whether or not this user may use
 * them. */
static int count_hardware(void)
{
    int n = 0;
    DIR *d = opendir("/sys/bus/pci/devices");
    for (struct dirent *e; d && (e = readdir(d));)
        n += sys_number(e->d_name, "vendor") == 0x10de && sys_number(e->d_name, "class") >> 16 == 3;
    if (d)
        closedir(d);
    return n;
}

/* There may be devices, but none is usable. */
static void say_none(const struct info_gpus *g, int nhardware)
{
    const char *mask = getenv("CUDA_VISIBLE_DEVICES"), *advice;
    char found[512];
    enum rt_gpu_driver driver = rt_gpu_driver(true);
    bool open = access("/dev/nvidiactl", R_OK | W_OK) == 0;
    if (g->why == info_unwatched)
        advice = "WEFT_GPU=on, if programs pass device buffers to MPI";
    else if (driver == RT_GPU_DRIVER_OLD)
        advice = "install driver 460 or later: Weft needs functions of CUDA 11.2";
    else if (driver == RT_GPU_DRIVER_NONE)
        advice = "install the driver with libcuda.so.1, or put its folder into LD_LIBRARY_PATH; in "
                 "containers: docker run --gpus all";
    else if (mask)
        advice = "CUDA_VISIBLE_DEVICES is set: unset it, or name devices that exist";
    else if (!open)
        advice = "load the kernel module (run nvidia-smi); in containers: docker run --gpus all";
    else
        advice = "check whether nvidia-smi works; the kernel module and libcuda must be of one "
                 "version, and /dev/nvidia-uvm must exist (nvidia-modprobe -u)";
    snprintf(found, sizeof found, "%d NVIDIA device%s found, none can be used: %s", nhardware,
             nhardware == 1 ? "" : "s", g->why);
    info_say(false, "GPUs", found, advice);
}

static void check_devices(const struct info_gpus *g, int nhardware)
{
    char found[512];
    const char *mask = getenv("CUDA_VISIBLE_DEVICES");
    int version = rt_gpu_driver_version();
    snprintf(found, sizeof found, "%d x %s, driver for CUDA %d.%d", g->n, g->dev[0].name,
             version / 1000, version % 1000 / 10);
    info_say(true, "GPUs", found, "");
    if (!mask)
        return;
    snprintf(found, sizeof found, "CUDA_VISIBLE_DEVICES=%.100s selects %d of %d; ranks may differ",
             mask, g->n, nhardware > g->n ? nhardware : g->n);
    info_say(true, "visible devices", found, "");
}

static void check_kernels(const struct info_gpus *g)
{
    static const char advice[] =
        "build Weft where nvcc is available (configure --with-cuda=DIR); small "
        "messages and derived datatypes are slower until then";
    char found[256] = WEFT_GPU_KERNELS;
    bool good = rt_gpu_images[0].name != NULL;
    for (int i = 0; good && i < g->n; i++) {
        struct rt_gpu *gpu;
        if (rt_gpu_primary(i, &gpu) == 0 && !rt_gpu_has_kernels(gpu)) {
            snprintf(found, sizeof found, "%s; device %d (sm_%d%d) can run none of them",
                     WEFT_GPU_KERNELS, i, g->dev[i].major, g->dev[i].minor);
            good = false;
        }
    }
    info_say(good, "GPU kernels", found, advice);
}

static void check_access(const struct info_gpus *g)
{
    char found[160];
    for (int i = 0; i < g->n; i++) {
        for (int j = 0; j < g->n; j++) {
            if (g->access[i][j])
                continue;
            snprintf(found, sizeof found, "device %d has no access to device %d", i, j);
            info_say(false, "access between devices", found,
                     "their messages pass through host memory; nvidia-smi topo -p2p r says why: "
                     "no NVLink and different PCIe roots, an IOMMU, or a virtual machine");
            return;
        }
    }
    if (g->n > 1)
        info_say(true, "access between devices", "each device uses the memory of all others", "");
}

static void check_sharing(const struct info_gpus *g)
{
    static const char *const advice[] = {
        ("messages from cudaMalloc memory are staged; processes in different containers need "
         "--ipc=host and --pid=host for it"),
        "messages from cuMemCreate memory are staged; a driver of CUDA 11.2 or later shares it",
    };
    const info_share_table *t = info_share();
    char found[256];
    int nworks = 0;
    for (int k = 0; k < INFO_SHARES; k++) {
        const struct info_shared *bad = NULL;
        for (int p = 0; p < g->n * g->n && !bad; p++) {
            const struct info_shared *s = &(*t)[p / g->n][p % g->n][k];
            /* pairs of devices without access to each other have their own line */
            if (!s->works && g->access[p % g->n][p / g->n])
                bad = s;
        }
        nworks += !bad;
        if (!bad)
            continue;
        snprintf(found, sizeof found, "%s memory is not shared: %s", info_share_names[k], bad->why);
        info_say(false, "sharing device memory", found, advice[k]);
    }
    if (nworks == INFO_SHARES)
        info_say(true, "sharing device memory", "cudaMalloc and VMM, tried", "");
}

static void check_files(void)
{
    if (access("/dev/nvidiactl", F_OK) != 0)
        return; /* the driver is reached by another path */
    bool uvm = access("/dev/nvidia-uvm", R_OK | W_OK) == 0;
    info_say(uvm, "/dev/nvidia-uvm", uvm ? "is there" : "is missing or closed to this user",
             "nvidia-modprobe -u as root; in containers, pass the device through");
    bool caps = access("/dev/nvidia-caps", F_OK) == 0;
    info_say(true, "/dev/nvidia-caps",
             caps ? "is there" : "is missing: parts of a device (MIG) could not be used", "");
}

static void check_pinned(void)
{
    struct rt_gpu *gpu;
    struct rt_gpu_stage *s;
    struct rlimit limit = { 0 };
    char found[160], text[32] = "unlimited";
    if (rt_gpu_primary(0, &gpu) < 0)
        return;
    bool works = rt_gpu_stage_take(gpu, true, RT_GPU_STAGE_LARGE, &s) == 0;
    if (works)
        rt_gpu_stage_give(s);
    getrlimit(RLIMIT_MEMLOCK, &limit);
    if (limit.rlim_cur != RLIM_INFINITY)
        info_bytes((size_t)limit.rlim_cur, text, sizeof text);
    snprintf(found, sizeof found, "%s; limit of locked memory: %s",
             works ? "available" : "the driver gives none", text);
    info_say(works, "pinned memory", found,
             "ulimit -l unlimited; docker run --ulimit memlock=-1; free memory of the host");
}

static void check_settings(const struct info_gpus *g)
{
    const char *blocking = getenv("CUDA_LAUNCH_BLOCKING");
    bool exclusive = false;
    if (blocking && *blocking && strcmp(blocking, "0") != 0)
        info_say(false, "CUDA_LAUNCH_BLOCKING", "is set: the driver waits for each kernel and copy",
                 "unset it; it is for debugging");
    for (int i = 0; i < g->n; i++)
        exclusive |= g->dev[i].exclusive;
    if (!info_listed("cuda"))
        info_say(false, "transport cuda", "is excluded by the setting btl: messages are staged",
                 "WEFT_BTL=self,cuda,shm");
    if (exclusive)
        info_say(false, "compute mode", "exclusive: one process for each device",
                 "nvidia-smi -c DEFAULT, if ranks are to share a device");
}

void info_doctor_gpu(void)
{
    int nhardware = count_hardware();
    if (cfg.gpu == GPU_OFF) {
        info_say(nhardware == 0, "GPUs", "device buffers are switched off (setting gpu)",
                 "WEFT_GPU=auto, if the program passes device buffers to MPI");
        return;
    }
    const struct info_gpus *g = info_gpus();
    if (!g->n) {
        bool expected = nhardware || cfg.gpu == GPU_ON || g->why == info_unwatched ||
                        access("/dev/nvidiactl", F_OK) == 0;
        if (expected)
            say_none(g, nhardware);
        else
            info_say(true, "GPUs", "none on this machine", "");
        return;
    }
    check_devices(g, nhardware);
    check_kernels(g);
    check_access(g);
    check_sharing(g);
    check_files();
    check_pinned();
    check_settings(g);
}
