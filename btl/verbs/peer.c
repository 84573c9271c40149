/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of peers, and their failure.  The engine serialises calls on the instance. */
#include "btl/verbs/peer.h"
#include "runtime/base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

int verbs_peer_get(struct verbs *v, struct rt_proc proc, bool make, struct verbs_peer **out)
{
    struct verbs_peer **head = &v->peers[proc.rank % VERBS_BUCKETS], *p = *head;
    while (p && (p->base.proc.rank != proc.rank || p->base.proc.ns != proc.ns))
        p = p->next;
    if (!p && !make)
        return -RT_ENOENT;
    if (!p) {
        p = calloc(1, sizeof *p);
        if (!p)
            return -RT_ENOMEM;
        p->base.btl = &v->base;
        p->base.proc = proc;
        rt_list_init(&p->xfers);
        rt_list_init(&p->work);
        rt_list_init(&p->ringing);
        rt_list_init(&p->setup.link);
        rt_list_init(&p->held);
        p->next = *head;
        *head = p;
    }
    *out = p;
    return 0;
}

void verbs_peer_work(struct verbs_peer *p)
{
    if (rt_list_empty(&p->work))
        rt_list_append(&verbs_of(p)->work, &p->work);
}

/* Whether this process is leaving, and the peer has all messages sent before the goodbye. */
static bool has_parted(const struct verbs_peer *p)
{
    const struct verbs *v = verbs_of(p);
    return v->leave_ns && p->bye.leave_ns == v->leave_ns &&
           (int32_t)(p->lanes->done - p->bye.wanted) >= 0;
}

void verbs_peer_fail(struct verbs_peer *p, int err, const char *fmt, ...)
{
    va_list ap;
    if (p->err)
        return;
    p->state = has_parted(p) ? VERBS_PARTED : VERBS_FAILED;
    va_start(ap, fmt);
    vsnprintf(p->why, sizeof p->why, fmt, ap);
    va_end(ap);
    p->err = err;
    rt_list_del(&p->setup.link);
    verbs_peer_work(p);
}
