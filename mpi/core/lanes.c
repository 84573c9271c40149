/* SPDX-License-Identifier: BSD-3-Clause */
/* See lanes.h. */
#include "mpi/core/lanes.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include "mpi/base/session.h"
#include "mpi/core/info.h"
#include "mpi/core/state.h"
#include "mpi/p2p/create.h"
#include "mpi/p2p/lane.h"
#include "mpi/p2p/wait.h"
#include "runtime/base/cfg.h"
#include "runtime/base/log.h"
#include "runtime/gpu/gpu.h"
#include "runtime/mem/segment.h"

static int most = 1;

/* The share of this process in the cores of the host: with fewer cores than threads, a thread that
 * receives for several others is faster than each for itself.  Counted before the program binds its
 * threads. */
static int count_cores(void)
{
    cpu_set_t cpus;
    int own = sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? CPU_COUNT(&cpus) : 1;
    int share = rt_boot.ncpus / rt_boot.local_size;
    return own < share ? own : share;
}

void wm_lanes_init(void)
{
    int n = cfg.lanes ? cfg.lanes : count_cores();
    most = n < WM_LANES_MAX ? n : WM_LANES_MAX;
}

/* ---- agreement ---- */

/* An offer has three bytes, of which the agreement takes the lowest of all processes: the number of
 * lanes, the hint and 1 (0: no hint), and 255 less this: so the highest hint is known, too. */
#define NEUTRAL 0xffffffu

static uint32_t byte_of(uint32_t offer, int i) { return offer >> 8 * i & 0xff; }

uint32_t wm_lanes_merge(uint32_t a, uint32_t b)
{
    uint32_t least = 0;
    for (int i = 0; i < 3; i++) {
        uint32_t x = byte_of(a, i), y = byte_of(b, i);
        least |= (x < y ? x : y) << 8 * i;
    }
    return least;
}

/* 0: no hint. */
static uint32_t hint_of(const struct wm_comm *c)
{
    const char *text = c->info ? wm_info_find(c->info, WM_LANE_HINT) : NULL;
    char *end;
    long lane = text ? strtol(text, &end, 10) : -1;
    return lane >= 0 && !*end ? (uint32_t)(lane % WM_LANES_MAX) + 1 : 0;
}

/* Lanes on which transports of this process carry messages to processes of this host. */
static int served(void)
{
    int n = rt_boot.local_size > 1 ? 1 : WM_LANES_MAX;
    for (int i = 0; i < wm_main_domain->nbtl; i++) {
        const struct btl_ops *ops = wm_main_domain->btl[i]->ops;
        if (ops->lanes && strcmp(ops->name, "self"))
            n = ops->lanes() < WM_LANES_MAX ? ops->lanes() : WM_LANES_MAX;
    }
    return n;
}

static bool has_lanes(const struct wm_comm *c)
{
    int level = c->session ? c->session->thread_level : wm_state.thread_level;
    return most > 1 && rt_threaded && level == MPI_THREAD_MULTIPLE && !cfg.ft && !cfg.check &&
           !rt_gpu_watch;
}

/* Whether all members share memory with this process.  Waits until they are in MPI_Init. */
static bool is_near(const struct wm_comm *c)
{
    for (int i = 0; i < c->size; i++) {
        struct rt_proc p = wm_group_proc(c->group, i);
        bool self = p.ns == 0 && p.rank == (uint32_t)rt_boot.rank;
        if (!self && (p.ns != 0 || !rt_node.base || rt_node_local(p.rank) < 0))
            return false;
    }
    return true;
}

uint32_t wm_lanes_offer(const struct wm_comm *c)
{
    if (!c)
        return NEUTRAL;
    if (c->inter || !has_lanes(c) || !is_near(c))
        return 1;
    int n = served();
    uint32_t hint = hint_of(c);
    return (uint32_t)(n < most ? n : most) | hint << 8 | (255 - hint) << 16;
}

/* Contexts are made in ascending order, so that communicators that are made in a row lie on
 * different lanes. */
static int number_of(uint32_t ctx, uint32_t agreed)
{
    uint32_t n = byte_of(agreed, 0), least = byte_of(agreed, 1), highest = 255 - byte_of(agreed, 2);
    if (n < 2 || n > WM_LANES_MAX)
        return 0;
    return (int)((least && least == highest ? least - 1 : ctx / 2) % n);
}

static struct wm_domain *domain_of(int lane)
{
    struct wm_domain *d = wm_lane_at(lane);
    if (d)
        return d;
    if (wm_domain_create_lane(lane, &d))
        rt_boot_abort(1, "a lane of MPI_THREAD_MULTIPLE cannot be made, on which other processes "
                         "may send already; WEFT_LANES=1 avoids lanes");
    if (!wm_lane_at(0)) {
        wm_lanes_watch(wm_main_domain);
        rt_store_release(&wm_lanes.at[0], wm_main_domain);
    }
    wm_lanes_watch(d);
    rt_store_release(&wm_lanes.at[lane], d);
    if (wm_lanes.n <= lane)
        rt_store_release(&wm_lanes.n, lane + 1);
    return d;
}

struct wm_domain *wm_lane_of(uint32_t ctx, uint32_t agreed)
{
    int lane = number_of(ctx, agreed);
    return lane ? domain_of(lane) : NULL;
}
