/* SPDX-License-Identifier: BSD-3-Clause */
/* What the management library says of a device's links, or that nothing is known. */
#include "runtime/gpu/gpu.h"
#include "test/check.h"

#include <stdlib.h>

#define HERE "0000:10:00.0"

static void kinds(void)
{
    static const struct {
        const char *fake;
        enum rt_gpu_links links;
    } cases[] = { { "direct", RT_GPU_LINKS_DIRECT },
                  { "switch", RT_GPU_LINKS_SWITCH },
                  { "none", RT_GPU_LINKS_NONE } };
    for (int i = 0; i < 3; i++) {
        setenv("FAKE_CUDA_LINKS", cases[i].fake, 1);
        CHECK_EQ(rt_gpu_links_at(HERE), cases[i].links);
        CHECK(rt_gpu_links_names[cases[i].links]);
    }
    CHECK_EQ(rt_gpu_links_at("ffff:10:00.0"), RT_GPU_LINKS_UNKNOWN); /* no such device */
}

/* The fake library does not start without the variable, as where no driver runs. */
static void not_known(void)
{
    unsetenv("FAKE_CUDA_LINKS");
    CHECK_EQ(rt_gpu_links_at(HERE), RT_GPU_LINKS_UNKNOWN);
}

int main(void)
{
    RUN(kinds);
    RUN(not_known);
    return check_end();
}
