/* SPDX-License-Identifier: BSD-3-Clause */
/* The blocks of a call that coll_args_uses() counts: of v and w forms one for each rank, and for an
 * in-place row.  A call on device memory is left out. */
#include "mpi/coll/check_bufs.h"
#include <stdio.h>
#include "mpi/check/memory.h"
#include "mpi/check/report.h"
#include "mpi/check/uses.h"
#include "mpi/coll/stage.h"

static uintptr_t end_of(const struct coll_block *b)
{
    return (uintptr_t)b->at + (uintptr_t)(b->n * b->l->extent);
}

/* A look takes some microseconds, so of many blocks only the first and the last one in memory are
 * looked at. */
void check_bufs_look(const struct wm_call *call)
{
    const struct coll_team *t = &call->comm->team;
    for (int side = COLL_SEND; side <= COLL_RECV; side++) {
        int n = coll_args_uses(t, &call->args, (enum coll_side)side);
        struct coll_use first = { .b.l = NULL }, last = first;
        for (int i = 0; i < n; i++) {
            struct coll_use u = coll_args_use(t, &call->args, (enum coll_side)side, i);
            if (!coll_block_nbytes(&u.b))
                continue;
            if (!first.b.l || u.b.at < first.b.at)
                first = u;
            if (!last.b.l || end_of(&u.b) > end_of(&last.b))
                last = u;
        }
        if (first.b.l)
            check_memory(first.b.at, first.b.n, first.b.l, first.out);
        if (first.b.at != last.b.at)
            check_memory(last.b.at, last.b.n, last.b.l, last.out);
    }
}

/* A call of neighbors has no kind of memory, even if a buffer is device memory. */
static bool on_device(const struct coll_args *a, const struct coll_team *t)
{
    return a->mem != RT_MEM_HOST || (rt_gpu_watch && (wm_side_on_device(a, t, COLL_SEND) ||
                                                      wm_side_on_device(a, t, COLL_RECV)));
}

void check_bufs_begin(const struct wm_comm *c, const struct coll_args *a, struct rt_req *r)
{
    char name[MPI_MAX_OBJECT_NAME + 64];
    const struct coll_team *t = &c->team;
    struct check_use x = { .owner = r, .together = true, .place = check_here() };
    if (on_device(a, t))
        return;
    snprintf(x.what, sizeof x.what, "on %.100s", check_comm_name(c, name, sizeof name));
    for (int side = COLL_SEND; side <= COLL_RECV; side++) {
        int n = coll_args_uses(t, a, (enum coll_side)side);
        for (int i = 0; i < n; i++) {
            struct coll_use u = coll_args_use(t, a, (enum coll_side)side, i);
            if (!coll_block_nbytes(&u.b) || !(u.in || u.out))
                continue;
            x.at = (struct check_buf){ u.b.at, u.b.n, u.b.l };
            x.writes = u.out;
            x.lasts = r->obj.handle != 0;
            x.sealed = x.lasts && !u.out;
            check_use_begin(&x);
        }
    }
    r->flags |= RT_REQ_CHECKED;
}

/* Of a request that the user has freed, the library knows the end of the call before the user
 * does. */
void check_bufs_end(struct rt_req *r)
{
    check_use_end(r, NULL, !(r->flags & RT_REQ_DETACHED) && !r->err);
    r->flags &= ~RT_REQ_CHECKED;
}
