/* SPDX-License-Identifier: BSD-3-Clause */
/* A thread that advances collective operations which do not block.  The steps of such an operation
 * meet those of the other ranks, so without the thread the file would wait for the last rank that
 * calls MPI.  It waits inside MPI like a thread of MPI_THREAD_MULTIPLE, until no such operation is
 * in progress or a thread of the program waits: that one makes progress faster alone.  It sleeps on
 * the bell of the process and does not spin, because the program computes.
 *
 * It begins late, by a timer: a short operation that the program waits for at once ends before.  A
 * signal to the thread would cost the program more than such an operation takes, and a thread that
 * sleeps on the bell would take each of its events.
 *
 * Locks are on from the first such operation on.  The thread ends when the library goes to rest. */
#include "mpi/io/helper.h"
#include "mpi/core/life.h"
#include "mpi/p2p/progress.h"
#include "mpi/p2p/wait.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/thread.h"
#include "runtime/boot/boot.h"
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* Naps between looks at what the program does.  The first one is longer than a short operation of
 * two ranks (40 to 60 us); each further one is twice as long, up to a time in which the wake-ups
 * of the thread cost short operations in a row 1 to 3 %. */
#define NAP_FIRST_NS 200000
#define NAP_MOST_NS 1600000

static struct {
    pthread_t thread;
    int timer; /* ends a nap; a timerfd */
    bool runs;
    /* under the domain's lock */
    bool stop;
    bool armed;        /* the timer; or the thread is not in a nap */
    long nap_ns;       /* the last nap */
    unsigned nops;     /* in progress */
    uint64_t event_ns; /* the last begin or end */
} helper;

static void arm(long ns)
{
    struct itimerspec t = { .it_value.tv_nsec = ns };
    timerfd_settime(helper.timer, 0, &t, NULL);
}

static bool is_served(const struct wm_domain *d) { return d->wait.nawake || d->wait.watcher; }

/* The end of a wait, as wait.h wants it: the thread itself is asleep then. */
static bool is_needless(void *domain)
{
    const struct wm_domain *d = domain;
    return helper.stop || !helper.nops || d->wait.nawake;
}

static void serve(struct wm_domain *d)
{
    struct wm_wait w = { .ready = is_needless, .arg = d, .internal = true };
    while (!is_needless(d)) {
        if (rt_gpu_nactive) { /* no bell rings when a GPU has finished */
            wm_progress(d);
            break;
        }
        wm_domain_sleep(d, &w);
        wm_domain_left(d, &w);
    }
}

/* At the end of a nap. */
static void look(struct wm_domain *d)
{
    bool quiet = rt_now_ns() - helper.event_ns > NAP_FIRST_NS / 2;
    if (quiet && !is_served(d))
        serve(d);
    helper.armed = helper.nops || !quiet;
    helper.nap_ns *= helper.nap_ns < NAP_MOST_NS ? 2 : 1;
    if (helper.armed && !helper.stop)
        arm(helper.nap_ns);
}

static void *run(void *arg)
{
    struct wm_domain *d = arg;
    uint64_t n;
    bool stop = false;
    while (!stop) {
        if (read(helper.timer, &n, sizeof n) < 0)
            continue; /* no signal comes, but a debugger may interrupt the call */
        rt_lock(&d->lock);
        look(d);
        stop = helper.stop;
        rt_unlock(&d->lock);
    }
    return NULL;
}

/* At the end of MPI. */
static void at_rest(void)
{
    struct wm_domain *d = wm_main_domain;
    if (!helper.runs)
        return;
    rt_lock(&d->lock);
    helper.stop = true;
    arm(1);
    rt_unlock(&d->lock); /* wakes the thread if it sleeps on the bell */
    pthread_join(helper.thread, NULL);
    close(helper.timer);
    memset(&helper, 0, sizeof helper);
}

/* An errno value or 0.  The thread runs on any core of the job, as job threads do
 * (runtime/io/pool.c). */
static int create_thread(void)
{
    cpu_set_t cpus;
    helper.timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    if (helper.timer < 0)
        return errno;
    int err = rt_thread_start(&helper.thread, NULL, run, wm_main_domain);
    if (err) {
        close(helper.timer);
        return err;
    }
    if (rt_boot_cpus(&cpus)) /* on failure the thread keeps its binding */
        pthread_setaffinity_np(helper.thread, sizeof cpus, &cpus);
    pthread_setname_np(helper.thread, "weft-file");
    return 0;
}

static bool start(void)
{
    int err = create_thread();
    helper.runs = !err;
    wm_life_at_rest[WM_REST_IO] = at_rest;
    if (err)
        log_info(MPI,
                 "could not start a thread for collective access to files: %s; the ranks "
                 "exchange data while they call MPI",
                 strerror(err));
    return helper.runs;
}

bool wm_io_helper_begin(void)
{
    if (!helper.runs && !start())
        return false;
    helper.nops++;
    helper.event_ns = rt_now_ns();
    if (helper.armed)
        return true;
    helper.armed = true;
    helper.nap_ns = NAP_FIRST_NS;
    arm(helper.nap_ns);
    return true;
}

void wm_io_helper_end(void)
{
    helper.nops--;
    helper.event_ns = rt_now_ns();
}
