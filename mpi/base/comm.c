/* SPDX-License-Identifier: BSD-3-Clause */
/* The tables and handles of communicators and groups: see comm.h. */
#include "mpi/base/comm.h"

struct rt_slab wm_comm_slab = RT_SLAB(WM_COMM, "communicator", struct wm_comm);
struct wm_comm *wm_comm_world, *wm_comm_self;
struct wm_comm *wm_comm_predefined[8];

MPI_Comm wm_comm_handle(const struct wm_comm *c)
{
    return c ? (MPI_Comm)(uintptr_t)c->obj.handle : MPI_COMM_NULL;
}

struct wm_group wm_group_empty = { .obj = { (uint32_t)(uintptr_t)MPI_GROUP_EMPTY, 1 },
                                   .rank = MPI_UNDEFINED };
struct wm_group *wm_group_predefined[8] = { NULL, &wm_group_empty };
struct rt_slab wm_group_slab = RT_SLAB(WM_GROUP, "group", struct wm_group);

int wm_group_find(const struct wm_group *g, struct rt_proc p)
{
    if (!g->procs)
        return p.ns == g->first.ns && p.rank - g->first.rank < (uint32_t)g->size
                   ? (int)(p.rank - g->first.rank)
                   : MPI_UNDEFINED;
    for (int i = 0; i < g->size; i++)
        if (g->procs[i].ns == p.ns && g->procs[i].rank == p.rank)
            return i;
    return MPI_UNDEFINED;
}

MPI_Group wm_group_handle(const struct wm_group *g)
{
    return g ? (MPI_Group)(uintptr_t)g->obj.handle : MPI_GROUP_NULL;
}
