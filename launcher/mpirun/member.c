/* SPDX-License-Identifier: BSD-3-Clause */
/* Starts the mpirun of a job that a rank has spawned: the command line, the hosts with the slots
 * that are free, and the cores that are free.  Main thread. */
#include "launcher/abi/abi.h"
#include "launcher/mpirun/job_end.h"
#include "launcher/mpirun/family_state.h"
#include "launcher/options/hosts.h"
#include "runtime/base/err.h"
#include "runtime/boot/serve.h"
#include "runtime/topo/topo.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Separates the programs of the command line, so that ":" may be an argument. */
#define SEPARATOR "\001:"

/* A host that the first mpirun knows. */
struct slot {
    char *name;
    int slots, used; /* slots 0: no limit */
};

/* The data from which the command of a member's mpirun is built. */
struct start {
    const struct launch_job *job;
    const struct launch_list *words;
    struct slot *slots;
    int nslots;
    bool limited;       /* more ranks than slots are not allowed */
    bool elsewhere;     /* the request names hosts, or the job has others than this one */
    int n;              /* ranks of all programs */
    bool added;         /* the request adds hosts */
    bool soft;          /* fewer ranks are accepted */
    bool may_wait;      /* too few slots are no error yet */
    const char *nspace; /* the name of the job; NULL: its mpirun names it */
    int app;            /* whose variables the ranks get; -1: none */
    struct launch_list argv, env;
};

/* The value of the word "KEY=..." at words[i]; NULL: it is another word. */
static const char *value_at(const struct launch_list *words, int i, const char *key)
{
    size_t len = strlen(key);
    const char *w = words->v[i];
    return !strncmp(w, key, len) && w[len] == '=' ? w + len + 1 : NULL;
}

/* ---- free slots ---- */

static int add_slot(struct start *s, const char *name, int slots, int used)
{
    char *copy = strdup(name);
    struct slot *v = copy ? realloc(s->slots, (size_t)(s->nslots + 1) * sizeof *v) : NULL;
    if (!v) {
        free(copy);
        return -RT_ENOMEM;
    }
    s->slots = v;
    v[s->nslots++] = (struct slot){ copy, slots, used };
    s->limited |= slots > 0;
    return 0;
}

static struct slot *find_slot(const struct start *s, const char *name)
{
    for (int i = 0; i < s->nslots; i++)
        if (launch_same_host(launch_bare_name(s->slots[i].name), launch_bare_name(name)))
            return &s->slots[i];
    return NULL;
}

static int slots_of(const struct launch_placement *p, const struct launch_host *h)
{
    int units = h->nobj[p->hwthreads ? LAUNCH_HWTHREAD : LAUNCH_CORE];
    if (h->slots_given)
        return h->slots;
    return p->no_oversubscribe ? (units / p->pe > 0 ? units / p->pe : 1) : 0;
}

/* Collects the hosts, and the slots that the running jobs use. */
static int find_slots(struct start *s)
{
    const struct launch_job *job = s->job;
    int err = 0;

    for (int h = 0; h < job->nhosts && !err; h++) {
        const struct launch_host *host = &job->hosts[h];
        err = add_slot(s, host->name, slots_of(&job->opts->placement, host),
                       job->nrunning ? host->nranks : 0);
    }
    for (int i = 0; i < job->opts->resources.spare.n && !err; i++) {
        const char *text = job->opts->resources.spare.v[i], *colon = strrchr(text, ':');
        char *name = strndup(text, (size_t)(colon - text));
        err = name ? add_slot(s, name, atoi(colon + 1), 0) : -RT_ENOMEM;
        free(name);
    }
    for (const struct member *m = job->family->members; m; m = m->next)
        for (int i = 0; i < m->uses.n; i++) {
            char *name = strdup(m->uses.v[i]), *eq = name ? strrchr(name, '=') : NULL;
            if (eq)
                *eq = '\0';
            struct slot *slot = eq ? find_slot(s, name) : NULL;
            if (slot)
                slot->used += atoi(eq + 1);
            free(name);
        }
    s->limited &= !job->opts->placement.oversubscribe;
    return err;
}

/* The hosts of "add_host": "NAME[:SLOTS],...".  Without a number, one slot.  A host that is known
 * stays as it is. */
static int add_hosts(struct start *s, const char *list)
{
    int err = 0;
    for (const char *p = list; p && *p && !err; p += *p == ',') {
        struct launch_word w;
        size_t n = launch_word_len(p);
        if (n && launch_word_parse("info key add-host", p, n, &w))
            return -RT_ESPAWN;
        if (n && !find_slot(s, w.name))
            err = add_slot(s, w.name, w.slots ? w.slots : 1, 0);
        s->added |= n > 0;
        p += n;
    }
    s->limited &= !s->job->opts->placement.oversubscribe;
    return err;
}

static int free_slots(const struct slot *slot)
{
    return slot->slots > slot->used ? slot->slots - slot->used : 0;
}

/* Checks that the ranks fit. */
static int check_slots(const struct start *s)
{
    long all = 0, left = 0;

    for (int i = 0; i < s->nslots; i++) {
        if (s->slots[i].slots == 0)
            return 0;
        all += s->slots[i].slots;
        left += free_slots(&s->slots[i]);
    }
    if (!s->limited || left >= (s->soft ? 1 : s->n))
        return 0;
    if (s->may_wait)
        return -RT_EAGAIN;
    launch_report(s->job,
                  "%d more rank%s cannot be spawned: %ld of the %ld slots are in use; give mpirun "
                  "more slots, or --oversubscribe",
                  s->n, s->n == 1 ? "" : "s", all - left, all);
    return -RT_ENOSPC;
}

/* The argument of --host: all hosts, with their free slots if slots are limited. */
static char *all_hosts(const struct start *s)
{
    char *text = NULL;
    size_t len;
    FILE *f = open_memstream(&text, &len);
    const char *sep = "";

    for (int i = 0; f && i < s->nslots; i++) {
        const struct slot *slot = &s->slots[i];
        if (s->limited && slot->slots && free_slots(slot) == 0)
            continue;
        fprintf(f, "%s%s", sep, slot->name);
        if (s->limited && slot->slots)
            fprintf(f, ":%d", free_slots(slot));
        sep = ",";
    }
    if (f)
        fclose(f);
    return text;
}

/* The hosts that the request names, with their free slots.  NULL: out of memory, or no slot is
 * free on one of them, after a message unless the request may wait. */
static char *named_hosts(const struct start *s, const char *names)
{
    char *text = NULL;
    size_t len;
    FILE *f = open_memstream(&text, &len);
    bool full = false;

    for (const char *p = names; f && *p; p += *p == ',') {
        size_t n = launch_word_len(p);
        char *word = strndup(p, n);
        struct slot *slot = word && s->limited ? find_slot(s, word) : NULL;
        p += n;
        fprintf(f, "%s%s", p - n == names ? "" : ",", word ? word : "");
        if (slot && slot->slots)
            fprintf(f, ":%d", free_slots(slot));
        if (slot && slot->slots && free_slots(slot) == 0) {
            if (!s->may_wait)
                launch_report(s->job,
                              "no rank can be spawned on host %s: all of its %d slots are in use",
                              slot->name, slot->slots);
            full = true;
        }
        free(word);
    }
    if (f)
        fclose(f);
    if (full) {
        free(text);
        text = NULL;
    }
    return text;
}

static int no_hosts(const struct start *s) { return s->may_wait ? -RT_EAGAIN : -RT_ENOSPC; }

/* ---- free cores ---- */

/* The cores of this host to which no rank is bound; NULL: some ranks are not bound, or too few
 * cores are left, so that the new ranks must not be bound. */
static hwloc_bitmap_t free_cores(const struct start *s)
{
    const struct launch_job *job = s->job;
    hwloc_topology_t topo = rt_topo_hwloc();
    hwloc_bitmap_t left = topo ? hwloc_bitmap_alloc() : NULL;
    hwloc_obj_t core = NULL;
    bool bound = left && !job->opts->placement.bind_none && job->opts->placement.pe == 1;
    int n = 0;

    if (!left || hwloc_get_cpubind(topo, left, HWLOC_CPUBIND_PROCESS) < 0)
        bound = false;
    for (int r = 0; bound && job->nrunning && r < job->n; r++) {
        bound = job->ranks[r].cpus;
        if (bound)
            hwloc_bitmap_andnot(left, left, job->ranks[r].cpus);
    }
    for (const struct member *m = job->family->members; bound && m; m = m->next) {
        bound = m->cpus || !m->up;
        if (m->cpus)
            hwloc_bitmap_andnot(left, left, m->cpus);
    }
    while (bound && (core = hwloc_get_next_obj_by_type(topo, HWLOC_OBJ_CORE, core)))
        n += hwloc_bitmap_isincluded(core->cpuset, left);
    if (bound && n >= s->n)
        return left;
    hwloc_bitmap_free(left);
    return NULL;
}

/* ---- the command line ---- */

static int add(struct start *s, const char *word) { return launch_list_add(&s->argv, word); }

static int add2(struct start *s, const char *option, const char *value)
{
    return value ? (add(s, option) || add(s, value) ? -RT_ENOMEM : 0) : 0;
}

static int add_number(struct start *s, const char *option, int value)
{
    return add(s, option) || launch_list_addf(&s->argv, "%d", value) ? -RT_ENOMEM : 0;
}

/* Variables that options have set. */
static int add_set(struct start *s, const struct launch_list *set)
{
    int err = 0;

    for (int i = 0; i < set->n && !err; i++) {
        char *eq = strchr(set->v[i], '=');
        *eq = '\0';
        err = add2(s, "--genv", set->v[i]) || add(s, eq + 1);
        if (!err && !strncmp(set->v[i], "WEFT_", 5)) /* settings apply to the new mpirun, too */
            err = launch_list_setenv(&s->env, set->v[i], eq + 1);
        *eq = '=';
    }
    return err ? -RT_ENOMEM : 0;
}

static int add_environment(struct start *s)
{
    const struct launch_envs *e = &s->job->opts->env;
    int err = e->from == LAUNCH_ENV_ALL ? 0 : e->from == LAUNCH_ENV_NONE ? add(s, "--genvnone") : 0;
    char *list = NULL;
    size_t len;
    FILE *f = e->from == LAUNCH_ENV_LIST ? open_memstream(&list, &len) : NULL;

    for (int i = 0; f && i < e->keep.n; i++)
        fprintf(f, "%s%s", i ? "," : "", e->keep.v[i]);
    if (f) {
        fclose(f);
        err = add2(s, "--genvlist", list);
        free(list);
    }
    err = err ? err : add_set(s, &e->set);
    if (!err && s->app >= 0) /* after it, because the last of two options counts */
        err = add_set(s, &s->job->opts->apps[s->app].env.set);
    return err ? -RT_ENOMEM : 0;
}

static int add_globals(struct start *s, int number)
{
    const struct launch_opts *o = s->job->opts;
    const struct {
        bool on;
        const char *option;
    } flags[] = {
        { o->placement.oversubscribe, "--oversubscribe" },
        { o->placement.no_oversubscribe, "--nooversubscribe" },
        { o->placement.hwthreads, "--use-hwthread-cpus" },
        { o->output.tag, "--tag-output" },
        { o->output.rank, "--prepend-rank" },
        { o->output.timestamp, "--timestamp-output" },
        { o->output.merge_stderr, "--merge-stderr-to-stdout" },
        { o->ft, "--ft" },
        { o->display.quiet, "--quiet" },
        { o->display.verbose, "--verbose" },
        { o->display.bindings, "--report-bindings" },
        { o->display.map, "--display-map" },
    };
    int err = add(s, "mpirun");

    for (size_t i = 0; i < sizeof flags / sizeof flags[0] && !err; i++)
        if (flags[i].on)
            err = add(s, flags[i].option);
    err = err || add2(s, "--stdin", "none") || add_number(s, "--weft-control", RT_SERVE_FD) ||
          add_number(s, "--weft-job", number) || add2(s, "--weft-nspace", s->nspace) ||
          add2(s, "--weft-separator", SEPARATOR) ||
          add_number(s, "--weft-universe", s->job->universe) ||
          add2(s, "--rsh", o->resources.rsh) || add2(s, "--abi", abi_word((enum abi_kind)o->abi));
    if (!err && o->output.dir) {
        err = add(s, "--output-filename") ||
              launch_list_addf(&s->argv, "%s%s", o->output.dir, o->output.nocopy ? ":nocopy" : "");
    }
    return err ? -RT_ENOMEM : add_environment(s);
}

/* The options of one program and the program; returns the index of the word after it. */
static int add_app(struct start *s, int i, const char *hosts, int *err)
{
    const struct launch_list *w = s->words;
    const char *v, *own = NULL;
    bool dashes = false;

    for (; i < w->n && strcmp(w->v[i], "app") && !*err; i++) {
        if ((v = value_at(w, i, "n")))
            *err = add2(s, "-n", v);
        else if ((v = value_at(w, i, "cwd")))
            *err = add2(s, "--wdir", v);
        else if ((v = value_at(w, i, "path")))
            *err = add2(s, "--path", v);
        else if ((v = value_at(w, i, "soft")))
            *err = add2(s, "--weft-soft", v);
        else if ((v = value_at(w, i, "host")))
            own = v;
        else if ((v = value_at(w, i, "env")) && strchr(v, '=')) {
            char *name = strndup(v, strcspn(v, "="));
            *err = !name || add2(s, "--env", name) || add(s, strchr(v, '=') + 1) ? -RT_ENOMEM : 0;
            free(name);
        } else if ((v = value_at(w, i, "arg"))) {
            char *named = !dashes && own ? named_hosts(s, own) : NULL;
            if (!dashes && own && !named)
                *err = no_hosts(s);
            else if (!dashes)
                *err = add2(s, "--host", named ? named : hosts) || add(s, "--") ? -RT_ENOMEM : 0;
            dashes = true;
            free(named);
            if (!*err)
                *err = add(s, v);
        }
    }
    return i;
}

/* Reads what concerns the whole request: the number of ranks, and whether it names hosts. */
static int survey(struct start *s, const char **host, const char **hostfile, const char **map)
{
    bool global = true;
    const char *v;
    int err = 0;
    for (int i = 2; i < s->words->n; i++) {
        global &= strcmp(s->words->v[i], "app") != 0;
        if ((v = value_at(s->words, i, "n")))
            s->n += atoi(v);
        s->soft |= value_at(s->words, i, "soft") != NULL;
        s->elsewhere |= value_at(s->words, i, "host") || value_at(s->words, i, "hostfile");
        if ((v = value_at(s->words, i, "host")) && global)
            *host = v;
        if ((v = value_at(s->words, i, "hostfile")))
            *hostfile = v;
        if ((v = value_at(s->words, i, "map_by")))
            *map = v;
        if ((v = value_at(s->words, i, "nspace")) && global)
            s->nspace = v;
        if ((v = value_at(s->words, i, "add_host")) && !err)
            err = add_hosts(s, v);
    }
    return err;
}

static int make_command(struct start *s, int number, hwloc_bitmap_t *cores)
{
    const char *host = NULL, *hostfile = NULL, *map = NULL;
    char *hosts = NULL;
    int at = 2, err = survey(s, &host, &hostfile, &map);

    if (err)
        return err;
    s->elsewhere |= s->job->head != NULL || s->added;
    if (!hostfile && (err = check_slots(s)) < 0)
        return err;
    *cores = s->elsewhere ? NULL : free_cores(s);
    bool given = s->limited || s->job->opts->resources.nhosts ||
                 s->added; /* otherwise this host, as for the first job */
    if (host)
        hosts = named_hosts(s, host);
    else if (!hostfile && given)
        hosts = all_hosts(s);
    if (!hosts && (host || (!hostfile && given)))
        return no_hosts(s);
    err = add_globals(s, number);
    if (!err && !*cores)
        err = add2(s, "--bind-to", "none");
    err = err || add2(s, "--hostfile", hostfile) || add2(s, "--map-by", map) ? -RT_ENOMEM : 0;
    while (at < s->words->n && strcmp(s->words->v[at], "app"))
        at++;
    for (bool first = true; at < s->words->n && !err; first = false) {
        if (!first)
            err = add(s, SEPARATOR);
        at = add_app(s, at + 1, hosts, &err);
    }
    free(hosts);
    return err;
}

/* ---- the process ---- */

/* In a process group of its own: signals of the terminal reach it through this mpirun. */
static int run(struct start *s, struct member *m)
{
    char path[4096];
    ssize_t len = readlink("/proc/self/exe", path, sizeof path - 1);
    path[len > 0 ? len : 0] = '\0';
    int error = rt_serve_launch(path, s->argv.v, s->env.v, true, &m->pid, &m->chan);
    if (!error)
        return 0;
    launch_report(s->job, "could not start an mpirun for a spawned job: %s: %s", path,
                  strerror(error));
    return -RT_ESPAWN;
}

/* The new mpirun inherits the binding of this thread. */
static int run_on(struct start *s, struct member *m, hwloc_const_bitmap_t cores)
{
    hwloc_topology_t topo = rt_topo_hwloc();
    hwloc_bitmap_t before = hwloc_bitmap_alloc();
    bool moved = cores && before && hwloc_get_cpubind(topo, before, HWLOC_CPUBIND_THREAD) == 0 &&
                 hwloc_set_cpubind(topo, cores, HWLOC_CPUBIND_THREAD) == 0;
    int err = run(s, m);
    if (moved)
        hwloc_set_cpubind(topo, before, HWLOC_CPUBIND_THREAD);
    hwloc_bitmap_free(before);
    return err;
}

/* The program of the command line from which the request comes: that of the rank, or of the rank
 * that has spawned the rank's job.  -1: none, the process has no mpirun. */
static int app_of(const struct launch_job *job, const struct asker *from)
{
    int a = from->via ? from->via->app : job->opts->napps - 1;
    while (!from->via && a > 0 && from->rank < job->opts->apps[a].first)
        a--;
    return a;
}

int member_start(struct launch_job *job, struct member *m, const struct launch_list *words,
                 bool may_wait)
{
    m->app = app_of(job, &m->asker);
    struct start s = { .job = job, .words = words, .app = m->app, .may_wait = may_wait };
    hwloc_bitmap_t cores = NULL;
    int err = find_slots(&s);

    for (char **e = job->env; *e && !err; e++)
        err = launch_list_add(&s.env, *e);
    if (!err)
        err = make_command(&s, m->number, &cores);
    if (!err)
        err = run_on(&s, m, cores);
    if (!err)
        fcntl(m->chan.in, F_SETFL, O_NONBLOCK);
    hwloc_bitmap_free(cores);
    launch_list_fini(&s.argv);
    launch_list_fini(&s.env);
    for (int i = 0; i < s.nslots; i++)
        free(s.slots[i].name);
    free(s.slots);
    return err;
}
