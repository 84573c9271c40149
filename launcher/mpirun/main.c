/* SPDX-License-Identifier: BSD-3-Clause */
/* mpirun: starts the ranks of one job and runs until all have ended.  On one host, the PMIx server
 * runs in this process on its own thread.  On several hosts, an agent on each host has a server
 * (agent.c), and this process is the head of the agents (head.c).  All other work is done on the
 * main thread. */
#include "launcher/host/guard.h"
#include "launcher/host/meet.h"
#include "launcher/host/place.h"
#include "launcher/host/server.h"
#include "launcher/host/show.h"
#include "launcher/host/spawn.h"
#include "launcher/strings.h"
#include "launcher/mpirun/job_end.h"
#include "launcher/mpirun/family.h"
#include "launcher/mpirun/head.h"
#include "launcher/mpirun/forward.h"
#include "launcher/mpirun/hang.h"
#include "launcher/mpirun/loop.h"
#include "launcher/options/assign.h"
#include "launcher/options/parse.h"
#include "runtime/base/cfg.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/mem/segment.h"
#include "runtime/topo/topo.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <sys/syscall.h>
#include <unistd.h>

extern char **environ;
static char *no_environment[] = { NULL };

/* If stdin, stdout or stderr is closed, the next pipe would get its number. */
static void open_standard_fds(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    while (fd >= 0 && fd <= 2 && fcntl(fd, F_SETFD, 0) == 0);
    if (fd > 2)
        close(fd);
}

/* Copies the environment for the ranks without the variables that connect this process to a PMIx
 * server: mpirun may run inside a rank or an allocation, and its job is a new one. */
static int save_environment(struct launch_list *saved)
{
    for (char **e = environ; *e; e++)
        if ((strncmp(*e, "PMIX_", 5) || !strncmp(*e, "PMIX_MCA_", 9)) &&
            launch_list_add(saved, *e) < 0)
            return LAUNCH_EXIT_FAIL;
    for (char **e = environ; *e;) {
        char name[256];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(*e, "="), *e);
        if (strncmp(name, "PMIX_", 5) || !strncmp(name, "PMIX_MCA_", 9) || unsetenv(name) < 0)
            e++;
    }
    return 0;
}

/* Makes signals readable.  Signals that were ignored when mpirun was started (nohup) stay ignored,
 * except SIGINT and SIGQUIT: shells without job control, as in scripts, ignore them in background
 * jobs, where users of other mpiruns expect SIGINT to end the job.  Called before PMIx starts its
 * thread, which inherits the mask. */
static int open_signals(void)
{
    static const int wanted[] = { SIGINT,  SIGQUIT, SIGTERM, SIGHUP,
                                  SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT };
    struct sigaction now;
    sigset_t set;

    signal(SIGINT, SIG_DFL);
    signal(SIGQUIT, SIG_DFL);
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        if (sigaction(wanted[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(&set, wanted[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a write beyond ulimit -f fails and is reported */
    /* if the parent process ignored it, mpirun would miss every death */
    signal(SIGCHLD, SIG_DFL);
    if (waitpid(-1, NULL, WNOHANG) < 0 && errno != ECHILD)
        return -1; /* refused: no end of a rank would be noticed */
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int check_stdin(const struct launch_job *job)
{
    if (job->opts->stdin_rank < job->n)
        return 0;
    launch_say(job, "--stdin: rank %d is outside 0..%d", job->opts->stdin_rank, job->n - 1);
    return LAUNCH_EXIT_USAGE;
}

/* Counts, places and prints the ranks. */
static int plan(struct launch_job *job)
{
    const struct launch_opts *o = job->opts;
    if (o->placement.topo_xml && rt_topo_load(o->placement.topo_xml) < 0)
        return LAUNCH_EXIT_FAIL;
    hwloc_topology_t topo = rt_topo_hwloc();
    if (!topo)
        return LAUNCH_EXIT_FAIL;
    if (launch_count_objects(topo, job->hosts[0].nobj) < 0) {
        launch_say(job, "found no core that this process may use");
        return LAUNCH_EXIT_FAIL;
    }
    int code = launch_assign(job);
    if (!code)
        code = check_stdin(job);
    if (!code)
        code = launch_place(job, topo);
    if (!code && o->display.map)
        launch_show_map(job, topo, stdout);
    if (!code && o->display.bindings)
        launch_show_bindings(job, topo, stderr);
    return code;
}

static void name_job(struct launch_job *job)
{
    if (gethostname(job->host, sizeof job->host) < 0)
        snprintf(job->host, sizeof job->host, "localhost");
    job->host[sizeof job->host - 1] = '\0';
    snprintf(job->nspace, sizeof job->nspace, "weft-%.100s-%ld-%llx", job->host, (long)getpid(),
             (unsigned long long)rt_now_ns());
}

static int run(struct launch_job *job)
{
    char segment[4096];
    int signal_fd = open_signals();
    if (signal_fd < 0) {
        launch_say(job, "signalfd(2) or wait4(2): %s", strerror(errno));
        return LAUNCH_EXIT_FAIL;
    }
    int code = launch_raise_limits(job);
    if (code)
        return code;
    rt_node_name(job->nspace, 0, segment, sizeof segment);
    if (launch_io_init(job) < 0 || launch_io_open_files(job) < 0 ||
        launch_guard_start(job, segment, -1, -1) || launch_server_start(job, segment) < 0)
        return LAUNCH_EXIT_FAIL;
    strcpy(job->meet_addr, "127.0.0.1");
    job->meet_port = launch_free_port();
    code = launch_spawn(job);
    if (code)
        launch_end_begin(job, code);
    else
        family_up(job);
    if (!code && job->opts->display.verbose)
        launch_report(job, "started %d ranks, job %s", job->n, job->nspace);
    code = launch_loop(job, signal_fd);
    launch_hang_fini(job);
    launch_remove_files(segment); /* the files exist if the job ended before its last rank
                                   * attached */
    launch_guard_stop();
    launch_io_fini(job);
    return code;
}

/* The same for several hosts; the agents place and print their ranks. */
static int run_far(struct launch_job *job)
{
    int signal_fd = open_signals();
    int code = signal_fd < 0 ? LAUNCH_EXIT_FAIL : head_start(job, signal_fd);
    if (!code && !job->opts->dry_run) {
        head_go(job->head);
        family_up(job);
        if (job->opts->display.verbose)
            launch_report(job, "started %d ranks on %d hosts, job %s", job->n, job->nhosts,
                          job->nspace);
        code = launch_loop(job, signal_fd);
    }
    launch_hang_fini(job);
    head_stop(job);
    if (job->ranks)
        launch_io_fini(job);
    return code;
}

/* Serves a process that has no mpirun: starts the jobs that it spawns, until it and these have
 * ended.  It is no child of that process, whose wait() calls must not see it. */
static int run_served(struct launch_job *job)
{
    pid_t pid = fork();
    if (pid > 0)
        _exit(0);
    if (pid < 0) {
        launch_say(job, "could not start a process: %s", strerror(errno));
        return LAUNCH_EXIT_FAIL;
    }
#ifdef SYS_close_range /* pipes of that process must not stay open */
    syscall(SYS_close_range, job->opts->spawned.control_fd + 1, ~0u, 0);
#endif
    int signal_fd = open_signals();
    if (signal_fd < 0 || launch_io_init(job) < 0 || family_adopt(job) < 0)
        return LAUNCH_EXIT_FAIL;
    int code = launch_loop(job, signal_fd);
    launch_io_fini(job);
    return code;
}

/* This host only, or the requested hosts.  True: other hosts take part. */
static bool choose_hosts(struct launch_job *job, struct launch_host *here)
{
    const struct launch_resources *r = &job->opts->resources;
    *here = (struct launch_host){ .name = job->host, .self = true };
    job->hosts = r->nhosts ? r->hosts : here;
    job->nhosts = r->nhosts ? r->nhosts : 1;
    return job->nhosts > 1 || !job->hosts[0].self;
}

/* WEFT_CHECK makes programs hang that rely on buffering, so such a hang is explained sooner; one
 * that is a deadlock for sure at once, whatever hang_s is. */
#define CHECK_HANG_S 2
static void look_sooner(struct launch_opts *opts)
{
    enum rt_cfg_source source;
    char value[32];
    if (!cfg.check)
        return;
    opts->hang.sooner = opts->hang.action != LAUNCH_HANG_STACKS;
    for (int i = 0; i < rt_cfg_count(); i++)
        if (!strcmp(rt_cfg_row(i)->name, "hang_s")) {
            rt_cfg_value(i, value, sizeof value, &source);
            if (source == RT_CFG_DEFAULT)
                cfg.hang_s = CHECK_HANG_S;
        }
}

static int run_main(int argc, char **argv)
{
    struct launch_host here;
    struct launch_opts opts;
    struct launch_job job = {
        .opts = &opts, .say = launch_print, .event_fd = -1, .began_ns = rt_now_ns()
    };
    struct launch_list env = { 0 };

    open_standard_fds();
    name_job(&job);
    rt_log_identify(job.host, -1);
    if (rt_cfg_load() < 0 || save_environment(&env))
        return LAUNCH_EXIT_FAIL;
    job.env = env.v ? env.v : no_environment;
    int code = launch_parse(argc, argv, &opts);
    if (code || opts.exit_now >= 0) {
        launch_opts_fini(&opts);
        launch_list_fini(&env);
        return code;
    }
    look_sooner(&opts);
    if (opts.spawned.nspace)
        snprintf(job.nspace, sizeof job.nspace, "%s", opts.spawned.nspace);
    if (family_init(&job) < 0)
        return LAUNCH_EXIT_FAIL;
    bool far = choose_hosts(&job, &here);
    if (opts.spawned.serve) {
        code = run_served(&job);
    } else if (far && !opts.placement.topo_xml) {
        code = run_far(&job);
    } else {
        launch_server_tune();
        code = plan(&job);
        if (!code && opts.dry_run)
            launch_show_programs(&job, stdout);
        else if (!code)
            code = launch_check_programs(&job);
        if (!code && !opts.dry_run)
            code = run(&job);
    }
    family_fini(&job);
    if (job.event_fd >= 0 || job.ending) { /* PMIx's thread still runs: see launch_server_start() */
        fflush(NULL);
        _exit(code);
    }
    for (int i = 0; i < job.n && job.ranks; i++) {
        hwloc_bitmap_free(job.ranks[i].place);
        hwloc_bitmap_free(job.ranks[i].cpus);
    }
    rt_topo_fini();
    free(job.ranks);
    free(job.cpus);
    launch_opts_fini(&opts);
    launch_list_fini(&env);
    return code;
}

int main(int argc, char **argv)
{
    int code = launch_raise_stack("mpirun");
    return code ? code : run_main(argc, argv);
}
