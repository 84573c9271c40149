/* SPDX-License-Identifier: BSD-3-Clause */
/* Which MPI a program was built for, and what Weft loads in its place.
 *
 * A *shim* is a library of Weft with the name and the interface of another MPI's library.  The
 * shims of Open MPI's ABI are in the folder weft/ompi beside Weft's library, those of MPICH's ABI
 * (also Intel MPI, Cray MPICH) in weft/mpich. */
#ifndef LAUNCHER_ABI_ABI_H
#define LAUNCHER_ABI_ABI_H

#include <stdbool.h>
#include <stddef.h>

#include "launcher/strings.h"

/* Interfaces of MPI libraries, and the choices of --abi. */
enum abi_kind {
    ABI_AUTO, /* a choice only: what the program needs */
    ABI_NONE, /* found: no MPI library; as a choice: load nothing */
    ABI_OMPI, /* libmpi.so.40 and its languages */
    ABI_MPICH,
    ABI_STANDARD, /* libmpi_abi.so.1: Weft's own */
    ABI_OTHER     /* an MPI library for which no shim can exist */
};

/* Why a program cannot run on Weft. */
enum abi_trouble {
    ABI_FINE,
    ABI_STATIC,  /* MPI is part of the executable */
    ABI_BUNDLED, /* comes with an MPI library under a name of its own */
    ABI_TWO,     /* needs the libraries of two MPIs */
    ABI_CXX      /* uses MPICH's C++ classes, which no shim has */
};

/* An MPI library that a program needs. */
struct abi_need {
    char *name; /* as the program names it */
    char *by;   /* the file that names it */
    char *file; /* the file that would be loaded; NULL: unknown */
    bool by_rpath;
    enum abi_kind kind;
};

struct abi_found {
    enum abi_kind kind;
    enum abi_trouble trouble;
    int at;                 /* ABI_BUNDLED, ABI_TWO, ABI_CXX: the need because of which */
    char *program;          /* the file that was examined */
    struct abi_need *needs; /* the first is of `kind` */
    int n;
    bool either;  /* the needs are alternatives: each is of a module, and the program loads one */
    char *r_home; /* the program is R or one of its scripts: its R_HOME; NULL: it is not, or unknown
                   */
    bool opaque;  /* runs programs that are not known: a script, or a command with arguments */
};

/* A variable of the environment in which the program will run; NULL: not set. */
typedef const char *abi_getenv(const void *arg, const char *name);
struct abi_env {
    abi_getenv *get;
    const void *arg;
    const char *wdir; /* working directory of the program; NULL: the current one */
};

/* Examines the program at `path`, which is started with these arguments (argv[0] is its name).
 * Follows "#!" to the interpreter, looks for the installed mpi4py of a Python, and examines the
 * arguments of a program that has no MPI itself, for it may start them (env, numactl, sh -c). */
void abi_examine(const char *path, char *const *argv, const struct abi_env *env,
                 struct abi_found *out);
void abi_found_fini(struct abi_found *f);

/* What to do for a program. */
struct abi_plan {
    enum abi_kind kind; /* ABI_OMPI, ABI_MPICH: its shims are used; otherwise none */
    bool refused;       /* the program cannot run on Weft; `text` says why */
    char *preload;      /* for LD_PRELOAD: shims by their path, separated by ":"; NULL: none */
    char *folders;      /* in front of LD_LIBRARY_PATH; NULL: none */
    char *r_home;       /* R: `folders` go in front of its own folders, too; NULL: not R */
    bool warning;       /* each process may be rank 0 of 1; `text` says why */
    char *text; /* the library found, and what is done; NULL: the program needs no MPI library */
};

/* Chooses: `want` is the user's choice.  0 or -RT_ENOMEM. */
int abi_choose(const struct abi_found *f, enum abi_kind want, struct abi_plan *out);
void abi_plan_fini(struct abi_plan *p);
/* Adds to `set` the variables that the plan changes; their old values come from `env`.  0 or
 * -RT_ENOMEM. */
int abi_apply(const struct abi_plan *p, const struct abi_env *env, struct launch_list *set);

/* Whether a library is one of Weft's: its own or a shim. */
bool abi_is_ours(const char *path);
/* The interface of an MPI library by the name of its file, libmpi.so.40.30.4; ABI_NONE: it is no
 * MPI library. */
enum abi_kind abi_kind_of_file(const char *name);

/* auto, ompi, mpich or none.  False: none of them. */
bool abi_parse(const char *word, enum abi_kind *out);
/* "Open MPI" */
const char *abi_name(enum abi_kind kind);
/* "ompi": the choice of that name, and the folder of its shims. */
const char *abi_word(enum abi_kind kind);

/* The executable that a word of a command line names, found in PATH; false: there is none. */
bool abi_find(const char *word, const struct abi_env *env, char *path, size_t len);
/* Folder of the shims of ABI_OMPI or ABI_MPICH, or of Weft's own library, ABI_STANDARD; it need not
 * exist.  False: the path of this program is unknown, or `path` is too short. */
bool abi_folder(enum abi_kind kind, char *path, size_t len);

/* Reads the environment of this process. */
const char *abi_own_env(const void *arg, const char *name);

#endif
