/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the files of a program that show which MPI it needs: see abi_examine().  Nothing is
 * started.  Any thread. */
#include "launcher/abi/needed.h"

#include <ctype.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Words of a command line that are examined. */
#define MOST_WORDS 64

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static const char *value(const struct abi_env *env, const char *name)
{
    return env->get(env->arg, name);
}

static bool is_program(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

bool abi_find(const char *word, const struct abi_env *env, char *path, size_t len)
{
    const char *search = value(env, "PATH");
    int n;

    if (*word == '-' || !*word)
        return false;
    if (strchr(word, '/')) {
        bool below = *word != '/' && env->wdir;
        n = snprintf(path, len, "%s%s%s", below ? env->wdir : "", below ? "/" : "", word);
        return n < (int)len && is_program(path);
    }
    for (const char *p = search; p && *p; p += strcspn(p, ":"), p += *p == ':') {
        size_t dir = strcspn(p, ":"), rest = strlen(word);
        if (*p != '/' || dir + 1 + rest >= len)
            continue;
        memcpy(path, p, dir);
        path[dir] = '/';
        memcpy(path + dir + 1, word, rest + 1);
        if (is_program(path))
            return true;
    }
    return false;
}

/* Copies the next word of a line; what follows it, or NULL if there was none. */
static const char *next_word(const char *p, char word[PATH_MAX])
{
    p += strspn(p, " \t");
    size_t len = strcspn(p, " \t\n");
    if (!len || len >= PATH_MAX)
        return NULL;
    memcpy(word, p, len);
    word[len] = '\0';
    return p + len;
}

/* The interpreter in the first line of a script, also after env(1); false: this is no script. */
static bool interpreter_of(const char *path, const struct abi_env *env, char out[PATH_MAX])
{
    char line[PATH_MAX + 256] = "", word[PATH_MAX];
    FILE *f = fopen(path, "re");
    bool script = f && fgets(line, sizeof line, f) && !strncmp(line, "#!", 2);
    if (f)
        fclose(f);
    const char *p = script ? next_word(line + 2, word) : NULL;
    if (p && !strcmp(base_of(word), "env"))
        do
            p = next_word(p, word);
        while (p && (*word == '-' || strchr(word, '=')));
    return p && abi_find(word, env, out, PATH_MAX);
}

/* ---- Python ---- */

static bool is_python(const char *path)
{
    const char *name = base_of(path);
    return !strncmp(name, "python", 6) && name[6 + strspn(name + 6, "0123456789.")] == '\0';
}

/* Moves the needs of one module to those of others of which the program will take one. */
static void merge(struct abi_found *into, struct abi_found *one)
{
    struct abi_need *more = realloc(into->needs, (size_t)(into->n + one->n) * sizeof *into->needs);
    if (more) {
        into->needs = more;
        memcpy(more + into->n, one->needs, (size_t)one->n * sizeof *more);
        into->n += one->n;
        one->n = 0;
    }
    into->either = true;
    abi_found_fini(one);
}

/* Examines the modules MPI of the package mpi4py in a folder.  A wheel has one for each ABI, and
 * chooses when it is imported, or by MPI4PY_MPIABI. */
static bool examine_mpi4py(const char *folder, const struct abi_env *env, struct abi_found *out)
{
    const char *wanted = value(env, "MPI4PY_MPIABI");
    char pattern[PATH_MAX];
    glob_t g = { 0 };
    int n = snprintf(pattern, sizeof pattern, "%s/mpi4py/MPI.%s%s*so", folder, wanted ? wanted : "",
                     wanted ? "." : "");

    if (n >= (int)sizeof pattern)
        return false;
    if (glob(pattern, 0, NULL, &g) != 0 && wanted) {
        snprintf(pattern, sizeof pattern, "%s/mpi4py/MPI.*so", folder);
        globfree(&g);
        glob(pattern, 0, NULL, &g);
    }
    bool found = false;
    for (size_t i = 0; i < g.gl_pathc; i++) {
        struct abi_found one = { .kind = ABI_NONE };
        abi_needed(g.gl_pathv[i], value(env, "LD_LIBRARY_PATH"), &one);
        if (found || !one.n) {
            if (one.n)
                merge(out, &one);
            abi_found_fini(&one);
            continue;
        }
        one.opaque = out->opaque;
        one.program = strdup(g.gl_pathv[i]);
        abi_found_fini(out);
        *out = one;
        found = true;
    }
    globfree(&g);
    return found;
}

/* Examines mpi4py in each folder that matches a pattern. */
static bool examine_folders(const char *pattern, const struct abi_env *env, struct abi_found *out)
{
    glob_t g = { 0 };
    bool found = false;
    if (glob(pattern, 0, NULL, &g) == 0)
        for (size_t i = 0; i < g.gl_pathc && !found; i++)
            found = examine_mpi4py(g.gl_pathv[i], env, out);
    globfree(&g);
    return found;
}

/* site-packages of an installation or a virtual environment, whose interpreter is this file. */
static bool examine_prefix(const char *python, const struct abi_env *env, struct abi_found *out)
{
    static const char *const folders[] = { "lib/python3*/site-packages",
                                           "lib64/python3*/site-packages",
                                           "local/lib/python3*/dist-packages",
                                           "lib/python3*/dist-packages",
                                           "lib/python3/dist-packages" };
    char pattern[PATH_MAX];
    int dir = (int)(base_of(python) - python); /* with the slash */
    for (size_t i = 0; i < sizeof folders / sizeof folders[0] && dir; i++) {
        int n = snprintf(pattern, sizeof pattern, "%.*s../%s", dir, python, folders[i]);
        if (n < (int)sizeof pattern && examine_folders(pattern, env, out))
            return true;
    }
    return false;
}

/* The order is that of sys.path: PYTHONPATH, virtual environment, the user's folder, installation.
 */
static bool examine_python(const char *python, const struct abi_env *env, struct abi_found *out)
{
    const char *p = value(env, "PYTHONPATH"), *home = value(env, "HOME");
    char pattern[PATH_MAX], *real = realpath(python, NULL);
    bool found = false;

    for (; p && *p && !found; p += strcspn(p, ":"), p += *p == ':')
        if (snprintf(pattern, sizeof pattern, "%.*s", (int)strcspn(p, ":"), p) <
            (int)sizeof pattern)
            found = examine_mpi4py(pattern, env, out);
    found = found || examine_prefix(python, env, out);
    if (!found && home &&
        snprintf(pattern, sizeof pattern, "%s/.local/lib/python3*/site-packages", home) <
            (int)sizeof pattern)
        found = examine_folders(pattern, env, out);
    found = found || (real && examine_prefix(real, env, out));
    free(real);
    return found;
}

/* ---- R ---- */

static bool is_r(const char *path)
{
    return !strcmp(base_of(path), "R") || !strcmp(base_of(path), "Rscript");
}

/* R and Rscript end in the shell script R, which names its folder in a line. */
static char *r_home_of(const char *path)
{
    static const char key[] = "R_HOME_DIR=";
    char script[PATH_MAX], line[PATH_MAX + 16], *home = NULL;
    int dir = (int)(base_of(path) - path);
    int n = snprintf(script, sizeof script, "%.*sR", dir, path);
    FILE *f = n < (int)sizeof script ? fopen(script, "re") : NULL;
    while (f && !home && fgets(line, sizeof line, f)) {
        char *at = line + sizeof key - 1;
        if (strncmp(line, key, sizeof key - 1))
            continue;
        at += strspn(at, "\"'");
        at[strcspn(at, "\"'\n")] = '\0';
        home = *at == '/' ? strdup(at) : NULL;
    }
    if (f)
        fclose(f);
    return home;
}

/* ---- one file ---- */

/* Examines a program or the interpreter of a script.  True: it needs MPI, or cannot run. */
static bool examine_file(const char *path, const struct abi_env *env, struct abi_found *out)
{
    char interpreter[PATH_MAX];

    if (!is_r(path) && interpreter_of(path, env, interpreter)) {
        out->opaque = true;
        path = interpreter;
    }
    if (is_r(path) && !out->r_home) {
        out->opaque = true;
        out->r_home = r_home_of(path);
    }
    if (is_python(path) && examine_python(path, env, out))
        return true;
    abi_needed(path, value(env, "LD_LIBRARY_PATH"), out);
    if (!out->n && !out->trouble)
        return false;
    free(out->program);
    out->program = strdup(path);
    return true;
}

/* Examines the programs that a command line names after its first word. */
static void examine_arguments(char *const *argv, const struct abi_env *env, struct abi_found *out)
{
    char path[PATH_MAX], word[PATH_MAX];
    int seen = 0;

    for (int i = 1; argv[0] && argv[i] && seen < MOST_WORDS; i++) {
        if (abi_find(argv[i], env, path, sizeof path)) {
            out->opaque = true;
            seen++;
            if (examine_file(path, env, out))
                return;
        }
        const char *p = strchr(argv[i], ' ') ? argv[i] : NULL; /* for sh -c */
        out->opaque |= p != NULL;
        for (; p && (p = next_word(p, word)) && seen < MOST_WORDS; seen++)
            if (abi_find(word, env, path, sizeof path) && examine_file(path, env, out))
                return;
    }
}

void abi_examine(const char *path, char *const *argv, const struct abi_env *env,
                 struct abi_found *out)
{
    *out = (struct abi_found){ .kind = ABI_NONE, .program = strdup(path) };
    if (!examine_file(path, env, out) && argv)
        examine_arguments(argv, env, out);
}

void abi_found_fini(struct abi_found *f)
{
    for (int i = 0; i < f->n; i++) {
        free(f->needs[i].name);
        free(f->needs[i].by);
        free(f->needs[i].file);
    }
    free(f->needs);
    free(f->program);
    free(f->r_home);
    *f = (struct abi_found){ .kind = ABI_NONE };
}
