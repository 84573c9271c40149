/* SPDX-License-Identifier: BSD-3-Clause */
/* weftd, the agent of a host.  mpirun or another agent starts it through a remote shell, whose
 * standard streams are the agent's only connection.  The agent starts the agents below it in the
 * tree and passes frames on in both directions.  It runs the ranks of its host: it embeds their
 * PMIx server, binds, starts and reaps them, and sends their output.  The head decides why and how
 * a job ends; an agent ends its ranks on its own only if the head has gone.
 *
 * Everything runs on the main thread, except that PMIx's thread writes events into a pipe, and that
 * a heartbeat thread runs while an order takes long (alive.c). */
#include "launcher/agent/agent.h"
#include "launcher/agent/await.h"
#include "launcher/host/guard.h"
#include "launcher/host/loaded.h"
#include "launcher/host/server.h"
#include "launcher/host/spawn.h"
#include "launcher/strings.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* Longest time from the start to the parent's first order, which the parent sends at once. */
#define WELCOME_NS 60000000000ull
/* Time between SIGTERM and SIGKILL if the head has gone. */
#define GRACE_NS 400000000

struct agent agent = { .job = { .event_fd = -1, .agent = true } };

/* ---- upwards ---- */

void agent_send(void *arg, const struct frame_out *o)
{
    (void)arg;
    if (frame_send(&agent.up, o->buf, o->len) == -RT_ENOMEM)
        log_error(LAUNCH, "out of memory for a message of %zu bytes to mpirun", o->len);
    agent.spoke_ns = rt_now_ns();
}

void agent_begin(struct frame_out *o, enum frame_type type)
{
    *o = (struct frame_out){ 0 };
    frame_begin(o, type, (uint32_t)agent.first);
}

void agent_end(struct frame_out *o)
{
    if (frame_end(o) == 0)
        agent_send(NULL, o);
    else
        log_error(LAUNCH, "out of memory for a message to mpirun");
    frame_out_fini(o);
}

/* While the job is prepared, messages for the user are kept for the answer to the head. */
void agent_say(const char *text)
{
    struct frame_out o;
    if (agent.phase <= AGENT_WAIT_GO) {
        launch_list_add(&agent.messages, text);
        return;
    }
    agent_begin(&o, FRAME_SAY);
    frame_put_str(&o, text);
    agent_end(&o);
}

void agent_put_messages(struct frame_out *o)
{
    frame_put_u32(o, (uint32_t)agent.messages.n);
    for (int i = 0; i < agent.messages.n; i++)
        frame_put_str(o, agent.messages.v[i]);
    launch_list_fini(&agent.messages);
}

/* ---- the tree below ---- */

void agent_pass_on(void *arg, struct frame *f)
{
    struct frame_out o = { .buf = (uint8_t *)f->raw, .len = f->raw_len };
    (void)arg;
    if (f->type == FRAME_FENCE || f->type == FRAME_FETCH || f->type == FRAME_FETCHED)
        relay_frame(&agent.relay, f);
    else
        agent_send(NULL, &o);
}

void agent_lost(void *arg, const struct tree_child *c, const char *why)
{
    struct frame_out o = { 0 };
    (void)arg;
    frame_begin(&o, FRAME_LOST, (uint32_t)c->first);
    frame_put_int(&o, c->first);
    frame_put_int(&o, c->end);
    frame_put_u8(&o, c->was_up);
    frame_put_str(&o, why);
    agent_end(&o);
}

void agent_child_output(void *arg, const char *text, size_t len)
{
    (void)arg;
    if (write(2, text, len) < 0) {
    } /* the agent's own stderr takes the same path */
}

/* ---- frames from above ---- */

static void take_frames(void)
{
    struct frame f = { 0 };
    int more = 0;

    if (!agent.up.greeted) {
        int here = frame_greeting(&agent.up, NULL, NULL);
        if (here < 0)
            agent.phase = AGENT_LEAVING;
        if (here <= 0)
            return;
        if (agent.up.protocol != FRAME_VERSION || strcmp(agent.up.version, PACKAGE_VERSION)) {
            agent.phase = AGENT_LEAVING; /* a version mismatch; mpirun prints both versions */
            return;
        }
    }
    while (agent.phase != AGENT_LEAVING && (more = frame_next(&agent.up, &f)) > 0) {
        agent.heard_ns = rt_now_ns();
        frame_flush(&agent.up);
        agent_alive_busy(!frame_waiting(&agent.up));
        agent_obey(&f);
        agent_alive_busy(false);
        if (f.in.bad)
            break;
    }
    if (more < 0 || f.in.bad) {
        log_error(LAUNCH, "invalid message from mpirun (type %d); ending this host's ranks",
                  (int)f.type);
        agent.phase = AGENT_LEAVING;
        agent.exit_code = LAUNCH_EXIT_FAIL;
    }
}

/* ---- ranks ---- */

static void send_event(struct launch_job *job, const struct launch_event *e)
{
    struct frame_out o;
    (void)job;
    agent_begin(&o, FRAME_EVENT);
    frame_put_u8(&o, e->kind);
    frame_put_int(&o, e->rank);
    frame_put_int(&o, e->code);
    frame_put_str(&o, e->text);
    agent_end(&o);
}

static void read_events(void)
{
    struct launch_event e;
    while (agent.job.event_fd >= 0 && read(agent.job.event_fd, &e, sizeof e) == sizeof e) {
        if (e.kind == LAUNCH_FENCE || e.kind == LAUNCH_FETCH || e.kind == LAUNCH_PUBLISHED)
            relay_event(&agent.relay, &e);
        else if (e.kind == LAUNCH_ASK)
            agent_ask(&e);
        else
            send_event(&agent.job, &e);
    }
}

/* Sends the rest of the rank's output, then its end. */
static void report_exit(struct launch_job *job, struct launch_rank *r)
{
    struct frame_out o;
    (void)job;
    pump_drain(&agent.pump, r);
    agent_begin(&o, FRAME_EXIT);
    frame_put_int(&o, r->rank);
    frame_put_int(&o, r->status);
    agent_end(&o);
    relay_rank_ended(&agent.relay, r->rank);
}

static bool is_shell(void *arg, pid_t pid, int status)
{
    (void)arg;
    return tree_exited(&agent.tree, pid, status);
}

static void reap(void)
{
    launch_reap(&agent.job, is_shell, NULL);
    read_events();
    launch_report_dead(&agent.job, report_exit);
}

/* SIGTERM of an administrator, or of an allocation that ends.  The head is notified before the
 * ranks die. */
static void on_end_signal(void)
{
    struct frame_out o;
    if (agent.phase != AGENT_WAIT_TREE) {
        agent_begin(&o, FRAME_LOST);
        frame_put_int(&o, agent.first);
        frame_put_int(&o, agent.end);
        frame_put_u8(&o, true);
        frame_put_str(&o, "its agent received SIGTERM");
        agent_end(&o);
        frame_flush(&agent.up);
    } else if (signal(SIGTERM, SIG_DFL) != SIG_ERR) {
        /* Without an order there is nothing to end.  The exit status shows the signal. */
        sigset_t term;
        sigemptyset(&term);
        sigaddset(&term, SIGTERM);
        raise(SIGTERM);
        sigprocmask(SIG_UNBLOCK, &term, NULL);
    }
    agent.phase = AGENT_LEAVING;
}

static void read_signals(void)
{
    struct signalfd_siginfo s;
    while (read(agent.signal_fd, &s, sizeof s) == sizeof s) {
        if (s.ssi_signo == SIGCHLD)
            reap();
        else if (s.ssi_signo == SIGTERM && agent.phase != AGENT_LEAVING)
            on_end_signal();
    }
}

/* ---- the loop ---- */

static int poll_fds(void)
{
    size_t need = (size_t)agent.job.n * 3 + (size_t)agent.tree.n * 3 + 8;
    if (need > agent.nfds) {
        struct pollfd *p = realloc(agent.fds, need * sizeof *p);
        if (!p)
            return -RT_ENOMEM;
        agent.fds = p;
        agent.nfds = need;
    }
    agent.fds[0] = (struct pollfd){ .fd = agent.up.in, .events = POLLIN };
    agent.fds[1] = (struct pollfd){ .fd = agent.signal_fd, .events = POLLIN };
    agent.fds[2] = (struct pollfd){ .fd = agent.job.event_fd, .events = POLLIN };
    agent.fds[3] = (struct pollfd){ .fd = frame_waiting(&agent.up) ? agent.up.out : -1,
                                    .events = POLLOUT };
    return 4;
}

static int sooner(int a, int b) { return a < 0 ? b : b < 0 || a < b ? a : b; }

/* Longest time in which nothing has to be done. */
static int longest_wait(void)
{
    return agent.phase == AGENT_WAIT_TREE ? 1000 : agent.conf.timeout_s * 1000 / 8;
}

static int poll_timeout(void)
{
    int ms = longest_wait();
    if (agent.phase == AGENT_FINISHING)
        ms = sooner(ms, 50);
    uint64_t now = rt_now_ns(), look = agent.job.look_at_ns;
    if (look && agent.job.nrunning)
        ms = sooner(ms, look <= now ? 0 : (int)((look - now) / 1000000 + 1));
    ms = sooner(ms, agent_look_timeout_ms());
    ms = sooner(ms, tree_timeout_ms(&agent.tree));
    return sooner(ms, relay_timeout_ms(&agent.relay));
}

/* Heartbeats in both directions. */
static void check_time(void)
{
    uint64_t now = rt_now_ns(), timeout = (uint64_t)agent.conf.timeout_s * 1000000000u;
    uint64_t gap = now - agent.stepped_ns, wait = (uint64_t)longest_wait() * 1000000u;
    uint8_t ping[FRAME_HEADER];

    if (gap > wait) /* this process did not poll: see unheard_ns() of tree.c */
        agent.heard_ns = agent.heard_ns + gap - wait < now ? agent.heard_ns + gap - wait : now;
    agent.stepped_ns = now;
    if (agent.phase == AGENT_WAIT_TREE) {
        if (now > agent.heard_ns + WELCOME_NS)
            agent.phase = AGENT_LEAVING;
        return;
    }
    launch_look_loaded(&agent.job, send_event);
    if (now > agent.spoke_ns + timeout / 4) {
        struct frame_out o = { .buf = ping, .cap = sizeof ping };
        frame_begin(&o, FRAME_PING, (uint32_t)agent.first);
        frame_end(&o);
        agent_send(NULL, &o);
    }
    if (!agent.head_stopped && now > agent.heard_ns + AGENT_PATIENCE * timeout) {
        log_error(LAUNCH, "mpirun has been silent for %d s; ending this host's ranks",
                  AGENT_PATIENCE * agent.conf.timeout_s);
        agent.phase = AGENT_LEAVING;
        agent.exit_code = LAUNCH_EXIT_FAIL;
    }
}

static void check_finished(void)
{
    struct frame_out o;
    if (agent.phase != AGENT_FINISHING ||
        (!pump_idle(&agent.pump) && rt_now_ns() < agent.linger_until_ns))
        return;
    pump_close(&agent.pump);
    agent_begin(&o, FRAME_DONE);
    agent_end(&o);
    agent.phase = AGENT_FINISHED;
}

static void loop(void)
{
    while (agent.phase != AGENT_LEAVING) {
        int head = poll_fds();
        if (head < 0)
            return;
        int npump = agent.phase >= AGENT_RUNNING ? pump_fds(&agent.pump, agent.fds + head) : 0;
        int ntree = tree_fds(&agent.tree, agent.fds + head + npump);
        if (poll(agent.fds, (nfds_t)(head + npump + ntree), poll_timeout()) < 0 && errno != EINTR) {
            log_error(LAUNCH, "poll: %m");
            return;
        }
        if (agent.fds[2].revents)
            read_events();
        if (agent.fds[1].revents)
            read_signals();
        if (npump)
            pump_step(&agent.pump, agent.fds + head, npump);
        tree_step(&agent.tree, agent.fds + head + npump);
        if (agent.fds[0].revents) {
            frame_fill(&agent.up);
            take_frames();
            if (agent.up.eof)
                agent.phase = AGENT_LEAVING;
        }
        relay_step(&agent.relay);
        agent_look_step();
        check_time();
        check_finished();
        frame_flush(&agent.up);
        if (agent.up.broken)
            agent.phase = AGENT_LEAVING;
    }
}

/* Ends ranks that still run although the head has gone: SIGTERM first, as the head would. */
static void end_ranks(void)
{
    struct launch_job *job = &agent.job;
    uint64_t until = rt_now_ns() + GRACE_NS;

    launch_signal_local(job, job->ending ? SIGKILL : SIGTERM);
    launch_signal_local(job, SIGCONT);
    while (job->nrunning > 0 && rt_now_ns() < until) {
        struct pollfd fd = { .fd = agent.signal_fd, .events = POLLIN };
        poll(&fd, 1, 20);
        read_signals();
    }
    launch_signal_local(job, SIGKILL);
    job->ending = true;
}

static void leave(void)
{
    agent_alive_stop();
    if (agent.job.n && agent.phase == AGENT_LEAVING && agent.job.nrunning > 0)
        end_ranks();
    else
        launch_signal_local(&agent.job, SIGKILL);
    tree_stop(&agent.tree);
    frame_flush(&agent.up);
    if (*agent.segment)
        launch_remove_files(agent.segment);
    launch_guard_stop();
    tree_fini(&agent.tree);
    fflush(NULL);
    /* PMIx's thread may still run: see launch_server_start() */
    _exit(agent.exit_code);
}

/* ---- the beginning ---- */

static int open_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGHUP, SIG_IGN); /* the end of the channel is handled instead */
    signal(SIGINT, SIG_IGN);
    signal(SIGCHLD, SIG_DFL);
    if (waitpid(-1, NULL, WNOHANG) < 0 && errno != ECHILD)
        return -1; /* refused: no end of a rank would be noticed */
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Moves the channel away from the standard descriptors, to which libraries may print. */
static int open_channel(void)
{
    int in = fcntl(0, F_DUPFD_CLOEXEC, 3), out = fcntl(1, F_DUPFD_CLOEXEC, 3);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (in < 0 || out < 0 || null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0)
        return -RT_ESYS;
    close(null);
    frame_open(&agent.up, in, out);
    frame_greet(&agent.up);
    frame_flush(&agent.up);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "--version")) {
        printf("weftd (Weft MPI) %s\n", PACKAGE_VERSION);
        return 0;
    }
    if (argc > 1 && (!strcmp(argv[1], "--wait") || !strcmp(argv[1], "--call")))
        return agent_await(argc, argv);
    if (argc > 1 || isatty(0)) {
        fprintf(stderr, "weftd: the agent of mpirun on other hosts; mpirun starts it, with its "
                        "standard input and output connected\n");
        return LAUNCH_EXIT_USAGE;
    }
    char host[256] = "";
    int code = launch_raise_stack("weftd");
    if (code)
        return code;
    gethostname(host, sizeof host - 1);
    rt_log_identify(host, -1);
    agent.signal_fd = open_signals();
    if (agent.signal_fd < 0 || open_channel() < 0) {
        log_error(
            LAUNCH,
            "could not open the channel to mpirun, or signalfd(2) or wait4(2) is refused: %m");
        return LAUNCH_EXIT_FAIL;
    }
    /* before any code reads the hardware topology */
    launch_server_tune();
    agent.heard_ns = agent.spoke_ns = agent.stepped_ns = rt_now_ns();
    loop();
    leave();
}
