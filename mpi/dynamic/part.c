/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs that are no longer connected (MPI-5.0 section 11.10.4).  When MPI_Comm_disconnect frees the
 * last communicator over which a process is connected to another job, the launcher is notified, so
 * that it does not end one job with the other any more.  Rank 0 of the communicator decides for its
 * group.  When no communicator of a process has a member of a job, the process unmaps the device
 * memory of that job's processes, and forgets the memory of those that have ended.  Any thread;
 * takes the domain's lock, unless a function says otherwise. */
#include "mpi/core/comm.h"
#include "mpi/p2p/domain.h"
#include "mpi/dynamic/link.h"
#include "runtime/boot/jobs.h"
#include "runtime/mem/others.h"

struct search {
    const struct wm_comm *except;
    uint32_t ns;
    bool found;
};

static bool has_job(const struct wm_group *g, uint32_t ns)
{
    for (int i = 0; g && i < g->size; i++)
        if (wm_group_proc(g, i).ns == ns)
            return true;
    return false;
}

static void look(void *obj, void *arg)
{
    const struct wm_comm *c = obj;
    struct search *s = arg;
    if (c != s->except && !s->found)
        s->found = has_job(c->group, s->ns) || (c->remote != c->group && has_job(c->remote, s->ns));
}

static bool connects(uint32_t ns, const void *except)
{
    struct search s = { .except = except, .ns = ns };
    rt_slab_each(&wm_comm_slab, look, &s);
    return s.found;
}

static bool in_use(uint32_t ns, const void *except)
{
    return connects(ns, except) || !wm_domain_part(wm_main_domain, ns);
}

void wm_part_sweep(const struct wm_comm *except) { rt_others_drop(in_use, except); }

/* Notifies the launcher of the jobs of a group to which no other communicator connects. */
static void part_group(const struct wm_comm *c, const struct wm_group *g)
{
    uint32_t last = 0;
    for (int i = 0; g && i < g->size; i++) {
        uint32_t ns = wm_group_proc(g, i).ns;
        if (ns == 0 || ns == last) /* the processes of a job usually follow each other */
            continue;
        last = ns;
        rt_lock(&c->dom->lock);
        bool still = connects(ns, c);
        rt_unlock(&c->dom->lock);
        if (!still)
            rt_boot_part(rt_boot_nspace(ns));
    }
}

static void part(const struct wm_comm *c)
{
    rt_lock(&c->dom->lock);
    wm_part_sweep(c);
    rt_unlock(&c->dom->lock);
    if (c->rank != 0)
        return;
    part_group(c, c->group);
    if (c->remote != c->group)
        part_group(c, c->remote);
}

__attribute__((constructor)) static void hook(void) { wm_comm_part = part; }
