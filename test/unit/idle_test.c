/* SPDX-License-Identifier: BSD-3-Clause */
/* The waiting policy: how many steps and how much time pass before a waiter is advised to sleep.
 * Time advances here by reading the clock and by yielding, so a busy machine changes nothing. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "runtime/base/cfg.h"
#include "runtime/base/clock.h"
#include "runtime/base/idle.h"
#include "test/check.h"

#define LOOK_NS 50u
#define QUICK_NS 2000u   /* a yield among waiting ranks */
#define LONG_NS 4000000u /* a yield to a thread that computes */

static uint64_t now_ns = 1000000000u, yield_ns = QUICK_NS, wait_ns, nap_ns;
static unsigned yields;

/* Replaces the C library's function. */
int clock_gettime(clockid_t id, struct timespec *t)
{
    (void)id;
    now_ns += LOOK_NS;
    *t = (struct timespec){ (time_t)(now_ns / 1000000000u), (long)(now_ns % 1000000000u) };
    return 0;
}

int sched_yield(void)
{
    now_ns += yield_ns;
    yields++;
    return 0;
}

int nanosleep(const struct timespec *t, struct timespec *left)
{
    CHECK(!left && t->tv_sec == 0);
    nap_ns = (uint64_t)t->tv_nsec;
    now_ns += nap_ns;
    return 0;
}

/* The kernel's struct sched_attr, the thread's own values, and the calls that use them. */
struct attr {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t slice_ns, deadline_ns, period_ns;
};
static struct attr thread_attr;
static unsigned gets, sets;
static long refused;

long syscall(long number, ...)
{
    va_list v;
    va_start(v, number);
    long thread = va_arg(v, int);
    struct attr *a = va_arg(v, struct attr *);
    va_end(v);
    CHECK(number == SYS_sched_getattr || number == SYS_sched_setattr);
    CHECK_EQ(thread, 0);
    CHECK_EQ(a->size, sizeof *a);
    unsigned *count = number == SYS_sched_getattr ? &gets : &sets;
    ++*count;
    if (number == refused) {
        errno = EPERM;
        return -1;
    }
    if (number == SYS_sched_getattr)
        *a = thread_attr;
    else
        thread_attr = *a;
    return 0;
}

/* Steps until the advice is to sleep. */
static unsigned steps_of(struct rt_idle *i, int nthreads)
{
    unsigned n = 1;
    uint64_t start = rt_now_ns();
    yields = 0;
    while (rt_idle_step(i, nthreads) == RT_IDLE_POLL && rt_now_ns() - start < 5000000000u)
        n++;
    wait_ns = rt_now_ns() - start;
    return n;
}

static unsigned steps(struct rt_idle *i) { return steps_of(i, 1); }

static void core_each_spins_long_then_sleeps(void)
{
    struct rt_idle i = { 0 };
    rt_idle_configure(2, 2);
    CHECK(!rt_idle_oversubscribed());
    CHECK(steps(&i) > 1000);
    CHECK_MSG(wait_ns >= 2000000 && wait_ns < 10000000, "slept after %llu ns",
              (unsigned long long)wait_ns);
    CHECK_MSG(yields > 2 && yields < 16, "%u yields", yields);
}

static void check_polls_little(const struct rt_idle *i, const char *what, int n)
{
    CHECK_MSG((i->polls & 0xffffffu) <= 20, "%s %d: %u polls", what, n, i->polls & 0xffffffu);
    CHECK_MSG(yields > 2 && yields <= 128, "%s %d: %u yields", what, n, yields);
    CHECK_MSG(wait_ns < 400000, "%s %d: slept after %llu ns", what, n, (unsigned long long)wait_ns);
}

/* No wait yields for long, however many ranks there are: on Linux 6.18 threads that yield take the
 * processors from threads that sleep and wake. */
static void oversubscribed_polls_little(void)
{
    for (int ranks = 3; ranks <= 256; ranks++) {
        struct rt_idle i = { 0 };
        rt_idle_configure(ranks, 2);
        CHECK(rt_idle_oversubscribed());
        steps(&i);
        check_polls_little(&i, "ranks", ranks);
    }
}

/* A caller that has polled already yields at once, as often as other waits. */
static void callers_polls_are_not_repeated(void)
{
    struct rt_idle i = { 0 };
    rt_idle_configure(16, 2);
    unsigned n = 0;
    yields = 0;
    while (rt_idle_step_shared(&i) == RT_IDLE_POLL)
        CHECK_EQ(yields, ++n);
    CHECK(n > 2 && n <= 128);
}

/* The thread that a message is for gets a core within microseconds, not after the thread that has
 * received the message has polled for 0.2 ms. */
static void threads_without_a_core_each_poll_little(void)
{
    static const struct {
        int ranks, threads;
        bool little;
    } cases[] = { { 1, 4, false }, { 1, 5, true }, { 2, 2, false }, { 2, 3, true },
                  { 3, 1, false }, { 3, 2, true }, { 4, 1, false }, { 4, 2, true } };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct rt_idle i = { 0 };
        rt_idle_configure(cases[k].ranks, 4);
        steps_of(&i, cases[k].threads);
        if (cases[k].little)
            check_polls_little(&i, "threads", cases[k].threads);
        else
            CHECK_MSG(wait_ns >= 2000000 && (i.polls & 0xffffffu) > 20,
                      "%d threads of %d ranks: %u polls", cases[k].threads, cases[k].ranks,
                      i.polls & 0xffffffu);
    }
}

static void sleeper_that_finds_nothing_sleeps_again(void)
{
    struct rt_idle i = { 0 };
    rt_idle_configure(16, 2);
    steps(&i);
    CHECK_EQ(steps(&i), 1);
    i = (struct rt_idle){ 0 }; /* progress was made: polls again */
    CHECK(steps(&i) > 20);
}

/* Waits until the first that yields, at most 1000. */
static unsigned waits_without_yield(void)
{
    for (unsigned n = 0; n < 1000; n++) {
        struct rt_idle i = { 0 };
        steps(&i);
        if (yields)
            return n;
        CHECK_MSG((i.polls & 0xffffffu) <= 20 && wait_ns < 5000, "slept after %llu ns, %u polls",
                  (unsigned long long)wait_ns, i.polls & 0xffffffu);
    }
    return 1000;
}

/* Beside a computing thread a yield takes a whole time slice.  The wait sleeps, and so do the next
 * waits after a few polls; ever fewer waits try to yield again. */
static void crowded_cores_are_remembered(void)
{
    for (int ranks = 1; ranks <= 2; ranks++) {
        rt_idle_configure(ranks, 2);
        CHECK(!rt_idle_contended());
        yield_ns = LONG_NS;
        CHECK_EQ(waits_without_yield(), 0);
        CHECK(rt_idle_contended());
        CHECK_EQ(yields, 1);
        for (unsigned n = 8; n <= 256; n *= 2)
            CHECK_EQ(waits_without_yield(), n);
        CHECK_EQ(waits_without_yield(), 256);
        yield_ns = QUICK_NS;
        CHECK_EQ(waits_without_yield(), 256);
        CHECK_MSG(yields > 2, "%u yields of %d ranks", yields, ranks);
        CHECK(!rt_idle_contended());
        CHECK_EQ(waits_without_yield(), 0);
        yield_ns = LONG_NS;
        waits_without_yield();
        CHECK_EQ(waits_without_yield(), 8);
        yield_ns = QUICK_NS;
    }
}

/* Where ranks outnumber cores, a long yield lets another rank run. */
static void other_ranks_are_no_crowd(void)
{
    rt_idle_configure(64, 2);
    yield_ns = LONG_NS;
    for (int n = 0; n < 10; n++) {
        CHECK_EQ(waits_without_yield(), 0);
        CHECK_EQ(yields, 1);
    }
    yield_ns = QUICK_NS;
}

/* Calls that poll in a loop find a crowd as well, by ever fewer yields. */
static void loops_find_a_crowd(void)
{
    struct rt_idle i = { 0 };
    rt_idle_configure(2, 2);
    yields = 0;
    for (int n = 0; n < 1000; n++)
        rt_idle_look(&i);
    CHECK(!rt_idle_contended());
    CHECK_MSG(yields >= 5 && yields <= 10, "%u yields", yields);
    yield_ns = LONG_NS;
    i = (struct rt_idle){ 0 };
    for (int n = 0; n < 8; n++) {
        CHECK(!rt_idle_contended());
        rt_idle_look(&i);
    }
    CHECK(rt_idle_contended());
    yield_ns = QUICK_NS;
    CHECK_EQ(waits_without_yield(), 8);
    CHECK(!rt_idle_contended());
}

/* A waiter beside a computing rank takes a few microseconds of its core before it sleeps. */
static void computing_rank_keeps_its_core(void)
{
    struct rt_idle i = { 0 };
    rt_idle_configure(8, 2);
    yield_ns = LONG_NS;
    steps(&i);
    CHECK_MSG(wait_ns - yields * LONG_NS < 10000, "%llu ns of processor",
              (unsigned long long)(wait_ns - yields * LONG_NS));
    yield_ns = QUICK_NS;
}

/* Only if the missing rank is likely to be on another core at this moment. */
static void collectives_poll_with_two_ranks_a_core(void)
{
    rt_idle_configure(4, 2);
    CHECK_EQ(rt_idle_yield_polls(), 10);
    for (int ranks = 5; ranks <= 64; ranks++) {
        rt_idle_configure(ranks, 2);
        CHECK_EQ(rt_idle_yield_polls(), 0);
    }
}

/* Naps begin short, grow with the wait, and stay below a millisecond. */
static void waits_without_a_bell_sleep_by_a_timer(void)
{
    for (int ranks = 2; ranks <= 16; ranks *= 2) {
        struct rt_idle i = { 0 };
        uint64_t start = rt_now_ns(), last = 0;
        unsigned naps = 0;
        rt_idle_configure(ranks, 2);
        while (rt_now_ns() - start < 100000000u) {
            if (!rt_idle_pause(&i, 1))
                continue;
            CHECK(nap_ns >= last && nap_ns >= 20000 && nap_ns <= 1000000);
            last = nap_ns;
            naps++;
        }
        CHECK_EQ(last, 1000000);
        CHECK_MSG(naps < 300, "%u naps in 0.1 s", naps);
    }
}

/* A thread queries once, so each case has its own thread. */
static void *yields_twice(void *arg)
{
    struct rt_idle i = { 0 };
    (void)arg;
    rt_idle_step_shared(&i);
    rt_idle_step_shared(&i);
    return NULL;
}

static void in_new_thread(void)
{
    pthread_t t;
    gets = sets = yields = 0;
    CHECK_EQ(pthread_create(&t, NULL, yields_twice, NULL), 0);
    CHECK_EQ(pthread_join(t, NULL), 0);
    CHECK_EQ(yields, 2);
    CHECK_EQ(gets, 1);
}

static void first_yield_requests_short_slices(void)
{
    thread_attr = (struct attr){ 48, SCHED_OTHER, 0, 5, 0, 2800000, 0, 0 };
    in_new_thread();
    CHECK_EQ(sets, 1);
    CHECK_EQ(thread_attr.slice_ns, 100000);
    CHECK_EQ(thread_attr.nice, 5);
    CHECK_EQ(thread_attr.policy, SCHED_OTHER);
}

static void foreign_slices_stay(void)
{
    thread_attr = (struct attr){ 48, SCHED_OTHER, 0, 0, 0, 100000, 0, 0 };
    in_new_thread();
    CHECK_EQ(sets, 0);
    thread_attr = (struct attr){ 48, SCHED_OTHER, 0, 0, 0, 0, 0, 0 }; /* a kernel before 6.12 */
    in_new_thread();
    CHECK_EQ(sets, 0);
    thread_attr = (struct attr){ 48, SCHED_DEADLINE, 0, 0, 0, 2000000, 9000000, 9000000 };
    in_new_thread();
    CHECK_EQ(sets, 0);
    thread_attr = (struct attr){ 48, SCHED_FIFO, 0, 0, 50, 0, 0, 0 };
    in_new_thread();
    CHECK_EQ(sets, 0);
}

static void refused_requests_do_no_harm(void)
{
    refused = SYS_sched_getattr;
    in_new_thread();
    CHECK_EQ(sets, 0);
    thread_attr = (struct attr){ 48, SCHED_OTHER, 0, 0, 0, 2800000, 0, 0 };
    refused = SYS_sched_setattr;
    in_new_thread();
    CHECK_EQ(sets, 1);
    CHECK_EQ(thread_attr.slice_ns, 2800000);
    refused = 0;
}

static void settings_override(void)
{
    struct rt_idle i = { 0 };
    CHECK_EQ(rt_cfg_set("spin_us", "0", RT_CFG_CMD), 0);
    CHECK_EQ(rt_cfg_set("sleep_us", "0", RT_CFG_CMD), 0);
    rt_idle_configure(2, 2);
    CHECK_EQ(steps(&i), 1);
    CHECK_EQ(rt_cfg_set("spin_us", "5000", RT_CFG_CMD), 0);
    rt_idle_configure(16, 2);
    i = (struct rt_idle){ 0 };
    CHECK(steps(&i) > 64);
    CHECK_MSG(wait_ns >= 5000000, "slept after %llu ns", (unsigned long long)wait_ns);
    /* Also beside computing threads. */
    CHECK_EQ(rt_cfg_set("sleep_us", "50000", RT_CFG_CMD), 0);
    rt_idle_configure(2, 2);
    yield_ns = LONG_NS;
    for (int wait = 0; wait < 3; wait++) {
        i = (struct rt_idle){ 0 };
        steps(&i);
        CHECK_MSG(wait_ns >= 55000000, "slept after %llu ns", (unsigned long long)wait_ns);
    }
    yield_ns = QUICK_NS;
    CHECK_EQ(rt_cfg_set("spin_us", "-1", RT_CFG_CMD), 0);
    CHECK_EQ(rt_cfg_set("sleep_us", "-1", RT_CFG_CMD), 0);
}

int main(void)
{
    CHECK_EQ(rt_cfg_set("spin_us", "-1", RT_CFG_CMD), 0);
    RUN(core_each_spins_long_then_sleeps);
    RUN(oversubscribed_polls_little);
    RUN(callers_polls_are_not_repeated);
    RUN(waits_without_a_bell_sleep_by_a_timer);
    RUN(threads_without_a_core_each_poll_little);
    RUN(sleeper_that_finds_nothing_sleeps_again);
    RUN(crowded_cores_are_remembered);
    RUN(other_ranks_are_no_crowd);
    RUN(loops_find_a_crowd);
    RUN(computing_rank_keeps_its_core);
    RUN(collectives_poll_with_two_ranks_a_core);
    RUN(first_yield_requests_short_slices);
    RUN(foreign_slices_stay);
    RUN(refused_requests_do_no_harm);
    RUN(settings_override);
    return check_end();
}
