/* SPDX-License-Identifier: BSD-3-Clause */
/* The port at which the processes of a job meet, and the variables that name it; see meet.h.  Main
 * thread only. */
#include "launcher/host/meet.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

/* Binds to a port of the kernel's choice.  Returns the port; 0: the family is not available. */
static int try_family(int family)
{
    struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_addr = in6addr_any };
    struct sockaddr_in four = { .sin_family = AF_INET };
    struct sockaddr_storage got = { 0 };
    socklen_t len = sizeof got;
    bool is6 = family == AF_INET6;
    int off = 0, s = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (s < 0)
        return 0;
    if (is6) /* one socket for both families */
        setsockopt(s, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    int err = is6 ? bind(s, (struct sockaddr *)&six, sizeof six)
                  : bind(s, (struct sockaddr *)&four, sizeof four);
    if (!err)
        err = getsockname(s, (struct sockaddr *)&got, &len);
    close(s);
    if (err)
        return 0;
    return ntohs(is6 ? ((struct sockaddr_in6 *)&got)->sin6_port
                     : ((struct sockaddr_in *)&got)->sin_port);
}

int launch_free_port(void)
{
    int port = try_family(AF_INET6);
    return port ? port : try_family(AF_INET);
}

static bool is_set(const struct launch_list *vars, const char *name)
{
    size_t len = strlen(name);
    for (int i = 0; i < vars->n; i++)
        if (!strncmp(vars->v[i], name, len) && vars->v[i][len] == '=')
            return true;
    return false;
}

int launch_meet_vars(const struct launch_job *job, const struct launch_rank *r,
                     struct launch_list *env)
{
    char rank[16], size[16], local[16], local_size[16], port[16], jax[sizeof job->meet_addr + 16];
    const struct {
        const char *name, *value;
    } vars[] = {
        { "RANK", rank },
        { "WORLD_SIZE", size },
        { "LOCAL_RANK", local },
        { "LOCAL_WORLD_SIZE", local_size },
        { "MASTER_ADDR", job->meet_addr },
        { "MASTER_PORT", port },
        { "JAX_COORDINATOR_ADDRESS", jax },
        { "OMPI_MCA_orte_hnp_uri", "0.0;tcp://" }, /* JAX asks only whether it is set */
    };
    const struct launch_app *app = &job->opts->apps[r->app];
    int err = 0;

    snprintf(rank, sizeof rank, "%d", r->rank);
    snprintf(size, sizeof size, "%d", job->total);
    snprintf(local, sizeof local, "%d", (int)(r - job->ranks));
    snprintf(local_size, sizeof local_size, "%d", job->n);
    snprintf(port, sizeof port, "%d", job->meet_port);
    snprintf(jax, sizeof jax, "%s:%d", job->meet_addr, job->meet_port);
    for (size_t i = 0; i < sizeof vars / sizeof vars[0] && !err; i++)
        if (!is_set(&app->env.set, vars[i].name) && !is_set(&job->opts->env.set, vars[i].name))
            err = launch_list_setenv(env, vars[i].name, vars[i].value);
    return err;
}
