/* SPDX-License-Identifier: BSD-3-Clause */
/* The main loop: signals, events of the PMIx server, output and input, until every rank has ended
 * and all output is written.  The order within a turn matters.  Events are handled before deaths,
 * so that a rank which has finalized is known to have done so.  Of several deaths noticed at once,
 * a death by a signal is handled before exit code 0, and exit code 0 before other codes, which are
 * often a consequence. */
#include "launcher/host/loaded.h"
#include "launcher/host/spawn.h"
#include "launcher/mpirun/deaths.h"
#include "launcher/mpirun/job_end.h"
#include "launcher/mpirun/family.h"
#include "launcher/mpirun/head.h"
#include "launcher/mpirun/forward.h"
#include "launcher/mpirun/hang.h"
#include "launcher/mpirun/loop.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* Longest time that children which have left the process groups of the ranks may keep the pipes
 * open.  Agents apply the same limit themselves and then have time to send the output. */
#define LINGER_NS 200000000
#define LINGER_FAR_NS 20000000000ull

struct loop {
    struct launch_job *job;
    int signal_fd;
    struct pollfd *fds;       /* signals, events, then those of forward.c, family.c and head.c */
    size_t nfds;              /* room in it */
    uint64_t timeout_at_ns;   /* 0: no limit */
    uint64_t linger_until_ns; /* set when the last rank has ended */
    int interrupts;           /* SIGINT and similar signals received */
};

static void read_events(struct loop *l)
{
    struct launch_event e;
    while (read(l->job->event_fd, &e, sizeof e) == sizeof e)
        if (e.kind == LAUNCH_ASK)
            family_ask(l->job, e.call, e.rank);
        else
            launch_end_event(l->job, &e);
}

static bool is_no_rank(void *arg, pid_t pid, int status)
{
    struct launch_job *job = arg;
    if (family_exited(job, pid, status))
        return true;
    if (job->head) /* the pids of the ranks are those of other hosts */
        head_exited(job->head, pid, status);
    return job->head;
}

static void reap(struct loop *l)
{
    launch_reap(l->job, is_no_rank, l->job);
    read_events(l); /* all events of a rank before its death have now been read */
    launch_report_dead(l->job, launch_end_exited);
}

/* SIGINT and similar signals: the first one sends SIGTERM to the ranks, the second one SIGKILL.  A
 * spawned job gets the first one as a message, so its mpirun counts a signal while the job is
 * ending as the second one. */
static void interrupt(struct loop *l, int sig)
{
    if (l->job->nrunning == 0 && family_active(l->job)) {
        family_end_all(l->job, l->interrupts++ > 0);
        l->job->exit_code = 128 + sig;
        return;
    }
    family_end_all(l->job, l->interrupts > 0);
    if (l->job->nrunning == 0) { /* only output is left, whose reader is slow */
        l->interrupts = 2;
        l->job->exit_code = 128 + sig;
        return;
    }
    bool first = l->interrupts++ == 0;
    if (first && !l->job->ending) {
        launch_report(l->job, "%s: ending %d rank%s; a second signal kills at once", strsignal(sig),
                      l->job->nrunning, l->job->nrunning == 1 ? "" : "s");
        launch_end_begin(l->job, 128 + sig);
    } else if (!first || family_is_member(l->job)) {
        launch_end_kill(l->job);
    }
}

/* Stops the ranks, then this process; resumes the ranks when this process is resumed. */
static void suspend(struct loop *l)
{
    family_signal(l->job, SIGTSTP);
    launch_signal_all(l->job, SIGTSTP);
    /* SIGTSTP has no effect on process groups that no shell controls */
    launch_signal_all(l->job, SIGSTOP);
    kill(getpid(), SIGSTOP);
    launch_signal_all(l->job, SIGCONT);
    family_signal(l->job, SIGCONT);
}

static void read_signals(struct loop *l)
{
    struct signalfd_siginfo s;
    while (read(l->signal_fd, &s, sizeof s) == sizeof s) {
        switch ((int)s.ssi_signo) {
        case SIGCHLD:
            reap(l);
            break;
        case SIGTSTP:
            suspend(l);
            break;
        case SIGQUIT:
            launch_hang_explain(l->job);
            break;
        case SIGUSR1:
        case SIGUSR2:
        case SIGCONT:
            launch_signal_all(l->job, (int)s.ssi_signo);
            family_signal(l->job, (int)s.ssi_signo);
            break;
        default:
            interrupt(l, (int)s.ssi_signo);
            break;
        }
    }
}

static void check_time(struct loop *l)
{
    struct launch_job *job = l->job;
    uint64_t now = rt_now_ns();

    if (l->timeout_at_ns && now >= l->timeout_at_ns && !job->ending && launch_hang_explained(job)) {
        launch_report(
            job, "the job did not end within %d s (--timeout); ending its %d rank%s; exit code %d",
            job->opts->timeout_s, job->nrunning, job->nrunning == 1 ? "" : "s",
            LAUNCH_EXIT_TIMEOUT);
        launch_end_begin(job, LAUNCH_EXIT_TIMEOUT);
        family_end_all(job, false);
    }
    launch_hang_step(job);
    launch_look_loaded(job, launch_end_event);
    launch_end_check(job);
    if (job->ending && !job->killed && job->nrunning && now >= job->kill_at_ns)
        launch_end_kill(job);
    /* like any program in a pipeline, end silently by SIGPIPE */
    if (launch_io_broken() && !job->ending)
        launch_end_begin(job, launch_io_broken() == EPIPE ? 128 + SIGPIPE : LAUNCH_EXIT_FAIL);
    family_step(job);
    bool awaited = job->suspect && !job->ending; /* an event that has not arrived yet may clear the
                                                  * suspect */
    if (job->nrunning == 0 && !awaited && !l->linger_until_ns) {
        launch_signal_all(job, SIGKILL); /* children that the ranks have left in their process
                                          * groups */
        if (job->head)
            head_finish(job->head);
        l->linger_until_ns = now + (job->head ? LINGER_FAR_NS : LINGER_NS);
    }
}

static int sooner(int timeout_ms, uint64_t at_ns)
{
    uint64_t now = rt_now_ns();
    int ms = at_ns <= now ? 0 : (int)((at_ns - now) / 1000000 + 1);
    return timeout_ms < 0 || ms < timeout_ms ? ms : timeout_ms;
}

static int poll_timeout(const struct loop *l)
{
    int ms = launch_io_timeout_ms(l->job);
    if (l->timeout_at_ns && !l->job->ending && rt_now_ns() < l->timeout_at_ns)
        ms = sooner(ms, l->timeout_at_ns);
    if (l->job->ending && !l->job->killed && l->job->nrunning)
        ms = sooner(ms, l->job->kill_at_ns);
    if (l->job->suspect && !l->job->ending)
        ms = sooner(ms, l->job->suspect_until_ns);
    if (l->job->head && head_timeout_ms(l->job->head) >= 0)
        ms = sooner(ms, rt_now_ns() + (uint64_t)head_timeout_ms(l->job->head) * 1000000);
    if (l->job->look_at_ns && l->job->nrunning)
        ms = sooner(ms, l->job->look_at_ns);
    if (launch_hang_at_ns(l->job))
        ms = sooner(ms, launch_hang_at_ns(l->job));
    if (family_step_at_ns(l->job))
        ms = sooner(ms, family_step_at_ns(l->job));
    if (l->linger_until_ns && !family_active(l->job))
        ms = sooner(ms, rt_now_ns() + LINGER_NS / 4);
    return ms;
}

/* Whether the loop can end: all ranks have ended and all output is written; or a process keeps a
 * pipe open for too long; or the user has interrupted the writing. */
static bool is_done(const struct loop *l)
{
    if (l->job->nrunning > 0 || (l->job->suspect && !l->job->ending) || family_active(l->job))
        return false;
    bool head_done = !l->job->head || head_finished(l->job->head);
    if ((launch_io_idle(l->job) && head_done) || l->interrupts > 1 || launch_io_broken())
        return true;
    return rt_now_ns() >= l->linger_until_ns && !launch_io_busy();
}

/* Makes room for all descriptors; members of the family come and go. */
static int reserve_fds(struct loop *l)
{
    size_t nhead = l->job->head ? (size_t)head_nfds(l->job->head) : 0;
    size_t need = (size_t)l->job->n * 3 + 5 + nhead + (size_t)family_nfds(l->job);
    struct pollfd *fds = need > l->nfds ? realloc(l->fds, need * sizeof *fds) : l->fds;
    if (!fds)
        return -1;
    l->fds = fds;
    l->nfds = need > l->nfds ? need : l->nfds;
    return 0;
}

int launch_loop(struct launch_job *job, int signal_fd)
{
    struct loop l = { .job = job, .signal_fd = signal_fd };

    if (job->opts->timeout_s > 0)
        l.timeout_at_ns = job->began_ns + (uint64_t)job->opts->timeout_s * 1000000000u;
    reap(&l); /* deaths before the signal descriptor was opened */
    for (check_time(&l); !is_done(&l); check_time(&l)) {
        if (reserve_fds(&l) < 0) {
            launch_end_kill(job);
            free(l.fds);
            return LAUNCH_EXIT_FAIL;
        }
        l.fds[0] = (struct pollfd){ .fd = signal_fd, .events = POLLIN };
        l.fds[1] = (struct pollfd){ .fd = job->event_fd, .events = POLLIN };
        int n = launch_io_fds(job, l.fds + 2);
        int nfar = job->head ? head_fds(job->head, l.fds + 2 + n) : 0;
        int all = 2 + n + nfar + family_fds(job, l.fds + 2 + n + nfar);
        if (poll(l.fds, (nfds_t)all, poll_timeout(&l)) < 0 && errno != EINTR) {
            log_error(LAUNCH, "poll: %m");
            job->exit_code = LAUNCH_EXIT_FAIL;
            launch_end_kill(job);
            break;
        }
        if (l.fds[1].revents)
            read_events(&l);
        if (l.fds[0].revents)
            read_signals(&l);
        if (job->head) {
            head_step(job->head, l.fds + 2 + n);
            launch_report_dead(job, launch_end_exited);
            head_check_fences(job->head);
        }
        launch_io_step(job, l.fds + 2, n);
    }
    free(l.fds);
    launch_end_other(job);
    if (job->opts->ft && !job->ending)
        family_left(job);
    if (job->opts->ft)
        job->exit_code = launch_deaths_end(job);
    return job->exit_code || !launch_io_lost() ? job->exit_code : LAUNCH_EXIT_FAIL;
}
