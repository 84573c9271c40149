/* SPDX-License-Identifier: BSD-3-Clause */
/* Replaces cm.c in a library built without the headers of rdma_cm: iWARP devices are not used, and
 * WEFT_VERBS_CONNECT=cm is an error. */
#include "btl/verbs/cm.h"
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/ib/cm.h"

bool verbs_cm_wanted(const struct rt_ib_rail *ib)
{
    (void)ib;
    return false;
}

int verbs_cm_open(struct verbs *v)
{
    (void)v;
    if (cfg.verbs_connect != RT_CM_ALWAYS)
        return 0;
    log_error(BTL, "connecting by rdma_cm is not possible: %s", rt_cm_why_not());
    return -RT_ENOTSUP;
}

void verbs_cm_close(struct verbs *v) { (void)v; }
int verbs_cm_fd(const struct verbs *v)
{
    (void)v;
    return -1;
}
void verbs_cm_lanes_close(struct verbs_peer *p) { (void)p; }
int verbs_cm_progress(struct verbs *v)
{
    (void)v;
    return 0;
}
