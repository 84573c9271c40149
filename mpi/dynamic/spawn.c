/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI_Comm_spawn and MPI_Comm_spawn_multiple (MPI-5.0 sections 11.8.2 and 11.8.3).  The root opens
 * a port, asks the launcher to start the processes with the port in their environment, and the
 * processes of `comm` accept them; the new processes connect in MPI_Init.  If the new processes end
 * before they have connected, the launcher reports it and the accept ends.  Any thread, without the
 * domain's lock; waits. */
#include "mpi/api/bodies.h"
#include "mpi/base/comm.h"
#include "mpi/coll/exch.h"
#include "mpi/core/info.h"
#include "mpi/dynamic/link.h"
#include "mpi/dynamic/port.h"
#include "mpi/p2p/domain.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/boot/boot.h"
#include "runtime/mem/activity.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One command, as the root's caller gives it. */
struct command {
    const char *name;
    char *const *argv; /* NULL: none */
    int n;
    const struct wm_info *info;
};

/* What the root makes of the commands for the launcher. */
struct request {
    struct rt_boot_app *apps;
    char ***env; /* of each command, owned, with their strings */
    char **wdir; /* of each command, owned */
    char *hostfile;
    struct rt_boot_spawn what;
    char nspace[256]; /* of the new job */
    bool soft;
};

/* What the root sends to the others. */
struct verdict {
    int32_t err;  /* error class */
    int32_t n;    /* processes that were asked for */
    int32_t soft; /* fewer may have been started */
};

/* ---- info keys ---- */

static int out_of_memory(void) { return wm_err(MPI_ERR_NO_MEM, "no memory for a spawn request"); }

static int add_env(char ***env, const char *name, const char *text, size_t len)
{
    size_t n = 0;
    char *var;
    while (*env && (*env)[n])
        n++;
    char **more = realloc(*env, (n + 2) * sizeof *more);
    if (!more)
        return out_of_memory();
    *env = more;
    more[n + 1] = NULL;
    more[n] = NULL;
    if (asprintf(&var, "%s%s%.*s", name, *name ? "=" : "", (int)len, text) < 0)
        return out_of_memory();
    more[n] = var;
    return MPI_SUCCESS;
}

/* The value of the key "env": NAME=VALUE, one on each line. */
static int add_lines(char ***env, const char *lines)
{
    int err = MPI_SUCCESS;
    for (const char *p = lines; *p && !err; p += strspn(p, "\n")) {
        size_t len = strcspn(p, "\n");
        const char *eq = memchr(p, '=', len);
        if (!eq || eq == p)
            return wm_err(MPI_ERR_INFO_VALUE,
                          "info key env: '%.*s' is not NAME=VALUE; a newline separates variables",
                          (int)len, p);
        err = add_env(env, "", p, len);
        p += len;
    }
    return err;
}

static int check_errhandler(const char *name)
{
    static const char *const names[] = { "mpi_errors_are_fatal", "mpi_errors_abort",
                                         "mpi_errors_return" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!strcmp(name, names[i]))
            return MPI_SUCCESS;
    return wm_err(MPI_ERR_INFO_VALUE,
                  "info key mpi_initial_errhandler: '%s', expected mpi_errors_are_fatal, "
                  "mpi_errors_abort or mpi_errors_return",
                  name);
}

/* A path as seen from the working directory of this process. */
static char *whole_path(const char *path)
{
    char *here = path && path[0] == '/' ? NULL : getcwd(NULL, 0), *whole = NULL;
    if (!here)
        return strdup(path ? path : "/");
    if (!path)
        return here;
    if (asprintf(&whole, "%s/%s", here, path) < 0)
        whole = NULL;
    free(here);
    return whole;
}

/* The environment that info keys and the port make. */
static int make_env(char ***env, const struct wm_info *info, const char *port)
{
    const char *lines = wm_info_find(info, "env"),
               *handler = wm_info_find(info, "mpi_initial_errhandler"),
               *kinds = wm_info_find(info, "mpi_memory_alloc_kinds");
    int err = lines ? add_lines(env, lines) : MPI_SUCCESS;
    if (!err && handler)
        err = check_errhandler(handler);
    if (!err && handler)
        err = add_env(env, "WEFT_INITIAL_ERRHANDLER", handler, strlen(handler));
    if (!err && kinds)
        err = add_env(env, "WEFT_MEMORY_ALLOC_KINDS", kinds, strlen(kinds));
    return err ? err : add_env(env, RT_BOOT_PARENT_PORT, port, strlen(port));
}

static const char *either(const struct wm_info *info, const char *key, const char *other)
{
    const char *v = wm_info_find(info, key);
    return v ? v : wm_info_find(info, other);
}

static int make_app(struct request *r, int i, const struct command *c, const char *port)
{
    int err = make_env(&r->env[i], c->info, port);
    if (err)
        return err;
    const char *hostfile = wm_info_find(c->info, "hostfile"),
               *map = either(c->info, "map_by", "map-by"),
               *more = either(c->info, "add-host", "add_host");
    if (either(c->info, "add-hostfile", "add_hostfile"))
        return wm_err(MPI_ERR_SPAWN, "info key add-hostfile is not supported; add-host is");
    r->wdir[i] = whole_path(wm_info_find(c->info, "wdir"));
    if (!r->wdir[i])
        return out_of_memory();
    r->apps[i] = (struct rt_boot_app){ .command = c->name,
                                       .args = c->argv,
                                       .n = c->n,
                                       .wdir = r->wdir[i],
                                       .path = wm_info_find(c->info, "path"),
                                       .soft = wm_info_find(c->info, "soft"),
                                       .host = wm_info_find(c->info, "host"),
                                       .env = r->env[i] };
    r->soft |= r->apps[i].soft != NULL;
    if (hostfile && !r->hostfile) { /* one for the whole job */
        r->hostfile = whole_path(hostfile);
        if (!r->hostfile)
            return out_of_memory();
    }
    r->what.map_by = map ? map : r->what.map_by;
    r->what.add_host = more ? more : r->what.add_host;
    return MPI_SUCCESS;
}

static int make_request(struct request *r, int ncommands, const struct command *c, const char *port)
{
    size_t n = (size_t)ncommands;
    int err = MPI_SUCCESS;
    r->apps = calloc(n, sizeof *r->apps);
    r->env = calloc(n, sizeof *r->env);
    r->wdir = calloc(n, sizeof *r->wdir);
    if (!r->apps || !r->env || !r->wdir)
        return out_of_memory();
    for (int i = 0; i < ncommands && !err; i++)
        err = make_app(r, i, &c[i], port);
    r->what.apps = r->apps;
    r->what.napps = ncommands;
    r->what.hostfile = r->hostfile;
    return err;
}

static void free_request(struct request *r, int ncommands)
{
    for (int i = 0; i < ncommands && r->env && r->wdir; i++) {
        for (char **e = r->env[i]; e && *e; e++)
            free(*e);
        free(r->env[i]);
        free(r->wdir[i]);
    }
    free(r->apps);
    free(r->env);
    free(r->wdir);
    free(r->hostfile);
}

/* ---- the root's part ---- */

static int check_commands(int ncommands, const struct command *c, bool single)
{
    if (ncommands < 1)
        return wm_err(MPI_ERR_ARG, "argument 1 (count): %d, expected 1 or more", ncommands);
    for (int i = 0; i < ncommands; i++) {
        if (!c[i].name || !*c[i].name)
            return wm_err(MPI_ERR_ARG, "argument %s, command %d: a null pointer or an empty name",
                          single ? "1 (command)" : "2 (array_of_commands)", i);
        if (c[i].n < 1)
            return wm_err(MPI_ERR_ARG, "argument %s: %d processes of '%s', expected 1 or more",
                          single ? "3 (maxprocs)" : "4 (array_of_maxprocs)", c[i].n, c[i].name);
    }
    return MPI_SUCCESS;
}

/* Published at once: this thread blocks until the launcher answers, milliseconds at least. */
static int ask_launcher(struct request *r, int n)
{
    struct rt_wait_note *note = rt_activity_begin(rt_now_ns());
    if (note) {
        note->item = (struct rt_wait_item){ .kind = RT_WAIT_START, .world = RT_WAIT_FOREIGN };
        note->number = (uint64_t)n;
        rt_activity_publish(note);
    }
    int err = rt_boot_spawn(&r->what, r->nspace);
    rt_activity_end(note, rt_now_ns());
    return err;
}

static int launch(struct request *r, const struct command *c, int n)
{
    int err = ask_launcher(r, n);
    switch (-err) {
    case 0:
        return MPI_SUCCESS;
    case RT_ENOMEM:
        return out_of_memory();
    case RT_ENOTSUP:
        return wm_err(MPI_ERR_SPAWN,
                      "%s, and no mpirun was found beside the library or in PATH to start '%s'",
                      rt_boot.singleton ? "this process was not started by mpirun"
                                        : "the launcher of this process does not start others",
                      c->name);
    default:
        return wm_err(MPI_ERR_SPAWN, "starting '%s'%s: %s; mpirun's message says more", c->name,
                      r->what.napps > 1 ? " and the other commands" : "", rt_err_text(err));
    }
}

/* The new job has ended without having connected. */
static int has_ended(void *nspace)
{
    return rt_boot_ended(nspace) ? wm_err(MPI_ERR_SPAWN, "the new processes ended before they had "
                                                         "connected in MPI_Init; their messages "
                                                         "may say why")
                                 : MPI_SUCCESS;
}

/* Error codes, one for each requested process.  If a command has fewer processes than requested,
 * the last codes of the command are MPI_ERR_SPAWN. */
static void fill_codes(const struct request *r, int total, int *codes)
{
    char key[300], counts[4096] = "";
    const char *p = counts;
    int at = 0;

    snprintf(key, sizeof key, "%s%s", RT_BOOT_KEY_COUNTS, r->nspace);
    bool known = r->soft && rt_boot_lookup(key, counts, sizeof counts) == 0;
    for (int i = 0; i < r->what.napps && at < total; i++) {
        int n = known && *p ? (int)strtol(p, NULL, 10) : r->apps[i].n;
        p += strcspn(p, ","), p += *p == ',';
        for (int k = 0; k < r->apps[i].n && at < total; k++)
            codes[at++] = k < n ? MPI_SUCCESS : MPI_ERR_SPAWN;
    }
}

/* ---- all processes ---- */

static int bcast(struct wm_comm *comm, int root, void *buf, int64_t len)
{
    struct wm_exch x = wm_exch_all(comm);
    x.leader = root;
    rt_lock(&comm->dom->lock);
    int err = wm_exch_bcast(&x, buf, len);
    rt_unlock(&comm->dom->lock);
    return err ? wm_err_rt(err, "receiving from the root of the spawn") : MPI_SUCCESS;
}

/* Sets the error codes in all processes.  Only with the info key `soft` may fewer processes run
 * than were requested; then the root broadcasts the codes.  Otherwise all are MPI_SUCCESS. */
static int share_codes(struct wm_comm *comm, int root, const struct request *r,
                       const struct verdict *v, int errcodes[])
{
    bool ignored = errcodes == MPI_ERRCODES_IGNORE;
    int *codes = ignored ? malloc((size_t)v->n * sizeof *codes) : errcodes, err = MPI_SUCCESS;
    if (!codes)
        return out_of_memory();
    if (comm->rank == root)
        fill_codes(r, v->n, codes);
    if (v->soft)
        err = bcast(comm, root, codes, v->n * (int64_t)sizeof *codes);
    else
        memset(codes, 0, (size_t)v->n * sizeof *codes);
    if (ignored)
        free(codes);
    return err;
}

static int accept_job(struct wm_comm *comm, int root, const char *port, struct request *r,
                      const struct verdict *v, struct wm_comm **out, int errcodes[])
{
    int err = wm_dyn_accept(port, root, comm, has_ended, r->nspace, out);
    if (comm->rank == root && !err)
        rt_boot_join(r->nspace);
    return err ? err : share_codes(comm, root, r, v, errcodes);
}

static int spawn(int ncommands, const struct command *c, bool single, int root,
                 struct wm_comm *comm, struct wm_comm **out, int errcodes[])
{
    char port[MPI_MAX_PORT_NAME] = "";
    struct request r = { 0 };
    struct verdict v = { 0 };
    bool at_root = comm->rank == root;
    int err = MPI_SUCCESS;

    if (comm->inter)
        return wm_err(MPI_ERR_COMM,
                      "argument comm: an intercommunicator, expected an intracommunicator");
    if (at_root) {
        err = check_commands(ncommands, c, single);
        if (!err)
            err = wm_port_open(port);
        if (!err)
            err = make_request(&r, ncommands, c, port);
        for (int i = 0; i < ncommands; i++)
            v.n += c[i].n > 0 ? c[i].n : 0;
        if (!err)
            err = launch(&r, c, v.n);
        v.err = err;
        v.soft = r.soft;
    }
    int berr = bcast(comm, root, &v, sizeof v);
    if (!err && berr)
        err = berr;
    if (!err && v.err)
        err = wm_err(v.err, "rank %d, the root, could not spawn; its message says why", root);
    if (!err)
        err = accept_job(comm, root, port, &r, &v, out, errcodes);
    for (int i = 0; err && i < v.n && errcodes != MPI_ERRCODES_IGNORE; i++)
        errcodes[i] = MPI_ERR_SPAWN;
    if (*port)
        wm_port_close(port);
    free_request(&r, ncommands);
    return err;
}

int wm_api_comm_spawn(const char *command, char *argv[], int maxprocs, struct wm_info *info,
                      int root, struct wm_comm *comm, struct wm_comm **intercomm,
                      int array_of_errcodes[])
{
    struct command c = { command, argv == MPI_ARGV_NULL ? NULL : argv, maxprocs, info };
    return spawn(1, &c, true, root, comm, intercomm, array_of_errcodes);
}

int wm_api_comm_spawn_multiple(int count, char *array_of_commands[], char **array_of_argv[],
                               const int array_of_maxprocs[], const MPI_Info array_of_info[],
                               int root, struct wm_comm *comm, struct wm_comm **intercomm,
                               int array_of_errcodes[])
{
    int n = comm->rank == root && count > 0 ? count : 0;
    struct command *c = calloc((size_t)n + 1, sizeof *c);
    if (!c)
        return out_of_memory();
    for (int i = 0; i < n; i++)
        c[i] = (struct command){ array_of_commands ? array_of_commands[i] : NULL,
                                 array_of_argv == MPI_ARGVS_NULL ? NULL : array_of_argv[i],
                                 array_of_maxprocs ? array_of_maxprocs[i] : 0,
                                 array_of_info ? wm_info_get(array_of_info[i]) : NULL };
    int err = spawn(n, c, false, root, comm, intercomm, array_of_errcodes);
    free(c);
    return err;
}
