/* SPDX-License-Identifier: BSD-3-Clause */
/* Machine facts: a recorded machine of two packages with a GPU and a NIC, this machine, and files
 * that are not a topology.  The argument is the folder of recorded machines. */
#include "runtime/base/err.h"
#include "runtime/topo/topo.h"
#include "test/check.h"
#include "test/unit/capture.h"

#include <sched.h>

static const char *data_dir = "test/data";
static char path[4096];

static const char *in_data(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", data_dir, name);
    return path;
}

static void recorded_machine(void)
{
    CHECK_EQ(rt_topo_load(in_data("two-socket-gpu.xml")), 0);
    const struct rt_topo *t = rt_topo_get();
    CHECK(t != NULL);
    CHECK_EQ(t->npackage, 2);
    CHECK_EQ(t->nnuma, 2);
    CHECK_EQ(t->nl3, 2);
    CHECK_EQ(t->ncore, 8);
    CHECK_EQ(t->npu, 16);
    CHECK_EQ(t->l2_bytes, 1 << 20);
    CHECK_EQ(t->l3_bytes, 32 << 20);
    CHECK_STR(t->cpu_model, "Example 8-Core Processor");
}

static void print_names_the_devices(void)
{
    char *text = NULL;
    size_t len;
    FILE *f = open_memstream(&text, &len);
    rt_topo_print(f);
    fclose(f);
    CHECK(strstr(text, "cores          8, hardware threads 16\n") != NULL);
    CHECK(strstr(text, "L3 caches      2, 32 MiB each; L2 1 MiB\n") != NULL);
    CHECK_MSG(strstr(text, "GPU            0000:17:00.0 NVIDIA H200, NUMA node 1\n") != NULL,
              "printed %s", text);
    CHECK_MSG(strstr(text, "NIC            0000:18:00.0 ConnectX-7 mlx5_0, NUMA node 1\n") != NULL,
              "printed %s", text);
    free(text);
}

static void bad_files_leave_the_topology(void)
{
    capture_begin();
    CHECK_EQ(rt_topo_load("/nonexistent.xml"), -RT_EINVAL);
    CHECK(strstr(capture_end(), "'/nonexistent.xml'") != NULL);
    capture_begin();
    CHECK_EQ(rt_topo_load("/dev/null"), -RT_EINVAL);
    CHECK(strstr(capture_end(), "'/dev/null'") != NULL);
    CHECK_EQ(rt_topo_get()->npu, 16);
}

static void this_machine_respects_the_binding(void)
{
    cpu_set_t all, one;
    CHECK_EQ(sched_getaffinity(0, sizeof all, &all), 0);
    rt_topo_fini();
    CHECK(rt_topo_hwloc() != NULL);
    CHECK_EQ(rt_topo_get()->npu, CPU_COUNT(&all));
    CHECK(getenv("HWLOC_PLUGINS_PATH") == NULL);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &all))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    CHECK_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    rt_topo_fini();
    CHECK_EQ(rt_topo_get()->npu, 1);
    CHECK_EQ(rt_topo_get()->ncore, 1);
    CHECK_EQ(rt_topo_get()->npackage, 1);
    sched_setaffinity(0, sizeof all, &all);
    rt_topo_fini();
    rt_topo_fini();
}

int main(int argc, char **argv)
{
    unsetenv("HWLOC_PLUGINS_PATH");
    rt_topo_find_devices();
    if (argc > 1)
        data_dir = argv[1];
    RUN(recorded_machine);
    RUN(print_names_the_devices);
    RUN(bad_files_leave_the_topology);
    RUN(this_machine_respects_the_binding);
    return check_end();
}
