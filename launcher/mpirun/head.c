/* SPDX-License-Identifier: BSD-3-Clause */
/* The head of a job over several hosts: see head.h.  A start has three rounds, each with all hosts:
 * the agents report the resources of their hosts; they receive the job and prepare it; they start
 * the ranks.  So every failure of a host is known before any rank is started. */
#include "launcher/mpirun/family.h"
#include "launcher/mpirun/job_end.h"
#include "launcher/mpirun/head_state.h"
#include "launcher/mpirun/forward.h"
#include "launcher/options/assign.h"
#include "launcher/tree/describe.h"
#include "runtime/base/cfg.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* After the first failure of a host, wait this long for failures of others, to report all at
 * once. */
#define GATHER_NS 3000000000ull
/* Agents that have been ordered to end only need to close a server. */
#define LEAVE_NS 2000000000ull
/* If ranks of a host still run this long after SIGKILL, mpirun does not wait for the host any
 * longer. */
#define GIVE_UP_NS 5000000000ull
/* Bytes of output in flight: from all hosts, and from one. */
#define WINDOW_ALL (64 << 20)
#define WINDOW_MAX (1 << 20)
#define WINDOW_MIN (64 << 10)

/* ---- starting ---- */

static int find_agent(struct head *h)
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 8);
    path[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(path, '/');
    if (!slash) {
        launch_say(h->job, "could not find the path of mpirun: /proc/self/exe: %s",
                   strerror(errno));
        return LAUNCH_EXIT_FAIL;
    }
    strcpy(slash, "/weftd");
    if (access(path, X_OK) < 0) {
        launch_say(
            h->job,
            "the agent %s: %s; it must be in the folder of mpirun on every host; nothing was "
            "started",
            path, strerror(errno));
        return LAUNCH_EXIT_FAIL;
    }
    h->conf.agent = strdup(path);
    return h->conf.agent ? 0 : LAUNCH_EXIT_FAIL;
}

static int configure(struct head *h)
{
    const struct launch_opts *o = h->job->opts;
    const char *rsh = o->resources.rsh ? o->resources.rsh : cfg.rsh,
               *libpath = getenv("LD_LIBRARY_PATH");

    h->conf.via = !*rsh                  ? (o->resources.slurm ? TREE_SRUN : TREE_SSH)
                  : !strcmp(rsh, "ssh")  ? TREE_SSH
                  : !strcmp(rsh, "srun") ? TREE_SRUN
                                         : TREE_COMMAND;
    h->conf.radix = cfg.host_radix;
    h->conf.timeout_s = cfg.host_timeout_s;
    h->conf.command = h->conf.via == TREE_COMMAND ? strdup(rsh) : NULL;
    h->conf.libpath = libpath && *libpath ? strdup(libpath) : NULL;
    return find_agent(h);
}

static bool out_of_time(const struct launch_job *job)
{
    uint64_t allowed = (uint64_t)job->opts->timeout_s * 1000000000u;
    return allowed && rt_now_ns() >= job->began_ns + allowed;
}

/* One turn of the loop while no rank runs.  Returns 0, or the exit code of a signal or of
 * --timeout. */
static int turn(struct head *h)
{
    struct pollfd *fds = h->fds;
    struct signalfd_siginfo s;
    int status, code = out_of_time(h->job)         ? LAUNCH_EXIT_TIMEOUT
                       : family_ends_early(h->job) ? 128 + SIGTERM
                                                   : 0;
    pid_t pid;

    fds[0] = (struct pollfd){ .fd = h->signal_fd, .events = POLLIN };
    int n = tree_fds(&h->tree, fds + 1), ms = tree_timeout_ms(&h->tree);
    if (poll(fds, (nfds_t)n + 1, ms < 0 || ms > 200 ? 200 : ms) < 0)
        return 0;
    while (fds[0].revents && read(h->signal_fd, &s, sizeof s) == sizeof s) {
        if (s.ssi_signo == SIGINT || s.ssi_signo == SIGTERM || s.ssi_signo == SIGHUP)
            code = 128 + (int)s.ssi_signo;
        else if (s.ssi_signo == SIGTSTP)
            kill(getpid(), SIGSTOP);
    }
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        tree_exited(&h->tree, pid, status);
    tree_step(&h->tree, fds + 1);
    return code;
}

/* A signal or --timeout has ended the wait: names the hosts that have not answered. */
static int interrupted(struct head *h, int code)
{
    if (code == LAUNCH_EXIT_TIMEOUT) {
        for (int i = 0; i < h->job->nhosts; i++)
            if (!(h->nanswered < h->job->nhosts ? h->hosts[i].answered : h->hosts[i].ready))
                head_fail_host(h, i, "no answer yet");
        head_print_notes(h);
        launch_say(h->job, "the job was not ready within %d s (--timeout); nothing was started",
                   h->job->opts->timeout_s);
        return code;
    }
    launch_say(h->job, "%s while the hosts were being prepared; nothing was started",
               strsignal(code - 128));
    return code;
}

/* Some hosts have failed; `silent` others had not answered when the wait ended. */
static int unusable(struct head *h, int silent)
{
    char more[80] = "";
    if (silent > 0)
        snprintf(more, sizeof more, "; %d more had not answered yet", silent);
    head_print_notes(h);
    launch_say(h->job, "%d of %d hosts cannot be used%s; nothing was started", h->nfailed,
               h->job->nhosts, more);
    return LAUNCH_EXIT_FAIL;
}

/* Waits until all agents have answered; if some hosts fail, no longer than GATHER_NS. */
static int start_agents(struct head *h)
{
    struct launch_job *job = h->job;
    int self = -1, code = 0;

    for (int i = 0; i < job->nhosts; i++)
        if (job->hosts[i].self)
            self = i;
    if (tree_start(&h->tree, 0, job->nhosts, self) < 0)
        return LAUNCH_EXIT_FAIL;
    h->fds = malloc((1 + 3 * (size_t)h->tree.n) * sizeof *h->fds);
    if (!h->fds)
        return LAUNCH_EXIT_FAIL;
    while (!code && h->nanswered + h->nfailed < job->nhosts &&
           (!h->nfailed || rt_now_ns() < h->failed_ns + GATHER_NS))
        code = turn(h);
    if (code)
        return interrupted(h, code);
    if (!h->nfailed)
        return 0;
    return unusable(h, job->nhosts - h->nanswered - h->nfailed);
}

/* On the host of rank 0.  Its name is the one by which mpirun reaches it; "localhost" would be
 * another host on each host. */
static void choose_meeting(struct head *h)
{
    struct launch_job *job = h->job;
    int node = job->ranks[0].node;
    const char *name = launch_bare_name(job->hosts[node].name);

    if (job->hosts[node].nranks == job->total)
        name = "127.0.0.1";
    else if (!strcmp(name, "localhost") || !strncmp(name, "127.", 4))
        name = h->hosts[node].own_name;
    snprintf(job->meet_addr, sizeof job->meet_addr, "%s", name);
    job->meet_port = h->hosts[node].port;
}

static int assign(struct head *h)
{
    struct launch_job *job = h->job;
    int code = launch_assign(job);
    uint32_t *where = code ? NULL : malloc((size_t)job->n * sizeof *where);

    for (int r = 0; r < job->n && where; r++)
        where[r] = (uint32_t)job->ranks[r].node;
    if (!code && (!where || launch_index_hosts(job, where) < 0))
        code = LAUNCH_EXIT_FAIL;
    free(where);
    if (!code)
        choose_meeting(h);
    if (!code && job->opts->stdin_rank >= job->n) {
        launch_say(job, "--stdin: rank %d is outside 0..%d", job->opts->stdin_rank, job->n - 1);
        code = LAUNCH_EXIT_USAGE;
    }
    return code;
}

static int describe(struct head *h)
{
    struct frame_out o = { 0 };
    char cwd[4096];

    if (!getcwd(cwd, sizeof cwd))
        strcpy(cwd, "/");
    frame_begin(&o, FRAME_JOB, FRAME_ALL);
    launch_describe(&o, h->job, cwd);
    int err = frame_end(&o);
    if (err == 0)
        tree_send(&h->tree, FRAME_ALL, o.buf, o.len);
    else
        launch_say(h->job, "the description of the job is too long, or memory ran out");
    frame_out_fini(&o);
    return err ? LAUNCH_EXIT_FAIL : 0;
}

static int prepare(struct head *h)
{
    struct launch_job *job = h->job;
    int code = describe(h), worst = 0;

    while (!code && h->nready + h->nfailed < job->nhosts &&
           (!h->nfailed || rt_now_ns() < h->failed_ns + GATHER_NS))
        code = turn(h);
    if (code)
        return code == LAUNCH_EXIT_FAIL ? code : interrupted(h, code);
    if (h->nfailed)
        return unusable(h, 0);
    for (int i = 0; i < job->nhosts && !worst; i++)
        worst = h->hosts[i].code;
    if (worst || !job->opts->display.quiet)
        head_print_notes(h);
    for (int i = 0; i < job->nhosts && !worst; i++) {
        if (h->hosts[i].map)
            fputs(h->hosts[i].map, stdout);
        if (h->hosts[i].bindings)
            fputs(h->hosts[i].bindings, stderr);
    }
    fflush(NULL);
    return worst;
}

int head_start(struct launch_job *job, int signal_fd)
{
    struct head *h = calloc(1, sizeof *h);

    job->head = h;
    job->node = -1;
    if (h) {
        h->job = job;
        h->signal_fd = signal_fd;
        h->hosts = calloc((size_t)job->nhosts, sizeof *h->hosts);
        h->names = calloc((size_t)job->nhosts, sizeof *h->names);
    }
    if (!h || !h->hosts || !h->names) {
        launch_say(job, "no memory for %d hosts", job->nhosts);
        return LAUNCH_EXIT_FAIL;
    }
    for (int i = 0; i < job->nhosts; i++)
        h->names[i] = job->hosts[i].name;
    h->tree = (struct tree){ .conf = &h->conf,
                             .names = h->names,
                             .arg = h,
                             .up = head_take_frame,
                             .lost = head_child_lost,
                             .output = head_child_output };
    h->relay = (struct relay){ .job = job, .tree = &h->tree, .end = job->nhosts, .self = -1 };
    int code = configure(h);
    if (!code)
        code = start_agents(h);
    if (!code)
        code = assign(h);
    if (!code && (launch_io_init(job) < 0 || launch_io_open_files(job) < 0))
        code = LAUNCH_EXIT_FAIL;
    if (!code)
        code = prepare(h);
    return code;
}

void head_go(struct head *h)
{
    struct launch_job *job = h->job;
    struct frame_out o = { 0 };

    h->window = WINDOW_ALL / (uint32_t)job->nhosts;
    h->window = h->window > WINDOW_MAX ? WINDOW_MAX : h->window;
    h->window = h->window < WINDOW_MIN ? WINDOW_MIN : h->window;
    for (int r = 0; r < job->n; r++)
        job->ranks[r].running = true;
    job->nrunning = job->n;
    launch_io_far(job);
    h->running = true;
    frame_begin(&o, FRAME_GO, FRAME_ALL);
    frame_put_u32(&o, h->window);
    if (frame_end(&o) == 0)
        tree_send(&h->tree, FRAME_ALL, o.buf, o.len);
    frame_out_fini(&o);
}

/* Sends a frame with at most one number. */
static void send_number(struct head *h, enum frame_type type, uint32_t node, const uint32_t *number)
{
    uint8_t buf[FRAME_HEADER + 4];
    struct frame_out o = { .buf = buf, .cap = sizeof buf };
    frame_begin(&o, type, node);
    if (number)
        frame_put_u32(&o, *number);
    frame_end(&o);
    tree_send(&h->tree, node, o.buf, o.len);
}

void head_signal(struct head *h, int sig)
{
    uint32_t number = (uint32_t)sig;
    send_number(h, FRAME_SIGNAL, FRAME_ALL, &number);
}

void head_died(struct head *h, const char *nspace, int rank)
{
    struct frame_out o = { 0 };
    frame_begin(&o, FRAME_DIED, FRAME_ALL);
    frame_put_str(&o, nspace);
    frame_put_int(&o, rank);
    if (frame_end(&o) == 0)
        tree_send(&h->tree, FRAME_ALL, o.buf, o.len);
    else
        log_error(LAUNCH, "out of memory to report that rank %d of %s has died", rank, nspace);
    frame_out_fini(&o);
}

void head_finish(struct head *h)
{
    if (!h->finishing)
        send_number(h, FRAME_FINISH, FRAME_ALL, NULL);
    h->finishing = true;
}

bool head_finished(const struct head *h) { return h->ndone >= h->job->nhosts; }

void head_input(struct head *h, const void *data, size_t len)
{
    int rank = h->job->opts->stdin_rank;
    uint32_t node = rank < 0 ? FRAME_ALL : (uint32_t)h->job->ranks[rank].node;
    struct frame_out o = { 0 };

    frame_begin(&o, FRAME_IN, node);
    frame_put_bytes(&o, data, len);
    if (frame_end(&o) == 0) {
        h->input_pending = node == FRAME_ALL ? h->job->nhosts : 1;
        tree_send(&h->tree, node, o.buf, o.len);
    }
    frame_out_fini(&o);
}

bool head_input_busy(const struct head *h) { return h->input_pending > 0; }

/* Grants credit for output that has been written, unless the reader of mpirun's stdout is slow. */
static void grant(struct head *h)
{
    if (launch_io_full())
        return;
    for (int i = 0; i < h->job->nhosts; i++)
        if (h->hosts[i].owed > h->window / 2) {
            send_number(h, FRAME_CREDIT, (uint32_t)i, &h->hosts[i].owed);
            h->hosts[i].owed = 0;
        }
}

/* A frozen host does not kill its ranks; mpirun stops waiting for it. */
static void give_up(struct head *h)
{
    struct launch_job *job = h->job;
    if (!job->killed || !job->nrunning || rt_now_ns() < job->kill_at_ns + GIVE_UP_NS)
        return;
    for (int i = 0; i < job->nhosts; i++) {
        int n = head_drop_ranks(h, i, i + 1);
        if (n == 0)
            continue;
        head_host_done(h, i);
        launch_report(job, "host %s does not answer; %d rank%s on it may run until it does",
                      job->hosts[i].name, n, n == 1 ? "" : "s");
    }
}

int head_nfds(const struct head *h) { return 3 * h->tree.n; }

int head_fds(struct head *h, struct pollfd *fds) { return tree_fds(&h->tree, fds); }

int head_timeout_ms(const struct head *h)
{
    int ms = tree_timeout_ms(&h->tree);
    return h->job->killed && (ms < 0 || ms > 500) ? 500 : ms;
}

void head_step(struct head *h, const struct pollfd *fds)
{
    tree_step(&h->tree, fds);
    grant(h);
    give_up(h);
}

void head_check_fences(struct head *h)
{
    struct launch_job *job = h->job;
    struct launch_rank *missed = job->nrunning < job->n && !job->ending && !job->suspect
                                     ? relay_missing(&h->relay)
                                     : NULL;
    if (missed)
        launch_end_missed(job, missed);
}

void head_exited(struct head *h, pid_t pid, int status) { tree_exited(&h->tree, pid, status); }

/* ---- the end ---- */

void head_stop(struct launch_job *job)
{
    struct head *h = job->head;
    uint64_t until = rt_now_ns() + LEAVE_NS;

    if (!h)
        return;
    if (h->fds) {
        send_number(h, FRAME_QUIT, FRAME_ALL, NULL);
        tree_stop(&h->tree);
        while (tree_alive(&h->tree) && rt_now_ns() < until)
            turn(h);
    }
    head_look_fini(h);
    tree_fini(&h->tree);
    relay_fini(&h->relay);
    tree_conf_fini(&h->conf);
    for (int i = 0; i < job->nhosts && h->hosts; i++) {
        free(h->hosts[i].map);
        free(h->hosts[i].bindings);
    }
    for (int i = 0; i < h->nnotes; i++) {
        free(h->notes[i].text);
        free(h->notes[i].of);
    }
    free(h->notes);
    free(h->fds);
    free(h->hosts);
    free(h->names);
    free(job->by_host);
    free(job->host_of);
    free(h);
    job->head = NULL;
}
