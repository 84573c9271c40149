/* SPDX-License-Identifier: BSD-3-Clause */
/* The devices that the driver shows to this process.  None of these calls makes a context. */
#include "runtime/gpu/devices.h"
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/gpu/cu.h"
#include "runtime/gpu/driver.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CFG_GPU_ON 1 /* positions of the words in cfg.def */
#define CFG_GPU_OFF 2
#define DEVICE_FILE "/dev/nvidiactl"
/* WSL 2 has no such file: its driver is that of Windows, whose library lies at one fixed path.  The
 * device file alone may belong to a GPU of another vendor. */
#define WSL_DEVICE_FILE "/dev/dxg"
#define WSL_LIBRARY "/usr/lib/wsl/lib/libcuda.so.1"

static char why_not[320]; /* result of rt_gpu_why_not() */

static bool has_device_file(void)
{
    return access(DEVICE_FILE, F_OK) == 0 ||
           (access(WSL_DEVICE_FILE, F_OK) == 0 && access(WSL_LIBRARY, F_OK) == 0);
}

bool rt_gpu_possible(void)
{
    return cfg.gpu == CFG_GPU_ON || (cfg.gpu != CFG_GPU_OFF && has_device_file());
}

int rt_gpu_attribute(cu_device d, int which)
{
    int value = 0;
    return rt_cuda.device_get_attribute(&value, which, d) == CU_OK ? value : 0;
}

int rt_gpu_describe_device(cu_device d, int ordinal, struct rt_gpu_info *out)
{
    struct rt_gpu_info i = { .ordinal = ordinal };
    struct cu_uuid uuid;
    cu_result r = rt_cuda.device_get_name(i.name, sizeof i.name, d);
    if (r == CU_OK)
        r = rt_cuda.device_get_pci_bus_id(i.pci, sizeof i.pci, d);
    if (r == CU_OK)
        r = rt_cuda.device_total_mem(&i.mem_nbytes, d);
    if (r != CU_OK)
        return rt_cuda_error(r, "asking for a device's name and memory");
    if (rt_cuda.device_get_uuid && rt_cuda.device_get_uuid(&uuid, d) == CU_OK)
        memcpy(i.uuid, uuid.bytes, sizeof i.uuid);
    else
        memcpy(i.uuid, i.pci, sizeof i.uuid); /* distinguishes devices of one host */
    i.major = rt_gpu_attribute(d, CU_DEV_MAJOR);
    i.minor = rt_gpu_attribute(d, CU_DEV_MINOR);
    i.nsm = rt_gpu_attribute(d, CU_DEV_MULTIPROCESSORS);
    i.unified_managed = rt_gpu_attribute(d, CU_DEV_CONCURRENT_MANAGED) != 0;
    i.exclusive = rt_gpu_attribute(d, CU_DEV_COMPUTE_MODE) == CU_COMPUTE_EXCLUSIVE_PROCESS;
    i.mps = rt_gpu_attribute(d, CU_DEV_MPS) != 0;
    *out = i;
    return 0;
}

bool rt_gpu_can_access(int ordinal, int peer)
{
    cu_device d, other;
    int can = 0;
    if (peer == ordinal)
        return true;
    return rt_cuda.device_get(&d, ordinal) == CU_OK && rt_cuda.device_get(&other, peer) == CU_OK &&
           rt_cuda.device_can_access_peer(&can, d, other) == CU_OK && can;
}

/* If the result is 0, why_not has the reason. */
int rt_gpu_count(void)
{
    const char *name = NULL, *text = NULL;
    int n = 0;
    why_not[0] = '\0';
    enum rt_gpu_driver found = rt_gpu_driver(true);
    if (found == RT_GPU_DRIVER_OLD)
        snprintf(why_not, sizeof why_not,
                 "the driver, for CUDA %d.%d, is too old: device buffers "
                 "need one for CUDA 11.2 or newer",
                 rt_gpu_driver_version() / 1000, rt_gpu_driver_version() % 1000 / 10);
    else if (found == RT_GPU_DRIVER_NONE && !has_device_file())
        snprintf(why_not, sizeof why_not,
                 "there is no /dev/nvidiactl: no NVIDIA driver runs here, "
                 "or this container was started without its devices");
    else if (found == RT_GPU_DRIVER_NONE)
        snprintf(why_not, sizeof why_not,
                 "libcuda.so.1 is not found: install the driver's user "
                 "part, or put its folder into LD_LIBRARY_PATH");
    if (found != RT_GPU_DRIVER_READY)
        return 0;
    cu_result r = rt_cuda.init(0);
    if (r == CU_OK)
        r = rt_cuda.device_get_count(&n);
    if (r == CU_OK && n > 0)
        return n;
    if (r == CU_OK || r == CU_ERROR_NO_DEVICE) {
        snprintf(why_not, sizeof why_not,
                 "the driver shows no device to this process: look at "
                 "CUDA_VISIBLE_DEVICES and at the devices of the container");
        return 0;
    }
    rt_cuda.get_error_name(r, &name);
    rt_cuda.get_error_string(r, &text);
    snprintf(why_not, sizeof why_not, "the driver does not start: cuInit answered %d, %s (%s)", r,
             name ? name : "an unknown error", text ? text : "no explanation");
    return 0;
}

const char *rt_gpu_why_not(void) { return rt_gpu_count() > 0 ? NULL : why_not; }

int rt_gpu_driver_version(void)
{
    int version = 0;
    if (rt_gpu_driver(true) == RT_GPU_DRIVER_NONE || !rt_cuda.driver_get_version ||
        rt_cuda.driver_get_version(&version) != CU_OK)
        return 0;
    return version;
}

int rt_gpu_check_ordinal(int ordinal)
{
    int n = rt_gpu_count();
    if (ordinal >= 0 && ordinal < n)
        return 0;
    if (n == 0)
        log_error(GPU, "no GPU %d: %s", ordinal, why_not);
    else
        log_error(GPU, "no GPU %d: this process sees 0 to %d", ordinal, n - 1);
    return -RT_ENOENT;
}

int rt_gpu_describe(int ordinal, struct rt_gpu_info *out)
{
    cu_device d;
    int err = rt_gpu_check_ordinal(ordinal);
    if (err)
        return err;
    cu_result r = rt_cuda.device_get(&d, ordinal);
    return r == CU_OK ? rt_gpu_describe_device(d, ordinal, out) : rt_cuda_error(r, "cuDeviceGet");
}
