/* SPDX-License-Identifier: BSD-3-Clause */
/* weftd, the agent of a host: started by mpirun, or by another agent, through a remote shell, whose
 * standard streams are the only connection.  It starts the agents below it in the tree, passes
 * frames on in both directions, and runs its host's ranks: it embeds their PMIx server, binds,
 * starts and reaps them and sends what they write.  It decides nothing: why and how a job ends is
 * the head's business.  Only when the head has gone does it end its ranks by itself.
 *
 * Everything happens on the main thread; PMIx's thread writes events into a pipe. */
#include "launcher/describe.h"
#include "launcher/pump.h"
#include "launcher/relay.h"
#include "launcher/tree.h"
#include "runtime/base/cfg.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/mem/node.h"
#include "runtime/topo/topo.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* From the start until our parent has told what to do; it does so at once. */
#define WELCOME_NS 60000000000ull
/* A head may be stopped by its user or a debugger for a while; the kernel tells of its end. */
#define PATIENCE   4              /* times host_timeout_s */
/* Children that left the ranks' process groups may hold our pipes open: not longer. */
#define LINGER_NS  200000000
/* SIGTERM to SIGKILL when the head has gone. */
#define GRACE_NS   400000000

enum phase { WAIT_TREE, WAIT_JOB, WAIT_GO, RUNNING, FINISHING, FINISHED, LEAVING };

static struct agent {
    enum phase phase;
    struct wire_chan up;          /* to our parent */
    uint64_t heard_ns, spoke_ns, stepped_ns;
    bool head_stopped;            /* by its user: it says nothing, and that is in order */
    struct tree_conf conf;
    struct tree tree;
    struct relay relay;
    struct pump pump;
    struct launch_job job;
    struct launch_opts opts;
    struct launch_list env;       /* what the head's environment gives the ranks */
    uint8_t *description;         /* the frame that `opts` points into */
    char **names;
    int first, end;
    char segment[4096];
    struct launch_list said;      /* by launch_say() while preparing */
    int signal_fd;
    uint64_t linger_until_ns;
    struct pollfd *fds;
    size_t nfds;
    int exit_code;
} agent = { .job = { .event_fd = -1, .agent = true } };

/* ---- upwards ---- */

static void send_up(void *arg, const struct wire_out *o)
{
    (void)arg;
    if (wire_send(&agent.up, o->buf, o->len) == -RT_ENOMEM)
        log_error(LAUNCH, "no memory for a message of %zu bytes to mpirun", o->len);
    agent.spoke_ns = rt_now_ns();
}

static void begin_up(struct wire_out *o, enum wire_type type)
{
    *o = (struct wire_out){ 0 };
    wire_begin(o, type, (uint32_t)agent.first);
}

static void end_up(struct wire_out *o)
{
    if (wire_end(o) == 0)
        send_up(NULL, o);
    else
        log_error(LAUNCH, "no memory for a message to mpirun");
    wire_out_fini(o);
}

/* What the shared files of the launcher tell the user: kept while preparing, for the answer. */
void launch_say(const struct launch_job *job, const char *fmt, ...)
{
    struct wire_out o;
    va_list args;
    char text[2048];
    (void)job;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (agent.phase <= WAIT_GO) {
        launch_list_add(&agent.said, text);
        return;
    }
    begin_up(&o, WIRE_SAY);
    wire_put_str(&o, text);
    end_up(&o);
}

static void put_said(struct wire_out *o)
{
    wire_put_u32(o, (uint32_t)agent.said.n);
    for (int i = 0; i < agent.said.n; i++)
        wire_put_str(o, agent.said.v[i]);
    launch_list_fini(&agent.said);
}

/* ---- the tree below ---- */

static void on_child_frame(void *arg, struct wire_frame *f)
{
    struct wire_out o = { .buf = (uint8_t *)f->raw, .len = f->raw_len };
    (void)arg;
    if (f->type == WIRE_FENCE || f->type == WIRE_FETCH || f->type == WIRE_FETCHED)
        relay_frame(&agent.relay, f);
    else
        send_up(NULL, &o);
}

static void on_child_lost(void *arg, const struct tree_child *c, const char *why)
{
    struct wire_out o = { 0 };
    (void)arg;
    wire_begin(&o, WIRE_LOST, (uint32_t)c->first);
    wire_put_int(&o, c->first);
    wire_put_int(&o, c->end);
    wire_put_u8(&o, c->was_up);
    wire_put_str(&o, why);
    end_up(&o);
}

static void on_child_said(void *arg, const char *text, size_t len)
{
    (void)arg;
    if (write(2, text, len) < 0) { }          /* our own stderr goes the same way */
}

/* ---- frames from above ---- */

static void send_info(void)
{
    struct wire_out o;
    int nobj[LAUNCH_UNSET] = { 0 };
    char host[256] = "";

    hwloc_topology_t topo = rt_topo_hwloc();
    int err = topo ? launch_count_objects(topo, nobj) : -RT_ENOENT;
    gethostname(host, sizeof host - 1);
    begin_up(&o, WIRE_INFO);
    wire_put_int(&o, err);
    wire_put_str(&o, host);
    for (int i = 0; i < LAUNCH_UNSET; i++)
        wire_put_int(&o, nobj[i]);
    end_up(&o);
}

static void on_tree(struct wire_frame *f)
{
    if (agent.phase != WAIT_TREE ||
        tree_get(&f->in, &agent.conf, &agent.first, &agent.end, &agent.names) < 0) {
        f->in.bad = true;
        return;
    }
    agent.phase = WAIT_JOB;
    agent.job.node = agent.first;
    agent.tree = (struct tree){ .conf = &agent.conf,
                                .base = agent.first,
                                .names = agent.names,
                                .up = on_child_frame,
                                .lost = on_child_lost,
                                .said = on_child_said };
    agent.relay = (struct relay){ .job = &agent.job,
                                  .tree = &agent.tree,
                                  .first = agent.first,
                                  .end = agent.end,
                                  .self = agent.first,
                                  .up = send_up };
    agent.pump.up = send_up;
    rt_log_identify(agent.names[0], -1);
    if (tree_start(&agent.tree, agent.first + 1, agent.end, -1) < 0)
        agent.phase = LEAVING;
    else
        send_info();
}

/* Settings of Weft are for the agent too. */
static void take_settings(void)
{
    const struct launch_list *lists[] = { &agent.env, &agent.opts.env.set };
    for (size_t l = 0; l < 2; l++)
        for (int i = 0; i < lists[l]->n; i++) {
            char *text = lists[l]->v[i], *eq = strchr(text, '=');
            if (strncmp(text, "WEFT_", 5))
                continue;
            *eq = '\0';
            setenv(text, eq + 1, 1);
            *eq = '=';
        }
}

/* The ranks get what this host says of these names, or nothing. */
static void take_own(const char *const *own, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        const char *mine = getenv(own[k]);
        size_t len = strlen(own[k]);
        for (int i = 0; i < agent.env.n; i++) {
            if (strncmp(agent.env.v[i], own[k], len) || agent.env.v[i][len] != '=')
                continue;
            free(agent.env.v[i]);
            agent.env.v[i] = agent.env.v[--agent.env.n];
            agent.env.v[agent.env.n] = NULL;
            break;
        }
        if (mine)
            launch_list_addf(&agent.env, "%s=%s", own[k], mine);
    }
}

/* Names that mean something on one host only.  Inside a Slurm allocation those are also its devices
 * of each node, which it tells the agent that srun has started there. */
static void keep_own(void)
{
    static const char *const own[] = { "HOSTNAME", "HOST", "SSH_CONNECTION", "SSH_CLIENT",
                                       "SSH_TTY", "SSH_AUTH_SOCK", "DISPLAY", "XDG_RUNTIME_DIR",
                                       "XDG_SESSION_ID", "DBUS_SESSION_BUS_ADDRESS" };
    static const char *const slurm[] = { "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL",
                                         "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK",
                                         "SLURMD_NODENAME", "SLURM_CPUS_ON_NODE",
                                         "SLURM_JOB_GPUS", "SLURM_STEP_GPUS" };
    take_own(own, sizeof own / sizeof own[0]);
    if (getenv("SLURM_JOB_ID"))
        take_own(slurm, sizeof slurm / sizeof slurm[0]);
}

/* Where ranks without --wdir run: where mpirun does, or, where that does not exist, at home. */
static void enter(const char *cwd)
{
    const char *home = getenv("HOME");
    if (chdir(cwd) == 0)
        return;
    int errno_was = errno;
    if ((!home || chdir(home) < 0) && chdir("/") < 0)
        return;
    char now[4096] = "";
    launch_say(&agent.job, "warning: %s: %s; ranks there run in %s", cwd, strerror(errno_was),
               getcwd(now, sizeof now));
}

/* Everything but the ranks; 0 or an exit code with something said. */
static int prepare(const char *cwd, char **map, char **bindings)
{
    struct launch_job *job = &agent.job;
    hwloc_topology_t topo = rt_topo_hwloc();
    size_t len;
    int code;

    take_settings();
    if (rt_cfg_load() < 0)
        return LAUNCH_EXIT_FAIL;
    keep_own();
    job->env = agent.env.v;
    enter(cwd);
    code = job->n ? launch_place(job, topo) : 0;
    FILE *f = !code && agent.opts.display_map ? open_memstream(map, &len) : NULL;
    if (f)
        launch_show_map(job, topo, f), fclose(f);
    f = !code && agent.opts.report_bindings ? open_memstream(bindings, &len) : NULL;
    if (f)
        launch_show_bindings(job, topo, f), fclose(f);
    if (!code && job->n && !agent.opts.dry_run)
        code = launch_check_programs(job);
    if (code || agent.opts.dry_run || job->n == 0)
        return code;
    rt_node_name(job->nspace, job->hosts[job->node].node, agent.segment, sizeof agent.segment);
    launch_server_tune();
    if (launch_guard_start(job, agent.segment, agent.up.in, agent.up.out) ||
        launch_server_start(job) < 0)
        return LAUNCH_EXIT_FAIL;
    return 0;
}

static void on_job(struct wire_frame *f)
{
    struct wire_in in = f->in;
    size_t len = (size_t)(in.end - in.at);
    char *map = NULL, *bindings = NULL;
    struct wire_out o;
    const char *cwd;

    tree_send(&agent.tree, WIRE_ALL, f->raw, f->raw_len);
    agent.description = malloc(len + 1);
    if (!agent.description || agent.phase != WAIT_JOB) {
        f->in.bad = true;
        return;
    }
    memcpy(agent.description, in.at, len);
    in.at = agent.description;
    in.end = in.at + len;
    agent.job.opts = &agent.opts;
    if (launch_understand(&in, &agent.job, &agent.opts, &agent.env, &cwd) < 0 ||
        pump_init(&agent.pump, &agent.job) < 0) {
        f->in.bad = true;
        return;
    }
    int code = prepare(cwd, &map, &bindings);
    begin_up(&o, WIRE_READY);
    wire_put_int(&o, code);
    put_said(&o);
    wire_put_str(&o, map);
    wire_put_str(&o, bindings);
    end_up(&o);
    free(map), free(bindings);
    agent.phase = WAIT_GO;
}

static void on_go(struct wire_frame *f)
{
    struct launch_job *job = &agent.job;
    struct wire_out o;

    tree_send(&agent.tree, WIRE_ALL, f->raw, f->raw_len);
    agent.pump.credit = wire_get_u32(&f->in);
    if (agent.phase != WAIT_GO || !wire_in_ok(&f->in)) {
        f->in.bad = true;
        return;
    }
    int code = job->n ? launch_spawn(job) : 0;
    begin_up(&o, WIRE_STARTED);
    wire_put_int(&o, code);
    put_said(&o);
    wire_put_u32(&o, (uint32_t)job->n);
    for (int i = 0; i < job->n; i++) {
        wire_put_int(&o, job->ranks[i].rank);
        wire_put_int(&o, (int)job->ranks[i].pid);
    }
    end_up(&o);
    agent.phase = RUNNING;
}

static void on_signal(struct wire_frame *f)
{
    int sig = wire_get_int(&f->in);
    tree_send(&agent.tree, WIRE_ALL, f->raw, f->raw_len);
    if (!wire_in_ok(&f->in) || sig < 1 || sig >= NSIG) {
        f->in.bad = true;
        return;
    }
    if (sig == SIGSTOP)
        agent.head_stopped = true;
    if (sig == SIGCONT)
        agent.head_stopped = false;
    if (sig == SIGTERM || sig == SIGKILL)
        agent.job.ending = true;
    launch_signal_local(&agent.job, sig);
}

static void on_input(struct wire_frame *f)
{
    size_t len;
    if (f->node != (uint32_t)agent.first)
        tree_send(&agent.tree, f->node, f->raw, f->raw_len);
    if (f->node != (uint32_t)agent.first && f->node != WIRE_ALL)
        return;
    const void *data = wire_get_bytes(&f->in, &len);
    if (!wire_in_ok(&f->in) || agent.phase < RUNNING)
        f->in.bad = true;
    else
        pump_input(&agent.pump, data, len);
}

static void on_credit(struct wire_frame *f)
{
    if (f->node != (uint32_t)agent.first) {
        tree_send(&agent.tree, f->node, f->raw, f->raw_len);
        return;
    }
    agent.pump.credit += wire_get_u32(&f->in);
    if (!wire_in_ok(&f->in))
        f->in.bad = true;
}

/* No rank of the job is left. */
static void on_finish(struct wire_frame *f)
{
    tree_send(&agent.tree, WIRE_ALL, f->raw, f->raw_len);
    if (agent.phase != RUNNING)
        return;
    launch_signal_local(&agent.job, SIGKILL);     /* what the ranks' groups still hold */
    agent.linger_until_ns = rt_now_ns() + LINGER_NS;
    agent.phase = FINISHING;
}

static void on_quit(struct wire_frame *f)
{
    tree_send(&agent.tree, WIRE_ALL, f->raw, f->raw_len);
    agent.phase = LEAVING;
}

static void on_frame(struct wire_frame *f)
{
    switch (f->type) {
    case WIRE_PING:       break;
    case WIRE_TREE:       on_tree(f); break;
    case WIRE_JOB:        on_job(f); break;
    case WIRE_GO:         on_go(f); break;
    case WIRE_SIGNAL:     on_signal(f); break;
    case WIRE_IN:         on_input(f); break;
    case WIRE_CREDIT:     on_credit(f); break;
    case WIRE_FINISH:     on_finish(f); break;
    case WIRE_QUIT:       on_quit(f); break;
    case WIRE_FENCE_DONE:
    case WIRE_FETCH:
    case WIRE_FETCHED:    relay_frame(&agent.relay, f); break;
    default:              f->in.bad = true; break;
    }
}

static void take_frames(void)
{
    struct wire_frame f = { 0 };
    int more = 0;

    if (!agent.up.greeted) {
        int here = wire_greeting(&agent.up, NULL, NULL);
        if (here < 0)
            agent.phase = LEAVING;
        if (here <= 0)
            return;
        if (agent.up.protocol != WIRE_VERSION || strcmp(agent.up.version, PACKAGE_VERSION)) {
            agent.phase = LEAVING;            /* mpirun says which versions */
            return;
        }
    }
    while (agent.phase != LEAVING && (more = wire_next(&agent.up, &f)) > 0) {
        agent.heard_ns = rt_now_ns();
        on_frame(&f);
        if (f.in.bad)
            break;
    }
    if (more < 0 || f.in.bad) {
        log_error(LAUNCH,
                  "a message from mpirun makes no sense (type %d); ending this host's ranks",
                  (int)f.type);
        agent.phase = LEAVING;
        agent.exit_code = LAUNCH_EXIT_FAIL;
    }
}

/* ---- ranks ---- */

static void send_event(const struct launch_event *e)
{
    struct wire_out o;
    begin_up(&o, WIRE_EVENT);
    wire_put_u8(&o, e->kind);
    wire_put_int(&o, e->rank);
    wire_put_int(&o, e->code);
    wire_put_str(&o, e->text);
    end_up(&o);
}

static void read_events(void)
{
    struct launch_event e;
    while (agent.job.event_fd >= 0 && read(agent.job.event_fd, &e, sizeof e) == sizeof e) {
        if (e.kind == LAUNCH_FENCE || e.kind == LAUNCH_FETCH || e.kind == LAUNCH_PUBLISHED)
            relay_event(&agent.relay, &e);
        else
            send_event(&e);
    }
}

/* Its last words, then its end. */
static void report_exit(struct launch_rank *r)
{
    struct wire_out o;
    pump_drain(&agent.pump, r);
    r->reported = true;
    begin_up(&o, WIRE_EXIT);
    wire_put_int(&o, r->rank);
    wire_put_int(&o, r->status);
    end_up(&o);
    relay_rank_ended(&agent.relay, r->rank);
}

static void rank_died(pid_t pid, int status)
{
    for (int i = 0; i < agent.job.n; i++) {
        struct launch_rank *r = &agent.job.ranks[i];
        if (r->pid != pid || !r->running)
            continue;
        r->running = false;
        r->status = status;
        r->gone = kill(-pid, 0) < 0;          /* the number may then become somebody else's */
        if (r->gone)
            launch_guard_drop(pid);
        agent.job.nrunning--;
        return;
    }
}

/* Collects the dead, then tells of them: those killed by a signal first, after what they said. */
static void reap(void)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        if (!tree_exited(&agent.tree, pid, status))
            rank_died(pid, status);
    read_events();
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < agent.job.n; i++) {
            struct launch_rank *r = &agent.job.ranks[i];
            if (r->pid > 0 && !r->running && !r->reported && WIFSIGNALED(r->status) != pass)
                report_exit(r);
        }
}

static void read_signals(void)
{
    struct signalfd_siginfo s;
    while (read(agent.signal_fd, &s, sizeof s) == sizeof s) {
        if (s.ssi_signo == SIGCHLD)
            reap();
        else if (s.ssi_signo == SIGTERM)
            agent.phase = LEAVING;            /* an administrator, or the allocation's end */
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
    agent.fds[3] = (struct pollfd){ .fd = wire_waiting(&agent.up) ? agent.up.out : -1,
                                    .events = POLLOUT };
    return 4;
}

static int sooner(int a, int b)
{
    return a < 0 ? b : b < 0 || a < b ? a : b;
}

static int poll_timeout(void)
{
    int ms = agent.phase == WAIT_TREE ? 1000 : agent.conf.timeout_s * 1000 / 8;
    if (agent.phase == FINISHING)
        ms = sooner(ms, LINGER_NS / 1000000 / 4);
    ms = sooner(ms, tree_timeout_ms(&agent.tree));
    return sooner(ms, relay_timeout_ms(&agent.relay));
}

/* Signs of life in both directions. */
static void check_time(void)
{
    uint64_t now = rt_now_ns(), timeout = (uint64_t)agent.conf.timeout_s * 1000000000u;
    uint8_t ping[WIRE_HEADER];

    if (agent.phase == WAIT_TREE) {
        if (now > agent.heard_ns + WELCOME_NS)
            agent.phase = LEAVING;
        return;
    }
    if (now > agent.stepped_ns + timeout)     /* we were stopped ourselves */
        agent.heard_ns = now;
    agent.stepped_ns = now;
    if (now > agent.spoke_ns + timeout / 4) {
        struct wire_out o = { .buf = ping, .cap = sizeof ping };
        wire_begin(&o, WIRE_PING, (uint32_t)agent.first);
        wire_end(&o);
        send_up(NULL, &o);
    }
    if (!agent.head_stopped && now > agent.heard_ns + PATIENCE * timeout) {
        log_error(LAUNCH, "mpirun gave no sign of life for %d s; ending this host's ranks",
                  PATIENCE * agent.conf.timeout_s);
        agent.phase = LEAVING;
        agent.exit_code = LAUNCH_EXIT_FAIL;
    }
}

static void check_finished(void)
{
    struct wire_out o;
    if (agent.phase != FINISHING ||
        (!pump_idle(&agent.pump) && rt_now_ns() < agent.linger_until_ns))
        return;
    pump_close(&agent.pump);
    begin_up(&o, WIRE_DONE);
    end_up(&o);
    agent.phase = FINISHED;
}

static void loop(void)
{
    while (agent.phase != LEAVING) {
        int head = poll_fds();
        if (head < 0)
            return;
        int npump = agent.phase >= RUNNING ? pump_fds(&agent.pump, agent.fds + head) : 0;
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
            wire_fill(&agent.up);
            take_frames();
            if (agent.up.eof)
                agent.phase = LEAVING;
        }
        relay_step(&agent.relay);
        check_time();
        check_finished();
        wire_flush(&agent.up);
        if (agent.up.broken)
            agent.phase = LEAVING;
    }
}

/* ---- the end ---- */

/* Ranks that still run lose their head: politely first, as it would. */
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
    if (agent.job.n && agent.phase == LEAVING && agent.job.nrunning > 0)
        end_ranks();
    else
        launch_signal_local(&agent.job, SIGKILL);
    tree_stop(&agent.tree);
    wire_flush(&agent.up);
    launch_server_stop(&agent.job);
    if (*agent.segment)
        unlink(agent.segment);
    launch_guard_stop();
    tree_fini(&agent.tree);
    fflush(NULL);
    /* PMIx's thread may still run: see launch_server_stop(). */
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
    signal(SIGHUP, SIG_IGN);                  /* the end of the channel says it better */
    signal(SIGINT, SIG_IGN);
    signal(SIGCHLD, SIG_DFL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* The channel moves away from the standard numbers, which print()s of libraries may reach. */
static int open_channel(void)
{
    int in = fcntl(0, F_DUPFD_CLOEXEC, 3), out = fcntl(1, F_DUPFD_CLOEXEC, 3);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (in < 0 || out < 0 || null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0)
        return -RT_ESYS;
    close(null);
    wire_open(&agent.up, in, out);
    wire_greet(&agent.up);
    wire_flush(&agent.up);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "--version")) {
        printf("weftd (Weft MPI) %s\n", PACKAGE_VERSION);
        return 0;
    }
    if (argc > 1 || isatty(0)) {
        fprintf(stderr, "weftd: the agent of mpirun on other hosts; mpirun starts it, with its "
                        "standard input and output connected\n");
        return LAUNCH_EXIT_USAGE;
    }
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    rt_log_identify(host, -1);
    agent.signal_fd = open_signals();
    if (agent.signal_fd < 0 || open_channel() < 0) {
        log_error(LAUNCH, "could not open the channel to mpirun: %m");
        return LAUNCH_EXIT_FAIL;
    }
    /* Before anybody looks for hardware. */
    launch_server_tune();
    agent.heard_ns = agent.spoke_ns = agent.stepped_ns = rt_now_ns();
    loop();
    leave();
}
