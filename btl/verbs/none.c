/* SPDX-License-Identifier: BSD-3-Clause */
/* Replaces btl/verbs in a library built without the headers of verbs: WEFT_BTL may name the
 * transport, but it never opens. */
#include "btl/verbs/ops.h"
#include "runtime/base/log.h"

static int none_open(const struct btl_up *up, struct btl **out, int max)
{
    (void)up;
    (void)out;
    (void)max;
    log_debug(BTL, "verbs: this library was built without the headers of RDMA verbs");
    return 0;
}

const struct btl_ops btl_verbs_ops = {
    .name = "verbs",
    .help = "RDMA; not in this build",
    .remote = true,
    .open = none_open,
};
