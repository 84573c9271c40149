/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses the command line of mpirun with the table in options.c, and prints the help with it.
 * Messages are printed at once: nothing has been started yet. */
#include "launcher/strings.h"
#include "launcher/options/hosts.h"
#include "launcher/options/options.h"
#include "launcher/options/parse.h"
#include "runtime/base/err.h"
#include "runtime/base/near.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 64
#define HELP_COLUMN 30
#define HELP_WIDTH 98

/* Prints a message.  Quoted text may be anything, also bytes of a wrong file, so control
 * characters, which could affect the terminal, are replaced. */
int launch_usage(const char *fmt, ...)
{
    char text[8192];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    for (char *p = text; *p; p++)
        *p = (char)(iscntrl((unsigned char)*p) ? '?' : *p);
    fprintf(stderr, "mpirun: %s\n", text);
    return LAUNCH_EXIT_USAGE;
}

static bool same_letter(char a, char b)
{
    return a == b || (a == '_' && b == '-') || (a == '-' && b == '_');
}

bool launch_name_in(const char *names, const char *name)
{
    for (const char *p = names; *p; p += strcspn(p, " "), p += *p == ' ') {
        size_t i = 0;
        while (p[i] && p[i] != ' ' && name[i] && same_letter(p[i], name[i]))
            i++;
        if ((p[i] == '\0' || p[i] == ' ') && name[i] == '\0')
            return true;
    }
    return false;
}

static const struct launch_option *find_option(const char *name)
{
    for (int i = 0; i < launch_noptions; i++)
        if (launch_options[i].names && launch_name_in(launch_options[i].names, name))
            return &launch_options[i];
    return NULL;
}

/* What to do instead of options of other mpiruns that have no equivalent here. */
static const char *advice_for(const char *name)
{
    static const char *const rows[][2] = {
        { "prefix", "Weft must be at the path of this mpirun on all hosts; omit the option" },
        { "rankfile rf", "use --map-by, --rank-by and the order of --host" },
        { "nolocal", "omit this host from --host or the host file" },
        { "display-allocation", "--display-map --dry-run shows hosts and ranks" },
        { "cpu-set cpu-list",
          "start mpirun with taskset: ranks use the cores that mpirun may use" },
        { "app configfile", "put the programs on the command line, separated by ':'" },
        { "tune am", "weft_info --config lists settings; they may be set in ~/.config/weft.conf" },
        { "outfile-pattern errfile-pattern outfile errfile", "use --output-filename DIR" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (launch_name_in(rows[i][0], name))
            return rows[i][1];
    return NULL;
}

static int unknown_option(const char *typed, const char *name)
{
    const char *advice = advice_for(name);
    if (advice)
        return launch_usage("%s is not an option of this mpirun: %s", typed, advice);
    char word[NAME_BYTES], nearest[NAME_BYTES] = "";
    int best = rt_near_limit(name);
    for (int i = 0; i < launch_noptions; i++) {
        const char *p = launch_options[i].names;
        for (; p && *p; p += strcspn(p, " "), p += *p == ' ') {
            snprintf(word, sizeof word, "%.*s", (int)strcspn(p, " "), p);
            int d = rt_near(name, word);
            if (d < best && d < (int)strlen(word)) {
                best = d;
                memcpy(nearest, word, sizeof nearest);
            }
        }
    }
    if (*nearest)
        return launch_usage("unknown option %s; did you mean %s%s?  mpirun --help lists all", typed,
                            nearest[1] ? "--" : "-", nearest);
    return launch_usage("unknown option %s; mpirun --help lists all", typed);
}

/* Finds the option of "-n4": a number joined to the name of an option that takes one.  *eq is set
 * as if "=" were between them. */
static const struct launch_option *find_joined(const char *name, const char *plain, const char **eq)
{
    char word[NAME_BYTES];
    size_t len = strcspn(name, "0123456789");
    snprintf(word, sizeof word, "%.*s", (int)len, name);
    const struct launch_option *opt = find_option(word);
    if (len < 1 || !plain[len] || !opt || opt->nargs != 1 || strcmp(opt->arg, "N"))
        return NULL;
    *eq = plain + len - 1;
    return opt;
}

/* Parses the option at argv[*at] with its arguments, and moves *at behind them. */
static int parse_option(struct launch_opts *o, struct launch_app *app, int argc, char **argv,
                        int *at)
{
    char name[NAME_BYTES];
    const char *typed = argv[(*at)++];
    const char *plain = typed + strspn(typed, "-");
    const char *eq = strchr(plain, '=');
    struct launch_found f = { .name = typed };

    snprintf(name, sizeof name, "%.*s", eq ? (int)(eq - plain) : (int)strlen(plain), plain);
    const struct launch_option *opt = find_option(name);
    if (!opt && !eq)
        opt = find_joined(name, plain, &eq);
    if (!opt)
        return unknown_option(typed, name);
    if (eq && opt->nargs != 1)
        return launch_usage("%s: this option takes %s", typed,
                            opt->nargs ? "two arguments" : "no argument");
    const char **args[] = { &f.arg, &f.arg2 };
    if (eq)
        f.arg = eq + 1;
    for (int i = eq ? 1 : 0; i < opt->nargs; i++) {
        if (*at >= argc)
            return launch_usage("%s: expected %s after it", typed, opt->arg);
        *args[i] = argv[(*at)++];
    }
    return opt->set(o, app, &f);
}

static struct launch_app *add_app(struct launch_opts *o)
{
    struct launch_app *apps = realloc(o->apps, (size_t)(o->napps + 1) * sizeof *apps);
    if (!apps)
        return NULL;
    o->apps = apps;
    memset(&apps[o->napps], 0, sizeof *apps);
    return &apps[o->napps++];
}

/* Parses one part of the command line: options, program, its arguments, up to ":" or the end. */
static int parse_app(struct launch_opts *o, int argc, char **argv, int *at)
{
    struct launch_app *app = add_app(o);
    if (!app)
        return launch_usage("out of memory");
    while (*at < argc && argv[*at][0] == '-' && argv[*at][1]) {
        if (!strcmp(argv[*at], "--")) {
            ++*at;
            break;
        }
        int code = parse_option(o, app, argc, argv, at);
        if (code || o->exit_now >= 0)
            return code;
    }
    for (; *at < argc && strcmp(argv[*at], o->spawned.separator); ++*at)
        if (launch_list_add(&app->argv, argv[*at]) < 0)
            return launch_usage("out of memory");
    if (o->ping)
        return launch_ping_app(o, app);
    if (o->self_test && (app->argv.n || *at < argc))
        return launch_usage("--self-test has its own programs; omit '%s'",
                            app->argv.n ? app->argv.v[0] : argv[*at]);
    if (o->self_test)
        return launch_self_test(argc, argv);
    if (app->argv.n == 0 && !o->spawned.serve)
        return launch_usage("no program to start%s; example: mpirun -n 2 ./a.out",
                            o->napps > 1 ? " after \":\"" : "");
    return 0;
}

/* --topo describes this host, so an allocation is ignored. */
static int find_hosts(struct launch_opts *o)
{
    bool named = o->resources.hostfiles.n > 0, pe_given = o->placement.pe > 0;
    int code = 0;

    o->placement.pe = pe_given ? o->placement.pe : 1;
    for (int i = 0; i < o->napps; i++)
        named |= o->apps[i].where != NULL;
    if (o->placement.topo_xml && named)
        return launch_usage("--topo describes this host only and excludes --host and "
                            "--hostfile");
    if (!o->placement.topo_xml)
        code = launch_choose_hosts(o);
    o->resources.cpus_per_rank = pe_given ? 0 : o->resources.cpus_per_rank;
    return code;
}

int launch_parse(int argc, char **argv, struct launch_opts *o)
{
    int at = 1;
    memset(o, 0, sizeof *o);
    o->placement.map = o->placement.order = o->placement.bind = LAUNCH_UNSET;
    o->exit_now = -1;
    o->spawned.separator = ":";
    o->output.job = 1;
    if (argc == 1) {
        launch_usage(
            "no program to start; example: mpirun -n 2 ./a.out; mpirun --help lists all options");
        return LAUNCH_EXIT_USAGE;
    }
    for (;;) {
        int code = parse_app(o, argc, argv, &at);
        if (code || o->exit_now >= 0)
            return code;
        if (at >= argc) {
            code = find_hosts(o);
            return !code && o->ping ? launch_ping_check(o) : code;
        }
        at++; /* skips the ":" */
    }
}

void launch_opts_fini(struct launch_opts *o)
{
    struct launch_resources *r = &o->resources;
    for (int i = 0; i < o->napps; i++) {
        launch_list_fini(&o->apps[i].argv);
        launch_list_fini(&o->apps[i].env.set);
        launch_list_fini(&o->apps[i].env.keep);
        launch_list_fini(&o->apps[i].foreign_env);
        free(o->apps[i].path);
        free(o->apps[i].where);
        free(o->apps[i].picks);
    }
    launch_list_fini(&o->env.set);
    launch_list_fini(&o->env.keep);
    launch_list_fini(&r->hostfiles);
    launch_list_fini(&r->spare);
    for (int i = 0; i < r->nhosts; i++)
        free(r->hosts[i].name);
    free(r->hosts);
    free(o->apps);
    free(o->output.dir);
    memset(o, 0, sizeof *o);
}

/* ---- help ---- */

/* Prints words of `text` from HELP_COLUMN to HELP_WIDTH; `column` is the cursor's position. */
static void print_wrapped(FILE *f, const char *text, int column)
{
    fprintf(f, "%*s", column < HELP_COLUMN - 1 ? HELP_COLUMN - 1 - column : 0, "");
    int at = column < HELP_COLUMN ? HELP_COLUMN - 1 : column;
    while (*text) {
        int len = (int)strcspn(text, " ");
        if (at + 1 + len > HELP_WIDTH) {
            fprintf(f, "\n%*s", HELP_COLUMN - 1, "");
            at = HELP_COLUMN - 1;
        }
        fprintf(f, " %.*s", len, text);
        at += len + 1;
        text += len;
        text += strspn(text, " ");
    }
    fputc('\n', f);
}

static void print_option(FILE *f, const struct launch_option *opt)
{
    char line[160];
    int n = snprintf(line, sizeof line, " ");
    for (const char *p = opt->names; *p; p += strcspn(p, " "), p += *p == ' ') {
        int len = (int)strcspn(p, " ");
        n += snprintf(line + n, sizeof line - (size_t)n, "%s%.*s", len > 1 ? " --" : " -", len, p);
    }
    if (opt->arg)
        n += snprintf(line + n, sizeof line - (size_t)n, " %s", opt->arg);
    fputs(line, f);
    if (n >= HELP_COLUMN) {
        fputc('\n', f);
        n = 0;
    }
    print_wrapped(f, opt->help, n);
}

void launch_help(FILE *f)
{
    fputs("Usage: mpirun [options] program [arguments] [: [options] program [arguments]]...\n"
          "Starts the ranks of an MPI job on this host, on those of --host and --hostfile, or on\n"
          "the hosts of the Slurm, PBS or LSF allocation it runs in.  One and two dashes mean the\n"
          "same.\n",
          f);
    for (int i = 0; i < launch_noptions; i++) {
        if (!launch_options[i].names)
            fprintf(f, "\n%s\n", launch_options[i].help);
        else if (launch_options[i].help)
            print_option(f, &launch_options[i]);
    }
    fputs("\nExit code: 0 when all ranks ended with 0; else that of the first rank that failed,\n"
          "128 + signal when it was killed; 1 mpirun failed or a rank left without MPI_Finalize,\n"
          "2 wrong option, 124 timeout, 126 program not executable, 127 program not found.\n"
          "Signals: Ctrl-C and SIGTERM end the job, twice kills it; SIGUSR1 and SIGUSR2 go to\n"
          "the ranks.\n",
          f);
}
