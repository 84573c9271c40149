/* SPDX-License-Identifier: BSD-3-Clause */
/* Every option of mpirun.  A new option is a row and, if no function here fits, a function of a few
 * lines.  The names are those that users of Open MPI and MPICH know.  One dash and two dashes mean
 * the same; so do "-" and "_" inside a name. */
#include "launcher/abi/abi.h"
#include "launcher/strings.h"
#include "launcher/options/options.h"
#include "launcher/options/parse.h"
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define SETTER(name) \
    static int name(struct launch_opts *o, struct launch_app *app, const struct launch_found *f)
#define UNUSED_ARGS (void)o, (void)app, (void)f

/* A number in low..high. */
static int parse_number(const struct launch_found *f, const char *text, int low, int high, int *out)
{
    char *end;
    long v = strtol(text, &end, 10);
    if (end == text || *end || v < low || v > high)
        return launch_usage("%s: '%s' is not a number in %d..%d", f->name, text, low, high);
    *out = (int)v;
    return 0;
}

/* ---- what to start ---- */

SETTER(set_n)
{
    (void)o;
    return parse_number(f, f->arg, 1, 1000000, &app->n);
}
SETTER(set_wdir)
{
    (void)o;
    app->wdir = f->arg;
    return 0;
}
SETTER(set_path)
{
    (void)o;
    app->search = f->arg;
    return 0;
}
SETTER(set_hostfile)
{
    (void)app;
    return launch_list_add(&o->resources.hostfiles, f->arg) < 0 ? launch_usage("out of memory") : 0;
}

/* Several --host of one program form one list, which hosts.c reads when all options are known. */
SETTER(set_host)
{
    char *both;
    (void)o;
    if (!*f->arg)
        return launch_usage("%s: '' names no host", f->name);
    int n = asprintf(&both, "%s%s%s", app->where ? app->where : "", app->where ? "," : "", f->arg);
    if (n < 0)
        return launch_usage("out of memory");
    free(app->where);
    app->where = both;
    return 0;
}

SETTER(set_abi)
{
    enum abi_kind kind;
    (void)app;
    if (!abi_parse(f->arg, &kind))
        return launch_usage("%s: '%s' is not auto, ompi, mpich or none", f->name, f->arg);
    o->abi = kind;
    return 0;
}

SETTER(set_rsh)
{
    (void)app;
    o->resources.rsh = f->arg;
    return 0;
}

/* MPICH's -launcher names the kind of remote shell; MPICH's -launcher-exec, which is --rsh, names
 * its program. */
SETTER(set_launcher)
{
    (void)app;
    bool slurm = launch_name_in("slurm srun", f->arg);
    if (!slurm && !launch_name_in("ssh rsh", f->arg))
        return launch_usage("%s: '%s' is not ssh, rsh or slurm; --rsh COMMAND names any other",
                            f->name, f->arg);
    if (!o->resources.rsh)
        o->resources.rsh = slurm ? "srun" : f->arg;
    return 0;
}

static int set_ppr(struct launch_placement *p, const struct launch_found *f, enum launch_obj map)
{
    p->map = map;
    return parse_number(f, f->arg, 1, 1000000, &p->ppr);
}

SETTER(set_ppn)
{
    (void)app;
    return set_ppr(&o->placement, f, LAUNCH_NODE);
}
SETTER(set_perpackage)
{
    (void)app;
    return set_ppr(&o->placement, f, LAUNCH_PACKAGE);
}
SETTER(set_pernode)
{
    UNUSED_ARGS;
    o->placement.map = LAUNCH_NODE;
    o->placement.ppr = 1;
    return 0;
}

/* ---- environment ---- */

static int add_env(struct launch_envs *env, const struct launch_found *f, const char *name,
                   const char *value)
{
    if (!*name || strchr(name, '='))
        return launch_usage("%s: '%s' is not the name of a variable", f->name, name);
    return launch_list_setenv(&env->set, name, value) < 0 ? launch_usage("out of memory") : 0;
}

/* -x NAME passes on a variable that the ranks get anyway, unless -genvnone or a similar option
 * excludes it. */
static int add_named(struct launch_envs *env, const struct launch_found *f, const char *name)
{
    const char *value = getenv(name);
    if (!value) {
        fprintf(stderr,
                "mpirun: warning: %s %s: there is no such variable in the environment; ignored\n",
                f->name, name);
        return 0;
    }
    return add_env(env, f, name, value);
}

SETTER(set_x)
{
    const char *eq = strchr(f->arg, '=');
    char name[256];
    (void)o;
    if (!eq)
        return add_named(&app->env, f, f->arg);
    snprintf(name, sizeof name, "%.*s", (int)(eq - f->arg), f->arg);
    return add_env(&app->env, f, name, eq + 1);
}

static int set_list(struct launch_envs *env, const struct launch_found *f)
{
    env->from = LAUNCH_ENV_LIST;
    for (const char *p = f->arg; *p; p += strcspn(p, ","), p += *p == ',')
        if (launch_list_addf(&env->keep, "%.*s", (int)strcspn(p, ","), p) < 0)
            return launch_usage("out of memory");
    return 0;
}

SETTER(set_genv)
{
    (void)app;
    return add_env(&o->env, f, f->arg, f->arg2);
}
SETTER(set_genvall)
{
    UNUSED_ARGS;
    o->env.from = LAUNCH_ENV_ALL;
    return 0;
}
SETTER(set_genvnone)
{
    UNUSED_ARGS;
    o->env.from = LAUNCH_ENV_NONE;
    return 0;
}
SETTER(set_genvlist)
{
    (void)app;
    return set_list(&o->env, f);
}
SETTER(set_env)
{
    (void)o;
    return add_env(&app->env, f, f->arg, f->arg2);
}
SETTER(set_envall)
{
    UNUSED_ARGS;
    app->env_given = true;
    app->env.from = LAUNCH_ENV_ALL;
    return 0;
}
SETTER(set_envnone)
{
    UNUSED_ARGS;
    app->env_given = true;
    app->env.from = LAUNCH_ENV_NONE;
    return 0;
}
SETTER(set_envlist)
{
    (void)o;
    app->env_given = true;
    return set_list(&app->env, f);
}

/* A setting of the library: checked, and passed to the ranks as WEFT_NAME, with the command line as
 * its source. */
SETTER(set_set)
{
    char name[128], list[1024];
    const char *eq = strchr(f->arg, '='), *known = NULL;
    (void)app;
    if (!eq || eq == f->arg)
        return launch_usage(
            "%s: expected NAME=VALUE, found '%s'; weft_info --config lists the names", f->name,
            f->arg);
    snprintf(name, sizeof name, "%.*s", (int)(eq - f->arg), f->arg);
    if (rt_cfg_set(name, eq + 1, RT_CFG_CMD) < 0)
        return LAUNCH_EXIT_USAGE;             /* rt_cfg_set has printed the reason */
    const char *plain = rt_cfg_nearest(name); /* the name in the table: its distance is 0 */
    for (int i = 0; i < rt_cfg_count() && plain; i++)
        if (!strcmp(rt_cfg_row(i)->name, plain))
            known = rt_cfg_row(i)->env;
    if (!known)
        return launch_usage("%s: unknown setting '%s'", f->name, name);
    const char *old = "";
    for (int i = 0; i < o->env.set.n; i++)
        if (!strncmp(o->env.set.v[i], "WEFT_SET_NAMES=", 15))
            old = o->env.set.v[i] + 15;
    snprintf(list, sizeof list, "%s%s%s", old, *old ? "," : "", plain);
    int err = add_env(&o->env, f, known, eq + 1);
    return err ? err : add_env(&o->env, f, "WEFT_SET_NAMES", list);
}

/* The options of MPI-5.0 section 11.5, stored as settings. */
static int set_named(struct launch_opts *o, struct launch_app *app, const struct launch_found *f,
                     const char *setting)
{
    char text[512];
    struct launch_found as = *f;
    snprintf(text, sizeof text, "%s=%s", setting, f->arg);
    as.arg = text;
    return set_set(o, app, &as);
}

SETTER(set_errhandler) { return set_named(o, app, f, "initial_errhandler"); }
SETTER(set_kinds) { return set_named(o, app, f, "memory_alloc_kinds"); }
SETTER(set_iface) { return set_named(o, app, f, "tcp_if"); }

SETTER(set_mca)
{
    (void)app;
    if (!o->mca_warned && !o->display.quiet)
        fprintf(
            stderr,
            "mpirun: warning: %s %s %s is for Open MPI and has no effect here; settings of Weft "
            "are given with "
            "--set NAME=VALUE (weft_info --config lists them)\n",
            f->name, f->arg, f->arg2);
    o->mca_warned = true;
    return 0;
}

/* ---- placement ---- */

SETTER(set_map)
{
    (void)app;
    return launch_parse_map(&o->placement, f->name, f->arg);
}
SETTER(set_rank)
{
    (void)app;
    return launch_parse_rank(&o->placement, f->name, f->arg);
}
SETTER(set_bind)
{
    (void)app;
    return launch_parse_bind(&o->placement, f->name, f->arg);
}
SETTER(set_bynode)
{
    (void)app;
    return launch_parse_map(&o->placement, f->name, "node");
}
SETTER(set_bycore)
{
    (void)app;
    return launch_parse_map(&o->placement, f->name, "core");
}
SETTER(set_bysocket)
{
    (void)app;
    return launch_parse_map(&o->placement, f->name, "package");
}
SETTER(set_bindcore)
{
    (void)app;
    return launch_parse_bind(&o->placement, f->name, "core");
}
SETTER(set_bindsocket)
{
    (void)app;
    return launch_parse_bind(&o->placement, f->name, "package");
}
SETTER(set_bindnone)
{
    (void)app;
    return launch_parse_bind(&o->placement, f->name, "none");
}
SETTER(set_pe)
{
    (void)app;
    return parse_number(f, f->arg, 1, 65536, &o->placement.pe);
}
SETTER(set_over)
{
    UNUSED_ARGS;
    o->placement.oversubscribe = true;
    o->placement.no_oversubscribe = false;
    return 0;
}
SETTER(set_noover)
{
    UNUSED_ARGS;
    o->placement.oversubscribe = false;
    o->placement.no_oversubscribe = true;
    return 0;
}
SETTER(set_hwthreads)
{
    UNUSED_ARGS;
    o->placement.hwthreads = true;
    return 0;
}
SETTER(set_report)
{
    UNUSED_ARGS;
    o->display.bindings = true;
    return 0;
}
SETTER(set_display)
{
    UNUSED_ARGS;
    o->display.map = true;
    return 0;
}
SETTER(set_dry)
{
    UNUSED_ARGS;
    o->dry_run = true;
    return 0;
}
SETTER(set_topo)
{
    (void)app;
    o->placement.topo_xml = f->arg;
    o->dry_run = true;
    return 0;
}

/* ---- output, input, end ---- */

SETTER(set_tag)
{
    UNUSED_ARGS;
    o->output.tag = true;
    return 0;
}
SETTER(set_prefix)
{
    UNUSED_ARGS;
    o->output.rank = true;
    return 0;
}
SETTER(set_stamp)
{
    UNUSED_ARGS;
    o->output.timestamp = true;
    return 0;
}
SETTER(set_merge)
{
    UNUSED_ARGS;
    o->output.merge_stderr = true;
    return 0;
}
SETTER(set_ping)
{
    UNUSED_ARGS;
    o->ping = true;
    return 0;
}
SETTER(set_self_test)
{
    UNUSED_ARGS;
    o->self_test = true;
    return 0;
}
SETTER(set_quiet)
{
    UNUSED_ARGS;
    o->display.quiet = true;
    return 0;
}
SETTER(set_verbose)
{
    UNUSED_ARGS;
    o->display.verbose = true;
    return 0;
}
SETTER(set_nothing)
{
    UNUSED_ARGS;
    return 0;
}
SETTER(set_timeout)
{
    (void)app;
    return parse_number(f, f->arg, 0, 10000000, &o->timeout_s);
}

/* The ranks learn it as a setting, like those of set_named(). */
SETTER(set_ft)
{
    struct launch_found yes = *f;
    yes.arg = "yes";
    o->ft = true;
    return set_named(o, app, &yes, "ft");
}
SETTER(set_with_ft)
{
    if (launch_name_in("no none false", f->arg))
        return 0;
    if (!launch_name_in("ulfm mpi yes true", f->arg))
        return launch_usage("%s: '%s' is not ulfm or none", f->name, f->arg);
    return set_ft(o, app, f);
}

SETTER(set_hang)
{
    static const char *const words[] = { "report", "stacks", "abort" };
    (void)app;
    for (int i = 0; i < 3; i++)
        if (!strcmp(f->arg, words[i])) {
            o->hang.action = (enum launch_hang_action)i;
            return 0;
        }
    return launch_usage("%s: expected report, stacks or abort, found '%s'", f->name, f->arg);
}
SETTER(set_stacks)
{
    UNUSED_ARGS;
    o->hang.stacks = true;
    return 0;
}
SETTER(set_json)
{
    (void)app;
    o->hang.json = f->arg;
    return 0;
}

SETTER(set_output)
{
    (void)app;
    const char *colon = strrchr(f->arg, ':');
    o->output.nocopy = colon && !strcmp(colon, ":nocopy");
    if (!*f->arg || colon == f->arg)
        return launch_usage("%s: expected the name of a folder, found '%s'", f->name, f->arg);
    free(o->output.dir);
    o->output.dir = o->output.nocopy ? strndup(f->arg, (size_t)(colon - f->arg)) : strdup(f->arg);
    return o->output.dir ? 0 : launch_usage("out of memory");
}

/* Lists of words that stand for options, as in Open MPI 5. */
struct word {
    const char *names;
    launch_option_set *set;
};

static int set_words(struct launch_opts *o, struct launch_app *app, const struct launch_found *f,
                     const struct word *words, const char *expected)
{
    const char *p = f->arg;
    do {
        char text[4096];
        struct launch_found as = { .name = f->name, .arg = text };
        const struct word *w = words;
        size_t len = strcspn(p, ",");
        snprintf(text, sizeof text, "%.*s", (int)len, p);
        p += len + (p[len] == ',');
        char *eq = strchr(text, '=');
        if (eq) {
            *eq = '\0';
            as.arg = eq + 1;
        }
        while (w->names && !launch_name_in(w->names, text))
            w++;
        if (!w->names || (eq != NULL) != (w->set == set_output))
            return launch_usage("%s: unknown word '%.100s'; expected %s", f->name, text, expected);
        int code = w->set(o, app, &as);
        if (code)
            return code;
    } while (*p);
    return 0;
}

SETTER(set_outputs)
{
    static const struct word words[] = { { "tag", set_tag },
                                         { "rank", set_prefix },
                                         { "timestamp", set_stamp },
                                         { "merge-stderr-to-stdout merge", set_merge },
                                         { "dir directory", set_output },
                                         { NULL, NULL } };
    return set_words(o, app, f, words, "tag, rank, timestamp, merge or dir=DIR");
}

SETTER(set_displays)
{
    static const struct word words[] = { { "map", set_display },
                                         { "bind bindings", set_report },
                                         { NULL, NULL } };
    return set_words(o, app, f, words, "map or bind");
}

SETTER(set_stdin)
{
    char *end;
    long rank = strtol(f->arg, &end, 10);
    (void)app;
    if (!strcmp(f->arg, "all"))
        o->stdin_rank = LAUNCH_STDIN_ALL;
    else if (!strcmp(f->arg, "none"))
        o->stdin_rank = LAUNCH_STDIN_NONE;
    else if (end != f->arg && !*end && rank >= 0 && rank <= INT_MAX)
        o->stdin_rank = (int)rank;
    else
        return launch_usage("%s: '%s' is neither a rank nor 'all' nor 'none'", f->name, f->arg);
    return 0;
}

/* ---- options that an mpirun gives to another: family.h ---- */

SETTER(set_control)
{
    (void)app;
    return parse_number(f, f->arg, 3, 1 << 20, &o->spawned.control_fd);
}
SETTER(set_job)
{
    (void)app;
    return parse_number(f, f->arg, 1, INT_MAX, &o->output.job);
}
SETTER(set_nspace)
{
    (void)app;
    o->spawned.nspace = f->arg;
    return 0;
}
SETTER(set_serve)
{
    o->spawned.serve = true;
    o->stdin_rank = LAUNCH_STDIN_NONE; /* stays with the process */
    return set_control(o, app, f);
}
SETTER(set_universe)
{
    (void)app;
    return parse_number(f, f->arg, 0, INT_MAX, &o->spawned.universe);
}
SETTER(set_separator)
{
    (void)app;
    o->spawned.separator = f->arg;
    return 0;
}
SETTER(set_soft)
{
    (void)o;
    app->soft = f->arg;
    return 0;
}

SETTER(set_help)
{
    UNUSED_ARGS;
    launch_help(stdout);
    o->exit_now = 0;
    return 0;
}

SETTER(set_version)
{
    UNUSED_ARGS;
    printf("mpirun (Weft MPI) %s\n", PACKAGE_VERSION);
    o->exit_now = 0;
    return 0;
}

const struct launch_option launch_options[] = {
    { NULL, NULL, 0, "What to start", NULL },
    { "n np c", "N", 1, "Start N ranks of the program that follows (default: one for each core).",
      set_n },
    { "wdir wd", "DIR", 1, "Start the ranks in DIR.", set_wdir },
    { "path", "DIR[:DIR]...", 1, "Search the program in these folders before those of PATH.",
      set_path },
    { "host H hosts", "HOST[:N],...", 1,
      "Hosts for the program that follows, each with N slots (a slot is a place for one rank; "
      "default: one for each core).  node[01-16] is a range, +nK is host K of the allocation or "
      "hostfile, +eK are the next K hosts not named yet.",
      set_host },
    { "hostfile machinefile f", "FILE", 1,
      "Hosts from a file: lines 'HOST slots=N max_slots=N' or 'HOST:N'.", set_hostfile },
    { "rsh launch-agent launcher-exec", "COMMAND", 1,
      "Start the agents of other hosts with COMMAND HOST ..., which takes the arguments of ssh.",
      set_rsh },
    { "abi", "auto|ompi|mpich|none", 1,
      "Which MPI the programs were built for: auto (default) reads their libraries; those of Open "
      "MPI and MPICH are replaced by libraries of Weft with the same names; none replaces nothing.",
      set_abi },
    { "ppn npernode N", "N", 1, "Start N ranks on each host; same as --map-by ppr:N:node.",
      set_ppn },
    { "pernode", NULL, 0, NULL, set_pernode },
    { "npersocket", "N", 1, NULL, set_perpackage },
    { "default-hostfile", "FILE", 1, NULL, set_hostfile },
    { "launcher bootstrap", "ssh", 1, NULL, set_launcher },

    { NULL, NULL, 0, "Environment of the ranks", NULL },
    { "x", "NAME[=VALUE]", 1,
      "Set or pass on a variable (ranks get all of mpirun's variables anyway).", set_x },
    { "genv", "NAME VALUE", 2, "Set a variable for all programs.", set_genv },
    { "genvall", NULL, 0, "Pass on all variables of mpirun (default).", set_genvall },
    { "genvnone", NULL, 0, "Pass on no variables.", set_genvnone },
    { "genvlist", "NAME,...", 1, "Pass on only these variables.", set_genvlist },
    { "env", "NAME VALUE", 2,
      "Like -genv, for this program only; also -envall, -envnone, -envlist.", set_env },
    { "envall", NULL, 0, NULL, set_envall },
    { "envnone", NULL, 0, NULL, set_envnone },
    { "envlist", "NAME,...", 1, NULL, set_envlist },
    { "set", "NAME=VALUE", 1, "Change a setting of Weft; 'weft_info --config -v' lists them.",
      set_set },
    { "initial-errhandler", "NAME", 1,
      "Error handler that the ranks start with: mpi_errors_are_fatal (default), mpi_errors_abort "
      "or mpi_errors_return.",
      set_errhandler },
    { "memory-alloc-kinds", "LIST", 1,
      "Memory allocation kinds that the program asks for: mpi, system, cuda.", set_kinds },
    { "mca gmca", "NAME VALUE", 2, "Accepted for users of Open MPI; ignored with a warning.",
      set_mca },
    { "prtemca pmixmca omca gpmixmca", "NAME VALUE", 2, NULL, set_mca },
    { "iface", "NAME", 1, NULL, set_iface },

    { NULL, NULL, 0, "Placement", NULL },
    { "map-by", "OBJ[:MOD,...]", 1,
      "Distribute the ranks of each host over OBJ: core, hwthread, slot (default), l1cache, "
      "l2cache, l3cache, numa, package (socket).  node: distribute the ranks over the hosts.  "
      "ppr:N:OBJ: N ranks for each OBJ.  MOD: PE=N (cores for each rank), HWTCPUS, "
      "OVERSUBSCRIBE, NOOVERSUBSCRIBE.",
      set_map },
    { "rank-by", "OBJ", 1,
      "Number the ranks round robin over OBJ; 'fill' or 'core' numbers them along the cores.",
      set_rank },
    { "bind-to", "OBJ[:MOD]", 1,
      "Bind each rank to the OBJ it is mapped to: core, hwthread, l1cache, l2cache, l3cache, numa, "
      "package (socket), board, or "
      "none.  MOD: overload-allowed, if-supported, or a number of them.  Default: core, and none "
      "when there are "
      "more ranks than cores.",
      set_bind },
    { "cpus-per-rank cpus-per-proc", "N", 1, "Give each rank N cores; same as --map-by core:PE=N.",
      set_pe },
    { "use-hwthread-cpus", NULL, 0, "Count hardware threads instead of cores.", set_hwthreads },
    { "oversubscribe", NULL, 0,
      "Allow more ranks than slots; more ranks than cores are always allowed.", set_over },
    { "nooversubscribe no-oversubscribe", NULL, 0, "Refuse more ranks than slots or cores.",
      set_noover },
    { "report-bindings", NULL, 0, "Draw the cores to which each rank is bound.", set_report },
    { "display-map", NULL, 0, "Print the ranks of each host in a table.", set_display },
    { "display", "map,bind", 1, "Same as --display-map and --report-bindings.", set_displays },
    { "print-rank-map", NULL, 0, NULL, set_display },
    { "dry-run do-not-launch", NULL, 0, "Start nothing; for use with the two options above.",
      set_dry },
    { "topo", "FILE", 1, "Dry run on a machine recorded with lstopo FILE.xml.", set_topo },
    { "bynode", NULL, 0, NULL, set_bynode },
    { "bycore byslot", NULL, 0, NULL, set_bycore },
    { "bysocket", NULL, 0, NULL, set_bysocket },
    { "bind-to-core", NULL, 0, NULL, set_bindcore },
    { "bind-to-socket", NULL, 0, NULL, set_bindsocket },
    { "bind-to-none", NULL, 0, NULL, set_bindnone },

    { NULL, NULL, 0, "Output and input", NULL },
    { "tag-output", NULL, 0, "Begin each line with [1,RANK]<stdout>: or <stderr>:.", set_tag },
    { "l prepend-rank", NULL, 0, "Begin each line with [RANK].", set_prefix },
    { "timestamp-output", NULL, 0, "Begin each line with the time.", set_stamp },
    { "output-filename", "DIR[:nocopy]", 1,
      "Also write to DIR/1/rank.N/stdout and stderr; nocopy: only there.", set_output },
    { "merge-stderr-to-stdout", NULL, 0, "Send the ranks' stderr to stdout.", set_merge },
    { "output", "WORD,...", 1,
      "The five options above as a list: tag, rank, timestamp, merge, dir=DIR[:nocopy].",
      set_outputs },
    { "stdin", "RANK|all|none", 1,
      "Which ranks read the standard input of mpirun (default: rank 0).", set_stdin },

    { NULL, NULL, 0, "Other", NULL },
    { "ping", NULL, 0,
      "Start no program: measure latency and bandwidth between all pairs of hosts and name the "
      "slow ones.  Exit code 1 if two hosts do not reach each other.",
      set_ping },
    { "self-test", NULL, 0,
      "Start no program: check messages, collectives and windows over each transport of this "
      "machine, or of the hosts given, for about a minute.  Exit code 1 if something failed.",
      set_self_test },
    { "timeout", "SECONDS", 1, "End the job after this time, exit code 124.", set_timeout },
    { "ft enable-recovery disable-auto-cleanup", NULL, 0,
      "Fault tolerance: the job continues when ranks die; docs/FAULTS.md.  Exit code: that of the "
      "lowest rank that did not die.",
      set_ft },
    { "with-ft", "ulfm|none", 1, "Same as --ft, as in Open MPI.", set_with_ft },
    { "hang-action", "report|stacks|abort", 1,
      "When no rank makes progress for the setting hang_s: report who waits for whom (default); "
      "add all stacks; end the job if it is a deadlock, exit code 124.",
      set_hang },
    { "get-stack-traces", NULL, 0, "Print all stacks at the end of --timeout.", set_stacks },
    { "report-state-on-timeout", NULL, 0, "Accepted: --timeout always reports who waits for whom.",
      set_nothing },
    { "json", "FILE", 1,
      "Also write such reports to a file, as JSON; each replaces the one before.", set_json },
    { "allow-run-as-root", NULL, 0, "Accepted; has no effect.", set_nothing },
    { "q quiet", NULL, 0,
      "Suppress messages of mpirun about a started job, also about failed ranks.", set_quiet },
    { "v verbose", NULL, 0, "Print how many ranks are started.", set_verbose },
    { "V version", NULL, 0, "Print the version.", set_version },
    { "h help", NULL, 0, "Print this help.", set_help },
    { "weft-control", "FD", 1, NULL, set_control },
    { "weft-job", "N", 1, NULL, set_job },
    { "weft-nspace", "NAME", 1, NULL, set_nspace },
    { "weft-serve", "FD", 1, NULL, set_serve },
    { "weft-universe", "N", 1, NULL, set_universe },
    { "weft-separator", "WORD", 1, NULL, set_separator },
    { "weft-soft", "A:B:C,...", 1, NULL, set_soft },
};
const int launch_noptions = (int)(sizeof launch_options / sizeof launch_options[0]);
