/* SPDX-License-Identifier: BSD-3-Clause */
/* weft_info --job: what the ranks of running jobs on this host wait for. */
#include "launcher/explain/collect.h"
#include "launcher/info/info.h"
#include "runtime/base/err.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *host_name(void)
{
    static char name[HOST_NAME_MAX + 1];
    if (gethostname(name, sizeof name - 1) < 0)
        snprintf(name, sizeof name, "localhost");
    return name;
}

/* Prints the picture of the ranks at and below a process; returns their number or -RT_E... */
static int show(pid_t pid, FILE *json)
{
    struct explain_known *known;
    struct explain_verdict v;
    int n = explain_find(pid, &known);
    struct explain_pages *pages = n > 0 ? explain_pages_new(n) : NULL;
    struct explain_picture *p = NULL;
    if (pages) {
        explain_pages_read(pages, known);
        p = explain_picture_take(pages, known, host_name(), known[n - 1].rank + 1);
    }
    if (p) {
        struct explain_job *job = explain_picture_job(p);
        while (explain_picture_look_up(p))
            ;
        job->seconds = -1;
        if (explain_judge(job, &v) == 0) {
            explain_print(job, &v, stdout);
            if (json)
                explain_json(job, &v, json);
            explain_verdict_fini(&v);
        }
        if (*explain_picture_lacks(p))
            printf("  (%s)\n", explain_picture_lacks(p));
    } else if (n > 0) {
        n = -RT_ENOMEM;
    }
    explain_picture_free(p);
    explain_pages_free(pages);
    free(known);
    return n;
}

/* The program of a process of this user: "mpirun"; "": unknown. */
static const char *program_of(const char *pid, char to[PATH_MAX])
{
    char path[NAME_MAX + 16];
    struct stat st;
    snprintf(path, sizeof path, "/proc/%s", pid);
    if (stat(path, &st) < 0 || st.st_uid != geteuid())
        return "";
    snprintf(path, sizeof path, "/proc/%s/exe", pid);
    ssize_t n = readlink(path, to, PATH_MAX - 1);
    to[n > 0 ? n : 0] = '\0';
    const char *slash = strrchr(to, '/');
    return slash ? slash + 1 : to;
}

/* Every job that an mpirun or an agent of this user has started here. */
static int show_all(FILE *json)
{
    DIR *dir = opendir("/proc");
    struct dirent *e;
    char to[PATH_MAX];
    int njobs = 0;
    while (dir && (e = readdir(dir))) {
        const char *program = e->d_name[0] >= '1' && e->d_name[0] <= '9' ? program_of(e->d_name, to)
                                                                         : "";
        struct explain_known *known;
        if (strcmp(program, "mpirun") && strcmp(program, "weftd"))
            continue;
        bool in_mpi = explain_find((pid_t)atol(e->d_name), &known) > 0;
        free(known);
        if (!in_mpi) /* its guard, or nothing that this program could show */
            continue;
        printf("%s== %s, process %s\n", njobs++ ? "\n" : "", program, e->d_name);
        fflush(stdout);
        show((pid_t)atol(e->d_name), json);
    }
    if (dir)
        closedir(dir);
    if (!njobs)
        printf("no job that an mpirun of this user has started here is in MPI; under other "
               "launchers: weft_info --job PID, with the PID of a rank\n");
    return njobs ? 0 : 1;
}

int info_job(long pid, const char *path)
{
    FILE *json = path ? fopen(path, "we") : NULL;
    int code = 1;
    if (path && !json) {
        printf("could not write %s: %s\n", path, strerror(errno));
        return 1;
    }
    if (!pid) {
        code = show_all(json);
    } else {
        int n = show((pid_t)pid, json);
        code = n > 0 ? 0 : 1;
        if (n == 0 && kill((pid_t)pid, 0) < 0 && errno == ESRCH)
            printf("there is no process %ld\n", pid);
        else if (n == 0)
            printf(
                "neither process %ld nor one below it is in MPI on this host: expected the PID of "
                "mpirun or of a rank; SIGQUIT to mpirun shows the ranks of all hosts\n",
                pid);
        else if (n == -RT_EPERM)
            printf("process %ld may not be looked at: it belongs to another user\n", pid);
        else if (n < 0)
            printf("out of memory\n");
    }
    if (json && fclose(json) != 0) {
        printf("could not write %s: %s\n", path, strerror(errno));
        code = 1;
    }
    return code;
}
