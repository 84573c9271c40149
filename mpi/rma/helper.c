/* SPDX-License-Identifier: BSD-3-Clause */
/* Progress for targets that do not call MPI: a thread that executes the messages of origins on
 * other hosts.  It exists while there is a window with members on other hosts whose hints allow
 * locks.  Members of the same host need no helper where memory is shared or can be read.
 *
 * The thread sleeps on the descriptors of the transports, so an idle window costs no core.  While a
 * thread of the application waits inside MPI, that thread makes progress, and the helper does not.
 * The helper is inside the library like any thread of MPI_THREAD_MULTIPLE: locks are on from the
 * first such window on.
 *
 * Called without the domain's lock. */
#include "mpi/rma/helper.h"
#include "mpi/core/info.h"
#include "mpi/core/life.h"
#include "mpi/p2p/progress.h"
#include "mpi/p2p/wait.h"
#include "mpi/rma/progress.h"
#include "runtime/base/cfg.h"
#include "runtime/base/log.h"
#include "runtime/base/thread.h"
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

/* The longest sleep: an event may be taken by another thread, which then leaves MPI. */
#define SLEEP_US 100000
/* Naps where no descriptor reports the next event: while another thread makes progress, and while
 * something waits for a process of this host, such as a lock.  Each further nap is twice as long:
 * a thread that wakes often beside threads that never sleep takes the processors from all others on
 * Linux 6.18 (runtime/base/idle.c). */
#define NAP_FIRST_US 1000
#define NAP_MOST_US 16000
/* Passes under one hold of the lock, so that other threads get it soon. */
#define PASSES 4

static struct {
    pthread_mutex_t mutex;
    pthread_t thread;
    int stop; /* eventfd */
    unsigned nwindows;
} helper = { .mutex = PTHREAD_MUTEX_INITIALIZER };

struct look {
    bool served; /* another thread makes progress */
    bool naps;   /* no descriptor reports the next event */
    int nfds, limit_us;
    int fds[WM_BTL_MAX];
};

static int passes(struct wm_domain *d)
{
    int n = 0;
    for (int i = 0; i < PASSES; i++) {
        int events = wm_progress(d);
        if (!events)
            break;
        n += events;
    }
    return n;
}

/* A thread that has waited since the last look makes progress.  Otherwise the helper would wake up
 * for each answer that the thread polls for, and delay the thread. */
static struct look look(struct wm_domain *d)
{
    static unsigned nwaits;
    struct look k = { .limit_us = SLEEP_US };
    rt_lock(&d->lock);
    k.served = d->wait.nawake || d->wait.watcher || wm_rma_nwaits != nwaits;
    nwaits = wm_rma_nwaits;
    if (!k.served)
        passes(d);
    k.nfds = wm_domain_sleep_fds(d, k.fds, &k.limit_us);
    bool more = k.nfds < 0 || (!k.served && passes(d)); /* the last pass comes after the arming */
    bool waits = !rt_list_empty(&d->tasks) || !rt_list_empty(&d->retry);
    rt_unlock(&d->lock);
    k.nfds = k.nfds < 0 ? 0 : k.nfds;
    k.naps = k.served || waits;
    if (more)
        k.limit_us = 0;
    return k;
}

/* True: the thread must end. */
static bool sleep_on(const int *fds, int nfds, int us)
{
    struct pollfd p[1 + WM_BTL_MAX] = { { .fd = helper.stop, .events = POLLIN } };
    for (int i = 0; i < nfds; i++)
        p[1 + i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
    return poll(p, (nfds_t)nfds + 1, (us + 999) / 1000) > 0 && p[0].revents;
}

static void *run(void *arg)
{
    int nap_us = NAP_FIRST_US;
    bool stop = false;
    prctl(PR_SET_NAME, "weft-rma");
    while (!stop) {
        struct look k = look(arg);
        if (k.served)
            k.nfds = 0; /* the other thread takes the events */
        if (k.naps && k.limit_us > nap_us)
            k.limit_us = nap_us;
        nap_us = !k.naps ? NAP_FIRST_US : nap_us < NAP_MOST_US ? 2 * nap_us : nap_us;
        stop = sleep_on(k.fds, k.nfds, k.limit_us);
    }
    return NULL;
}

/* An errno value or 0. */
static int create_thread(struct wm_domain *d)
{
    helper.stop = eventfd(0, EFD_CLOEXEC);
    if (helper.stop < 0)
        return errno;
    int err = rt_thread_start(&helper.thread, NULL, run, d);
    if (err)
        close(helper.stop);
    return err;
}

static void end_thread(void)
{
    eventfd_write(helper.stop, 1);
    pthread_join(helper.thread, NULL);
    close(helper.stop);
}

/* At the end of MPI: the thread of windows that the application has not freed. */
static void at_rest(void)
{
    pthread_mutex_lock(&helper.mutex);
    if (helper.nwindows)
        end_thread();
    helper.nwindows = 0;
    pthread_mutex_unlock(&helper.mutex);
}

void wm_rma_helper_join(struct wm_rma *r)
{
    const char *no_locks = wm_info_find(r->hints, "no_locks");
    if (r->shared.nmembers == r->comm->size || !cfg.rma_helper ||
        (no_locks && !strcmp(no_locks, "true")))
        return;
    if (!wm_life_threads()) {
        log_info(MPI,
                 "window %u: no helper thread, because threads of the program may be inside "
                 "MPI without locks; other hosts are served while this process calls MPI",
                 r->comm->ctx);
        return;
    }
    pthread_mutex_lock(&helper.mutex);
    int err = helper.nwindows ? 0 : create_thread(r->dom);
    helper.nwindows += !err;
    r->service.helped = !err;
    pthread_mutex_unlock(&helper.mutex);
    wm_life_at_rest[WM_REST_RMA] = at_rest;
    if (err)
        log_warn(MPI,
                 "window %u: no helper thread: %s; other hosts are served while this process "
                 "calls MPI",
                 r->comm->ctx, strerror(err));
}

void wm_rma_helper_leave(struct wm_rma *r)
{
    if (!r->service.helped)
        return;
    pthread_mutex_lock(&helper.mutex);
    if (helper.nwindows && --helper.nwindows == 0)
        end_thread();
    pthread_mutex_unlock(&helper.mutex);
}
