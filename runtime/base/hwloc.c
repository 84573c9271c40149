/* SPDX-License-Identifier: BSD-3-Clause */
/* hwloc's plugins, for the first user of hwloc in this process: libpmix or runtime/topo. */
#include "runtime/base/hwloc.h"
#include "runtime/base/log.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

static const char var[] = "HWLOC_PLUGINS_PATH";

bool rt_hwloc_works(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 || errno == EINVAL) /* EINVAL: more cores */
        return true;
    log_error(TOPO,
              "sched_getaffinity(2) is refused (%m), without which hwloc cannot find the cores of "
              "this machine; allow it in the seccomp filter of this container");
    return false;
}

bool rt_hwloc_hide_plugins(void)
{
    bool ours = !getenv(var); /* hwloc's own variable, not a setting of Weft: a value set by the
                               * user is kept */

    if (ours)
        setenv(var, "/nonexistent", 1);
    return ours;
}

void rt_hwloc_show_plugins(bool hidden)
{
    if (hidden)
        unsetenv(var);
}
