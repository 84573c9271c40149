/* SPDX-License-Identifier: BSD-3-Clause */
/* Partitioned requests in descriptions of waits: which partitions are missing.  Called under the
 * domain's lock. */
#include "mpi/p2p/describe.h"
#include "mpi/p2p/part.h"
#include "runtime/base/err.h"
#include <stdio.h>
#include <string.h>

/* A send lacks the partitions that the program has not marked ready; a receive, those that have not
 * arrived. */
static bool is_missing(const struct wm_part *p, int i)
{
    return p->is_recv ? !wm_part_arrived(p, i) : !rt_load_relaxed(&p->pieces[i].ready);
}

/* The first ranges: "1,3", "0-15", "0-1,4,7-8,...". */
static int write_ranges(const struct wm_part *p, char *out, size_t room)
{
    static const char more[] = ",...";
    size_t len = 0;
    bool full = false;
    int n = 0;
    out[0] = '\0';
    for (int i = 0, last; i < p->partitions; i = last + 1) {
        last = i;
        if (!is_missing(p, i))
            continue;
        while (last + 1 < p->partitions && is_missing(p, last + 1))
            last++;
        char one[32];
        size_t k = (size_t)snprintf(one, sizeof one, last > i ? "%s%d-%d" : "%s%d", n ? "," : "", i,
                                    last);
        n += last - i + 1;
        if (full)
            continue;
        full = len + k + sizeof more > room;
        memcpy(out + len, full ? more : one, full ? sizeof more : k + 1);
        len += k;
    }
    return n;
}

void wm_part_describe(const struct rt_req *r, struct rt_wait_note *n)
{
    const struct wm_part *p = (const struct wm_part *)r;
    enum rt_wait_kind kind = p->is_recv ? RT_WAIT_PARTS : RT_WAIT_READY;
    if (!p->comm)
        return;
    int missing = write_ranges(p, n->what, sizeof n->what);
    if (!p->is_recv && !missing)
        kind = RT_WAIT_SEND;
    wm_describe_one(
        n, p->comm,
        wm_describe_item(kind, p->comm, p->peer_rank, p->key.tag, p->nbytes * p->partitions));
    n->number = (uint64_t)missing;
    n->root = p->partitions;
}
