/* SPDX-License-Identifier: BSD-3-Clause */
/* A waiting process does not sleep while there is work that it can do itself.  A domain with
 * messages to the own process, its own bell, and a task that starts a message, or interrupts, just
 * when the process is about to sleep. */
#include "btl/self/self.h"
#include "mpi/base/comm.h"
#include "mpi/p2p/create.h"
#include "mpi/p2p/engine.h"
#include "mpi/p2p/progress.h"
#include "mpi/p2p/recv.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/send.h"
#include "mpi/p2p/wait.h"
#include "runtime/base/cfg.h"
#include "runtime/mem/deaths.h"
#include "test/check.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

static const struct btl_ops *const only_self[] = { &btl_self_ops, NULL };
static struct rt_bell bell;
static struct rt_proc self;
static struct wm_group group = { .size = 1, .procs = &self };
static struct wm_comm comm = {
    .obj = { .refs = 100 }, .size = 1, .ctx = 2, .group = &group, .remote = &group
};
static struct rt_layout bytes;

struct late {
    struct coll_task task;
    bool begun;
    char out, in;
    struct rt_req *sent, *got;
};

/* Like a collective in shared memory, its condition comes true without a message, in the last poll
 * before the sleep; the transport must then process the message that it starts. */
static int late_step(struct coll_task *k)
{
    struct late *t = rt_container(k, struct late, task);
    if (!t->begun && rt_load_relaxed(&bell.asleep) & RT_BELL_ASLEEP) {
        t->begun = true;
        struct wm_msg m = { .buf = &t->in, .count = 1, .layout = &bytes, .comm = &comm, .tag = 1 };
        CHECK_EQ(wm_p2p_irecv(&m, &t->got), 0);
        m.buf = &t->out;
        CHECK_EQ(wm_p2p_isend(&m, WM_STANDARD, &t->sent), 0);
    }
    return t->begun && rt_req_done(t->got) && rt_req_done(t->sent);
}

static void task_that_goes_on_before_the_sleep(void)
{
    struct late t = { .task = { .step = late_step }, .out = 7 };
    rt_lock(&comm.dom->lock);
    wm_domain_add_task(comm.dom, &t.task);
    wm_domain_wait(comm.dom, &t.task.req);
    rt_unlock(&comm.dom->lock);
    CHECK(t.begun);
    CHECK_EQ(t.in, 7);
    CHECK_EQ(comm.dom->stats->sleeps, 0);
    wm_req_release(t.sent);
    wm_req_release(t.got);
}

/* ---- waits that an interruption may end ---- */

enum { ASKED = 3 };
struct early {
    struct coll_task task;
    uint32_t asked, seen;
    bool sends, over;
    char out, in;
    struct rt_req *got;
};

/* Interrupts in the last poll before each sleep; at last, if it sends, in the same poll as it
 * sends. */
static int early_step(struct coll_task *k)
{
    struct early *e = rt_container(k, struct early, task);
    if (e->seen != e->asked || !(rt_load_relaxed(&bell.asleep) & RT_BELL_ASLEEP))
        return e->over;
    e->seen++;
    rt_interrupt();
    if (e->sends && e->seen == ASKED) {
        struct wm_msg m = { .buf = &e->out, .count = 1, .layout = &bytes, .comm = &comm, .tag = 1 };
        struct rt_req *r;
        CHECK_EQ(wm_p2p_isend(&m, WM_STANDARD, &r), 0);
        wm_req_release(r);
    }
    return e->over;
}

static bool hits(void *of)
{
    struct early *e = of;
    return ++e->asked == ASKED;
}

static void early_wait(struct early *e, bool ends)
{
    struct wm_msg m = { .buf = &e->in, .count = 1, .layout = &bytes, .comm = &comm, .tag = 1 };
    struct wm_interrupt by = { hits, e };
    e->task.step = early_step;
    rt_lock(&comm.dom->lock);
    e->asked = rt_interrupts() == 0 ? 0
                                    : (uint32_t)-1; /* the first question is about those before */
    e->seen = 0;
    CHECK_EQ(wm_p2p_irecv(&m, &e->got), 0);
    wm_domain_add_task(comm.dom, &e->task);
    CHECK_EQ(wm_domain_until_or(comm.dom, wm_wait_done, &e->got->done, WM_WHAT_CALL, by), !ends);
    e->over = true;
    while (!rt_req_done(&e->task.req))
        wm_progress(comm.dom);
    if (ends)
        e->got->ops->cancel(e->got);
    wm_domain_wait(comm.dom, e->got);
    rt_unlock(&comm.dom->lock);
    wm_req_release(e->got);
    CHECK_EQ(comm.dom->stats->rescues, 0);
}

/* It is asked once after each interruption, and ends when one concerns it. */
static void an_interruption_ends_a_wait(void)
{
    struct early e = { 0 };
    early_wait(&e, true);
    CHECK_EQ(e.asked, ASKED);
}

/* A message that was sent before the interruption completes the wait. */
static void a_message_before_the_interruption(void)
{
    struct early e = { .sends = true, .out = 9 };
    early_wait(&e, false);
    CHECK_EQ(e.in, 9);
    CHECK_EQ(e.asked, ASKED - 1);
}

/* ---- waits for descriptors ---- */

/* Writes when the waiting thread is about to sleep, or asleep. */
static void *write_late(void *fd)
{
    while (!(rt_load_relaxed(&bell.asleep) & RT_BELL_ASLEEP))
        sched_yield();
    CHECK_EQ(write(*(int *)fd, "", 1), 1);
    return NULL;
}

/* Without the event, the sleep would last longer than the test may. */
static void a_descriptor_ends_a_sleep(void)
{
    int fds[2];
    pthread_t thread;
    CHECK_EQ(pipe(fds), 0);
    struct pollfd f = { .fd = fds[0], .events = POLLIN };
    struct wm_wait w = { .limit_us = 600000000, .fds = &f, .nfds = 1 };
    rt_lock(&comm.dom->lock);
    CHECK_EQ(pthread_create(&thread, NULL, write_late, &fds[1]), 0);
    while (poll(&f, 1, 0) <= 0)
        if (!wm_progress(comm.dom))
            wm_domain_idle(comm.dom, &w);
    wm_domain_left(comm.dom, &w);
    rt_unlock(&comm.dom->lock);
    pthread_join(thread, NULL);
    CHECK_EQ(comm.dom->stats->rescues, 0);
    close(fds[0]), close(fds[1]);
}

int main(void)
{
    rt_cfg_load();
    CHECK_EQ(rt_cfg_set("spin_us", "0", RT_CFG_CMD), 0);
    CHECK_EQ(rt_cfg_set("sleep_us", "0", RT_CFG_CMD), 0);
    rt_idle_configure(1, 1);
    rt_node.bells = &bell;
    rt_node.size = 1;
    rt_layout_basic(&bytes, 1, 1, RT_ELEM_BYTE);
    CHECK_EQ(wm_domain_create_over(only_self, &comm.dom), 0);
    wm_main_domain = comm.dom;
    comm.peers = calloc(1, sizeof *comm.peers);
    RUN(task_that_goes_on_before_the_sleep);
    RUN(an_interruption_ends_a_wait);
    RUN(a_message_before_the_interruption);
    RUN(a_descriptor_ends_a_sleep);
    wm_domain_destroy(comm.dom);
    free(comm.peers);
    rt_node.bells = NULL;
    return check_end();
}
