/* SPDX-License-Identifier: BSD-3-Clause */
/* weft_info --abi: which MPI a program was built for, and what Weft loads in its place; without a
 * program the libraries of this installation that replace others. */
#include "launcher/abi/abi.h"
#include "launcher/info/info.h"

#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static int is_library(const struct dirent *e) { return strstr(e->d_name, ".so.") != NULL; }

static void show_installed(void)
{
    char folder[PATH_MAX];
    for (enum abi_kind k = ABI_OMPI; k <= ABI_MPICH; k++) {
        struct dirent **names = NULL;
        if (!abi_folder(k, folder, sizeof folder))
            continue;
        int n = scandir(folder, &names, is_library, alphasort);
        printf("%-9s %s:", abi_name(k), folder);
        for (int i = 0; i < n; i++) {
            printf(" %s", names[i]->d_name);
            free(names[i]);
        }
        puts(n > 0 ? "" : " not installed");
        free(names);
    }
}

static void show_needs(const struct abi_found *f)
{
    printf("examined  %s\n", f->program);
    for (int i = 0; i < f->n; i++)
        printf("needs     %s of %s, named by %s, without Weft %s%s\n", f->needs[i].name,
               abi_name(f->needs[i].kind), f->needs[i].by,
               f->needs[i].file ? f->needs[i].file : "not found",
               f->needs[i].by_rpath ? " (by DT_RPATH)" : "");
}

int info_abi(const char *program)
{
    const struct abi_env env = { .get = abi_own_env };
    char path[PATH_MAX], *argv[] = { (char *)program, NULL };
    struct abi_found f;
    struct abi_plan p;

    if (!program) {
        show_installed();
        return 0;
    }
    if (!abi_find(program, &env, path, sizeof path)) {
        printf("'%s' is not a program that can be executed\n", program);
        return 1;
    }
    abi_examine(path, argv, &env, &f);
    int err = abi_choose(&f, ABI_AUTO, &p);
    show_needs(&f);
    printf("result    %s\n", err         ? "out of memory"
                             : p.text    ? p.text
                             : p.r_home  ? "R; it finds Weft's libraries by R_LD_LIBRARY_PATH"
                             : p.folders ? "a script or wrapper; what it starts finds Weft's "
                                           "libraries by LD_LIBRARY_PATH"
                                         : "no MPI library was found; nothing is replaced");
    int code = err || p.refused || p.warning;
    abi_plan_fini(&p);
    abi_found_fini(&f);
    return code;
}
