/* SPDX-License-Identifier: BSD-3-Clause */
/* weft_info: this build, its settings, the machine as Weft sees it, and how Weft would use the
 * machine. */
#include "launcher/info/gpus.h"
#include "launcher/info/info.h"
#include "mpi/api/api_table.h"
#include "runtime/base/cfg.h"
#include "runtime/base/log.h"
#include "runtime/base/near.h"
#include "runtime/topo/topo.h"

#include <ctype.h>
#include <hwloc.h>
#include <pmix.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_TEAM 8 /* ranks assumed by --coll without a number */

struct request {
    bool verbose;
    bool all; /* no section was asked for by name: a machine without a GPU is no error */
    int nranks, nhosts;
    const char *self;
    const char *io;      /* file or folder of --io */
    const char *program; /* of --abi; NULL: none */
    bool job;            /* --job, of process `pid`; 0: all jobs */
    long pid;
    const char *json; /* file of --json; NULL: none */
};

static int show_version(const struct request *q)
{
    unsigned hw = hwloc_get_api_version();
    (void)q;
    printf("Weft MPI %s\nstandard  MPI 5.0, standard ABI 1.0\n", PACKAGE_VERSION);
    printf("compiler  %s%s\n", isdigit((unsigned char)*__VERSION__) ? "gcc " : "", __VERSION__);
    printf("PMIx      %s\n", PMIx_Get_version());
    printf("hwloc     interface %u.%u\n", hw >> 16, hw >> 8 & 255);
    return 0;
}

static int show_config(const struct request *q)
{
    rt_cfg_print(stdout, q->verbose);
    return 0;
}

static int show_topo(const struct request *q)
{
    (void)q;
    if (!rt_topo_get())
        return 1;
    rt_topo_print(stdout);
    return 0;
}

/* Prints one chapter of the standard: its heading and procedures.  The entries of a chapter need
 * not be adjacent. */
static int show_chapter(const struct wm_api_entry *e, int n, long chapter)
{
    int shown = 0, done = 0;
    for (int i = 0; i < n; i++) {
        if (strtol(e[i].chapter, NULL, 10) != chapter)
            continue;
        if (shown++ == 0)
            printf("%s\n", e[i].chapter);
        printf("  %s  %s\n", e[i].implemented ? "yes" : "no ", e[i].name);
        done += e[i].implemented;
    }
    if (shown)
        printf("  %d of %d\n\n", done, shown);
    return done;
}

static int show_api(const struct request *q)
{
    /* The standard has 20; 0: a name without a number. */
    enum { CHAPTERS = 100 };
    int n, done = 0;
    const struct wm_api_entry *e = wm_api_entries(&n);
    (void)q;
    for (long chapter = 0; chapter < CHAPTERS; chapter++)
        done += show_chapter(e, n, chapter);
    printf("%d of %d procedures implemented; the others raise MPI_ERR_UNSUPPORTED_OPERATION\n",
           done, n);
    return 0;
}

static int show_paths(const struct request *q) { return info_paths(q->self); }
static int show_gpu(const struct request *q) { return info_gpu(q->all); }
static int show_coll(const struct request *q) { return info_coll(q->nranks, q->nhosts); }
static int show_tool(const struct request *q) { return info_tool(q->verbose); }
static int show_net(const struct request *q) { return info_net(q->verbose); }
static int show_io(const struct request *q) { return info_io(q->io); }
static int show_rma(const struct request *q) { return info_rma(q->self); }
static int show_abi(const struct request *q) { return info_abi(q->program); }
static int show_launcher(const struct request *q)
{
    (void)q;
    return info_launcher();
}
static int show_doctor(const struct request *q)
{
    (void)q;
    return info_doctor();
}

static const struct section {
    const char *name, *title, *help;
    int (*show)(const struct request *q);
} sections[] = {
    { "version", "Version", "versions of Weft, of the standard and of the libraries in use",
      show_version },
    { "config", "Settings", "all settings with value and source; -v explains each", show_config },
    { "topo", "Machine", "the machine as Weft sees it: packages, caches, cores, devices",
      show_topo },
    { "paths", "Paths",
      "transports between ranks, with predicted cost; under mpirun between its ranks", show_paths },
    { "gpu", "GPUs", "devices, links, memory that can be shared, paths between device buffers",
      show_gpu },
    { "net", "Networks",
      "network interfaces, RDMA devices, transports between hosts; -v lists all GIDs", show_net },
    { "coll", "Collectives",
      "algorithm chosen for each collective, by size; --coll=N for N ranks, --coll=NxH on H hosts",
      show_coll },
    { "io", "Files",
      "file system of a file or folder, and access to it; --io FILE, default the current folder",
      show_io },
    { "rma", "One-sided communication",
      "path to each kind of window, and the reason; under mpirun for its ranks", show_rma },
    { "abi", "Programs of other MPIs",
      "which MPI a program was built for: --abi PROGRAM; without one, the libraries for them",
      show_abi },
    { "api", "Procedures", "procedures of MPI, implemented or not", show_api },
    { "tool", "Tool interface", "variables, events and categories of MPI_T; -v explains each",
      show_tool },
    { "launcher", "Launcher", "who has started this process, and whether its ranks find each other",
      show_launcher },
    { "doctor", "Doctor", "what limits the speed on this machine, and what to do about it",
      show_doctor },
};
#define NSECTIONS ((int)(sizeof sections / sizeof sections[0]))

const char *info_bytes(size_t n, char *text, size_t len)
{
    if (n >= 1u << 30 && n % (1u << 30) == 0)
        snprintf(text, len, "%zu GiB", n >> 30);
    else if (n >= 1u << 20 && n % (1u << 20) == 0)
        snprintf(text, len, "%zu MiB", n >> 20);
    else if (n >= 1u << 10 && n % (1u << 10) == 0)
        snprintf(text, len, "%zu KiB", n >> 10);
    else
        snprintf(text, len, "%zu B", n);
    return text;
}

static void help(FILE *f)
{
    fputs("Usage: weft_info [--SECTION]... [-v]\nPrints what this Weft MPI is and what it does on "
          "this machine.\n\n",
          f);
    for (int i = 0; i < NSECTIONS; i++)
        fprintf(f, "  --%-10s %s\n", sections[i].name, sections[i].help);
    fputs("  --all        all of these\n  --job [PID]  what the ranks of running jobs on this host "
          "wait for; PID of an mpirun or a rank\n  --json FILE  the same as JSON, with "
          "--job\n  -v           more detail\n"
          "  --help       print this help\n\n"
          "Without a section: version, settings and doctor.\n",
          f);
}

static int usage(const char *word)
{
    const char *plain = word + strspn(word, "-"), *near = NULL;
    int best = rt_near_limit(plain);
    if (!strncmp(plain, "coll=", 5)) {
        fprintf(stderr,
                "weft_info: %s: expected --coll=N for N ranks, or --coll=NxH for N ranks "
                "on H hosts, H no more than N\n",
                word);
        return 2;
    }
    for (int i = 0; i < NSECTIONS && *plain; i++) {
        size_t len = strlen(sections[i].name);
        int d = strncmp(plain, sections[i].name, len) ? rt_near(plain, sections[i].name) : 0;
        if (d < best) {
            best = d;
            near = sections[i].name;
        }
    }
    if (near)
        fprintf(stderr,
                "weft_info: unknown option %s; did you mean --%s?  weft_info --help lists all\n",
                word, near);
    else
        fprintf(stderr, "weft_info: unknown option %s; weft_info --help lists all\n", word);
    return 2;
}

/* --job and --json, which stand alone: the words used; 0: another one; -1: wrong. */
static int parse_job(int argc, char **argv, int i, struct request *q)
{
    const char *word = argv[i], *next = i + 1 < argc ? argv[i + 1] : NULL;
    char *end;
    if (!strncmp(word, "--job", 5)) {
        const char *pid = word[5] == '=' ? word + 6 : next && *next != '-' ? next : NULL;
        q->job = true;
        if (!pid)
            return word[5] ? -1 : 1;
        q->pid = strtol(pid, &end, 10);
        return *end || q->pid <= 0 || (word[5] && word[5] != '=') ? -1 : 1 + (pid == next);
    }
    if (strncmp(word, "--json", 6))
        return 0;
    q->json = word[6] == '=' ? word + 7 : next;
    return !q->json || (word[6] && word[6] != '=') ? -1 : 1 + (q->json == next);
}

/* Bit of each requested section; -1: unknown word. */
static int parse_word(const char *word, struct request *q)
{
    const char *plain = word + strspn(word, "-");
    if (*word != '-')
        return -1;
    if (!strcmp(plain, "v") || !strcmp(plain, "verbose")) {
        q->verbose = true;
        return 0;
    }
    if (!strcmp(plain, "all")) {
        q->all = true;
        return (1 << NSECTIONS) - 1;
    }
    if (!strncmp(plain, "coll=", 5)) {
        char *end;
        long n = strtol(plain + 5, &end, 10), hosts = *end == 'x' ? strtol(end + 1, &end, 10) : 1;
        if (end == plain + 5 || *end || n < 1 || n > 1000000 || hosts < 1 || hosts > n)
            return -1;
        q->nranks = (int)n;
        q->nhosts = (int)hosts;
        plain = "coll";
    }
    if (!strncmp(plain, "io=", 3) && plain[3]) {
        q->io = plain + 3;
        plain = "io";
    }
    if (!strncmp(plain, "abi=", 4) && plain[4]) {
        q->program = plain + 4;
        plain = "abi";
    }
    for (int i = 0; i < NSECTIONS; i++)
        if (!strcmp(plain, sections[i].name) || (i == 0 && !strcmp(plain, "V")))
            return 1 << i;
    return -1;
}

int main(int argc, char **argv)
{
    struct request q = { .nranks = DEFAULT_TEAM, .nhosts = 1, .self = argv[0], .io = "." };
    int wanted = 0, code = 0;

    if (argc == 5 && !strcmp(argv[1], "--share")) /* started by launcher/info/ipc_trial.c */
        return info_share_child(argv[2], argv[3], argv[4]);
    rt_topo_find_devices();
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-help") || !strcmp(argv[i], "-h")) {
            help(stdout);
            return 0;
        }
        int used = parse_job(argc, argv, i, &q);
        if (used < 0)
            return usage(argv[i]);
        if (used) {
            i += used - 1;
            continue;
        }
        int bits = parse_word(argv[i], &q);
        if (bits < 0)
            return usage(argv[i]);
        wanted |= bits;
        if (!strcmp(argv[i], "--io") && i + 1 < argc && *argv[i + 1] != '-')
            q.io = argv[++i];
        if (!strcmp(argv[i], "--abi") && i + 1 < argc && *argv[i + 1] != '-')
            q.program = argv[++i];
    }
    if (q.json && !q.job) {
        fprintf(stderr, "weft_info: --json FILE needs --job\n");
        return 2;
    }
    if (q.job && wanted) {
        fprintf(stderr, "weft_info: --job stands alone\n");
        return 2;
    }
    if (q.job)
        return rt_cfg_load() < 0 ? 1 : info_job(q.pid, q.json);
    if (!wanted)
        wanted = 1 << 0 | 1 << 1 | 1 << (NSECTIONS - 1);
    if (rt_cfg_load() < 0)
        return 1;
    bool titles = (wanted & (wanted - 1)) != 0;
    for (int i = 0; i < NSECTIONS; i++) {
        if (!(wanted & 1 << i))
            continue;
        if (titles)
            printf("%s== %s\n", wanted & ((1 << i) - 1) ? "\n" : "", sections[i].title);
        fflush(stdout);
        int one = sections[i].show(&q);
        code = one > code ? one : code;
    }
    return code;
}
