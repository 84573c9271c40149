/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the programs, makes the environment and the pipes of each rank, and starts it.  vfork(2) is
 * used because copying the page tables of a process with a PMIx server would take longer than the
 * rest of the start.  Therefore everything is prepared before vfork(), and the child changes only
 * its own kernel state.  Main thread only. */
#include "launcher/host/foreign.h"
#include "launcher/host/guard.h"
#include "launcher/host/loaded.h"
#include "launcher/host/meet.h"
#include "launcher/host/server.h"
#include "launcher/host/spawn.h"
#include "launcher/job.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* What the child needs, prepared before vfork(). */
struct child {
    const char *path, *wdir;
    char **argv, **envp, **sh_argv;
    int in, out, err;
    cpu_set_t *cpus;
    size_t cpus_len;
    pid_t parent;
    struct rlimit files, stack; /* limits that mpirun had at its start */
    /* Written by the child, which never returns: without volatile the compiler would remove these
     * writes as invisible to the parent. */
    const char *volatile failed; /* the step that failed */
    volatile int error;          /* errno of that step */
};

static struct rlimit files_found = { RLIM_INFINITY, RLIM_INFINITY };
static struct rlimit stack_found = { RLIM_INFINITY, RLIM_INFINITY };

/* Returns 0, or the errno because of which `path` cannot be executed; ENOEXEC: its file system
 * forbids it. */
static int check_file(const char *path)
{
    struct stat st;
    struct statvfs fs;
    if (stat(path, &st) < 0)
        return errno;
    if (S_ISDIR(st.st_mode))
        return EISDIR;
    if (access(path, X_OK) == 0)
        return 0;
    int err = errno;
    return err == EACCES && statvfs(path, &fs) == 0 && fs.f_flag & ST_NOEXEC ? ENOEXEC : err;
}

/* dir/name, where dir is relative to `wdir`. */
static char *join(const char *wdir, const char *dir, int dirlen, const char *name)
{
    char *path;
    const char *base = wdir && (dirlen == 0 || dir[0] != '/') ? wdir : "";
    int n = asprintf(&path, "%s%s%.*s%s%s", base, *base ? "/" : "", dirlen, dir, dirlen ? "/" : "",
                     name);
    return n < 0 ? NULL : path;
}

/* Searches PATH and then, as Open MPI does, the working directory.  *why is the most informative
 * errno found. */
static char *find_program(const char *name, const char *wdir, const char *search, int *why)
{
    *why = ENOENT;
    if (!strchr(name, '/')) {
        for (const char *p = search; p && *p; p += strcspn(p, ":"), p += *p == ':') {
            char *path = join(wdir, p, (int)strcspn(p, ":"), name);
            int err = path ? check_file(path) : ENOMEM;
            if (!err)
                return path;
            if (err == EACCES || err == ENOEXEC)
                *why = err;
            free(path);
        }
    }
    char *path = join(name[0] == '/' ? NULL : wdir, "", 0, name);
    int err = path ? check_file(path) : ENOMEM;
    if (!err)
        return path;
    if (err != ENOENT)
        *why = err;
    free(path);
    return NULL;
}

/* Makes `path`, which it takes over, valid from the working directory `wdir`. */
static char *seen_from(const char *wdir, char *path)
{
    char *here, *whole = NULL;
    if (!path || path[0] == '/' || !wdir)
        return path;
    here = getcwd(NULL, 0);
    if (here && asprintf(&whole, "%s/%s", here, path) < 0)
        whole = NULL;
    free(here);
    free(path);
    return whole;
}

static bool is_kept(const struct launch_envs *from, const char *var)
{
    size_t len = strcspn(var, "=");
    if (from->from != LAUNCH_ENV_LIST)
        return from->from == LAUNCH_ENV_ALL;
    for (int i = 0; i < from->keep.n; i++)
        if (strlen(from->keep.v[i]) == len && !strncmp(from->keep.v[i], var, len))
            return true;
    return false;
}

static const char *value_in(const struct launch_list *vars, const char *name)
{
    size_t len = strlen(name);
    for (int i = 0; i < vars->n; i++)
        if (!strncmp(vars->v[i], name, len) && vars->v[i][len] == '=')
            return vars->v[i] + len + 1;
    return NULL;
}

static const struct launch_envs *envs_of(const struct launch_job *job, const struct launch_app *app)
{
    return app->env_given ? &app->env : &job->opts->env;
}

/* Value of a variable in the environment of the application; NULL: not set. */
static const char *value_of(const struct launch_job *job, const struct launch_app *app,
                            const char *name)
{
    size_t len = strlen(name);
    const char *value = value_in(&app->env.set, name);
    if (!value)
        value = value_in(&job->opts->env.set, name);
    for (char **e = job->env; *e && !value; e++)
        if (!strncmp(*e, name, len) && (*e)[len] == '=' && is_kept(envs_of(job, app), *e))
            value = *e + len + 1;
    return value;
}

struct app_of_job {
    const struct launch_job *job;
    const struct launch_app *app;
};

static const char *value_for(const void *arg, const char *name)
{
    const struct app_of_job *a = arg;
    return value_of(a->job, a->app, name);
}

/* The folders in which the program is searched: those of --path, then those of PATH. */
static char *search_list(const struct launch_job *job, const struct launch_app *app)
{
    const char *path = value_of(job, app, "PATH");
    char *list;
    path = path ? path : "/usr/bin:/bin";
    int n = app->search ? asprintf(&list, "%s:%s", app->search, path) : asprintf(&list, "%s", path);
    return n < 0 ? NULL : list;
}

int launch_check_programs(struct launch_job *job)
{
    for (int i = 0; i < job->opts->napps; i++) {
        struct launch_app *app = &job->opts->apps[i];
        const char *name = app->argv.v[0];
        int why = app->wdir ? check_file(app->wdir) : EISDIR;
        if (why != EISDIR) {
            launch_say(job, "working directory '%s': %s; nothing was started", app->wdir,
                       why ? strerror(why) : "not a directory");
            return LAUNCH_EXIT_FAIL;
        }
        char *search = search_list(job, app);
        app->path = seen_from(app->wdir, find_program(name, app->wdir, search, &why));
        free(search);
        if (app->path) {
            const struct app_of_job both = { job, app };
            const struct abi_env env = { value_for, &both, app->wdir };
            int code = launch_choose_foreign(job, app, &env);
            if (code)
                return code;
            continue;
        }
        if (why == ENOENT) {
            launch_say(job, "program '%s' does not exist%s; nothing was started", name,
                       strchr(name, '/') ? "" : " in PATH or the working directory");
            return LAUNCH_EXIT_NOPROG;
        }
        launch_say(job, "program '%s' cannot be run: %s; nothing was started", name,
                   why == ENOEXEC  ? "its file system is mounted with the option noexec; copy the "
                                     "program to another one"
                   : why == EACCES ? "it is not executable (chmod +x makes it so)"
                                   : strerror(why));
        return LAUNCH_EXIT_NOEXEC;
    }
    return 0;
}

void launch_show_programs(struct launch_job *job, FILE *out)
{
    for (int i = 0; i < job->opts->napps; i++) {
        struct launch_app *app = &job->opts->apps[i];
        const struct app_of_job both = { job, app };
        const struct abi_env env = { value_for, &both, app->wdir };
        char *search = search_list(job, app);
        int why;
        app->path = seen_from(app->wdir, find_program(app->argv.v[0], app->wdir, search, &why));
        free(search);
        if (app->path)
            launch_show_foreign(job, app, &env, out);
    }
}

/* ---- environment ---- */

static int add_all(struct launch_list *env, const struct launch_list *vars)
{
    int err = 0;
    for (int i = 0; i < vars->n && !err; i++) {
        char *eq = strchr(vars->v[i], '=');
        *eq = '\0';
        err = launch_list_setenv(env, vars->v[i], eq + 1);
        *eq = '=';
    }
    return err;
}

/* Adds the variables that wrapper scripts read to choose a GPU or a file name, with the names of
 * Open MPI and MPICH; and the values of MPI_INFO_ENV before MPI_Init. */
static int add_rank_vars(const struct launch_job *job, const struct launch_rank *r,
                         struct launch_list *env)
{
    const struct {
        const char *name;
        int value;
    } vars[] = {
        { "OMPI_COMM_WORLD_RANK", r->rank },
        { "OMPI_COMM_WORLD_LOCAL_RANK", (int)(r - job->ranks) },
        { "MPI_LOCALRANKID", (int)(r - job->ranks) },
        { "OMPI_COMM_WORLD_SIZE", job->total },
        { "OMPI_COMM_WORLD_LOCAL_SIZE", job->n },
        { "MPI_LOCALNRANKS", job->n },
        { "WEFT_LAUNCH_MAXPROCS", job->opts->apps[r->app].n },
    };
    char text[16];
    int err = 0;
    for (size_t i = 0; i < sizeof vars / sizeof vars[0] && !err; i++) {
        snprintf(text, sizeof text, "%d", vars[i].value);
        err = launch_list_setenv(env, vars[i].name, text);
    }
    return err;
}

static int make_env(struct launch_job *job, const struct launch_rank *r, struct launch_list *env)
{
    const struct launch_app *app = &job->opts->apps[r->app];
    const struct launch_envs *from = envs_of(job, app);
    int err = 0;
    for (char **e = job->env; *e && !err; e++)
        if (is_kept(from, *e))
            err = launch_list_add(env, *e);
    if (!err)
        err = add_all(env, &job->opts->env.set);
    if (!err)
        err = add_all(env, &app->env.set);
    if (!err)
        err = add_rank_vars(job, r, env);
    if (!err)
        err = launch_meet_vars(job, r, env);
    if (!err)
        err = launch_foreign_vars(job, r, env);
    if (!err)
        err = launch_server_env(job, r->rank, env);
    return err;
}

/* Whether the file is a program for another kind of machine. */
static bool is_binary(const char *path)
{
    char magic[4] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, magic, sizeof magic);
    if (fd >= 0)
        close(fd);
    errno = ENOEXEC;
    return n == sizeof magic && !memcmp(magic, "\177ELF", sizeof magic);
}

/* Runs in the child of vfork(), on the parent's memory: it only makes system calls, and never
 * returns. */
static _Noreturn void run_child(struct child *c)
{
    sigset_t none;

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != c->parent) /* the parent died before the call of prctl() */
        _exit(LAUNCH_EXIT_FAIL);
    c->failed = "standard streams";
    if (dup2(c->in, 0) < 0 || dup2(c->out, 1) < 0 || dup2(c->err, 2) < 0)
        goto fail;
#ifdef SYS_close_range
    /* On older kernels, close-on-exec closes the descriptors of this process. */
    syscall(SYS_close_range, 3u, ~0u, 0u);
#endif
    setrlimit(RLIMIT_NOFILE, &c->files);
    setrlimit(RLIMIT_STACK, &c->stack);
    c->failed = "working directory";
    if (c->wdir && chdir(c->wdir) < 0)
        goto fail;
    c->failed = "binding (--bind-to none starts it unbound)";
    if (c->cpus && sched_setaffinity(0, c->cpus_len, c->cpus) < 0)
        goto fail;
    signal(SIGINT, SIG_DFL); /* agents, and background jobs of scripts, ignore it */
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    c->failed = "program";
    execve(c->path, c->argv, c->envp);
    if (errno == ENOEXEC && !is_binary(c->path)) /* a script without #! line: run by /bin/sh, as
                                                  * shells do */
        execve("/bin/sh", c->sh_argv, c->envp);
fail:
    c->error = errno;
    _exit(LAUNCH_EXIT_NOPROG);
}

static __attribute__((noinline)) pid_t start_child(struct child *c)
{
    pid_t pid = vfork();
    if (pid == 0)
        run_child(c);
    return pid;
}

/* ---- one rank ---- */

static int make_cpus(struct child *c, const struct launch_rank *r)
{
    unsigned cpu;
    if (!r->cpus)
        return 0;
    int last = hwloc_bitmap_last(r->cpus);
    c->cpus = CPU_ALLOC((size_t)last + 1);
    if (!c->cpus)
        return -RT_ENOMEM;
    c->cpus_len = CPU_ALLOC_SIZE((size_t)last + 1);
    CPU_ZERO_S(c->cpus_len, c->cpus);
    hwloc_bitmap_foreach_begin(cpu, r->cpus) CPU_SET_S(cpu, c->cpus_len, c->cpus);
    hwloc_bitmap_foreach_end();
    return 0;
}

/* Makes a pipe.  This process keeps the read end, or the write end if `write_end`, in *ours; the
 * other end is returned. */
static int make_pipe(int *ours, bool write_end)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) < 0)
        return -1;
    *ours = fds[write_end];
    fcntl(*ours, F_SETFL, O_NONBLOCK);
    return fds[!write_end];
}

/* Standard input of a rank.  It is mpirun's own standard input if no other rank reads that and it
 * is not a terminal (the rank is not in the terminal's foreground group, so reading would stop it).
 * Otherwise it is a pipe, on other hosts always; and /dev/null for ranks that get no input. */
static int open_stdin(const struct launch_job *job, struct launch_rank *r)
{
    int want = job->opts->stdin_rank;
    if (want != LAUNCH_STDIN_ALL && want != r->rank)
        return open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (want != LAUNCH_STDIN_ALL && !job->agent && !isatty(0))
        return fcntl(0, F_DUPFD_CLOEXEC, 3);
    return make_pipe(&r->in_fd, true);
}

static void close_child_ends(struct child *c)
{
    if (c->err >= 0 && c->err != c->out)
        close(c->err);
    if (c->out >= 0)
        close(c->out);
    if (c->in >= 0)
        close(c->in);
}

static const char *advice_for_start(int error)
{
    switch (error) {
    case EMFILE:
    case ENFILE:
        return "; raise the limit with ulimit -n";
    case EAGAIN:
        return "; raise the limit with ulimit -u";
    case ENOEXEC:
        return "; it was built for another kind of machine";
    case ENOENT: /* the program existed when it was looked up */
        return "; the program exists, but its interpreter does not (see its first line, or run "
               "file on it)";
    default:
        return "";
    }
}

/* Prints why a rank could not be started; returns the exit code. */
static int start_failed(const struct launch_job *job, const struct launch_rank *r, const char *step,
                        int error)
{
    const struct launch_app *app = &job->opts->apps[r->app];
    launch_say(job, "could not start rank %d (%s) on host %s: %s: %s%s", r->rank, app->path,
               job->host, step, strerror(error), advice_for_start(error));
    return error == ENOENT                       ? LAUNCH_EXIT_NOPROG
           : error == EACCES || error == ENOEXEC ? LAUNCH_EXIT_NOEXEC
                                                 : LAUNCH_EXIT_FAIL;
}

static int start_rank(struct launch_job *job, struct launch_rank *r)
{
    struct launch_app *app = &job->opts->apps[r->app];
    struct launch_list env = { 0 }, sh = { 0 };
    struct child c = { .path = app->path,
                       .wdir = app->wdir,
                       .argv = app->argv.v,
                       .in = -1,
                       .out = -1,
                       .err = -1,
                       .parent = getpid(),
                       .files = files_found,
                       .stack = stack_found };
    int code = 0;

    c.in = open_stdin(job, r);
    c.out = c.in < 0 ? -1 : make_pipe(&r->out.fd, false);
    c.err = c.out < 0 ? -1 : job->opts->output.merge_stderr ? c.out : make_pipe(&r->err.fd, false);
    if (c.err < 0) {
        code = start_failed(job, r, "pipes", errno);
        goto out;
    }
    int err = launch_list_add(&sh, "/bin/sh") || launch_list_add(&sh, app->path);
    for (int i = 1; i < app->argv.n && !err; i++)
        err = launch_list_add(&sh, app->argv.v[i]);
    if (err || make_env(job, r, &env) < 0 || make_cpus(&c, r) < 0) {
        code = start_failed(job, r, "environment", ENOMEM);
        goto out;
    }
    c.envp = env.v;
    c.sh_argv = sh.v;
    pid_t pid = start_child(&c);
    if (pid < 0) {
        code = start_failed(job, r, "vfork", errno);
    } else if (c.error) {
        waitpid(pid, NULL, 0);
        code = start_failed(job, r, c.failed, c.error);
    } else {
        r->pid = pid;
        r->running = true;
        launch_guard_add(pid);
        job->nrunning++;
    }
out:
    close_child_ends(&c);
    CPU_FREE(c.cpus);
    launch_list_fini(&env);
    launch_list_fini(&sh);
    return code;
}

static struct launch_rank *rank_of_pid(struct launch_job *job, pid_t pid)
{
    for (int i = 0; i < job->n; i++)
        if (job->ranks[i].pid == pid)
            return &job->ranks[i];
    return NULL;
}

void launch_rank_ended(struct launch_job *job, struct launch_rank *r, int status)
{
    int i = (int)(r - job->ranks);

    job->nrunning -= r->running;
    r->running = false;
    r->status = status;
    if (job->dead_end == 0 || i < job->dead_first)
        job->dead_first = i;
    if (i >= job->dead_end)
        job->dead_end = i + 1;
}

void launch_reap(struct launch_job *job, bool (*other)(void *arg, pid_t pid, int status), void *arg)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        struct launch_rank *r = other(arg, pid, status) ? NULL : rank_of_pid(job, pid);
        if (!r || !r->running)
            continue;
        launch_rank_ended(job, r, status);
        r->gone = kill(-pid, 0) < 0; /* from now on another process may get this number */
        if (r->gone)
            launch_guard_drop(pid);
    }
}

/* Order of reports.  A rank that ends because another rank has died usually ends with an error,
 * seldom with a signal or 0. */
static int order_of_death(int status)
{
    return WIFSIGNALED(status) ? 0 : WEXITSTATUS(status) == 0 ? 1 : 2;
}

void launch_report_dead(struct launch_job *job,
                        void (*tell)(struct launch_job *job, struct launch_rank *r))
{
    for (int pass = 0; pass < 3; pass++)
        for (int i = job->dead_first; i < job->dead_end; i++) {
            struct launch_rank *r = &job->ranks[i];
            if (r->pid <= 0 || r->running || r->reported || order_of_death(r->status) != pass)
                continue;
            r->reported = true;
            tell(job, r);
        }
    job->dead_first = job->dead_end = 0;
}

void launch_signal_local(const struct launch_job *job, int sig)
{
    for (int i = 0; i < job->n; i++)
        if (job->ranks[i].pid > 0 && !job->ranks[i].gone)
            kill(-job->ranks[i].pid, sig);
}

/* PMIx_server_setup_fork() has 200 KB of local variables */
#define STACK_NEED (256u << 10)
#define STACK_GOOD (1u << 20)

int launch_raise_stack(const char *program)
{
    getrlimit(RLIMIT_STACK, &stack_found);
    struct rlimit all = stack_found;
    if (all.rlim_cur >= STACK_GOOD)
        return 0;
    all.rlim_cur = all.rlim_max < STACK_GOOD ? all.rlim_max : STACK_GOOD;
    setrlimit(RLIMIT_STACK, &all);
    if (all.rlim_cur >= STACK_NEED)
        return 0;
    /* unlike this, stderr has a buffer of 8 KiB on the stack */
    dprintf(2,
            "%s: the PMIx server needs a stack of %u KiB, but the limit is %llu KiB (ulimit -s); "
            "nothing was started\n",
            program, STACK_NEED >> 10, (unsigned long long)all.rlim_max >> 10);
    return LAUNCH_EXIT_FAIL;
}

int launch_raise_limits(const struct launch_job *job)
{
    /* For each rank: its output, its connection to the PMIx server, and its input if mpirun passes
     * it on.  PMIx needs a dozen descriptors besides. */
    rlim_t each = job->opts->stdin_rank == LAUNCH_STDIN_ALL ? 4 : 3, own = 24;
    rlim_t need = own + each * (rlim_t)job->n;
    struct rlimit all;

    getrlimit(RLIMIT_NOFILE, &files_found);
    all = files_found;
    all.rlim_cur = all.rlim_max;
    setrlimit(RLIMIT_NOFILE, &all);
    if (all.rlim_max >= need)
        return 0;
    launch_say(job,
               "%d rank%s on a host need%s %llu open files, but the limit is %llu (ulimit -n); "
               "nothing was started",
               job->n, job->n == 1 ? "" : "s", job->n == 1 ? "s" : "", (unsigned long long)need,
               (unsigned long long)all.rlim_max);
    return LAUNCH_EXIT_FAIL;
}

int launch_spawn(struct launch_job *job)
{
    for (int i = 0; i < job->n; i++) {
        int code = start_rank(job, &job->ranks[i]);
        if (code)
            return code;
    }
    launch_look_begin(job);
    return 0;
}
