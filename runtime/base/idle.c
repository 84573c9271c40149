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
#include <time.h>
#include <unistd.h>

/* Defaults.  A wake-up through a futex costs 5 to 50 us, so a rank with a core of its own polls
 * much longer than that.  After 2 ms without progress the cost of a wake-up is negligible.  If
 * ranks outnumber cores, a message can arrive only when another rank gets the core: 20 polls (about
 * 1 us) catch a sender that is running now; otherwise the scheduler decides. */
#define SPIN_NS 200000u
#define AWAKE_NS 2000000u
#define SHARED_POLLS 20u

/* A wait yields a few times and then sleeps.  Linux 6.18 advances the virtual time of a thread by a
 * whole slice at each yield.  Threads that yield all the time beside threads that sleep and wake
 * take the processors from all other threads for seconds (runtime/README.md).  Where ranks
 * outnumber cores, calls in which all ranks take part need some tens of yields of each of them: an
 * allreduce of 8 bytes and 8 ranks on 2 cores of a Xeon takes 18, 20, 12 and 14 us with at most 24,
 * 50, 100 and 400 yields. */
#define SHARED_YIELDS 100u
/* A rank with a core of its own yields at 0, 8 us, 24 us, 56 us, ... after the spin phase. */
#define GAP_NS 8000u

/* Where no other rank needs the core, a yield that lasts this long has let another program run, a
 * helper thread, or a rank of a job of which this process knows nothing. */
#define CROWDED_NS 20000u
/* So the core is crowded.  A wait that sleeps at once is served best there: its wake-up preempts
 * the other thread, while a poller uses up its time slice before the message comes.  The next
 * CROWDED_FIRST waits sleep after SHARED_POLLS polls, and the wait after them tries again to poll.
 * If the core is still crowded, twice as many waits sleep, up to CROWDED_MOST. */
#define CROWDED_FIRST 8u
#define CROWDED_MOST 256u

/* A wait that no doorbell ends sleeps by a timer, for this part of the time since the spin phase:
 * the delay in detecting the end is small in proportion to the wait. */
#define NAP_PART 16u
#define NAP_MIN_NS 20000u
#define NAP_MAX_NS 1000000u

/* The first look of a loop of polls that yields: with a look after each 256 polls, such a loop has
 * polled as long as a wait spins. */
#define LOOK_FIRST 8u

/* With two ranks for each core, the missing rank of a collective often runs on another core at this
 * moment: this many polls (a few hundred ns) cost less than two context switches (2 us each).  With
 * more ranks for each core, polls mostly delay the missing ranks. */
#define PAIR_POLLS 10

/* The time slice that a waiting thread requests: the shortest that Linux grants. */
#define SLICE_NS 100000u

#define CLOCK_EVERY 64u /* polls between two reads of the clock (20 ns each) */

/* in rt_idle.polls */
#define YIELDING 0x80000000u /* the spin phase is over */
#define SHARED 0x40000000u   /* other waiting threads need this core */
#define CROWDED 0x20000000u  /* another thread that does not wait needs this core */

static struct policy { /* accessed by any thread */
    uint64_t spin_ns, awake_ns;
    uint32_t spin_polls; /* number of polls of the spin phase; 0: spin_ns applies */
    uint32_t yields;     /* the most of one wait */
    bool fixed;          /* set by the user: a detected crowd changes nothing */
    int cores;           /* of one rank: if more threads wait, they yield early */
    int yield_polls;     /* polls of a collective before each yield */
    bool oversubscribed;
} policy = { SPIN_NS, AWAKE_NS, 0, SHARED_YIELDS, false, 1, 0, false };

/* The crowd that waits of this process have detected; approximate with threads. */
static struct {
    uint32_t left;   /* waits that sleep at once */
    uint32_t refill; /* for the next crowded yield; 0: CROWDED_FIRST */
} crowd;

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
    struct policy p = { .spin_ns = SPIN_NS, .awake_ns = AWAKE_NS, .yields = SHARED_YIELDS };
    p.oversubscribed = nranks > ncpus;
    p.fixed = cfg.spin_us >= 0 || cfg.sleep_us >= 0;
    p.cores = nranks < ncpus ? ncpus / nranks : 1;
    p.yield_polls = nranks <= 2 * ncpus ? PAIR_POLLS : 0;
    if (p.oversubscribed)
        p.spin_polls = SHARED_POLLS;
    if (cfg.spin_us >= 0) {
        p.spin_ns = (uint64_t)cfg.spin_us * 1000u;
        p.spin_polls = cfg.spin_us ? 0 : 1;
        p.cores = INT_MAX;
    }
    if (cfg.sleep_us >= 0) {
        p.awake_ns = (uint64_t)cfg.sleep_us * 1000u;
        p.yields = UINT32_MAX;
    }
    rt_store_relaxed(&policy.spin_ns, p.spin_ns);
    rt_store_relaxed(&policy.awake_ns, p.awake_ns);
    rt_store_relaxed(&policy.spin_polls, p.spin_polls);
    rt_store_relaxed(&policy.yields, p.yields);
    rt_store_relaxed(&policy.fixed, p.fixed);
    rt_store_relaxed(&policy.cores, p.cores);
    rt_store_relaxed(&policy.yield_polls, p.yield_polls);
    rt_store_relaxed(&policy.oversubscribed, p.oversubscribed);
    rt_store_relaxed(&crowd.left, 0);
    rt_store_relaxed(&crowd.refill, 0);
}

bool rt_idle_oversubscribed(void) { return rt_load_relaxed(&policy.oversubscribed); }

bool rt_idle_suffices(int nthreads) { return nthreads <= rt_load_relaxed(&policy.cores); }

bool rt_idle_contended(void)
{
    return rt_load_relaxed(&policy.oversubscribed) || rt_load_relaxed(&crowd.left);
}

int rt_idle_yield_polls(void) { return rt_load_relaxed(&policy.yield_polls); }

/* Linux charges a yield with the rest of the time slice.  Beside a computing thread, each yield
 * with the default slice (1.4 to 2.8 ms) costs the waiting thread that much processor time.  A
 * thread with a short slice loses little by a yield, and runs at once when a peer wakes it from
 * sleep.  Its
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

/* Before the first yield and the first sleep of a thread. */
static void shorten_slice(void)
{
    static _Thread_local bool requested;
    if (rt_likely(requested))
        return;
    requested = true;
    request_short_slice();
}

/* Yields, and says whether the core is crowded. */
static bool yield_tells_crowd(void)
{
    uint64_t begin = rt_now_ns();
    sched_yield();
    if (rt_load_relaxed(&policy.fixed))
        return false;
    bool crowded = rt_now_ns() - begin > CROWDED_NS;
    uint32_t refill = rt_load_relaxed(&crowd.refill);
    refill = refill ? refill : CROWDED_FIRST;
    if (crowded)
        rt_store_relaxed(&crowd.left, refill);
    refill = !crowded ? 0 : refill < CROWDED_MOST ? 2 * refill : refill;
    rt_store_relaxed(&crowd.refill, refill);
    return crowded;
}

/* Whether the spin phase ends with this poll. */
static bool spin_over(struct rt_idle *i, int nthreads)
{
    uint32_t polls = rt_load_relaxed(&policy.spin_polls);
    if (polls)
        return i->polls >= polls;
    if (rt_load_relaxed(&crowd.left))
        return i->polls >= SHARED_POLLS;
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

static void spin_ends(struct rt_idle *i, int nthreads)
{
    uint32_t left = rt_load_relaxed(&crowd.left);
    bool shared = rt_idle_oversubscribed() || nthreads > rt_load_relaxed(&policy.cores);
    shorten_slice();
    if (left)
        rt_store_relaxed(&crowd.left, left - 1);
    i->polls |= YIELDING | (shared ? SHARED : 0) | (left ? CROWDED : 0);
    i->since_ns = rt_now_ns();
}

/* The yield phase is measured from its own start. */
static enum rt_idle_advice yield_step(struct rt_idle *i)
{
    uint64_t now = rt_now_ns(), waited = now - i->since_ns;
    if (waited >= rt_load_relaxed(&policy.awake_ns) ||
        i->yields >= rt_load_relaxed(&policy.yields) || i->polls & CROWDED)
        return RT_IDLE_SLEEP;
    uint64_t next = ((uint64_t)GAP_NS << (i->yields < 32 ? i->yields : 32)) - GAP_NS;
    if (!(i->polls & SHARED) && waited < next) {
        rt_relax();
        return RT_IDLE_POLL;
    }
    i->yields++;
    if (i->polls & SHARED)
        sched_yield();
    else if (yield_tells_crowd())
        i->polls |= CROWDED;
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
    spin_ends(i, nthreads);
    return yield_step(i);
}

enum rt_idle_advice rt_idle_step_shared(struct rt_idle *i)
{
    if (!(i->polls & YIELDING))
        spin_ends(i, INT_MAX);
    return yield_step(i);
}

void rt_idle_look(struct rt_idle *i)
{
    shorten_slice();
    i->yields++;
    if (i->yields >= LOOK_FIRST && (i->yields & (i->yields - 1)) == 0)
        yield_tells_crowd();
}

void rt_idle_nap(uint64_t waited_ns)
{
    uint64_t ns = waited_ns / NAP_PART;
    ns = ns < NAP_MIN_NS ? NAP_MIN_NS : ns < NAP_MAX_NS ? ns : NAP_MAX_NS;
    nanosleep(&(struct timespec){ .tv_nsec = (long)ns }, NULL);
}

bool rt_idle_pause(struct rt_idle *i, int nthreads)
{
    if (rt_idle_step(i, nthreads) == RT_IDLE_POLL)
        return false;
    rt_idle_nap(rt_now_ns() - i->since_ns);
    return true;
}
