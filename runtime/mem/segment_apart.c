/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes that the launcher has started on this host and that do not map this process's segment,
 * because each container has a /dev/shm of its own, or a user id.  They are on other hosts for each
 * other.
 *
 * A process cannot see whether such a process is late or apart, and no process waits for others in
 * MPI_Init.  So the question is put when an answer is first needed, and while a process waits.  As
 * soon as all processes have attached, which takes one load to find out, it is answered for good.
 * Else a process that has waited for LATE_NS publishes the token of its segment, as all others do
 * whose segments stay incomplete, and asks for theirs.  Neither costs anything in a normal start.
 *
 * Any thread.  Answers come on a thread of PMIx. */
#include "runtime/base/cfg.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/list.h"
#include "runtime/base/log.h"
#include "runtime/boot/boot.h"
#include "runtime/boot/dead.h"
#include "runtime/mem/activity.h"
#include "runtime/mem/segment_int.h"

#include <linux/futex.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define KEY "weft.segment"
/* Longer than ranks that start together take to attach, so that a normal start publishes nothing.
 * A job of which some are apart loses it once. */
#define LATE_NS 200000000u

enum { UNASKED, ASKED, ANSWERED };

struct answer {
    struct rt_boot_question question;
    uint64_t token;
    uint32_t state;
    bool apart;
};

static struct {
    pthread_mutex_t lock;
    /* [rt_node.size]; NULL: nothing asked.  Never freed, because an answer may come at any time. */
    struct answer *of;
    uint64_t next_ns; /* when to ask next; 0: not waited yet */
    bool published;
} late = { .lock = PTHREAD_MUTEX_INITIALIZER };

static bool is_here(int r) { return rt_load_acquire(&rt_node.bells[r].alive) != 0; }

/* ---- the sleep of a process that waits for others to attach ---- */

static void notify(void)
{
    rt_fetch_add(&node_head()->arrivals, 1u);
    syscall(SYS_futex, &node_head()->arrivals, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void rt_node_arrived(void)
{
    rt_fence(); /* this process's `alive` before the read; pairs with the one in wait_for_news() */
    if (rt_load_relaxed(&node_head()->awaited))
        notify();
}

static void wait_for_news(uint32_t seen, long ns)
{
    struct timespec t = { 0, ns };
    syscall(SYS_futex, &node_head()->arrivals, FUTEX_WAIT, seen, &t, NULL, 0);
}

/* ---- tokens ---- */

static void on_answer(struct rt_boot_question *q, const void *val, size_t len)
{
    struct answer *a = rt_container(q, struct answer, question);
    bool good = val && len == sizeof a->token;
    if (good)
        memcpy(&a->token, val, sizeof a->token);
    rt_store_release(&a->state, good ? ANSWERED : UNASKED);
    if (!rt_node.base)
        return;
    notify();
    if (good)
        rt_bell_ring_self();
}

static void publish(void)
{
    uint64_t token = node_head()->token;
    if (late.published)
        return;
    late.published = true; /* an error has been logged; the others find no token */
    if (rt_boot_put(KEY, &token, sizeof token) == 0)
        rt_boot_commit();
}

static void warn(int r)
{
    if (rt_node.rank != 0 || rt_node.napart != 1)
        return;
    log_warn(MEM,
             "ranks %d and %u are on one host but do not share %s, so that they use the network; "
             "give containers one /dev/shm (--ipc=host) and one user id, or set WEFT_SHM_DIR to a "
             "folder in memory that all of them have",
             rt_boot.rank, rt_boot.local_procs[r], cfg.shm_dir);
}

static void take_answers(void)
{
    for (int r = 0; late.of && r < rt_node.size; r++) {
        struct answer *a = &late.of[r];
        if (a->apart || rt_load_acquire(&a->state) != ANSWERED)
            continue;
        a->apart = a->token != node_head()->token;
        if (!a->apart)
            continue;
        rt_store_release(&rt_node.napart, rt_node.napart + 1);
        warn(r);
    }
}

static void ask(void)
{
    if (!late.of && !(late.of = calloc((size_t)rt_node.size, sizeof *late.of)))
        return; /* the next call tries again */
    publish();
    for (int r = 0; r < rt_node.size; r++) {
        struct answer *a = &late.of[r];
        if (is_here(r) || rt_load_acquire(&a->state) != UNASKED)
            continue;
        rt_store_relaxed(&a->state, ASKED);
        a->question.done = on_answer;
        if (rt_boot_ask(rt_boot.local_procs[r], KEY, &a->question) < 0)
            rt_store_relaxed(&a->state, UNASKED);
    }
}

static void seek(void)
{
    take_answers();
    uint32_t known = rt_load_acquire(&node_head()->attached) + rt_node.napart;
    if (known == (uint32_t)rt_node.size) {
        if (rt_node.napart)
            unlink(rt_node_private.path); /* the last process to attach will never come */
        rt_store_release(&rt_node.settled, true);
        return;
    }
    uint64_t now = rt_now_ns();
    if (!late.next_ns)
        late.next_ns = now + LATE_NS;
    if (now < late.next_ns)
        return;
    late.next_ns = now + LATE_NS;
    ask();
}

void rt_node_seek(void)
{
    if (!rt_node.base || rt_load_acquire(&rt_node.settled))
        return;
    pthread_mutex_lock(&late.lock);
    seek();
    pthread_mutex_unlock(&late.lock);
}

void rt_node_publish(void)
{
    rt_node_seek();
    if (!rt_node.base || rt_load_acquire(&rt_node.settled))
        return;
    pthread_mutex_lock(&late.lock);
    publish();
    pthread_mutex_unlock(&late.lock);
}

int rt_node_attached(uint32_t rank)
{
    int r = rt_node.bells ? rt_boot_local(rank) : -1;
    return r >= 0 && is_here(r) ? r : -1;
}

/* Apart from it, or has not been found to be. */
static bool is_apart(int r)
{
    pthread_mutex_lock(&late.lock);
    bool apart = late.of && late.of[r].apart;
    pthread_mutex_unlock(&late.lock);
    return apart;
}

static bool has_died(uint32_t rank)
{
    return rt_unlikely(rt_dead()) && rt_dead_has((struct rt_proc){ 0, rank });
}

/* The rank has not attached.  True: it has, false: it never will. */
static bool await(uint32_t rank, int r)
{
    struct rt_wait_note *note = NULL;
    bool here, published = false;
    rt_fetch_add(&node_head()->awaited, 1u);
    for (;;) {
        uint32_t seen = rt_load_acquire(&node_head()->arrivals);
        rt_fence(); /* `awaited` before the read of `alive` */
        rt_node_seek();
        here = is_here(r);
        if (here || is_apart(r) || has_died(rank))
            break;
        wait_for_news(seen, published ? LATE_NS : RT_ACTIVITY_NS);
        if (!published && rt_load_acquire(&node_head()->arrivals) == seen) {
            note = rt_activity_await(RT_WAIT_ENTRY, rank);
            published = true;
        }
    }
    rt_fetch_add(&node_head()->awaited, UINT32_MAX);
    if (published)
        rt_activity_end(note, rt_now_ns());
    return here;
}

int rt_node_find(uint32_t rank)
{
    int r = rt_node.bells ? rt_boot_local(rank) : -1;
    return r < 0 || is_here(r) || await(rank, r) ? r : -1;
}
