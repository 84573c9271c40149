/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether a rank would carry out its part of a collective of several hosts on its device.
 *
 * The length from which this is faster was measured on two H200, with hosts simulated by processes
 * of one machine and tcp between them.  Times in us, through host memory -> on devices.  With two
 * ranks a host on two hosts, each GPU shared by two ranks:
 *     bytes         128 KiB         1 MiB           8 MiB
 *     allreduce      745 -> 1270    1950 -> 2150    26200 -> 30200    64 MiB: 343000 -> 230000
 *     reduce         477 -> 730      610 -> 1160     6500 -> 2500
 *     allgather     1590 -> 1600    2100 -> 2000    13300 -> 8500     bytes of one rank
 * With one rank a host they are level up to 1 MiB; at 8 MiB allreduce 7900 -> 7000, allgather
 * 8000 -> 6800, reduce and bcast 5100 -> 4300.  Meetings of ranks that share a GPU cost more than
 * copies of short data; a GPU for each of several ranks on a host was not measured. */

#include "coll/hier/on_device.h"
#include "coll/sched_gpu.h"
#include "coll/select.h"
#include "runtime/base/memkind.h"

#define DEVICE_MIN (4 << 20) /* fewest bytes */

/* Bytes of a rank's longer buffer, if all ranks know them; 0: they do not. */
static int64_t known_bytes(const struct coll_team *t, const struct coll_args *a)
{
    bool blocks = !coll_is(a->kind, COLL_IS_ROOTED | COLL_IS_REDUCTION); /* one for each rank */
    return coll_args_bytes(t, a) * (blocks ? t->size : 1);
}

bool coll_hier_on_device(struct coll_task *k)
{
    struct coll_team *t = k->team;
    struct coll_args host = k->args;
    const char *why;
    host.mem = RT_MEM_HOST;
    int64_t least = t->override.device_min ? t->override.device_min : DEVICE_MIN;
    if (!t->ops->device || known_bytes(t, &host) < least ||
        !(coll_choose(t, &host, false, &why)->need & COLL_NEED_NODES))
        return false;
    struct rt_gpu *g = t->ops->device(t, &k->args);
    return g && coll_begin_device(k, g) >= 0;
}
