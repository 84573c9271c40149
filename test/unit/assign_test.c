/* SPDX-License-Identifier: BSD-3-Clause */
/* Hosts and ranks of a command line, as mpirun computes them: a table of command lines, allocations
 * and hosts with the expected results.  Nothing is started. */
#include "launcher/options/assign.h"
#include "launcher/options/hosts.h"
#include "launcher/options/options.h"
#include "launcher/options/parse.h"
#include "test/check.h"
#include "test/unit/capture.h"

#include <ctype.h>

#define SLURM4 "SLURM_JOB_ID=7 SLURM_JOB_NODELIST=n[01-04] "

struct row {
    const char *env;  /* "NAME=VALUE NAME=VALUE" */
    const char *file; /* contents of the hostfile; args name it FILE */
    const char *args; /* words before the program */
    int cores;        /* of each host */
    const char *want; /* "a:0-3 b:4,5", or a part of the error message */
};

static const struct row rows[] = {
    /* by slot */
    { "", "", "-H a -n 1", 4, "a:0" },
    { "", "", "-H a,b -n 1", 4, "a:0" },
    { "", "", "-H a,b -n 3", 2, "a:0-1 b:2" },
    { "", "", "-H a,b -n 5", 4, "a:0-2 b:3-4" },
    { "", "", "-H a,b -n 2", 4, "a:0 b:1" },
    { "", "", "-H n[1-3] -n 7 -bind-to none", 4, "n1:0-2 n2:3-4 n3:5-6" },
    { "", "", "-H a,b:3 -n 4", 4, "a:0-3" },
    { "", "a\nb\n", "--hostfile FILE -n 3", 4, "a:0-2" },
    { "", "a\nb\n", "--hostfile FILE -H b,a -n 3", 4, "b:0-2" },
    { "", "", "-H a,b", 4, "a:0-3 b:4-7" },
    { "", "", "-H a:4,b,c:2", 3, "a:0-3 b:4-6 c:7-8" },
    { "", "", "-H a:4,b:1,c:2 -n 5", 3, "a:0-3 b:4" },
    { "", "", "-H a:4 -H b:2", 8, "a:0-3 b:4-5" },
    { "", "", "-H a,b,a,a", 8, "a:0-2 b:3-10" },
    { "", "", "-H a:2,a", 8, "a:0-2" },
    { "", "", "-H a,A.example.org:3", 8, "a:0-3" },
    { "", "", "-H a.x.org:1,a.y.org:1", 8, "a.x.org:0 a.y.org:1" },
    { "", "", "-H 10.9.8.7:1,10.9.8.6:1", 8, "10.9.8.7:0 10.9.8.6:1" },
    { "", "", "-H fe80::77,[fe80::78]:2", 1, "fe80::77:0 fe80::78:1-2" },
    { "", "", "-H me@a:1,b:1", 8, "me@a:0 b:1" },
    { "", "", "-H a:*,b:1", 2, "a:0-1 b:2" },
    { "", "", "-H node[01-03,07]:2", 8, "node01:0-1 node02:2-3 node03:4-5 node07:6-7" },
    { "", "", "-H r[1-2]n[9-10]:1", 8, "r1n9:0 r1n10:1 r2n9:2 r2n10:3" },
    { "", "", "-H a,b --map-by core:PE=2", 4, "a:0-1 b:2-3" },
    { "", "", "-H a,b --map-by package", 4, "a:0-3 b:4-7" },
    { "", "", "-H a,b --use-hwthread-cpus", 2, "a:0-3 b:4-7" },
    /* by node */
    { "", "", "-H a:2,b:2,c:2 --map-by node -n 5", 8, "a:0,3 b:1,4 c:2" },
    { "", "", "-H a:4,b:1,c:2 --map-by node", 8, "a:0,3,5-6 b:1 c:2,4" },
    { "", "", "-H a:4,b:1,c:2 --rank-by node", 8, "a:0,3,5-6 b:1 c:2,4" },
    { "", "", "-H a:2,b:2,c:2 --map-by node --rank-by slot -n 5", 8, "a:0-1 b:2-3 c:4" },
    { "", "", "-H a,b,c --bynode -n 3", 8, "a:0 b:1 c:2" },
    { "", "", "-H a,b,c --map-by node -n 1", 8, "a:0" },
    /* a number for each */
    { "", "", "-H a,b,c --map-by ppr:2:node", 8, "a:0-1 b:2-3 c:4-5" },
    { "", "", "-H a,b,c -ppn 2 -n 3", 8, "a:0-1 b:2" },
    { "", "", "-H a,b,c -ppn 1 -n 3", 8, "a:0 b:1 c:2" },
    { "", "", "-H a:1,b:1 -N 3", 8, "a:0-2 b:3-5" },
    { "", "", "-H a,b --map-by ppr:1:package", 8, "a:0-1 b:2-3" },
    { "", "", "-H a,b --map-by ppr:2:core", 2, "a:0-3 b:4-7" },
    { "", "", "-H a,b -ppn 2 -n 5", 8, "5 ranks requested, but 2 for each node makes 4 slots" },
    { "", "", "-H a:1,b:3 -ppn 2 --nooversubscribe", 8, "a:0 b:1-2" },
    /* more ranks than slots */
    { "", "", "-H a,b -n 6", 2, "a:0-2 b:3-5" },
    { "", "", "-H a,b -n 5 --map-by node", 2, "a:0,2,4 b:1,3" },
    { "", "", "-H a:1 -n 2", 8, "but there is 1 slot on 1 host (a 1)" },
    { "", "", "-H a:2,b:2 -n 5", 8, "there are 4 slots on 2 hosts (a 2, b 2); --oversubscribe" },
    { "", "", "-H a:2,b:2 -n 5 --oversubscribe", 8, "a:0-2 b:3-4" },
    { "", "", "-H a:2,b:1 -n 9 --map-by :OVERSUBSCRIBE", 8, "a:0-5 b:6-8" },
    { "", "", "-H a,b -n 5 --nooversubscribe", 2, "--nooversubscribe forbids more" },
    { "", "a slots=1 max_slots=2\nb slots=1\n", "--hostfile FILE -n 6 --oversubscribe", 8,
      "a:0-1 b:2-5" },
    { "", "a max_slots=2\nb max_slots=2\n", "--hostfile FILE -n 5 --oversubscribe", 8,
      "max_slots is a limit" },
    { "", "", "-H h[1-20]:1 -n 21", 8,
      "h1 1, h2 1, h3 1, h4 1, h5 1, h6 1, h7 1, h8 1 and 12 more" },
    /* files */
    { "", "# ours\n\na slots=2\n  b slots = 3  // theirs\nc:1\nd\na slots=1\n", "--hostfile FILE",
      2, "a:0-2 b:3-5 c:6 d:7-8" },
    { "", "a\na\na\nb\n", "--hostfile FILE", 2, "a:0-2 b:3-4" },
    { "", "n[1-3] slots=2\n", "--hostfile FILE -H n2", 8, "n2:0-1" },
    { "", "n[1-3] slots=2\n", "--hostfile FILE -H n3,n1:1", 8, "n1:2 n3:0-1" },
    { "", "n[1-3] slots=2\n", "--hostfile FILE -H +n2,+n0", 8, "n1:2-3 n3:0-1" },
    { "", "n[1-3] slots=2\n", "--hostfile FILE -H +n2,+n0:1", 8, "n1:2 n3:0-1" },
    { "", "n[1-4] slots=2\n", "--hostfile FILE -n 2 -H +n1 x : -n 3 -H +e2", 8,
      "n1:2-3 n2:0-1 n3:4" },
    { "", "n[1-3] slots=2\n", "--hostfile FILE -n 1 -H n2 x : -n 3 -H +e", 8, "n1:1-2 n2:0 n3:3" },
    { "", "n[1-3] slots=2\n", "--hostfile FILE -H m", 8,
      "'m' is not in the hostfile, which has 3" },
    { "", "n[1-3] slots=2\n", "--hostfile FILE -H +n3", 8, "'+n3' is not in +n0..+n2" },
    { "", "n[1-3] slots=2\n", "--hostfile FILE -H +n1,+e:3", 8, "has 2 hosts that nothing" },
    { "", "n[1-3] slots=2\n", "--hostfile FILE -H +x1", 8, "'+x1' is no host" },
    { "", "\n#\n", "--hostfile FILE", 8, "names no host" },
    { "", "a slots=x\n", "--hostfile FILE", 8, "line 1: slots: 'x' is not a number in 1.." },
    { "", "\na slots=0\n", "--hostfile FILE", 8, "line 2: slots: '0'" },
    { "", "a slots\n", "--hostfile FILE", 8, "expected a number after 'slots'" },
    { "", "a sluts=2\n", "--hostfile FILE", 8, "unknown word 'sluts'" },
    { "", "a b\n", "--hostfile FILE", 8, "unknown word 'b'; expected one host a line" },
    { "", "a, b\n", "--hostfile FILE", 8, "line 1: 'a,' has a comma; expected one host a line" },
    { "", "\na,b:2\n", "--hostfile FILE", 8, "line 2: 'a,b:2' has a comma" },
    { "", "a:2:4\n", "--hostfile FILE", 8, "'a:2:4' is neither HOST:N nor an address" },
    { "",
      "\xef\xbb\xbf"
      "a:2\r\nfd00::7 slots=1\r\n",
      "--hostfile FILE", 8, "a:0-1 fd00::7:2" },
    { "", "a slots=4 max-slots=2\n", "--hostfile FILE", 8, "has 4 slots, and at most 2" },
    { "", "", "--hostfile /no/such/file", 8, "/no/such/file" },
    /* several programs */
    { "", "", "-H a:2 -n 2 x : -H b:2 -n 1", 8, "a:0-1 b:2" },
    { "", "", "-H a:2,b:2 -n 3 x : -n 1", 8, "a:0-1 b:2-3" },
    { "", "", "-H a:1 -n 1 x : -H a:2,b:1 -n 3", 8, "a:0-2 b:3" },
    { "", "", "-H a:1 -n 2 x : -H b:2 -n 1", 8, "2 ranks of program 0 requested" },
    { "", "", "-H a:1,b:1 -n 2 x : -n 1", 8, "of program 1 requested, but there are 0 slots" },
    { "", "", "-H a,b --map-by node -n 2 x : -n 2", 8, "a:0,2 b:1,3" },
    { "", "", "-H a,b -n 1 x : -n 1", 8, "a:0 b:1" },
    { "", "", "-H a,b -n 2 x : -H b,c -n 2", 8, "a:0 b:1-2 c:3" },
    /* users */
    { "", "", "-H me@[fd00::7]:2,[you@fd00::8]:1", 8, "me@fd00::7:0-1 you@fd00::8:2" },
    { "", "", "-H a:1,me@a:1", 8, "me@a:0-1" },
    { "", "", "-H me@a:1,a:1,me@a.example:1", 8, "me@a:0-2" },
    { "", "", "-H me@a:1,you@a:1", 8, "'me@a' and 'you@a' are one host, which can be reached as" },
    { "", "a slots=1\nb\n", "--hostfile FILE -H me@a:1", 8, "me@a:0" },
    { "", "you@a slots=1\n", "--hostfile FILE -H me@a:1", 8, "'you@a' and 'me@a' are one host" },
    /* invalid words */
    { "", "", "-H a:0", 8, "a: '0' is not a number in 1..65536" },
    { "", "", "-H a:x", 8, "a: 'x' is not a number" },
    { "", "", "-H ,", 8, "'' is not the name of a host" },
    { "", "", "-H -oProxyCommand", 8, "is not the name of a host" },
    { "", "", "-H u@-oProxyCommand", 8, "is not the name of a host" },
    { "", "", "-H a;b", 8, "is not the name of a host" },
    { "", "", "-H a:1:2", 8, "'a:1:2' is neither HOST:N nor an address" },
    { "", "", "-H me@fe80::1%eth0,10.0.0.1:2,fd00::[1-2]", 1,
      "me@fe80::1%eth0:0 10.0.0.1:1-2 fd00::1:3 fd00::2:4" },
    { "", "", "-H me@:1", 8, "'me@' is not the name of a host" },
    { "", "", "-H @a", 8, "'@a' is not the name of a host" },
    { "", "\33[2Ja;\n", "--hostfile FILE", 8, "line 1: '?[2Ja;' is not the name of a host" },
    { "", "", "-H n[3-1]", 8, "is not a list of hosts" },
    { "", "", "-H n[1-2", 8, "is not a list of hosts" },
    { "", "", "-H n[]", 8, "is not a list of hosts" },
    { "", "", "-H n1]", 8, "is not a list of hosts" },
    { "", "", "-H n[1-999999999]", 8, "more than 100000 hosts" },
    { "", "", "-H +n0", 8, "there is neither" },
    { "", "", "-H localhost --topo x.xml", 8, "--topo describes this host only" },
    /* Slurm */
    { SLURM4 "SLURM_TASKS_PER_NODE=2(x3),1", "", "", 8, "n01:0-1 n02:2-3 n03:4-5 n04:6" },
    { SLURM4 "SLURM_TASKS_PER_NODE=2(x3),1 SLURM_NTASKS=5", "", "", 8, "n01:0-1 n02:2-3 n03:4" },
    { SLURM4 "SLURM_TASKS_PER_NODE=2(x4) SLURM_NTASKS=3", "", "-n 7", 8,
      "n01:0-1 n02:2-3 n03:4-5 n04:6" },
    { SLURM4 "SLURM_TASKS_PER_NODE=2(x4) SLURM_NTASKS=8", "", "-H n03,n01", 8, "n01:2-3 n03:0-1" },
    { SLURM4 "SLURM_TASKS_PER_NODE=2(x4) SLURM_NTASKS=8", "", "-ppn 1", 8,
      "n01:0 n02:1 n03:2 n04:3" },
    { SLURM4 "SLURM_TASKS_PER_NODE=2(x4) SLURM_NTASKS=8", "", "--map-by node -n 5", 8,
      "n01:0,4 n02:1 n03:2 n04:3" },
    { SLURM4 "SLURM_JOB_CPUS_PER_NODE=4(x4) SLURM_CPUS_PER_TASK=2", "", "", 8,
      "n01:0-1 n02:2-3 n03:4-5 n04:6-7" },
    { SLURM4 "SLURM_TASKS_PER_NODE=2(x4)", "", "-H n01:1,n02:5", 8, "n01:0 n02:1-2" },
    { SLURM4 "SLURM_TASKS_PER_NODE=2(x4)", "n03 slots=1\nn01\n", "--hostfile FILE", 8,
      "n03:0 n01:1-2" },
    { SLURM4 "SLURM_TASKS_PER_NODE=2(x4)", "n05\n", "--hostfile FILE", 8,
      "'n05' is not in the Slurm allocation (job 7), which has 4 hosts, n01 to n04" },
    { SLURM4 "SLURM_TASKS_PER_NODE=2(x4)", "", "-H other", 8, "'other' is not in the Slurm" },
    { SLURM4 "SLURM_TASKS_PER_NODE=2(x4)", "", "-H +n[1-2]", 8, "is not in +n0..+n3" },
    { SLURM4 "SLURM_TASKS_PER_NODE=2(x4)", "", "-H n[02-03]", 8, "n02:0-1 n03:2-3" },
    { SLURM4 "SLURM_TASKS_PER_NODE=2(x4)", "", "-n 9", 8, "there are 8 slots on 4 hosts" },
    { SLURM4 "SLURM_TASKS_PER_NODE=2(x4) SLURMD_NODENAME=n02", "", "-H localhost", 8, "n02:0-1" },
    { SLURM4, "", "-n 3", 2, "n01:0-1 n02:2" },
    { SLURM4 "SLURM_JOB_CPUS_PER_NODE=3(x4) SLURM_TASKS_PER_NODE=1 SLURM_NTASKS=1 "
             "SLURM_STEP_NODELIST=n01",
      "", "-n 7", 8, "n01:0-2 n02:3-5 n03:6" },
    { SLURM4 "SLURM_CPUS_PER_TASK=4", "", "", 8, "n01:0-3 n02:4-7 n03:8-11 n04:12-15" },
    { SLURM4 "SLURM_CPUS_PER_TASK=4", "", "--map-by :PE=4 -n 3", 8, "n01:0-1 n02:2" },
    { "SLURM_JOB_ID=7 SLURM_JOB_NODELIST=n[1-", "", "", 8, "SLURM_JOB_NODELIST: 'n[1-'" },
    /* PBS and LSF */
    { "PBS_JOBID=3 PBS_NODEFILE=FILE", "a\na\nb\n", "", 8, "a:0-1 b:2" },
    { "LSB_JOBID=3 LSB_MCPU_HOSTS=a_2_b_1_", "", "", 8, "a:0-1 b:2" },
    { "LSB_JOBID=3 LSB_MCPU_HOSTS=a_2_b", "", "", 8, "LSB_MCPU_HOSTS: b: ''" },
};

static char file_name[64];

/* Splits a copy of text at spaces; FILE is the hostfile's name. */
static int split(char *text, char **words, int max)
{
    int n = 0;
    for (char *w = text + strspn(text, " "); *w && n < max; w += strspn(w, " ")) {
        char *end = w + strcspn(w, " ");
        bool last = !*end;
        *end = '\0';
        words[n++] = strcmp(w, "FILE") ? w : file_name;
        w = last ? end : end + 1;
    }
    return n;
}

static void set_env(const char *env, bool on)
{
    char copy[512], *words[8];
    snprintf(copy, sizeof copy, "%s", env);
    int n = split(copy, words, 8);
    for (int i = 0; i < n; i++) {
        char *eq = strchr(words[i], '=');
        *eq++ = '\0';
        for (char *p = eq; !strncmp(words[i], "LSB_MCPU", 8) && *p; p++)
            *p = *p == '_' ? ' ' : *p;
        if (on)
            setenv(words[i], strcmp(eq, "FILE") ? eq : file_name, 1);
        else
            unsetenv(words[i]);
    }
}

static void write_file(const char *text)
{
    FILE *f = fopen(file_name, "w");
    CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

/* What the agent of a host with that many cores would report: two packages, two threads per
 * core. */
static void tell(struct launch_host *h, int cores)
{
    static const int few[] = {
        [LAUNCH_NODE] = 1, [LAUNCH_PACKAGE] = 2, [LAUNCH_NUMA] = 2, [LAUNCH_L3] = 2
    };
    for (int i = 0; i < LAUNCH_UNSET; i++)
        h->nobj[i] = i <= LAUNCH_L3 ? few[i] : i == LAUNCH_HWTHREAD ? 2 * cores : cores;
}

static void append_range(char *out, size_t len, const char *sep, int low, int high)
{
    size_t at = strlen(out);
    if (low == high)
        snprintf(out + at, len - at, "%s%d", sep, low);
    else
        snprintf(out + at, len - at, "%s%d-%d", sep, low, high);
}

/* "a:0-1 b:2", hosts in the order of the job. */
static void describe(const struct launch_job *job, char *out, size_t len)
{
    *out = '\0';
    for (int h = 0; h < job->nhosts; h++) {
        int low = -1, high = -1, count = 0;
        const char *sep = ":";
        size_t at = strlen(out);
        if (job->hosts[h].nranks)
            snprintf(out + at, len - at, "%s%s", at ? " " : "", job->hosts[h].name);
        for (int r = 0; r < job->n; r++) {
            if (job->ranks[r].node != h)
                continue;
            count++;
            if (low >= 0 && r != high + 1) {
                append_range(out, len, sep, low, high);
                sep = ",";
                low = -1;
            }
            low = low < 0 ? r : low;
            high = r;
        }
        if (low >= 0)
            append_range(out, len, sep, low, high);
        CHECK_EQ(count, job->hosts[h].nranks);
    }
}

/* Facts that hold for each job, whatever its mapping. */
static void check_job(const struct launch_job *job)
{
    int at = 0;
    CHECK_EQ(job->n, job->total);
    for (int a = 0; a < job->opts->napps; a++) {
        CHECK_EQ(job->opts->apps[a].first, at);
        for (int i = 0; i < job->opts->apps[a].n && at < job->n; i++, at++) {
            CHECK_EQ(job->ranks[at].rank, at);
            CHECK_EQ(job->ranks[at].app, a);
        }
    }
    CHECK_EQ(at, job->n);
}

/* The mapping or error message that results from a command line. */
static void work_out(const struct row *row, char *out, size_t len)
{
    char copy[512], *argv[64] = { (char *)"mpirun" };
    struct launch_opts o;
    struct launch_job job = { .opts = &o };

    write_file(row->file);
    set_env(row->env, true);
    snprintf(copy, sizeof copy, "%s", row->args);
    int argc = 1 + split(copy, argv + 1, 60);
    argv[argc++] = (char *)"prog";
    capture_begin();
    int code = launch_parse(argc, argv, &o);
    job.hosts = o.resources.hosts;
    job.nhosts = o.resources.nhosts;
    for (int h = 0; h < o.resources.nhosts; h++)
        tell(&o.resources.hosts[h], row->cores);
    if (!code)
        code = launch_assign(&job);
    const char *said = capture_end();
    snprintf(out, len, "%.*s", (int)len - 1, said);
    if (!code) {
        CHECK_STR(out, "");
        check_job(&job);
        describe(&job, out, len);
    } else {
        CHECK_EQ(code, LAUNCH_EXIT_USAGE);
        CHECK(strchr(out, '\n') == out + strlen(out) - 1); /* a single message */
    }
    free(job.ranks);
    launch_opts_fini(&o);
    set_env(row->env, false);
}

static void command_lines(void)
{
    static char out[sizeof capture_text];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct row *row = &rows[i];
        work_out(row, out, sizeof out);
        bool is_message = !strncmp(out, "mpirun:", 7);
        CHECK_MSG(is_message ? strstr(out, row->want) != NULL : !strcmp(out, row->want),
                  "%s %s [%s]: found \"%s\", expected \"%s\"", row->env, row->args, row->file, out,
                  row->want);
    }
}

/* Several names of this host count as one host, which needs no agent. */
static void this_host(void)
{
    char self[256] = "", args[1024];
    gethostname(self, sizeof self - 1);
    snprintf(args, sizeof args, "localhost:1,127.0.0.1:1,[::1]:1,%s:1", self);
    char *argv[] = { (char *)"mpirun", (char *)"-H", args, (char *)"prog" };
    struct launch_opts o;
    CHECK_EQ(launch_parse(4, argv, &o), 0);
    CHECK_EQ(o.resources.nhosts, 1);
    CHECK(o.resources.nhosts == 1 && o.resources.hosts[0].self);
    CHECK_STR(o.resources.nhosts == 1 ? o.resources.hosts[0].name : "",
              self); /* not a shared name */
    CHECK_EQ(o.resources.nhosts == 1 ? o.resources.hosts[0].slots : 0, 4);
    launch_opts_fini(&o);
    CHECK(!launch_is_self("10.255.254.253") && !launch_is_self("no-such-host.example"));
    CHECK(!launch_is_self("::ffff:10.255.254.253") && launch_is_self("::ffff:127.0.0.1"));
}

/* Hosts without ranks need no agent, if this is known before agents are started. */
static void unused_hosts(void)
{
    static const struct {
        const char *args;
        int nhosts;
    } cases[] = {
        { "-H h[1-9]:2 -n 3", 2 },
        { "-H h[1-9]:2 -n 3 --map-by node", 3 },
        { "-H h[1-9] -ppn 2 -n 7", 4 },
        { "-H h[1-9] -n 2", 9 },
        { "-H h[1-9]:2 -ppn 2 --nooversubscribe -n 2", 1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char copy[128], *argv[16] = { (char *)"mpirun" };
        struct launch_opts o;
        snprintf(copy, sizeof copy, "%s", cases[i].args);
        int argc = 1 + split(copy, argv + 1, 12);
        argv[argc++] = (char *)"prog";
        CHECK_EQ(launch_parse(argc, argv, &o), 0);
        CHECK_MSG(o.resources.nhosts == cases[i].nhosts, "%s: %d hosts", cases[i].args,
                  o.resources.nhosts);
        launch_opts_fini(&o);
    }
}

/* 1000 hosts of 96 cores, by slot and by node, with the expected figures. */
static void thousand_hosts(void)
{
    static const char *const maps[] = { "slot", "node", "ppr:48:package" };
    for (int m = 0; m < 3; m++) {
        char *argv[] = { (char *)"mpirun",   (char *)"-H",    (char *)"n[0001-1000]",
                         (char *)"--map-by", (char *)maps[m], (char *)"prog" };
        struct launch_opts o;
        CHECK_EQ(launch_parse(6, argv, &o), 0);
        struct launch_job job = { .opts = &o,
                                  .hosts = o.resources.hosts,
                                  .nhosts = o.resources.nhosts };
        CHECK_EQ(o.resources.nhosts, 1000);
        for (int h = 0; h < o.resources.nhosts; h++)
            tell(&o.resources.hosts[h], 96);
        CHECK_EQ(launch_assign(&job), 0);
        CHECK_EQ(job.n, 96000);
        int wrong = 0;
        for (int r = 0; r < job.n; r++)
            wrong += job.ranks[r].node != (m == 1 ? r % 1000 : r / 96);
        CHECK_EQ(wrong, 0);
        free(job.ranks);
        launch_opts_fini(&o);
    }
}

/* Counts as Slurm writes them. */
static void counts(void)
{
    int out[5] = { 0 };
    CHECK_EQ(launch_counts("2(x3),1", out, 5), 4);
    CHECK(out[0] == 2 && out[2] == 2 && out[3] == 1 && out[4] == 0);
    CHECK_EQ(launch_counts("7", out, 1), 1);
    CHECK_EQ(launch_counts("4(x2),3(x9)", out, 1), 11);
    CHECK_EQ(launch_counts("", out, 1), 0);
    static const char *const bad[] = { "x",    "2(", "2(x", "2(x)",  "2(x0)",
                                       "2(x3", "-1", "2;3", "2(x3)4" };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK_MSG(launch_counts(bad[i], out, 5) == -1, "%s", bad[i]);
}

/* Counts that do not fit the hosts are reported and ignored. */
static void odd_counts(void)
{
    static const struct row odd = { SLURM4 "SLURM_TASKS_PER_NODE=2(x3)", "", "", 2, "" };
    char *argv[] = { (char *)"mpirun", (char *)"prog" };
    struct launch_opts o;
    set_env(odd.env, true);
    capture_begin();
    int code = launch_parse(2, argv, &o);
    const char *said = capture_end();
    CHECK_EQ(code, 0);
    CHECK(strstr(said, "SLURM_TASKS_PER_NODE '2(x3)' does not fit the 4 hosts") != NULL);
    CHECK(o.resources.nhosts == 4 && !o.resources.hosts[0].slots_given && o.resources.slurm);
    launch_opts_fini(&o);
    set_env(odd.env, false);
}

/* Random words lead to a message at worst: lists are typed by hand. */
static void random_lists(void)
{
    static const char letters[] = "an1:[]-,+e.@*0 9%";
    unsigned seed = 1;
    for (int i = 0; i < 20000; i++) {
        char text[24];
        int len = 1 + rand_r(&seed) % 20;
        for (int k = 0; k < len; k++)
            text[k] = letters[(unsigned)rand_r(&seed) % (sizeof letters - 1)];
        text[len] = '\0';
        char *argv[] = { (char *)"mpirun", (char *)"-H", text, (char *)"prog" };
        struct launch_opts o;
        capture_begin();
        int code = launch_parse(4, argv, &o);
        const char *said = capture_end();
        CHECK_MSG(code == 0 ? o.resources.nhosts > 0 : strncmp(said, "mpirun: ", 8) == 0, "'%s'",
                  text);
        launch_opts_fini(&o);
    }
}

int main(void)
{
    static const char *const ours[] = { "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID" };
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        unsetenv(ours[i]);
    snprintf(file_name, sizeof file_name, "/tmp/assign_test.%ld", (long)getpid());
    RUN(command_lines);
    RUN(this_host);
    RUN(unused_hosts);
    RUN(thousand_hosts);
    RUN(counts);
    RUN(odd_counts);
    RUN(random_lists);
    remove(file_name);
    return check_end();
}
