/* SPDX-License-Identifier: BSD-3-Clause */
/* mpirun --ping: instead of a program of the user, the job is weft_ping with one rank on each
 * host. */
#include "launcher/job.h"
#include "launcher/options/options.h"
#include "runtime/base/err.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* Path of weft_ping: in a build tree beside mpirun; installed, in libexec beside bin, also if the
 * installation has been moved. */
static int find_program(char *path, size_t len)
{
    static const char *const places[] = { "/weft_ping", "/../libexec/weft/weft_ping" };
    char dir[3000];
    ssize_t n = readlink("/proc/self/exe", dir, sizeof dir - 1);
    if (n < 0)
        return -errno;
    dir[n] = '\0';
    *strrchr(dir, '/') = '\0';
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        snprintf(path, len, "%s%s", dir, places[i]);
        if (access(path, X_OK) == 0)
            return 0;
    }
    return -ENOENT;
}

int launch_ping_app(struct launch_opts *o, struct launch_app *app)
{
    char path[4096];
    if (app->argv.n || o->napps > 1)
        return launch_usage("--ping measures with its own program; omit '%s'",
                            app->argv.n ? app->argv.v[0] : o->apps[0].argv.v[0]);
    int err = find_program(path, sizeof path);
    if (err < 0) {
        launch_usage("--ping: weft_ping is missing (%s): in a build tree it must be beside mpirun, "
                     "installed in ../libexec/weft from there; install Weft MPI again",
                     strerror(-err));
        return LAUNCH_EXIT_NOPROG;
    }
    app->n = 0;
    o->placement.map = LAUNCH_NODE;
    o->placement.ppr = 1;
    return launch_list_add(&app->argv, path) < 0 ? launch_usage("out of memory") : 0;
}

int launch_ping_check(const struct launch_opts *o)
{
    if (o->resources.nhosts > 1)
        return 0;
    return launch_usage("--ping: at least two hosts are needed; give them with --host or "
                        "--hostfile, or use it inside an allocation");
}
