/* SPDX-License-Identifier: BSD-3-Clause */
/* A device's links as reported by the management library, or without the library by the driver. */
#include "runtime/gpu/cu.h"
#include "runtime/gpu/gpu.h"
#include "test/check.h"

#include <stdlib.h>

static struct rt_gpu_info here = { .ordinal = 0, .pci = "0000:10:00.0" };

static void by_the_library(void)
{
    static const struct {
        const char *fake;
        enum rt_gpu_links links;
        bool direct;
    } cases[] = { { "direct", RT_GPU_LINKS_DIRECT, true },
                  { "switch", RT_GPU_LINKS_SWITCH, false },
                  { "none", RT_GPU_LINKS_NONE, false } };
    for (int i = 0; i < 3; i++) {
        setenv("FAKE_CUDA_LINKS", cases[i].fake, 1);
        CHECK_EQ(rt_gpu_links_at(&here), cases[i].links);
        CHECK_EQ(rt_gpu_links_are_direct(cases[i].links), cases[i].direct);
        CHECK(rt_gpu_links_names[cases[i].links]);
    }
}

/* Four devices that are linked in pairs, as by bridges, do not have a switch. */
static void by_the_driver(void)
{
    static const struct {
        const char *fake;
        enum rt_gpu_links links;
    } cases[] = { { "all", RT_GPU_LINKS_UNKNOWN },
                  { "pairs", RT_GPU_LINKS_DIRECT },
                  { "none", RT_GPU_LINKS_NONE } };
    struct rt_gpu_info elsewhere = { .ordinal = 0, .pci = "ffff:10:00.0" };
    for (int i = 0; i < 3; i++) {
        unsetenv("FAKE_CUDA_LINKS"); /* the library does not start */
        setenv("FAKE_CUDA_JOINED", cases[i].fake, 1);
        CHECK_EQ(rt_gpu_links_at(&here), cases[i].links);
        setenv("FAKE_CUDA_LINKS", "direct", 1);
        CHECK_EQ(rt_gpu_links_at(&elsewhere), cases[i].links); /* which the library does not know */
    }
    unsetenv("FAKE_CUDA_LINKS");
    struct rt_gpu_info none = { .ordinal = 99, .pci = "" };
    CHECK_EQ(rt_gpu_links_at(&none), RT_GPU_LINKS_UNKNOWN);
    rt_cuda.device_get_p2p_attribute = NULL; /* a driver that has no such function */
    CHECK_EQ(rt_gpu_links_at(&here), RT_GPU_LINKS_UNKNOWN);
}

int main(void)
{
    setenv("FAKE_CUDA_DEVICES", "4", 1);
    if (rt_cuda_open(true) || rt_cuda.init(0))
        return 77;
    RUN(by_the_library);
    RUN(by_the_driver);
    return check_end();
}
