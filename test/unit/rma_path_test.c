/* SPDX-License-Identifier: BSD-3-Clause */
/* The choice of a path to the memory of a target, for all facts. */
#include "mpi/rma/path.h"
#include "mpi/rma/ctl.h"
#include "mpi/rma/format.h"
#include "test/check.h"

enum { AM = WM_PATH_AM, CMA = WM_PATH_CMA, PTR = WM_PATH_DIRECT };

static struct wm_rma_choice choose(int force, bool same_host, bool self, int where, bool readable)
{
    struct wm_rma_facts f = { .force = (uint8_t)force,
                              .same_host = same_host,
                              .self = self,
                              .where = (uint8_t)where,
                              .readable = readable };
    return wm_rma_choose(&f);
}

/* Another process of this host. */
static void same_host(void)
{
    static const struct {
        int where, readable[2], refused[2]; /* with the settings auto and cma */
    } rows[] = {
        { WM_RMA_NOWHERE, { PTR, PTR }, { PTR, PTR } },
        { WM_RMA_IN_FILE, { PTR, CMA }, { PTR, AM } },
        { WM_RMA_IN_NODE, { PTR, CMA }, { PTR, AM } },
        { WM_RMA_PRIVATE, { CMA, CMA }, { AM, AM } },
        { WM_RMA_DYNAMIC, { CMA, CMA }, { AM, AM } },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int where = rows[i].where;
        CHECK_EQ(choose(WM_RMA_FORCE_NONE, true, false, where, true).path, rows[i].readable[0]);
        CHECK_EQ(choose(WM_RMA_FORCE_CMA, true, false, where, true).path, rows[i].readable[1]);
        CHECK_EQ(choose(WM_RMA_FORCE_NONE, true, false, where, false).path, rows[i].refused[0]);
        CHECK_EQ(choose(WM_RMA_FORCE_CMA, true, false, where, false).path, rows[i].refused[1]);
    }
}

/* Nothing else counts for the own memory, for another host, and with messages forced. */
static void one_fact_decides(void)
{
    for (int where = WM_RMA_NOWHERE; where <= WM_RMA_DYNAMIC; where++)
        for (int readable = 0; readable < 2; readable++) {
            CHECK_EQ(choose(WM_RMA_FORCE_NONE, true, true, where, readable).path, PTR);
            CHECK_EQ(choose(WM_RMA_FORCE_CMA, true, true, where, readable).path, PTR);
            CHECK_EQ(choose(WM_RMA_FORCE_NONE, false, false, where, readable).path, AM);
            CHECK_EQ(choose(WM_RMA_FORCE_CMA, false, false, where, readable).path, AM);
            for (int self = 0; self < 2; self++)
                CHECK_EQ(choose(WM_RMA_FORCE_AM, true, self, where, readable).path, AM);
        }
}

/* Device memory that cannot be mapped is reached by its process alone, and by that one in the same
 * way. */
static void device_memory(void)
{
    for (int where = WM_RMA_PRIVATE; where <= WM_RMA_DYNAMIC; where++)
        for (int self = 0; self < 2; self++) {
            struct wm_rma_facts f = { .same_host = true,
                                      .self = self,
                                      .where = (uint8_t)where,
                                      .device = true,
                                      .readable = true };
            CHECK_EQ(wm_rma_choose(&f).path, AM);
            CHECK_STR(wm_rma_choose(&f).reason, "it has device memory");
            f.mapped = true;
            CHECK_EQ(wm_rma_choose(&f).path, WM_PATH_DEVICE);
            CHECK_STR(wm_rma_choose(&f).reason, "it has device memory that can be mapped");
            f.force = WM_RMA_FORCE_CMA;
            CHECK_EQ(wm_rma_choose(&f).path, AM);
            f.force = WM_RMA_FORCE_AM;
            CHECK_EQ(wm_rma_choose(&f).path, AM);
        }
}

/* Between hosts where the transport offers it; within a host if it is forced, but not to the own
 * memory or device memory. */
static void rdma(void)
{
    struct wm_rma_facts far = { .rdma = true };
    CHECK_EQ(wm_rma_choose(&far).path, WM_PATH_RDMA);
    CHECK_STR(wm_rma_choose(&far).reason, "it is on another host, with RDMA between");
    far.force = WM_RMA_FORCE_AM;
    CHECK_EQ(wm_rma_choose(&far).path, AM);
    for (int where = WM_RMA_NOWHERE; where <= WM_RMA_DYNAMIC; where++) {
        struct wm_rma_facts f = { .same_host = true, .where = (uint8_t)where, .readable = true };
        f.rdma = true;
        CHECK(wm_rma_choose(&f).path != WM_PATH_RDMA);
        f.force = WM_RMA_FORCE_RDMA;
        CHECK_EQ(wm_rma_choose(&f).path, where == WM_RMA_NOWHERE ? PTR : WM_PATH_RDMA);
        f.device = f.mapped = true;
        CHECK_EQ(wm_rma_choose(&f).path, AM);
        f.device = false;
        f.self = true;
        CHECK_EQ(wm_rma_choose(&f).path, PTR);
        f.self = f.rdma = false;
        CHECK_EQ(wm_rma_choose(&f).path, where == WM_RMA_NOWHERE ? PTR : AM);
    }
}

static void reasons(void)
{
    CHECK_STR(choose(WM_RMA_FORCE_AM, false, false, 0, false).reason, "setting rma_path");
    CHECK_STR(choose(WM_RMA_FORCE_CMA, true, false, WM_RMA_IN_FILE, true).reason,
              "setting rma_path");
    CHECK_STR(choose(WM_RMA_FORCE_CMA, true, false, WM_RMA_IN_FILE, false).reason,
              "its memory cannot be read from here");
    CHECK_STR(choose(WM_RMA_FORCE_NONE, true, true, WM_RMA_PRIVATE, false).reason,
              "it is this process");
    CHECK_STR(choose(WM_RMA_FORCE_NONE, true, false, WM_RMA_NOWHERE, false).reason,
              "it has no memory");
}

int main(void)
{
    RUN(same_host);
    RUN(one_fact_decides);
    RUN(device_memory);
    RUN(rdma);
    RUN(reasons);
    return check_end();
}
