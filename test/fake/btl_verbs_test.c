/* SPDX-License-Identifier: BSD-3-Clause */
/* The contract of btl.h over RDMA, once for each path that messages take.  Runs if there is a
 * device: `make check-rdma` makes one. */
#include "btl/btl.h"
#include "runtime/base/cfg.h"
#include "runtime/ib/ib.h"
#include "test/check.h"
#include "test/fake/btl_conformance.h"

#include <stdio.h>

static bool set(const char *name, const char *value)
{
    return rt_cfg_set(name, value, RT_CFG_CMD) == 0;
}
/* No ring, nothing inline, and queues that are always full. */
static bool narrow(void)
{
    return set("verbs_hot", "0") && set("verbs_inline", "0") && set("verbs_window", "4") &&
           set("verbs_depth", "32") && set("verbs_eager", "500");
}
/* Several queue pairs, a ring that is always full. */
static bool lanes(void)
{
    return set("verbs_qps", "3") && set("verbs_ring", "4K") && set("verbs_eager", "500");
}

static void run(const char *name, bool (*prepare)(void))
{
    const uint32_t flags = BTL_PUT | BTL_GET | BTL_WHOLE | BTL_WINDOW;
    struct btl_variant v = { name, "verbs", 2, flags, prepare, NULL };
    CHECK_EQ(btl_conformance(&v), 0);
}

static void usual(void) { run("verbs", NULL); }
static void small_queues(void) { run("verbs-narrow", narrow); }
static void several_queue_pairs(void) { run("verbs-lanes", lanes); }

int main(void)
{
    rt_cfg_load();
    if (!rt_ib_possible()) {
        printf("1..0 # SKIP no RDMA device here; make check-rdma runs this in a guest\n");
        return 77;
    }
    RUN(usual);
    RUN(small_queues);
    RUN(several_queue_pairs);
    return check_end();
}
