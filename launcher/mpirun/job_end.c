/* SPDX-License-Identifier: BSD-3-Clause */
/* Ends a job before all ranks have finished: one message with the cause, SIGTERM, and SIGKILL after
 * GRACE_NS.  The first cause determines the exit code.  How the other ranks end afterwards is a
 * consequence and is not reported. */
#include "launcher/abi/abi.h"
#include "launcher/host/spawn.h"
#include "launcher/mpirun/deaths.h"
#include "launcher/mpirun/job_end.h"
#include "launcher/mpirun/head.h"
#include "launcher/mpirun/forward.h"
#include "runtime/base/clock.h"

#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* Time between SIGTERM and SIGKILL: the job must have ended within a second of the cause. */
#define GRACE_NS 400000000
/* Longer than a dying process needs between the closing of its sockets and the signal that reports
 * its death. */
#define SUSPECT_NS 50000000
/* MPI_ERR_PROC_ABORTED in the standard ABI: a rank that has lost a peer aborts with this code.  The
 * end of the peer, whatever its code, is the cause to report. */
#define PEER_LOST 58
/* SUSPECT_NS with several hosts: the death of a rank on another host may be reported after the
 * failure that it caused on this host. */
#define SUSPECT_FAR_NS 250000000
/* A rank waits two seconds for the answer to PMIx_Finalize(), so if PMIx's thread is late, the end
 * of the rank is noticed before the call.  A rank is reported when PMIx has read its connection to
 * the end (LAUNCH_LOST), or after this time if PMIx never does. */
#define LATE_MAX_NS 60000000000u
/* Additional time for the end of a rank whose connection to PMIx ended before the suspect's, or may
 * have.  The kernel closes the sockets of a process before it reports the end of the process, and
 * other ranks may fail in between; PMIx's thread may report the end of a connection later. */
#define LEAVING_NS 400000000

void launch_print(const char *text)
{
    char line[2100];
    snprintf(line, sizeof line, "mpirun: %s\n", text);
    launch_io_print(line);
}

void launch_report(const struct launch_job *job, const char *fmt, ...)
{
    char text[2048];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (!job->opts->display.quiet)
        launch_print(text);
}

/* Signals process groups, so that children of a rank that is a shell script are included. */
void launch_signal_all(const struct launch_job *job, int sig)
{
    if (job->head)
        head_signal(job->head, sig);
    else
        launch_signal_local(job, sig);
}

void launch_end_kill(struct launch_job *job)
{
    job->ending = job->killed = true;
    launch_signal_all(job, SIGKILL);
}

void launch_end_begin(struct launch_job *job, int exit_code)
{
    if (job->ending)
        return;
    job->ending = true;
    job->exit_code = exit_code;
    job->kill_at_ns = rt_now_ns() + GRACE_NS;
    launch_signal_all(job, SIGTERM);
    launch_signal_all(job, SIGCONT); /* a stopped process would not handle the signal */
}

/* "rank 3 (./a.out, pid 123, host h)" */
static const char *who(const struct launch_job *job, const struct launch_rank *r, char *text,
                       size_t len)
{
    snprintf(text, len, "rank %d (%s, pid %ld, host %s)", r->rank,
             job->opts->apps[r->app].argv.v[0], (long)r->pid,
             job->head ? job->hosts[r->node].name : job->host);
    return text;
}

/* "; ending the other 3 ranks that still run" */
static const char *others(const struct launch_job *job, const struct launch_rank *r, char *text,
                          size_t len)
{
    int n = job->nrunning - r->running;
    *text = '\0';
    if (n > 1)
        snprintf(text, len, "; ending the other %d ranks that still run", n);
    else if (n == 1)
        snprintf(text, len, "; ending the other rank, which still runs");
    return text;
}

static const char *advice_for_signal(int sig)
{
    switch (sig) {
    case SIGSEGV:
    case SIGBUS:
    case SIGFPE:
    case SIGILL:
    case SIGABRT:
    case SIGTRAP:
        return "To find the cause, allow a core file (ulimit -c unlimited) and open it with gdb.";
    case SIGKILL:
        return "Another process or the kernel has sent this signal; the kernel does so "
               "when memory runs out (dmesg shows it).";
    case SIGXCPU:
        return "It used up its limit of processor time (ulimit -t).";
    case SIGXFSZ:
        return "It made a file longer than the limit of the length of files (ulimit -f), which "
               "also holds for shared memory; raise it with ulimit -f unlimited.";
    case SIGPIPE:
        return "It wrote to a pipe or socket without a reader.";
    default:
        return "Another process or the program itself has sent this signal.";
    }
}

static const char *advice_for_code(int code, bool connected)
{
    if (code == LAUNCH_EXIT_NOPROG && !connected)
        return "The dynamic loader and shells end with 127 if they do not find a library or a "
               "program; the lines above name it.";
    return "The program chose this code; its messages above may say why.";
}

static void report(struct launch_job *job, struct launch_rank *r, int code, const char *how,
                   const char *advice)
{
    char name[512], rest[80];

    if (job->ending)
        return;
    if (!job->head)              /* on other hosts the agents have sent the output before the end */
        launch_io_drain(job, r); /* the rank's last output precedes the message */
    launch_report(job, "%s %s%s; exit code %d.\n        %s", who(job, r, name, sizeof name), how,
                  others(job, r, rest, sizeof rest), code, advice);
    launch_end_begin(job, code);
}

/* The rank aborts, its connection to PMIx has ended, or it has ended without a connection. */
static void set_left(struct launch_rank *r)
{
    if (!r->left_ns)
        r->left_ns = rt_now_ns();
}

/* Left with code 0 and, as far as is known, without MPI_Finalize: not a consequence of a failure of
 * another rank. */
static bool is_silent(const struct launch_rank *r)
{
    return r->reported && r->status == 0 && r->connected && !r->finalized && !r->aborted;
}

/* Whether two ranks left in an order that is not known.  PMIx may report the ends of connections
 * that it finds at once in any order. */
static bool left_together(const struct launch_rank *a, const struct launch_rank *b)
{
    if (!b->left_ns)
        return !b->running;
    return (a->left_ns > b->left_ns ? a->left_ns - b->left_ns : b->left_ns - a->left_ns) <
           SUSPECT_NS;
}

/* Whether a left before b, according to the events received so far. */
static bool left_before(const struct launch_rank *a, const struct launch_rank *b)
{
    if (!a->left_ns)
        return false;
    if (is_silent(a) != is_silent(b) && left_together(a, b))
        return is_silent(a);
    return !b->left_ns || a->left_ns < b->left_ns;
}

/* A rank that fails without a signal may have noticed the death of a peer before the kernel
 * reported it.  So such a failure is reported only after SUSPECT_NS, unless a death by a signal, or
 * the failure of a rank that left earlier, is reported first.  Returns whether the rank has become
 * the suspect. */
static bool suspect(struct launch_job *job, struct launch_rank *r, int code, const char *how,
                    const char *advice)
{
    if (job->ending || (job->suspect && !left_before(r, job->suspect)))
        return false;
    job->suspect = r;
    job->suspect_follows = job->suspect_waits = job->suspect_extended = false;
    job->suspect_code = code;
    job->suspect_advice = advice;
    job->suspect_until_ns = rt_now_ns() + (job->head ? SUSPECT_FAR_NS : SUSPECT_NS);
    snprintf(job->suspect_how, sizeof job->suspect_how, "%s", how);
    return true;
}

/* Whether a rank that left before the suspect still runs, or has ended and may have left before:
 * the ends of both connections have not been reported. */
static bool is_another_leaving(const struct launch_job *job)
{
    for (int i = 0; i < job->n; i++) {
        const struct launch_rank *r = &job->ranks[i];
        if (r == job->suspect)
            continue;
        if (r->running ? left_before(r, job->suspect)
                       : r->connected && !r->finalized && !r->left_ns && !job->suspect->left_ns)
            return true;
    }
    return false;
}

void launch_end_check(struct launch_job *job)
{
    if (!job->suspect || job->ending)
        return;
    bool leaving = is_another_leaving(job);
    if ((job->nrunning > 0 || job->suspect_waits || leaving) && rt_now_ns() < job->suspect_until_ns)
        return;
    if (!job->suspect_extended && leaving) {
        job->suspect_extended = true;
        job->suspect_until_ns = rt_now_ns() + LEAVING_NS;
        return;
    }
    report(job, job->suspect, job->suspect_code, job->suspect_how, job->suspect_advice);
}

/* A rank that exited with code 0, whose finalize may still be reported. */
static void suspect_silent(struct launch_job *job, struct launch_rank *r)
{
    if (!suspect(job, r, LAUNCH_EXIT_FAIL,
                 "ended with code 0 but without calling MPI_Finalize or MPI_Session_finalize",
                 "A rank must call MPI_Finalize before it ends, and finalize its sessions, or call "
                 "MPI_Abort to end the job."))
        return;
    job->suspect_waits = !r->lost;
    job->suspect_until_ns += r->lost ? 0 : LATE_MAX_NS;
}

/* Whether a rank that has ended is the cause of a failure, according to the events received so far.
 * A rank that has aborted was reported with the event LAUNCH_ABORT. */
static void judge(struct launch_job *job, struct launch_rank *r)
{
    char how[160];
    int sig = WIFSIGNALED(r->status) ? WTERMSIG(r->status) : 0;
    int code = sig ? 128 + sig : WEXITSTATUS(r->status);

    if (r->aborted || launch_death(job, r))
        return;
    if (sig) {
        snprintf(how, sizeof how, "was killed by signal %d (%s)", sig, strsignal(sig));
        report(job, r, code, how, advice_for_signal(sig));
    } else if (code) {
        snprintf(how, sizeof how, "ended with code %d%s", code,
                 r->connected && !r->finalized
                     ? " without calling MPI_Finalize or MPI_Session_finalize"
                     : "");
        if (job->suspect_follows && !job->ending)
            job->suspect = NULL;
        suspect(job, r, code, how, advice_for_code(code, r->connected));
    } else if (r->connected && !r->finalized) {
        suspect_silent(job, r);
    }
}

/* No further event of the rank will arrive. */
static void end_wait(struct launch_job *job, struct launch_rank *r)
{
    r->lost = true;
    set_left(r);
    if (job->suspect == r && job->suspect_waits)
        job->suspect = NULL;
    if (r->reported && job->suspect != r)
        judge(job, r);
}

/* The finalize has been reported; the other ranks that have ended are judged again. */
static void clear_silent(struct launch_job *job, const struct launch_rank *heard)
{
    if (job->suspect != heard || !job->suspect_waits)
        return;
    job->suspect = NULL;
    job->suspect_waits = false;
    for (int i = 0; i < job->n; i++)
        if (job->ranks[i].reported)
            judge(job, &job->ranks[i]);
}

/* A rank that never calls MPI_Init, in a job whose other ranks do, makes them wait. */
static void check_skipped(struct launch_job *job)
{
    if (job->nskipped == 0 || job->nconnected <= job->nfinalized)
        return;
    for (int i = 0; i < job->n; i++) {
        struct launch_rank *r = &job->ranks[i];
        if (r->pid > 0 && !r->running && !r->connected) {
            suspect(
                job, r, LAUNCH_EXIT_FAIL,
                "ended without calling MPI_Init, while other ranks called it and may wait for it",
                "When one rank of a job calls MPI_Init, all must.");
            return;
        }
    }
}

/* Exit code of a process for an abort code: a code whose low byte is 0 is not success, unless the
 * whole code is 0. */
static int abort_exit_code(int code) { return code & 255 ? code & 255 : code != 0; }

void launch_end_event(struct launch_job *job, const struct launch_event *e)
{
    char how[320];

    if (e->rank < 0 || e->rank >= job->n)
        return;
    struct launch_rank *r = &job->ranks[e->rank];
    switch (e->kind) {
    case LAUNCH_CONNECTED:
        job->nconnected += !r->connected;
        r->connected = true;
        r->lost = false;
        r->left_ns = 0;
        job->nfinalized -= r->finalized; /* the rank had finalized and initialized again */
        r->finalized = false;
        check_skipped(job);
        break;
    case LAUNCH_FINALIZED:
        job->nfinalized += !r->finalized;
        r->finalized = true;
        clear_silent(job, r);
        break;
    case LAUNCH_ABORT:
        r->aborted = true;
        if (e->code != PEER_LOST)
            set_left(r);
        snprintf(how, sizeof how, "aborted the job with code %d%s%s", e->code, *e->text ? ": " : "",
                 e->text);
        suspect(job, r, abort_exit_code(e->code), how, "Its messages above may say more.");
        job->suspect_follows |= job->suspect == r && e->code == PEER_LOST;
        break;
    case LAUNCH_LOADED:
        if (!*job->other)
            snprintf(job->other, sizeof job->other, "%s", e->text);
        r->other = true;
        if (job->opts->display.verbose)
            launch_report(job, "rank %d has loaded %s, which is not Weft's", r->rank, e->text);
        break;
    case LAUNCH_LOST:
        end_wait(job, r);
        break;
    case LAUNCH_FENCE:
    case LAUNCH_FETCH:
    case LAUNCH_PUBLISHED:
    case LAUNCH_ASK:
        break; /* handled elsewhere: relay.c, family.c */
    }
}

void launch_end_missed(struct launch_job *job, struct launch_rank *r)
{
    report(job, r, LAUNCH_EXIT_FAIL, "ended while other ranks wait for it in a PMIx fence",
           "Every rank that a fence names must enter it before it ends.");
}

/* What to type so that the ranks load Weft's library instead of this one. */
static void advise(const struct launch_job *job, char *text, size_t len)
{
    const char *slash = strrchr(job->other, '/');
    enum abi_kind kind = abi_kind_of_file(slash ? slash + 1 : job->other);
    if (kind != ABI_OMPI && kind != ABI_MPICH)
        snprintf(text, len, "compile the program with mpicc or mpifort of Weft");
    else if (job->opts->abi == ABI_NONE)
        snprintf(text, len, "omit --abi=none");
    else if (job->opts->abi == (int)kind)
        snprintf(text, len, "the program clears LD_PRELOAD, which names Weft's library: keep it");
    else
        snprintf(text, len, "add the option --abi=%s", abi_word(kind));
}

void launch_end_other(const struct launch_job *job)
{
    char advice[128];
    int n = 0;
    for (int i = 0; i < job->n && job->ranks; i++)
        n += job->ranks[i].other && !job->ranks[i].connected;
    if (!n)
        return;
    advise(job, advice, sizeof advice);
    launch_report(job,
                  "%d of %d ranks loaded %s, which belongs to another MPI, and did not connect to "
                  "this mpirun: to that MPI each was rank 0 of 1.\n"
                  "        To run them as one job on Weft: %s.  Or start them with that MPI's "
                  "mpirun.",
                  n, job->n, job->other, advice);
}

void launch_end_exited(struct launch_job *job, struct launch_rank *r)
{
    if (!r->connected || r->finalized)
        set_left(r); /* LAUNCH_LOST will not arrive */
    judge(job, r);
    job->nskipped += !r->aborted && !r->connected && r->status == 0;
    check_skipped(job);
}
