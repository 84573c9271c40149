/* SPDX-License-Identifier: BSD-3-Clause */
/* How long a waiting rank spins and yields before it sleeps.  MPI_Init sets the policy, and it
 * changes when processes of another job are met or end (runtime/mem/others.c).  The state of a wait
 * is in its struct rt_idle, so any thread may wait. */
#include "runtime/base/idle.h"
#include "runtime/base/atomic.h"
#include "runtime/base/cfg.h"
#include "runtime/base/clock.h"

#include <limits.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Defaults.  A wake-up through a futex costs 5 to 50 us, so a rank with a core of its own spins
 * much longer than that.  After 2 ms without progress the cost of a wake-up is negligible.  If
 * ranks outnumber cores, a message can arrive only when another rank gets the core: 20 polls (about
 * 1 us) catch a sender that is running now; otherwise the scheduler decides. */
#define SPIN_NS 200000u
#define YIELD_NS 2000000u
#define SHARED_POLLS 20u
#define SHARED_NS 1500000u

/* With two ranks for each core, the missing rank of a collective often runs on another core at this
 * moment: this many polls (a few hundred ns) cost less than two context switches (2 us each).  With
 * more ranks for each core, polls mostly delay the missing ranks. */
#define PAIR_POLLS 10

/* The time slice that a waiting thread requests: the shortest that Linux grants. */
#define SLICE_NS 100000u

#define CLOCK_EVERY 64u      /* polls between two reads of the clock (20 ns each) */
#define YIELDING 0x80000000u /* in rt_idle.polls: the spin phase is over */

static struct policy { /* accessed by any thread */
    uint64_t spin_ns, yield_ns;
    uint32_t spin_polls; /* number of polls of the spin phase; 0: spin_ns applies */
    int cores;           /* of one rank: if more threads wait, they yield early */
    int yield_polls;     /* polls of a collective before each yield */
    bool oversubscribed;
} policy = { SPIN_NS, YIELD_NS, 0, 1, 0, false };

/* Version 0 of the kernel's struct sched_attr; <linux/sched/types.h> collides with <sched.h>. */
struct slice_attr {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t slice_ns, deadline_ns, period_ns; /* the slice is called sched_runtime in the kernel */
};
_Static_assert(sizeof(struct slice_attr) == 48, "SCHED_ATTR_SIZE_VER0");

void rt_idle_configure(int nranks, int ncpus)
{
    struct policy p = { SPIN_NS, YIELD_NS, 0, 1, 0, nranks > ncpus };
    p.cores = nranks < ncpus ? ncpus / nranks : 1;
    p.yield_polls = nranks <= 2 * ncpus ? PAIR_POLLS : 0;
    if (p.oversubscribed) {
        p.spin_polls = SHARED_POLLS;
        p.yield_ns = SHARED_NS;
    }
    if (cfg.spin_us >= 0) {
        p.spin_ns = (uint64_t)cfg.spin_us * 1000u;
        p.spin_polls = cfg.spin_us ? 0 : 1;
        p.cores = INT_MAX;
    }
    if (cfg.sleep_us >= 0)
        p.yield_ns = (uint64_t)cfg.sleep_us * 1000u;
    rt_store_relaxed(&policy.spin_ns, p.spin_ns);
    rt_store_relaxed(&policy.yield_ns, p.yield_ns);
    rt_store_relaxed(&policy.spin_polls, p.spin_polls);
    rt_store_relaxed(&policy.cores, p.cores);
    rt_store_relaxed(&policy.yield_polls, p.yield_polls);
    rt_store_relaxed(&policy.oversubscribed, p.oversubscribed);
}

bool rt_idle_oversubscribed(void) { return rt_load_relaxed(&policy.oversubscribed); }

int rt_idle_yield_polls(void) { return rt_load_relaxed(&policy.yield_polls); }

/* Linux charges a yield with the rest of the time slice.  Beside a computing thread, each yield
 * with the default slice (1.4 to 2.8 ms) costs the waiting thread that much processor time.  A
 * thread with a short slice loses little by a yield, and runs at once when a peer wakes it.  Its
 * share of the processor does not change.  Since Linux 6.12 each thread may shorten its slice;
 * older kernels ignore the request. */
static void request_short_slice(void)
{
    struct slice_attr a = { .size = sizeof a };
    if (syscall(SYS_sched_getattr, 0, &a, sizeof a, 0) < 0 || a.policy != SCHED_OTHER ||
        a.slice_ns <= SLICE_NS)
        return;
    a.slice_ns = SLICE_NS;
    syscall(SYS_sched_setattr, 0, &a, 0);
}

void rt_idle_yield(void)
{
    static _Thread_local bool requested;
    if (rt_unlikely(!requested)) {
        requested = true;
        request_short_slice();
    }
    sched_yield();
}

/* Whether the spin phase ends with this poll. */
static bool spin_over(struct rt_idle *i, int nthreads)
{
    uint32_t polls = rt_load_relaxed(&policy.spin_polls);
    if (polls)
        return i->polls >= polls;
    /* another thread can take the messages that this thread has received for it only when that
     * thread gets a core */
    if (nthreads > rt_load_relaxed(&policy.cores))
        return i->polls >= SHARED_POLLS;
    if (i->polls % CLOCK_EVERY)
        return false;
    uint64_t now = rt_now_ns();
    if (!i->since_ns)
        i->since_ns = now;
    return now - i->since_ns >= rt_load_relaxed(&policy.spin_ns);
}

/* The yield phase is measured from its own start. */
static enum rt_idle_advice yield_step(struct rt_idle *i)
{
    if (rt_now_ns() - i->since_ns >= rt_load_relaxed(&policy.yield_ns))
        return RT_IDLE_SLEEP;
    rt_idle_yield();
    return RT_IDLE_POLL;
}

enum rt_idle_advice rt_idle_step(struct rt_idle *i, int nthreads)
{
    if (i->polls & YIELDING)
        return yield_step(i);
    i->polls++;
    if (!spin_over(i, nthreads)) {
        rt_relax();
        return RT_IDLE_POLL;
    }
    i->polls |= YIELDING;
    i->since_ns = rt_now_ns();
    return yield_step(i);
}
