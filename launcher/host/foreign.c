/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs that were built for another MPI: which libraries they get (launcher/abi), and the
 * variables that they read.  Main thread only. */
#include "launcher/host/foreign.h"

int launch_choose_foreign(const struct launch_job *job, struct launch_app *app,
                          const struct abi_env *env)
{
    struct abi_found f;
    struct abi_plan p;
    int code = 0;

    if (job->opts->abi == ABI_NONE)
        return 0;
    abi_examine(app->path, app->argv.v, env, &f);
    if (abi_choose(&f, (enum abi_kind)job->opts->abi, &p) < 0 ||
        abi_apply(&p, env, &app->foreign_env) < 0)
        code = LAUNCH_EXIT_FAIL;
    app->foreign = p.kind;
    if (p.refused) {
        launch_say(job, "%s; nothing was started", p.text);
        code = LAUNCH_EXIT_NOEXEC;
    } else if (p.warning && !job->opts->display.quiet) {
        launch_say(job, "warning: %s", p.text);
        app->warned = true;
    } else if (p.text && job->opts->display.verbose) {
        launch_say(job, "%s", p.text);
    }
    abi_plan_fini(&p);
    abi_found_fini(&f);
    return code;
}

void launch_show_foreign(const struct launch_job *job, const struct launch_app *app,
                         const struct abi_env *env, FILE *out)
{
    struct abi_found f;
    struct abi_plan p;

    if (job->opts->abi == ABI_NONE)
        return;
    abi_examine(app->path, app->argv.v, env, &f);
    if (abi_choose(&f, (enum abi_kind)job->opts->abi, &p) == 0 && p.text)
        fprintf(out, "%s%s\n", p.refused ? "refused: " : p.warning ? "warning: " : "", p.text);
    abi_plan_fini(&p);
    abi_found_fini(&f);
}

int launch_foreign_vars(const struct launch_job *job, const struct launch_rank *r,
                        struct launch_list *env)
{
    const struct {
        int kind;
        const char *name;
        int value;
    } vars[] = {
        { ABI_OMPI, "OMPI_COMM_WORLD_NODE_RANK", (int)(r - job->ranks) },
        { ABI_MPICH, "PMI_RANK", r->rank },
        { ABI_MPICH, "PMI_SIZE", job->total },
    };
    const struct launch_app *app = &job->opts->apps[r->app];
    char text[16];
    int err = 0;

    for (int i = 0; i < app->foreign_env.n && !err; i++) {
        char *eq = strchr(app->foreign_env.v[i], '=');
        *eq = '\0';
        err = launch_list_setenv(env, app->foreign_env.v[i], eq + 1);
        *eq = '=';
    }
    for (size_t i = 0; i < sizeof vars / sizeof vars[0] && !err; i++) {
        if (vars[i].kind != app->foreign)
            continue;
        snprintf(text, sizeof text, "%d", vars[i].value);
        err = launch_list_setenv(env, vars[i].name, text);
    }
    return err;
}
