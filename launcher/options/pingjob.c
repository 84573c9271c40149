/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs of Weft in the place of the user's: for --ping the job is weft_ping with one rank on
 * each host; for --self-test a script starts jobs. */
#include "launcher/job.h"
#include "launcher/options/options.h"
#include "runtime/base/err.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* In a build tree beside mpirun; installed, in libexec beside bin, also if the installation has
 * been moved.  `dir` becomes the folder of mpirun. */
static int find_program(const char *name, char dir[3000], char *path, size_t len)
{
    static const char *const places[] = { "", "/../libexec/weft" };
    ssize_t n = readlink("/proc/self/exe", dir, 2999);
    if (n < 0)
        return -errno;
    dir[n] = '\0';
    *strrchr(dir, '/') = '\0';
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        snprintf(path, len, "%s%s/%s", dir, places[i], name);
        if (access(path, X_OK) == 0)
            return 0;
    }
    return -ENOENT;
}

int launch_ping_app(struct launch_opts *o, struct launch_app *app)
{
    char dir[3000], path[4096];
    if (app->argv.n || o->napps > 1)
        return launch_usage("--ping measures with its own program; omit '%s'",
                            app->argv.n ? app->argv.v[0] : o->apps[0].argv.v[0]);
    int err = find_program("weft_ping", dir, path, sizeof path);
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

int launch_self_test(int argc, char **argv)
{
    char dir[3000], path[4096], self[4096];
    struct launch_list l = { 0 };
    int err = find_program("weft_selftest", dir, path, sizeof path);

    snprintf(self, sizeof self, "%s/mpirun", dir);
    if (!err && (launch_list_add(&l, path) < 0 || launch_list_add(&l, self) < 0))
        err = -ENOMEM;
    for (int i = 1; i < argc && !err; i++)
        if (strcmp(argv[i] + strspn(argv[i], "-"), "self-test"))
            err = launch_list_add(&l, argv[i]) < 0 ? -ENOMEM : 0;
    if (!err) {
        execv(path, l.v);
        err = -errno;
    }
    launch_list_fini(&l);
    launch_usage("--self-test: could not start weft_selftest: %s; install Weft MPI again",
                 strerror(-err));
    return LAUNCH_EXIT_NOPROG;
}
