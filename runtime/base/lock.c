/* SPDX-License-Identifier: BSD-3-Clause */
/* See lock.h.  The switch is set before a second thread can enter the library, so a plain store is
 * sufficient: the creation of that thread, or the synchronisation of the program, orders it. */
#include "runtime/base/lock.h"
#include "runtime/base/idle.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Polls before a thread sleeps, which is after about 0.1 ms: one after 1, 2, 4, ... pauses, and
 * then after each PAUSES_MAX.  Two processes of a 16-core Xeon (Sapphire Rapids) with 2, 4 and 7
 * threads, windows of 8-byte messages on communicators of their own, M/s: with glibc's
 * mutex 2.9, 1.5 and 1.0; with at most 4 pauses 3.9, 2.6 and 2.1; 16: 3.6, 2.6 and 2.3;
 * 64: 5.4, 3.7 and 2.9. */
#define POLLS 40
#define POLLS_CONTENDED 4
#define PAUSES_MAX 64
#define OFFER_PAUSES 32

bool rt_threaded;

void rt_lock_enable(void) { rt_threaded = true; }

static void pause_for(unsigned n)
{
    while (n--)
        rt_relax();
}

/* Not where there is no core for those that poll and for the holder. */
static int polls(const struct rt_lock *l)
{
    bool crowded = rt_idle_contended() || !rt_idle_suffices((int)rt_load_relaxed(&l->wanted) + 1);
    return crowded ? POLLS_CONTENDED : POLLS;
}

static bool polled(struct rt_lock *l)
{
    unsigned pauses = 1;
    for (int n = polls(l); n; n--) {
        uint32_t unlocked = 0;
        if (!rt_load_relaxed(&l->state) && rt_cas(&l->state, &unlocked, 1u))
            return true;
        pause_for(pauses);
        pauses = pauses < PAUSES_MAX ? 2 * pauses : pauses;
    }
    return false;
}

void rt_lock_wait(struct rt_lock *l)
{
    rt_fetch_add(&l->wanted, 1u);
    bool taken = polled(l);
    rt_fetch_add(&l->wanted, UINT32_MAX);
    while (!taken && rt_exchange(&l->state, 2u))
        syscall(SYS_futex, &l->state, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
    rt_store_relaxed(&l->nwaited, l->nwaited + 1);
}

void rt_lock_wake(struct rt_lock *l)
{
    syscall(SYS_futex, &l->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void rt_lock_offer(struct rt_lock *l)
{
    for (int i = 0; i < OFFER_PAUSES && rt_load_relaxed(&l->wanted) && !rt_load_relaxed(&l->state);
         i++)
        rt_relax();
}
