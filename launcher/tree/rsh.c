/* SPDX-License-Identifier: BSD-3-Clause */
/* Starts an agent on another host: by ssh, by srun inside a Slurm allocation, or by a command of
 * the user that takes the arguments of ssh.  The agent is the weftd in the folder of this program,
 * at the same path on every host.  The command line contains no secret: the remote shell decides
 * who can communicate with the agent.  Main thread only. */
#include "launcher/strings.h"
#include "launcher/tree/tree.h"
#include "runtime/base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Quotes a word with single quotes, for any shell on the remote host. */
static int add_quoted(struct launch_list *l, const char *before, const char *text)
{
    size_t n = strlen(text), at = 0;
    char *quoted = malloc(4 * n + 3);
    if (!quoted)
        return -RT_ENOMEM;
    quoted[at++] = '\'';
    for (const char *p = text; *p; p++) {
        if (*p == '\'') {
            memcpy(quoted + at, "'\\''", 4);
            at += 4;
        } else {
            quoted[at++] = *p;
        }
    }
    quoted[at++] = '\'';
    quoted[at] = '\0';
    int err = launch_list_addf(l, "%s%s", before, quoted);
    free(quoted);
    return err;
}

/* Adds one word: "exec env LD_LIBRARY_PATH='...' '/path/weftd'". */
static int add_remote(struct launch_list *argv, const struct tree_conf *conf)
{
    struct launch_list part = { 0 };
    int err = 0;
    if (conf->libpath)
        err = add_quoted(&part, "env LD_LIBRARY_PATH=", conf->libpath);
    if (!err)
        err = add_quoted(&part, "", conf->agent);
    if (!err)
        err = launch_list_addf(argv, "exec %s%s%s", part.v[0], part.n > 1 ? " " : "",
                               part.n > 1 ? part.v[1] : "");
    launch_list_fini(&part);
    return err;
}

static int add_words(struct launch_list *argv, const char *words)
{
    int err = 0;
    for (const char *p = words + strspn(words, " \t"); *p && !err; p += strspn(p, " \t")) {
        err = launch_list_addf(argv, "%.*s", (int)strcspn(p, " \t"), p);
        p += strcspn(p, " \t");
    }
    return err;
}

static int make_ssh(struct launch_list *argv, const struct tree_conf *conf, const char *host)
{
    static const char *const fixed[] = { "ssh", "-x", "-T", "-o", "BatchMode=yes", "-o" };
    int err = 0;
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0] && !err; i++)
        err = launch_list_add(argv, fixed[i]);
    /* ssh's limit is shorter than that of this process, so that ssh can print the reason */
    if (!err)
        err = launch_list_addf(argv, "ConnectTimeout=%d",
                               conf->timeout_s > 3 ? conf->timeout_s * 3 / 4 : 1);
    if (!err)
        err = launch_list_add(argv, "--");
    if (!err)
        err = launch_list_add(argv, host);
    return err ? err : add_remote(argv, conf);
}

/* The step shares the allocation with steps of other agents (--overlap), and is no MPI job for
 * Slurm. */
static int make_srun(struct launch_list *argv, const struct tree_conf *conf, const char *host)
{
    static const char *const fixed[] = {
        "srun",         "--quiet",   "--nodes=1",  "--ntasks=1",      "--ntasks-per-node=1",
        "--mem=0",      "--overlap", "--mpi=none", "--cpu-bind=none", "--kill-on-bad-exit=0",
        "--unbuffered", "-w"
    };
    int err = 0;
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0] && !err; i++)
        err = launch_list_add(argv, fixed[i]);
    if (!err)
        err = launch_list_add(argv, launch_bare_name(host));
    if (!err && conf->libpath)
        err = launch_list_add(argv, "env") ||
              launch_list_addf(argv, "LD_LIBRARY_PATH=%s", conf->libpath);
    return err ? err : launch_list_add(argv, conf->agent);
}

static int make_argv(struct launch_list *argv, const struct tree_conf *conf, const char *host,
                     bool self)
{
    if (self)
        return launch_list_add(argv, conf->agent);
    if (conf->via == TREE_SRUN)
        return make_srun(argv, conf, host);
    if (conf->via == TREE_SSH)
        return make_ssh(argv, conf, host);
    int err = add_words(argv, conf->command ? conf->command : "");
    if (!err)
        err = launch_list_add(argv, host);
    return err ? err : add_remote(argv, conf);
}

/* The process gets its own session: signals of the terminal reach only mpirun, which decides how
 * the job ends, and no password is requested. */
static int spawn(pid_t *pid, char **argv, const int theirs[3])
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none, all;

    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attr);
    for (int i = 0; i < 3; i++)
        posix_spawn_file_actions_adddup2(&files, theirs[i], i);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &all);
    posix_spawnattr_setflags(&attr,
                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
    int error = posix_spawnp(pid, argv[0], &files, &attr, argv, environ);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attr);
    return error;
}

pid_t tree_rsh(const struct tree_conf *conf, const char *host, bool self, int fds[3], char *why,
               size_t len)
{
    struct launch_list argv = { 0 };
    int pipes[3][2] = { { -1, -1 }, { -1, -1 }, { -1, -1 } };
    int error = 0;
    pid_t pid = -1;

    for (int i = 0; i < 3 && !error; i++)
        error = pipe2(pipes[i], O_CLOEXEC) < 0 ? errno : 0;
    if (!error && make_argv(&argv, conf, host, self) < 0)
        error = ENOMEM;
    if (!error) {
        int theirs[3] = { pipes[0][0], pipes[1][1], pipes[2][1] };
        error = spawn(&pid, argv.v, theirs);
    }
    for (int i = 0; i < 3; i++) {
        fds[i] = pipes[i][i == 0];
        if (pipes[i][i != 0] >= 0)
            close(pipes[i][i != 0]);
        if (error && fds[i] >= 0)
            close(fds[i]);
    }
    if (error)
        snprintf(why, len, "could not run '%s': %s%s", argv.n ? argv.v[0] : "", strerror(error),
                 error == ENOENT && !self
                     ? "; install it, or use another remote shell with --rsh COMMAND"
                     : "");
    launch_list_fini(&argv);
    return error ? -RT_ESYS : pid;
}

/* ---- reasons of a failure ---- */

static const char *advice_for(const struct tree_child *c, int code)
{
    static const char *const rows[][2] = {
        { "Host key verification failed",
          "connect to it once (ssh HOST) and compare the key, or put the key into "
          "known_hosts" },
        { "REMOTE HOST IDENTIFICATION HAS CHANGED",
          "the connection may be intercepted; if the host was reinstalled, remove its old key "
          "with ssh-keygen -R HOST" },
        { "Permission denied",
          "ssh must work without a password: ssh-copy-id HOST, or load the key into ssh-agent" },
        { "Could not resolve", "check the name of the host" },
        { "Name or service not known", "check the name of the host" },
        { "Connection refused", "no ssh server listens on that host" },
        { "No route to host",
          "the host is down, or the network or a firewall blocks the connection" },
        { "unreachable", "the host is down, or the network or a firewall blocks the connection" },
        { "timed out", "the host is down, or a firewall blocks the connection" },
        { "loading shared libraries",
          "install the library on that host, or set LD_LIBRARY_PATH for mpirun, which passes it "
          "on" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strstr(c->output, rows[i][0]))
            return rows[i][1];
    return code == 127   ? "Weft must be installed on every host at the same path"
           : code == 126 ? "the agent exists but cannot be executed"
                         : NULL;
}

/* The messages of the shell with lines joined by " / ", without control characters. */
static void flatten(const struct tree_child *c, char *text, size_t len)
{
    size_t n = 0;
    for (size_t i = 0; i < c->noutput && n + 4 < len; i++) {
        unsigned char ch = (unsigned char)c->output[i];
        if (ch == '\n' && n && i + 1 < c->noutput)
            n += (size_t)snprintf(text + n, len - n, " / ");
        else if (ch >= ' ' && ch != 127)
            text[n++] = (char)ch;
    }
    text[n] = '\0';
}

void tree_explain(const struct tree_conf *conf, const struct tree_child *c, char *text, size_t len)
{
    static const char *const shells[] = { "ssh", "srun", NULL };
    char output[sizeof c->output + 64], ended[96] = "";
    const char *shell = conf->via == TREE_COMMAND ? conf->command : shells[conf->via];
    int code = c->exited && WIFEXITED(c->status) ? WEXITSTATUS(c->status) : -1;
    const char *advice = advice_for(c, code);

    flatten(c, output, sizeof output);
    if (c->self)
        shell = "the agent";
    if (c->exited && WIFSIGNALED(c->status))
        snprintf(ended, sizeof ended, "%s was killed by signal %d", shell, WTERMSIG(c->status));
    else if (code >= 0)
        snprintf(ended, sizeof ended, "%.60s ended with code %d", shell, code);
    snprintf(text, len, "%s%s%s%s%s%s%s%s%s%s%s", c->why ? c->why : "",
             c->why && *output ? ": " : "", output, (c->why || *output) && *ended ? " (" : "",
             ended, (c->why || *output) && *ended ? ")" : "",
             code == 126 || code == 127 ? "; agent " : "",
             code == 126 || code == 127 ? conf->agent : "", advice ? "; " : "",
             advice ? advice : "", "");
}
