/* SPDX-License-Identifier: BSD-3-Clause */
/* The head's orders, executed by an agent: it takes its part of the tree, prepares the job, starts
 * the ranks, passes on signals and input, and cleans up.  See agent.c.  Main thread only. */
#include "launcher/agent/agent.h"
#include "launcher/host/guard.h"
#include "launcher/host/meet.h"
#include "launcher/host/place.h"
#include "launcher/host/server.h"
#include "launcher/host/show.h"
#include "launcher/host/spawn.h"
#include "launcher/strings.h"
#include "runtime/base/cfg.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/mem/segment.h"
#include "runtime/topo/topo.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Longest time that children which have left the process groups of the ranks may keep the pipes
 * open. */
#define LINGER_NS 200000000

static void send_info(void)
{
    struct frame_out o;
    int nobj[LAUNCH_UNSET] = { 0 };
    char host[256] = "";

    hwloc_topology_t topo = rt_topo_hwloc();
    int err = topo ? launch_count_objects(topo, nobj) : -RT_ENOENT;
    gethostname(host, sizeof host - 1);
    agent_begin(&o, FRAME_INFO);
    frame_put_int(&o, err);
    frame_put_str(&o, host);
    for (int i = 0; i < LAUNCH_UNSET; i++)
        frame_put_int(&o, nobj[i]);
    frame_put_int(&o, launch_free_port());
    agent_end(&o);
}

static void on_tree(struct frame *f)
{
    if (agent.phase != AGENT_WAIT_TREE ||
        tree_get(&f->in, &agent.conf, &agent.first, &agent.end, &agent.names) < 0) {
        f->in.bad = true;
        return;
    }
    agent.phase = AGENT_WAIT_JOB;
    agent_alive_start();
    agent.job.node = agent.first;
    agent.job.say = agent_say;
    agent.tree = (struct tree){ .conf = &agent.conf,
                                .base = agent.first,
                                .names = agent.names,
                                .up = agent_pass_on,
                                .lost = agent_lost,
                                .output = agent_child_output };
    agent.relay = (struct relay){ .job = &agent.job,
                                  .tree = &agent.tree,
                                  .first = agent.first,
                                  .end = agent.end,
                                  .self = agent.first,
                                  .up = agent_send };
    agent.pump.up = agent_send;
    rt_log_identify(launch_bare_name(agent.names[0]), -1);
    if (tree_start(&agent.tree, agent.first + 1, agent.end, -1) < 0)
        agent.phase = AGENT_LEAVING;
    else
        send_info();
}

/* Settings of Weft apply to the agent, too. */
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

/* Replaces these variables in the environment of the ranks by those of this host. */
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

/* Variables that are valid on one host only.  In a Slurm allocation the devices of a node belong to
 * them: Slurm gives them to the agent that srun has started on the node. */
static void keep_own(void)
{
    static const char *const own[] = {
        "HOSTNAME",      "HOST",    "SSH_CONNECTION",  "SSH_CLIENT",     "SSH_TTY",
        "SSH_AUTH_SOCK", "DISPLAY", "XDG_RUNTIME_DIR", "XDG_SESSION_ID", "DBUS_SESSION_BUS_ADDRESS"
    };
    static const char *const slurm[] = { "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL",
                                         "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK",
                                         "SLURMD_NODENAME",      "SLURM_CPUS_ON_NODE",
                                         "SLURM_JOB_GPUS",       "SLURM_STEP_GPUS" };
    take_own(own, sizeof own / sizeof own[0]);
    if (getenv("SLURM_JOB_ID"))
        take_own(slurm, sizeof slurm / sizeof slurm[0]);
}

/* Working directory of ranks without --wdir: that of mpirun, or the home directory if that does not
 * exist on this host. */
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

/* Prepares everything except the ranks.  Returns 0, or an exit code after a message. */
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
    bool shown = agent.opts.display.map || agent.opts.dry_run;
    FILE *f = !code && shown ? open_memstream(map, &len) : NULL;
    if (f && agent.opts.display.map)
        launch_show_map(job, topo, f);
    if (f && agent.opts.dry_run && job->n)
        launch_show_programs(job, f);
    if (f)
        fclose(f);
    f = !code && agent.opts.display.bindings ? open_memstream(bindings, &len) : NULL;
    if (f)
        launch_show_bindings(job, topo, f), fclose(f);
    if (!code && job->n && !agent.opts.dry_run)
        code = launch_check_programs(job);
    if (!code && job->n && !agent.opts.dry_run)
        code = launch_raise_limits(job);
    if (code || agent.opts.dry_run || job->n == 0)
        return code;
    rt_node_name(job->nspace, job->hosts[job->node].node, agent.segment, sizeof agent.segment);
    launch_server_tune();
    if (launch_guard_start(job, agent.segment, agent.up.in, agent.up.out) ||
        launch_server_start(job, agent.segment) < 0)
        return LAUNCH_EXIT_FAIL;
    return 0;
}

static void on_job(struct frame *f)
{
    struct frame_in in = f->in;
    size_t len = (size_t)(in.end - in.at);
    char *map = NULL, *bindings = NULL;
    struct frame_out o;
    const char *cwd;

    tree_send(&agent.tree, FRAME_ALL, f->raw, f->raw_len);
    agent.description = malloc(len + 1);
    if (!agent.description || agent.phase != AGENT_WAIT_JOB) {
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
    agent_begin(&o, FRAME_READY);
    frame_put_int(&o, code);
    agent_put_messages(&o);
    frame_put_str(&o, map);
    frame_put_str(&o, bindings);
    agent_end(&o);
    free(map), free(bindings);
    agent.phase = AGENT_WAIT_GO;
}

static void on_go(struct frame *f)
{
    struct launch_job *job = &agent.job;
    struct frame_out o;

    tree_send(&agent.tree, FRAME_ALL, f->raw, f->raw_len);
    agent.pump.credit = frame_get_u32(&f->in);
    if (agent.phase != AGENT_WAIT_GO || !frame_in_ok(&f->in)) {
        f->in.bad = true;
        return;
    }
    int code = job->n ? launch_spawn(job) : 0;
    agent_begin(&o, FRAME_STARTED);
    frame_put_int(&o, code);
    agent_put_messages(&o);
    frame_put_u32(&o, (uint32_t)job->n);
    for (int i = 0; i < job->n; i++) {
        frame_put_int(&o, job->ranks[i].rank);
        frame_put_int(&o, (int)job->ranks[i].pid);
    }
    agent_end(&o);
    agent_alive_stop();
    agent.phase = AGENT_RUNNING;
}

static void on_signal(struct frame *f)
{
    int sig = frame_get_int(&f->in);
    tree_send(&agent.tree, FRAME_ALL, f->raw, f->raw_len);
    if (!frame_in_ok(&f->in) || sig < 1 || sig >= NSIG) {
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

static void on_input(struct frame *f)
{
    size_t len;
    if (f->node != (uint32_t)agent.first)
        tree_send(&agent.tree, f->node, f->raw, f->raw_len);
    if (f->node != (uint32_t)agent.first && f->node != FRAME_ALL)
        return;
    const void *data = frame_get_bytes(&f->in, &len);
    if (!frame_in_ok(&f->in) || agent.phase < AGENT_RUNNING)
        f->in.bad = true;
    else
        pump_input(&agent.pump, data, len);
}

static void on_credit(struct frame *f)
{
    if (f->node != (uint32_t)agent.first) {
        tree_send(&agent.tree, f->node, f->raw, f->raw_len);
        return;
    }
    agent.pump.credit += frame_get_u32(&f->in);
    if (!frame_in_ok(&f->in))
        f->in.bad = true;
}

/* No rank of the job is left on any host. */
static void on_finish(struct frame *f)
{
    tree_send(&agent.tree, FRAME_ALL, f->raw, f->raw_len);
    if (agent.phase != AGENT_RUNNING)
        return;
    launch_signal_local(&agent.job, SIGKILL); /* children that the ranks have left in their process
                                               * groups */
    agent.linger_until_ns = rt_now_ns() + LINGER_NS;
    agent.phase = AGENT_FINISHING;
}

static void on_quit(struct frame *f)
{
    tree_send(&agent.tree, FRAME_ALL, f->raw, f->raw_len);
    agent.phase = AGENT_LEAVING;
}

static void on_died(struct frame *f)
{
    tree_send(&agent.tree, FRAME_ALL, f->raw, f->raw_len);
    const char *nspace = frame_get_text(&f->in);
    int rank = frame_get_int(&f->in);
    if (!frame_in_ok(&f->in) || rank < 0)
        f->in.bad = true;
    else if (agent.phase == AGENT_RUNNING && agent.job.nrunning)
        launch_server_died(nspace, rank);
}

void agent_obey(struct frame *f)
{
    switch (f->type) {
    case FRAME_PING:
        break;
    case FRAME_TREE:
        on_tree(f);
        break;
    case FRAME_JOB:
        on_job(f);
        break;
    case FRAME_GO:
        on_go(f);
        break;
    case FRAME_SIGNAL:
        on_signal(f);
        break;
    case FRAME_IN:
        on_input(f);
        break;
    case FRAME_CREDIT:
        on_credit(f);
        break;
    case FRAME_FINISH:
        on_finish(f);
        break;
    case FRAME_QUIT:
        on_quit(f);
        break;
    case FRAME_ANSWER:
        agent_answer(f);
        break;
    case FRAME_NOTICE:
        agent_notice(f);
        break;
    case FRAME_DIED:
        on_died(f);
        break;
    case FRAME_LOOK:
        agent_look(f);
        break;
    case FRAME_FENCE_DONE:
    case FRAME_FETCH:
    case FRAME_FETCHED:
        relay_frame(&agent.relay, f);
        break;
    default:
        f->in.bad = true;
        break;
    }
}
