/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-exec: starts a program with the libraries that mpirun would choose for it, where another
 * launcher (srun) starts the processes.  It executes the program in its own process. */
#include "launcher/abi/abi.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXIT_FAIL = 1, EXIT_USAGE = 2, EXIT_NOEXEC = 126, EXIT_NOPROG = 127 };

struct options {
    enum abi_kind abi;
    bool quiet, dry_run;
};

static void help(void)
{
    fputs("Usage: weft-exec [options] program [arguments]\n"
          "Starts a program that was built for Open MPI or MPICH with Weft's libraries in place\n"
          "of those; for srun and other launchers (mpirun does so itself).\n\n"
          "  --abi auto|ompi|mpich|none  which MPI the program was built for (default: auto)\n"
          "  --dry-run                   print what was found, and start nothing\n"
          "  -q, --quiet                 print no warning\n"
          "  -V, --version               print the version\n"
          "  -h, --help                  print this help\n",
          stdout);
}

/* The first word that is no option; -1: exit with *code. */
static int parse(int argc, char **argv, struct options *o, int *code)
{
    int i = 1;

    *code = EXIT_USAGE;
    for (; i < argc && *argv[i] == '-'; i++) {
        const char *word = argv[i][1] == '-' ? argv[i] + 2 : argv[i] + 1;
        if (!strcmp(word, "q") || !strcmp(word, "quiet")) {
            o->quiet = true;
        } else if (!strcmp(word, "dry-run")) {
            o->dry_run = true;
        } else if (!strncmp(word, "abi", 3) && (word[3] == '=' || (!word[3] && i + 1 < argc))) {
            const char *value = word[3] ? word + 4 : argv[++i];
            if (abi_parse(value, &o->abi))
                continue;
            fprintf(stderr, "weft-exec: --abi: '%s' is not auto, ompi, mpich or none\n", value);
            return -1;
        } else if (!strcmp(word, "h") || !strcmp(word, "help")) {
            help();
            *code = 0;
            return -1;
        } else if (!strcmp(word, "V") || !strcmp(word, "version")) {
            printf("weft-exec (Weft MPI) %s\n", PACKAGE_VERSION);
            *code = 0;
            return -1;
        } else {
            fprintf(stderr, "weft-exec: unknown option %s; weft-exec --help lists all\n", argv[i]);
            return -1;
        }
    }
    if (i < argc)
        return i;
    fputs("weft-exec: no program was given; weft-exec --help explains\n", stderr);
    return -1;
}

/* Sets what scripts read, from the variables of the launcher. */
static void set_vars(enum abi_kind kind)
{
    static const struct {
        enum abi_kind kind;
        const char *name, *from;
    } vars[] = {
        { ABI_OMPI, "OMPI_COMM_WORLD_RANK", "SLURM_PROCID" },
        { ABI_OMPI, "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS" },
        { ABI_OMPI, "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID" },
        { ABI_OMPI, "OMPI_COMM_WORLD_NODE_RANK", "SLURM_LOCALID" },
        { ABI_MPICH, "PMI_RANK", "SLURM_PROCID" },
        { ABI_MPICH, "PMI_SIZE", "SLURM_STEP_NUM_TASKS" },
        { ABI_MPICH, "MPI_LOCALRANKID", "SLURM_LOCALID" },
    };
    /* Without a PMIx server each process is alone; a rank in the environment would hide that. */
    for (size_t i = 0; i < sizeof vars / sizeof vars[0] && getenv("PMIX_RANK"); i++) {
        const char *value = getenv(vars[i].from);
        if (vars[i].kind == kind && value)
            setenv(vars[i].name, value, 0);
    }
}

/* Examines the program and sets the environment; -1: start it, otherwise the exit code. */
static int prepare(const char *path, char **argv, const struct options *o)
{
    const struct abi_env env = { .get = abi_own_env };
    struct launch_list set = { 0 };
    struct abi_found f;
    struct abi_plan p;
    int code = o->dry_run ? 0 : -1;

    abi_examine(path, argv, &env, &f);
    if (abi_choose(&f, o->abi, &p) < 0 || abi_apply(&p, &env, &set) < 0)
        code = EXIT_FAIL;
    for (int i = 0; i < set.n; i++) {
        char *eq = strchr(set.v[i], '=');
        *eq = '\0';
        setenv(set.v[i], eq + 1, 1);
    }
    set_vars(p.kind);
    if (o->dry_run)
        printf("%s\n", p.text ? p.text : "no MPI library was found; nothing is replaced");
    else if (p.refused || (p.warning && !o->quiet))
        fprintf(stderr, "weft-exec: %s%s\n", p.refused ? "" : "warning: ", p.text);
    if (p.refused)
        code = EXIT_NOEXEC;
    launch_list_fini(&set);
    abi_plan_fini(&p);
    abi_found_fini(&f);
    return code;
}

int main(int argc, char **argv)
{
    const struct abi_env env = { .get = abi_own_env };
    struct options o = { .abi = ABI_AUTO };
    char path[PATH_MAX];
    int code, first = parse(argc, argv, &o, &code);

    if (first < 0)
        return code;
    if (!abi_find(argv[first], &env, path, sizeof path)) {
        bool there = strchr(argv[first], '/') && access(argv[first], F_OK) == 0;
        fprintf(stderr, "weft-exec: program '%s' %s\n", argv[first],
                there ? "is not executable" : "does not exist");
        return there ? EXIT_NOEXEC : EXIT_NOPROG;
    }
    code = prepare(path, argv + first, &o);
    if (code >= 0)
        return code;
    execvp(path, argv + first); /* runs a script without a #! line by /bin/sh */
    fprintf(stderr, "weft-exec: '%s': %s\n", path, strerror(errno));
    return errno == ENOENT ? EXIT_NOPROG : EXIT_NOEXEC;
}
