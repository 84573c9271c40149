/* SPDX-License-Identifier: BSD-3-Clause */
/* Doorbells: how a waiting process sleeps and is woken.  The sleeper stores `asleep`, then orders
 * that store against its last look for work with membarrier(2), which makes every other registered
 * process execute a fence; so a ringer needs no fence of its own between storing its data and
 * looking at `asleep`.  Any thread may call; several threads of a process may sleep on its bell at
 * once. */
#include "runtime/mem/node_int.h"

#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static struct rt_bell *my_bell(void) { return &rt_node.bells[rt_node.rank]; }

static uint32_t awake_state(void)
{
    return rt_node_private.membarrier ? RT_BELL_AWAKE : RT_BELL_FENCE;
}

void rt_bell_init(void)
{
    rt_node_private.sleepers = 0;
    /* Alone in the segment nobody rings; no need to register. */
    rt_node_private.membarrier = rt_node.size == 1 ||
                                 syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED,
                                         0, 0) == 0;
    rt_node.fence_needed = !rt_node_private.membarrier;
    rt_store_release(&my_bell()->asleep, awake_state());
}

void rt_bell_wake(struct rt_bell *b)
{
    uint32_t state = RT_BELL_ASLEEP;

    rt_fence(); /* for owners without membarrier: our data before this second look */
    /* Cleared here so that further ringers do not call the kernel while the owner is still waking
     * up; and before the word changes, so that a thread that arms in between finds it changed. */
    if (!rt_cas(&b->asleep, &state, RT_BELL_AWAKE))
        return;
    rt_fetch_add(&b->word, 1u);
    syscall(SYS_futex, &b->word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

uint32_t rt_bell_arm(void)
{
    struct rt_bell *b = my_bell();
    /* Read before arming: every wake-up after the arming then makes the word differ from this
     * value. */
    uint32_t word = rt_load_acquire(&b->word);

    rt_fetch_add(&rt_node_private.sleepers, 1u);
    rt_store_relaxed(&b->asleep, RT_BELL_ASLEEP);
    if (rt_node_private.membarrier && rt_node.size > 1)
        syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
    rt_fence(); /* `asleep` before the caller's last look for work */
    return word;
}

void rt_bell_disarm(void)
{
    struct rt_bell *b = my_bell();

    if (rt_fetch_add(&rt_node_private.sleepers, -1u) != 1)
        return;
    rt_store_relaxed(&b->asleep, awake_state());
    rt_fence(); /* the store before the look at `sleepers`, mirror image of rt_bell_arm() */
    if (rt_unlikely(rt_load_relaxed(&rt_node_private.sleepers))) {
        /* Another thread armed meanwhile and its flag may be gone: make it look again instead of
         * sleeping. */
        rt_store_relaxed(&b->asleep, RT_BELL_ASLEEP);
        rt_bell_wake(b);
    }
}

void rt_bell_sleep(uint32_t armed, int timeout_us)
{
    struct timespec t = { timeout_us / 1000000, timeout_us % 1000000 * 1000L };

    syscall(SYS_futex, &my_bell()->word, FUTEX_WAIT, armed, timeout_us < 0 ? NULL : &t, NULL, 0);
    rt_bell_disarm();
}
