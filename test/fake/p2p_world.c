/* SPDX-License-Identifier: BSD-3-Clause */
#include "test/fake/p2p_world.h"
#include <stdlib.h>
#include "mpi/p2p/create.h"
#include "mpi/p2p/progress.h"
#include "test/check.h"

struct wm_domain *dom[N];
struct wm_comm comm[N];
static struct wm_group group;
static struct rt_proc procs[N];

void world_up(struct knobs k)
{
    knobs = k;
    group = (struct wm_group){ .size = N, .procs = procs };
    for (int i = 0; i < N; i++) {
        procs[i] = (struct rt_proc){ 0, (uint32_t)i };
        opening = i;
        CHECK_EQ(wm_domain_create_over(queues_table, &dom[i]), 0);
        comm[i] = (struct wm_comm){ .obj = { .refs = 1 << 20 },
                                    .rank = i,
                                    .size = N,
                                    .ctx = 2,
                                    .group = &group,
                                    .remote = &group,
                                    .dom = dom[i],
                                    .peers = calloc(N, sizeof *comm[i].peers) };
    }
    wm_main_domain = dom[0]; /* bodies without a communicator use its lock */
}

void pump(void)
{
    for (int i = 0; i < N; i++)
        wm_progress(dom[i]);
}

void pump_until(const struct rt_req *r)
{
    for (int i = 0; i < 10000 && !rt_req_done(r); i++)
        pump();
    CHECK(rt_req_done(r));
}

void world_down(void)
{
    for (int k = 0; k < 10000; k++) /* nothing may be left that a finalize would wait for */
        pump();
    for (int i = 0; i < N; i++) {
        CHECK_EQ(comm[i].obj.refs, 1 << 20); /* every request has released its communicator */
        CHECK_EQ(dom[i]->match.nposted_all, 0);
        CHECK_EQ(dom[i]->match.nunex, 0);
        for (int p = 0; p < N; p++)
            CHECK(!comm[i].peers[p] || rt_list_empty(&comm[i].peers[p]->rndv));
    }
    for (int i = 0; i < N; i++)
        wm_domain_destroy(dom[i]);
    for (int i = 0; i < N; i++)
        free(comm[i].peers);
}

void world_drop(void)
{
    for (int i = 0; i < N; i++)
        wm_domain_destroy(dom[i]);
    for (int i = 0; i < N; i++)
        free(comm[i].peers);
}
