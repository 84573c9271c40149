/* SPDX-License-Identifier: BSD-3-Clause */
/* See deaths.h.  State that several processes use is in the segment; that of this process is used
 * under the domain's lock. */
#include "runtime/mem/deaths.h"
#include "runtime/base/idle.h"
#include "runtime/boot/dead.h"
#include "runtime/boot/store.h"
#include "runtime/mem/activity.h"
#include "runtime/mem/others.h"
#include "runtime/mem/segment_int.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

/* A longer interval only delays the error of a wait; a look takes about a third of a microsecond
 * for each rank. */
#define LOOK_NS 50000000u

uint32_t rt_interrupts_count;

void rt_interrupt(void) { rt_fetch_add(&rt_interrupts_count, 1u); }

/* ---- the state of a rank ---- */

/* Whether the process has ended and its parent has not waited for it yet, with all of its threads.
 * False also before Linux 5.3. */
static bool is_zombie(pid_t pid)
{
    struct pollfd p = { .fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN };
    if (p.fd < 0)
        return false;
    bool ended = poll(&p, 1, 0) == 1 && p.revents & POLLIN;
    close(p.fd);
    return ended;
}

/* A PID of another PID namespace cannot be checked: that process counts as running.  mpirun reaps a
 * rank as soon as it ends; the launcher of a program that brings a store may take its time. */
bool rt_bell_ended(const struct rt_bell *b)
{
    uint32_t pid = rt_load_acquire(&b->pid);
    if (!pid || !b->pidns || b->pidns != rt_node_private.pidns)
        return false;
    if (kill((pid_t)pid, 0) < 0)
        return errno == ESRCH;
    return rt_store() && is_zombie((pid_t)pid);
}

void rt_node_publish_leaving(void)
{
    if (rt_node.bells)
        rt_store_release(&rt_node.bells[rt_node.rank].alive, 3u);
}

bool rt_node_is_leaving(int r) { return rt_load_acquire(&rt_node.bells[r].alive) >= 2; }

bool rt_node_has_ended(int r) { return rt_load_acquire(&rt_node.bells[r].ended) >= RT_BELL_ENDED; }

bool rt_node_has_died(int r) { return rt_node_has_ended(r) && !rt_node_is_leaving(r); }

bool rt_node_gone(int r)
{
    return rt_load_acquire(&rt_node.bells[r].alive) == 2 || rt_node_has_ended(r);
}

bool rt_node_gone_now(int r) { return rt_node_gone(r) || rt_bell_ended(&rt_node.bells[r]); }

void rt_node_hold(uint32_t *word)
{
    uint32_t me = (uint32_t)rt_node.rank + 1;
    struct rt_idle idle = { 0 };
    for (;;) {
        uint32_t holder = rt_load_relaxed(word);
        if (!holder && rt_cas(word, &holder, me))
            return;
        if (rt_idle_pause(&idle, 1) && holder && holder != me &&
            rt_node_gone_now((int)holder - 1) && rt_cas(word, &holder, me))
            return;
    }
}

/* ---- looking ---- */

/* All others of this host can find it from now on. */
static void count(struct rt_bell *b)
{
    rt_fetch_add(&node_head()->changes, 1u);
    rt_store_release(&b->ended, RT_BELL_COUNTED);
    for (int i = 0; i < rt_node.size; i++)
        if (i != rt_node.rank)
            rt_bell_ring(i);
}

/* Returns true for a process that the next look must confirm. */
static bool look_at(int r)
{
    struct rt_bell *b = &rt_node.bells[r];
    uint32_t ended = rt_load_acquire(&b->ended);
    if (ended == RT_BELL_COUNTED || !rt_load_acquire(&b->alive) ||
        (ended != RT_BELL_ENDED && !rt_bell_ended(b)))
        return false;
    rt_store_release(&b->ended, ended ? RT_BELL_ENDED : RT_BELL_MISSED);
    if (!ended)
        return true;
    count(b);
    return false;
}

/* Deaths that the launcher has reported need no look. */
static void take_reported(void)
{
    struct node_private *my = &rt_node_private;
    bool other = false;
    for (uint32_t n = rt_dead(); my->nreported < n; my->nreported++) {
        struct rt_proc p = rt_dead_at(my->nreported);
        int r = p.ns == 0 ? rt_node_attached(p.rank) : -1;
        struct rt_bell *b = r < 0 || r == rt_node.rank ? NULL : &rt_node.bells[r];
        if (b && rt_load_acquire(&b->ended) != RT_BELL_COUNTED) {
            rt_store_release(&b->ended, RT_BELL_ENDED);
            count(b);
        }
        other |= p.ns != 0;
        rt_activity_failed(p.ns ? RT_WAIT_FOREIGN : (int32_t)p.rank);
    }
    if (other && rt_others_is_open())
        rt_others_look();
}

static void on_reported(void)
{
    rt_interrupt();
    rt_bell_ring_self();
}

void rt_deaths_init(void) { rt_dead_notify = on_reported; }

/* Whether it is time for a look; true for one caller.  A time far ahead is of a process in another
 * time namespace; the clock is read after `due`, because a process that was off the core between
 * the two reads would find the time far ahead, too. */
static bool take_turn(uint64_t *next)
{
    struct timespec t;
    uint64_t due = rt_load_acquire(next);
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    uint64_t now = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    return (now >= due || due - now > LOOK_NS) && rt_cas(next, &due, now + LOOK_NS);
}

/* Finds what this process or another one has found since the last call. */
static void take_changes(void)
{
    struct node_private *my = &rt_node_private;
    uint32_t changes = rt_load_acquire(&node_head()->changes), nended = 0;
    if (changes == my->changes)
        return;
    my->changes = changes;
    for (int r = 0; r < rt_node.size; r++)
        nended += rt_node_has_ended(r);
    rt_node.nended += nended - my->nended;
    my->nended = nended;
    rt_interrupt();
}

bool rt_deaths_look(void)
{
    struct node_private *my = &rt_node_private;
    if (rt_unlikely(!rt_load_acquire(&rt_node.settled)))
        rt_node_seek();
    if (rt_unlikely(rt_load_acquire(&rt_dead_unmet)))
        rt_dead_meet();
    if (!rt_node.base)
        return false;
    if (rt_unlikely(my->nreported != rt_dead()))
        take_reported();
    bool own = take_turn(&my->look_ns);
    if (own && rt_others_is_open())
        rt_others_look();
    if (node_head()->pidns == my->pidns ? take_turn(&node_head()->look_ns) : own) {
        my->missed = false;
        for (int r = 0; r < rt_node.size; r++)
            my->missed |= r != rt_node.rank && look_at(r);
    }
    take_changes();
    return my->missed || !rt_load_relaxed(&rt_node.settled);
}
