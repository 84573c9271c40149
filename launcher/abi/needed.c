/* SPDX-License-Identifier: BSD-3-Clause */
/* Follows the libraries of an ELF file, breadth first as the dynamic loader does, and finds those
 * of MPI.  Their own libraries are not followed: a shim needs others.  Any thread. */
#include "launcher/abi/needed.h"
#include "launcher/abi/search.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A program with more libraries has its MPI among the first. */
#define MOST_OBJECTS 512

struct walk {
    struct abi_object objects[MOST_OBJECTS];
    int n;
    const char *library_path;
    struct abi_found *out;
};

/* ---- names ---- */

/* Names of libraries without "lib" and the suffix: of C, Fortran and C++.  A Fortran or C++ program
 * may name only the library of its language. */
static const struct word {
    const char *name;
    bool ompi, mpich;
} words[] = {
    { "mpi", true, true },
    { "mpi_mpifh", true, false },
    { "mpi_usempi", true, false },
    { "mpi_usempif08", true, false },
    { "mpi_usempi_ignore_tkr", true, false },
    { "mpi_cxx", true, false },
    { "mpich", false, true },
    { "mpifort", false, true },
    { "mpichfort", false, true },
    { "mpicxx", false, true },
    { "mpichcxx", false, true },
};

/* The longest word with which the name begins after "lib"; NULL: none. */
static const struct word *word_of(const char *name)
{
    const struct word *best = NULL;
    for (size_t i = 0; i < sizeof words / sizeof words[0] && !strncmp(name, "lib", 3); i++)
        if (!strncmp(name + 3, words[i].name, strlen(words[i].name)) &&
            (!best || strlen(words[i].name) > strlen(best->name)))
            best = &words[i];
    return best;
}

/* auditwheel puts a hash before the suffix: libmpi-1a2b3c4d.so.12. */
static bool is_renamed(const char *name)
{
    const struct word *w = word_of(name);
    size_t hex = 0;
    if (!w || name[3 + strlen(w->name)] != '-')
        return false;
    const char *p = name + 3 + strlen(w->name) + 1;
    while (isxdigit((unsigned char)p[hex]))
        hex++;
    return hex >= 8 && !strncmp(p + hex, ".so", 3);
}

/* Cray's libraries have names of compilers: libmpi_gnu_112.so.12, libmpifort_cray.so.12. */
static bool is_cray(const char *name)
{
    const char *so = strstr(name, ".so.");
    return so && !strcmp(so, ".so.12") &&
           (!strncmp(name, "libmpi_", 7) || !strncmp(name, "libmpifort_", 11));
}

static enum abi_kind kind_of(const char *name)
{
    const struct word *w = word_of(name);

    if (!strncmp(name, "libmpi_abi.so", 13) || !strncmp(name, "libmpifort_abi", 14))
        return ABI_STANDARD;
    if (is_renamed(name))
        return ABI_OTHER;
    const char *rest = w ? name + 3 + strlen(w->name) : "";
    if (strncmp(rest, ".so.", 4))
        return is_cray(name) ? ABI_MPICH : ABI_NONE;
    if (w->ompi && !strcmp(rest, ".so.40"))
        return ABI_OMPI;
    return w->mpich && !strcmp(rest, ".so.12") ? ABI_MPICH : ABI_OTHER;
}

/* Behind the version of the interface a file's name has the version of the library. */
enum abi_kind abi_kind_of_file(const char *name)
{
    char plain[256];
    const char *so = strstr(name, ".so.");
    size_t len = so ? (size_t)(so - name) + 4 : 0;
    len += so ? strspn(so + 4, "0123456789") : 0;
    snprintf(plain, sizeof plain, "%.*s", (int)len, name);
    return kind_of(plain);
}

/* Open MPI 1.8 and 1.10 had libmpi.so.12 as well; their handles are data objects with these names.
 */
static bool is_old_ompi(const struct abi_object *by)
{
    static const char part[] = "\0ompi_mpi_";
    return abi_elf_contains(&by->elf, part, sizeof part - 1);
}

/* Programs that include mpi.h in C++ name MPICH's C++ library; those that use its classes have
 * symbols of namespace MPI. */
static bool uses_classes(const char *name, const struct abi_object *by)
{
    static const char symbol[] = "\0_ZN3MPI";
    return strstr(name, "cxx.so.") && abi_elf_contains(&by->elf, symbol, sizeof symbol - 1);
}

/* ---- the walk ---- */

static bool same_name(const struct abi_object *o, const char *name)
{
    const char *slash = strrchr(o->path, '/');
    return (o->elf.soname && !strcmp(o->elf.soname, name)) || !strcmp(o->path, name) ||
           !strcmp(slash ? slash + 1 : o->path, name);
}

static bool is_known(const struct walk *w, const char *name)
{
    for (int i = 0; i < w->n; i++)
        if (same_name(&w->objects[i], name))
            return true;
    for (int i = 0; i < w->out->n; i++)
        if (!strcmp(w->out->needs[i].name, name))
            return true;
    return false;
}

static void add_need(struct walk *w, const struct abi_object *by, const char *name,
                     enum abi_kind kind)
{
    struct abi_found *out = w->out;
    struct abi_need *more = realloc(out->needs, ((size_t)out->n + 1) * sizeof *more);
    struct abi_need need = { .name = strdup(name), .by = strdup(by->path), .kind = kind };

    if (more)
        out->needs = more;
    if (!more || !need.name || !need.by) {
        free(need.name);
        free(need.by);
        return;
    }
    need.file = abi_search(by, name, w->library_path, &need.by_rpath);
    if (kind == ABI_MPICH && is_old_ompi(by))
        need.kind = ABI_OTHER;
    out->needs[out->n++] = need;
    if (out->kind == ABI_NONE)
        out->kind = need.kind;
    if (out->trouble != ABI_FINE)
        return;
    if (is_renamed(name))
        out->trouble = ABI_BUNDLED;
    else if (need.kind != out->kind)
        out->trouble = ABI_TWO;
    else if (need.kind == ABI_MPICH && uses_classes(name, by))
        out->trouble = ABI_CXX;
    out->at = out->n - 1;
}

static void follow(struct walk *w, const struct abi_object *by, const char *name)
{
    bool by_rpath;
    const char *slash = strrchr(name, '/');
    enum abi_kind kind = kind_of(slash ? slash + 1 : name);

    /* The loader takes a loaded shim only for a plain name. */
    if (slash && kind != ABI_NONE)
        kind = ABI_OTHER;

    if (is_known(w, name))
        return;
    if (kind != ABI_NONE) {
        add_need(w, by, name, kind);
        return;
    }
    char *path = w->n < MOST_OBJECTS ? abi_search(by, name, w->library_path, &by_rpath) : NULL;
    if (!path)
        return;
    struct abi_object *o = &w->objects[w->n];
    *o = (struct abi_object){ .path = path, .loader = by };
    if (abi_elf_open(path, &o->elf))
        w->n++;
    else
        free(path);
}

/* A static executable that contains MPI: by its symbols or by the text of its version. */
static bool contains_mpi(const struct abi_elf *e)
{
    static const char symbol[] = "\0MPI_Init", ompi[] = "Open MPI v", mpich[] = "MPICH Version:";
    return abi_elf_contains(e, symbol, sizeof symbol) ||
           abi_elf_contains(e, ompi, sizeof ompi - 1) ||
           abi_elf_contains(e, mpich, sizeof mpich - 1);
}

bool abi_needed(const char *path, const char *library_path, struct abi_found *out)
{
    struct walk *w = calloc(1, sizeof *w);
    bool valid = false;

    if (!w)
        return false;
    w->library_path = library_path;
    w->out = out;
    w->objects[0].path = strdup(path);
    if (w->objects[0].path && abi_elf_open(path, &w->objects[0].elf))
        valid = w->objects[0].elf.valid;
    w->n = 1;
    const struct abi_elf *first = &w->objects[0].elf;
    if (valid && !first->interpreted && !first->soname && contains_mpi(first)) {
        size_t at = 0;
        if (!abi_elf_needed(first, &at))
            out->trouble = ABI_STATIC;
    }
    for (int i = 0; i < w->n && valid; i++) {
        size_t at = 0;
        const char *name;
        while ((name = abi_elf_needed(&w->objects[i].elf, &at)))
            follow(w, &w->objects[i], name);
    }
    for (int i = 0; i < w->n; i++) {
        abi_elf_close(&w->objects[i].elf);
        free(w->objects[i].path);
    }
    free(w);
    return valid;
}
