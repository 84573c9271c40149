/* SPDX-License-Identifier: BSD-3-Clause */
/* Chooses the shims for a program, or says why there are none, and sets the environment.
 *
 * A shim is loaded with LD_PRELOAD: the loader then takes it for each library of the same
 * DT_SONAME, whatever DT_RPATH, DT_RUNPATH and LD_LIBRARY_PATH say, also in dlopen().  All programs
 * that the program starts get it, too: a shell script or numactl has to pass it on.  In a program
 * that does not call MPI it does nothing.  LD_LIBRARY_PATH serves the libraries that are found
 * later (the Fortran library of a plugin), scripts in which no MPI program was found, and programs
 * whose DT_RUNPATH names a folder where Weft's own library no longer is.  Main thread only. */
#include "launcher/abi/abi.h"
#include "launcher/abi/elf.h"
#include "runtime/base/err.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Weft's MPI_Get_library_version() begins with this. */
#define OURS "Weft MPI "
#define ADVICE_NONE "; --abi=none starts it as it is"

/* ---- the text of a plan ---- */

static int say(struct abi_plan *p, char *text, int n)
{
    p->text = n < 0 ? NULL : text;
    return n < 0 ? -RT_ENOMEM : 0;
}

static int refuse(const struct abi_found *f, struct abi_plan *p)
{
    const struct abi_need *a = f->needs, *b = f->needs + f->at;
    char *text = NULL;
    int n;

    p->refused = true;
    if (f->trouble == ABI_STATIC) {
        n = asprintf(&text,
                     "'%s' is linked statically with an MPI library, which Weft cannot replace; "
                     "link it with the shared library, or start it with that MPI's "
                     "mpirun" ADVICE_NONE,
                     f->program);
    } else if (f->trouble == ABI_BUNDLED) {
        n = asprintf(&text,
                     "'%s' needs %s, a private copy of another MPI that comes with it (named by "
                     "'%s'), which Weft cannot replace; install a build that uses the MPI of the "
                     "system, or start it with that MPI's mpirun" ADVICE_NONE,
                     f->program, b->name, b->by);
    } else if (f->trouble == ABI_CXX) {
        n = asprintf(&text,
                     "'%s' uses the C++ classes of %s (in '%s'), which MPI-3.0 removed and Weft "
                     "does not have; start it with that MPI's mpirun" ADVICE_NONE,
                     f->program, b->name, b->by);
    } else {
        n = asprintf(&text,
                     "'%s' needs two MPI libraries in one process, %s (named by '%s') and %s "
                     "(named by '%s'); build all its parts for one of them" ADVICE_NONE,
                     f->program, a->name, a->by, b->name, b->by);
    }
    return say(p, text, n);
}

bool abi_is_ours(const char *path)
{
    struct abi_elf e;
    bool ours = abi_elf_open(path, &e) && abi_elf_contains(&e, OURS, sizeof OURS - 1);
    abi_elf_close(&e);
    return ours;
}

static bool append(char **list, const char *folder, const char *name)
{
    char *more = NULL;
    if (asprintf(&more, "%s%s%s%s%s", *list ? *list : "", *list ? ":" : "", folder,
                 *name ? "/" : "", name) < 0)
        return false;
    free(*list);
    *list = more;
    return true;
}

/* A program of the standard ABI that finds no library of it: Weft was moved after the program was
 * linked, or the program was linked without a path.  What a script names may find it later. */
static int lost(const struct abi_found *f, struct abi_plan *p)
{
    const struct abi_need *a = f->needs;
    char folder[PATH_MAX], library[PATH_MAX], *text = NULL;
    struct abi_elf e = { 0 };
    abi_elf_open(a->by, &e);
    const char *path = e.runpath ? e.runpath : e.rpath ? e.rpath : "it names none";
    bool known = abi_folder(ABI_STANDARD, folder, sizeof folder - 32) && !strpbrk(folder, ":;");

    snprintf(library, sizeof library, "%.*s/%s", PATH_MAX - 256, folder, a->name);
    bool found = known && access(library, R_OK) == 0 && append(&p->folders, folder, "");
    p->refused = !found && !f->opaque;
    int n = asprintf(
        &text,
        "'%s' needs %s, which is not in the folder that '%s' names (%s): %s%s; link the program "
        "again with mpicc or mpifort, or put the folder of that library into LD_LIBRARY_PATH",
        f->program, a->name, a->by, path,
        found ? "Weft takes " : "was Weft moved?  It is not beside this program either",
        found ? library : "");
    abi_elf_close(&e);
    return say(p, text, n);
}

/* A program of the standard ABI: its library may be another MPI's. */
static int standard(const struct abi_found *f, struct abi_plan *p)
{
    const struct abi_need *a = f->needs;
    char *text = NULL;
    int n;

    if (!a->file)
        return lost(f, p);
    p->warning = a->file && strstr(a->name, "libmpi_abi.so") && !abi_is_ours(a->file);
    if (!p->warning)
        n = asprintf(&text, "'%s' needs %s, the library of the standard ABI: nothing is replaced",
                     f->program, a->name);
    else
        n = asprintf(
            &text,
            "'%s' loads %s, which belongs to another MPI: each process may be rank 0 of 1; "
            "%s, or start it with that MPI's mpirun",
            f->program, a->file,
            a->by_rpath ? "link it with Weft's mpicc, or remove its RPATH (patchelf --remove-rpath)"
                        : "put the folder of Weft's libmpi_abi.so.1 first in LD_LIBRARY_PATH");
    return say(p, text, n);
}

/* ---- the choice ---- */

static bool same_file(const char *a, const char *b)
{
    struct stat sa, sb;
    return a && stat(a, &sa) == 0 && stat(b, &sb) == 0 && sa.st_dev == sb.st_dev &&
           sa.st_ino == sb.st_ino;
}

/* Lists the shims of this kind that the program needs; false: one is not installed, or the name of
 * the folder has a character that LD_PRELOAD cannot contain. */
static bool gather(const struct abi_found *f, enum abi_kind kind, struct abi_plan *p)
{
    char folder[PATH_MAX], path[PATH_MAX];
    int n = 0, loaded = 0;

    if (!abi_folder(kind, folder, sizeof folder) || strpbrk(folder, ": ;$"))
        return false;
    for (int i = 0; i < f->n; i++) {
        if (f->needs[i].kind != kind)
            continue;
        int len = snprintf(path, sizeof path, "%s/%s", folder, f->needs[i].name);
        if (len >= (int)sizeof path || access(path, R_OK) < 0 ||
            !append(&p->preload, folder, f->needs[i].name))
            return false;
        n++;
        loaded += same_file(f->needs[i].file, path);
    }
    const char *plain = kind == ABI_OMPI ? "libmpi.so.40" : "libmpi.so.12";
    snprintf(path, sizeof path, "%.*s/%s", PATH_MAX - 32, folder, plain);
    if (n == 0 && (access(path, R_OK) < 0 || !append(&p->preload, folder, plain)))
        return false;
    p->kind = kind;
    if (n > 0 && loaded == n) { /* the program was linked with the shims, or finds them */
        free(p->preload);
        p->preload = NULL;
        return true;
    }
    return append(&p->folders, folder, "");
}

/* For a script in which no MPI program was found: programs that it starts find the shims by
 * LD_LIBRARY_PATH, unless they have a DT_RPATH. */
static void gather_folders(const struct abi_found *f, struct abi_plan *p)
{
    char folder[PATH_MAX];
    for (enum abi_kind k = ABI_OMPI; k <= ABI_MPICH; k++)
        if (abi_folder(k, folder, sizeof folder) && access(folder, R_OK) == 0 &&
            !strpbrk(folder, ": ;$"))
            append(&p->folders, folder, "");
    p->r_home = f->r_home && p->folders ? strdup(f->r_home) : NULL;
}

static const struct abi_need *need_of(const struct abi_found *f, enum abi_kind kind)
{
    for (int i = 0; i < f->n; i++)
        if (f->needs[i].kind == kind)
            return &f->needs[i];
    return f->needs;
}

static void drop(struct abi_plan *p)
{
    free(p->preload);
    free(p->folders);
    free(p->r_home);
    p->preload = p->folders = p->r_home = NULL;
}

/* Sets p->text if shims replace the library that the program needs, or are missing. */
static int explain(const struct abi_found *f, enum abi_kind want, struct abi_plan *p)
{
    const struct abi_need *a = need_of(f, p->kind != ABI_NONE ? p->kind : f->kind);
    char *text = NULL;
    int n;

    if (p->kind != ABI_NONE && a && !p->preload)
        n = asprintf(&text,
                     "'%s' needs %s of %s (named by '%s') and finds Weft's: nothing is replaced",
                     f->program, a->name, abi_name(a->kind), a->by);
    else if (p->kind != ABI_NONE && a)
        n = asprintf(&text, "'%s' needs %s of %s (named by '%s')%s: Weft loads %s instead",
                     f->program, a->name, abi_name(a->kind), a->by,
                     want == ABI_AUTO ? "" : ", and --abi was given", p->preload);
    else if (p->kind != ABI_NONE)
        n = asprintf(&text, "'%s' was not found to need MPI, but --abi=%s was given: Weft loads %s",
                     f->program, abi_word(p->kind), p->preload);
    else
        n = asprintf(&text,
                     "'%s' is linked with %s%s%s, a library of another MPI and not of the standard "
                     "ABI: each process may be rank 0 of 1; compile it with Weft's mpicc or "
                     "mpifort, or start it with that MPI's mpirun",
                     f->program, a->name, a->file ? ", " : "", a->file ? a->file : "");
    p->warning = p->kind == ABI_NONE;
    return say(p, text, n);
}

/* The user's choice; refused if its shims are not installed. */
static int choose_given(const struct abi_found *f, enum abi_kind want, struct abi_plan *p)
{
    char *text = NULL, folder[PATH_MAX] = "";

    if (gather(f, want, p))
        return explain(f, want, p);
    drop(p);
    p->refused = true;
    abi_folder(want, folder, sizeof folder);
    return say(p, text,
               asprintf(&text,
                        "--abi=%s: '%s' has no library that can replace %s; is Weft installed "
                        "completely?",
                        abi_word(want), folder, f->n ? need_of(f, want)->name : "that of MPI"));
}

int abi_choose(const struct abi_found *f, enum abi_kind want, struct abi_plan *out)
{
    static const enum abi_kind order[] = { ABI_MPICH, ABI_OMPI };

    *out = (struct abi_plan){ .kind = ABI_NONE };
    if (want == ABI_NONE)
        return 0;
    if (want != ABI_AUTO)
        return choose_given(f, want, out);
    if (f->trouble != ABI_FINE)
        return refuse(f, out);
    if (f->n == 0) {
        if (f->opaque)
            gather_folders(f, out);
        return 0;
    }
    if (f->kind == ABI_STANDARD)
        return standard(f, out);
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        if (f->kind != order[i] && !f->either)
            continue;
        if (need_of(f, order[i])->kind == order[i] && gather(f, order[i], out))
            break;
        drop(out);
    }
    return explain(f, want, out);
}

void abi_plan_fini(struct abi_plan *p)
{
    drop(p);
    free(p->text);
    *p = (struct abi_plan){ .kind = ABI_NONE };
}

/* ---- the environment ---- */

/* Puts `first` in front of a list in the environment, unless it is there already. */
static int put_first(const struct abi_env *env, const char *name, const char *first,
                     struct launch_list *set)
{
    const char *old = env->get(env->arg, name);
    size_t len = first ? strlen(first) : 0;
    char *list = NULL;

    if (!first || (old && !strncmp(old, first, len) && (!old[len] || old[len] == ':')))
        return 0;
    if (asprintf(&list, "%s%s%s", first, old && *old ? ":" : "", old ? old : "") < 0)
        return -RT_ENOMEM;
    int err = launch_list_setenv(set, name, list);
    free(list);
    return err;
}

/* R puts the folders of R_LD_LIBRARY_PATH, by default its own and often the system's, in front of
 * LD_LIBRARY_PATH.  Its own must be among them; the loader finds the system's by itself. */
static int put_r(const struct abi_plan *p, const struct abi_env *env, struct launch_list *set)
{
    static const char name[] = "R_LD_LIBRARY_PATH";
    char *list = NULL;
    if (!p->r_home || env->get(env->arg, name))
        return p->r_home ? put_first(env, name, p->folders, set) : 0;
    if (asprintf(&list, "%s:%s/lib", p->folders, p->r_home) < 0)
        return -RT_ENOMEM;
    int err = launch_list_setenv(set, name, list);
    free(list);
    return err;
}

int abi_apply(const struct abi_plan *p, const struct abi_env *env, struct launch_list *set)
{
    int err = put_first(env, "LD_PRELOAD", p->preload, set);
    if (!err)
        err = put_first(env, "LD_LIBRARY_PATH", p->folders, set);
    return err ? err : put_r(p, env, set);
}
