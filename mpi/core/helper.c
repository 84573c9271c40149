/* SPDX-License-Identifier: BSD-3-Clause */
/* While a thread of the program waits inside MPI, that thread makes progress, and makes it faster
 * alone: the helper naps.  Otherwise the helper sleeps until there is something to do:
 * - for windows, on the descriptors of the transports alone: a message of this host, for which no
 *   thread may be waiting, must not wake it;
 * - while an operation of a file is in progress, on the bell of the process, like any thread that
 *   waits, because the steps of such an operation meet those of ranks of this host.  Such an
 *   operation does not wake the helper at its begin, but at the end of a first nap: a short one
 *   that the program waits for at once has ended before.  A signal to the thread would cost the
 *   program more than such an operation takes. */
#include "mpi/core/helper.h"
#include "mpi/core/life.h"
#include "mpi/p2p/progress.h"
#include "mpi/p2p/wait.h"
#include "runtime/base/thread.h"
#include "runtime/boot/boot.h"
#include "runtime/mem/segment.h"
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* The longest sleep on descriptors: an event may be taken by another thread, which then leaves
 * MPI. */
#define SLEEP_NS 100000000
/* Naps where no descriptor reports the next event; each further one is twice as long.  The first
 * one is longer than a short operation of two ranks on a file (40 to 60 us).  At the longest one
 * while there are operations, the wake-ups cost short operations in a row 1 to 3 %.  Windows wait
 * longer: a thread that wakes often beside threads that never sleep takes the processors from all
 * others on Linux 6.18 (runtime/base/idle.c). */
#define NAP_FIRST_NS 200000
#define NAP_MOST_NS 1600000
#define NAP_MOST_WINDOW_NS 16000000
/* Passes under one hold of the lock, so that other threads get it soon. */
#define PASSES 4

static struct {
    pthread_mutex_t mutex; /* for the next three; not under the domain's lock */
    pthread_t thread;
    unsigned nclients[WM_CLIENTS];
    int timer; /* ends a sleep; a timerfd */
    /* Under the domain's lock. */
    bool stop;
    bool soon;        /* the thread looks again soon by itself */
    unsigned nops;    /* in progress */
    unsigned nevents; /* begins and ends of operations */
    unsigned nseen;   /* events and waits until the last look */
} helper = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static void arm(long ns)
{
    struct itimerspec t = { .it_value.tv_nsec = ns };
    timerfd_settime(helper.timer, 0, &t, NULL);
}

static unsigned count_events(const struct wm_domain *d) { return helper.nevents + d->wait.nwaits; }

/* The end of a wait, as wait.h wants it: the thread itself is asleep then. */
static bool is_needless(void *domain)
{
    const struct wm_domain *d = domain;
    return helper.stop || !helper.nops || d->wait.nawake;
}

static void serve_file(struct wm_domain *d)
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

static bool make_progress(struct wm_domain *d)
{
    int n = 0;
    while (n < PASSES && wm_progress(d))
        n++;
    return n;
}

struct look {
    bool stop, naps;
    long nap_most_ns;
    int nfds;
    struct pollfd p[1 + WM_BTL_MAX]; /* the timer, and nfds descriptors */
    int limit_us;                    /* of a sleep on them; -1: none */
};

static bool has_windows(void) { return rt_load_relaxed(&helper.nclients[WM_CLIENT_WINDOW]); }

/* For windows, if no thread of the program does it.  The last pass comes after the transports have
 * prepared for the sleep. */
static void serve_windows(struct wm_domain *d, struct look *k)
{
    k->limit_us = SLEEP_NS / 1000;
    make_progress(d);
    k->nfds = wm_domain_sleep_fds(d, k->p + 1, &k->limit_us);
    if (k->nfds < 0 || make_progress(d))
        k->limit_us = 0;
    if (k->nfds < 0)
        k->nfds = 0;
    k->naps = k->naps || !rt_list_empty(&d->tasks) || !rt_list_empty(&d->retry);
}

/* A thread that has waited since the last look makes progress.  Otherwise the helper would wake up
 * for each answer that the thread polls for, and delay the thread. */
static struct look look(struct wm_domain *d)
{
    struct look k = { .limit_us = -1 };
    rt_lock(&d->lock);
    bool is_served = d->wait.nawake || d->wait.watcher || count_events(d) != helper.nseen;
    helper.nseen = count_events(d);
    if (!is_served && helper.nops)
        serve_file(d);
    k.naps = is_served || helper.nops;
    k.nap_most_ns = helper.nops ? NAP_MOST_NS : NAP_MOST_WINDOW_NS;
    if (!is_served && has_windows())
        serve_windows(d, &k);
    helper.soon = k.naps;
    k.stop = helper.stop;
    rt_unlock(&d->lock);
    return k;
}

/* Until an event, or `ns` nanoseconds, if not negative. */
static void sleep_on(struct look *k, long ns)
{
    struct timespec limit = { ns / 1000000000, ns % 1000000000 };
    uint64_t n;
    k->p[0] = (struct pollfd){ .fd = helper.timer, .events = POLLIN };
    if (ppoll(k->p, (nfds_t)k->nfds + 1, ns < 0 ? NULL : &limit, NULL) > 0 && k->p[0].revents &&
        read(helper.timer, &n, sizeof n) < 0)
        return; /* armed anew in the meantime */
}

static void *run(void *arg)
{
    long nap_ns = NAP_FIRST_NS;
    for (struct look k = look(arg); !k.stop; k = look(arg)) {
        long ns = (long)k.limit_us * 1000;
        if (k.naps && (ns < 0 || ns > nap_ns))
            ns = nap_ns;
        sleep_on(&k, ns);
        nap_ns = !k.naps ? NAP_FIRST_NS : 2 * nap_ns < k.nap_most_ns ? 2 * nap_ns : k.nap_most_ns;
    }
    return NULL;
}

/* An errno value or 0.  The thread runs on any core of the job, as job threads do
 * (runtime/io/pool.c). */
static int create_thread(void)
{
    cpu_set_t cpus;
    helper.timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (helper.timer < 0)
        return errno;
    helper.stop = helper.soon = false;
    int err = rt_thread_start(&helper.thread, NULL, run, wm_main_domain);
    if (err) {
        close(helper.timer);
        return err;
    }
    if (rt_boot_cpus(&cpus)) /* on failure the thread keeps its binding */
        pthread_setaffinity_np(helper.thread, sizeof cpus, &cpus);
    pthread_setname_np(helper.thread, "weft-progress");
    return 0;
}

static void end_thread(void)
{
    struct wm_domain *d = wm_main_domain;
    rt_lock(&d->lock);
    helper.stop = true;
    arm(1);
    rt_unlock(&d->lock); /* wakes the thread if it sleeps on the bell */
    pthread_join(helper.thread, NULL);
    close(helper.timer);
}

static bool has_clients(void)
{
    return helper.nclients[WM_CLIENT_WINDOW] || helper.nclients[WM_CLIENT_FILE];
}

/* At the end of MPI: the clients that the program has left. */
static void at_rest(void)
{
    pthread_mutex_lock(&helper.mutex);
    if (has_clients())
        end_thread();
    memset(helper.nclients, 0, sizeof helper.nclients);
    helper.nops = 0;
    pthread_mutex_unlock(&helper.mutex);
}

static void count(enum wm_client c, int n)
{
    rt_store_relaxed(&helper.nclients[c], helper.nclients[c] + (unsigned)n);
}

int wm_helper_join(enum wm_client c, bool *joined)
{
    int err = 0;
    pthread_mutex_lock(&helper.mutex);
    if (!*joined) {
        bool has = has_clients();
        count(c, 1); /* first, because the thread asks for whom it is there */
        if (has)
            arm(1); /* it may sleep without a limit */
        else
            err = create_thread();
        if (err)
            count(c, -1);
        *joined = !err;
    }
    pthread_mutex_unlock(&helper.mutex);
    wm_life_at_rest[WM_REST_HELPER] = at_rest;
    return err;
}

void wm_helper_leave(enum wm_client c, bool *joined)
{
    pthread_mutex_lock(&helper.mutex);
    if (*joined && helper.nclients[c]) {
        count(c, -1);
        if (!has_clients())
            end_thread();
    }
    *joined = false;
    pthread_mutex_unlock(&helper.mutex);
}

void wm_helper_begin(void)
{
    bool seen = helper.nseen == count_events(wm_main_domain);
    helper.nops++;
    helper.nevents++;
    if (helper.soon)
        return;
    helper.soon = true;
    helper.nseen += seen; /* this begin is no reason for a second nap */
    arm(NAP_FIRST_NS);
}

void wm_helper_end(void)
{
    if (helper.nops) /* 0: the library was at rest since the begin */
        helper.nops--;
    helper.nevents++;
}
