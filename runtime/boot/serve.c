/* SPDX-License-Identifier: BSD-3-Clause */
/* The mpirun that this process has started: see serve.h. */
#include "runtime/boot/serve.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/boot/boot.h"
#include "runtime/boot/frame.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static struct {
    pthread_mutex_t lock;
    struct frame_chan chan;
    bool running;
    uint32_t nasked;
} serve = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- words ---- */

void rt_words_add(struct rt_words *w, const char *key, const char *text)
{
    char *word = NULL, **v = w->failed ? NULL : realloc(w->v, (size_t)(w->n + 1) * sizeof *v);
    w->v = v ? v : w->v;
    if (!v || asprintf(&word, "%s%s", key, text) < 0)
        w->failed = true;
    else
        v[w->n++] = word;
}

void rt_words_fini(struct rt_words *w)
{
    for (int i = 0; i < w->n; i++)
        free(w->v[i]);
    free(w->v);
    *w = (struct rt_words){ 0 };
}

/* ---- starting ---- */

/* The mpirun of this library's installation or build tree; otherwise the first one in PATH. */
static const char *find_mpirun(char *path, size_t len)
{
    static const char *const places[] = { "../bin/mpirun", "../../bin/mpirun", "../mpirun" };
    Dl_info me;
    const char *end = dladdr(&serve, &me) && me.dli_fname ? strrchr(me.dli_fname, '/') : NULL;
    for (size_t i = 0; end && i < sizeof places / sizeof places[0]; i++) {
        snprintf(path, len, "%.*s/%s", (int)(end - me.dli_fname), me.dli_fname, places[i]);
        if (access(path, X_OK) == 0)
            return path;
    }
    return "mpirun";
}

static int spawn(const char *path, char *const *argv, char *const *env, bool group, int fd,
                 pid_t *pid)
{
    static const int reset[] = { SIGPIPE, SIGXFSZ, SIGCHLD };
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none, defaults;

    sigemptyset(&none);
    sigemptyset(&defaults);
    for (size_t i = 0; i < sizeof reset / sizeof reset[0]; i++)
        sigaddset(&defaults, reset[i]);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, fd, RT_SERVE_FD);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, (short)(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                            (group ? POSIX_SPAWN_SETPGROUP : 0)));
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &defaults);
    int error = posix_spawnp(pid, path, &files, &attr, argv, env);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&files);
    return error;
}

int rt_serve_launch(const char *path, char *const *argv, char *const *env, bool group, pid_t *pid,
                    struct frame_chan *chan)
{
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
        return errno;
    if (fds[1] == RT_SERVE_FD) { /* would be closed by exec */
        int other = fcntl(fds[1], F_DUPFD_CLOEXEC, RT_SERVE_FD + 1);
        close(fds[1]);
        fds[1] = other;
    }
    int error = spawn(path, argv, env, group, fds[1], pid);
    close(fds[1]);
    if (error)
        close(fds[0]);
    else
        frame_open(chan, fds[0], fds[0]);
    return error;
}

static void wait_for_input(void)
{
    short events = (short)(POLLIN | (frame_waiting(&serve.chan) ? POLLOUT : 0));
    struct pollfd p = { .fd = serve.chan.in, .events = events };
    frame_flush(&serve.chan);
    poll(&p, 1, -1);
    frame_fill(&serve.chan);
}

static void put_list(struct frame_out *o, char *const *v, int n)
{
    frame_put_u32(o, (uint32_t)n);
    for (int i = 0; i < n; i++)
        frame_put_str(o, v[i]);
}

static int send_frame(struct frame_out *o)
{
    int err = frame_end(o);
    if (!err)
        err = frame_send(&serve.chan, o->buf, o->len);
    frame_flush(&serve.chan);
    frame_out_fini(o);
    return err;
}

/* Presents this process as a job that runs already, and waits for mpirun's greeting. */
static int introduce(const char *path)
{
    struct frame_out o = { 0 };
    struct rt_words uses = { 0 };
    char ranks[32];

    snprintf(ranks, sizeof ranks, "=%d", rt_boot.local_size);
    rt_words_add(&uses, rt_boot.host, ranks);
    int err = uses.failed ? -RT_ENOMEM : frame_greet(&serve.chan);
    frame_begin(&o, FRAME_UP, 0);
    frame_put_str(&o, rt_boot.nspace);
    frame_put_str(&o, "");   /* its numbers of ranks are not asked for */
    frame_put_str(&o, NULL); /* nor the cores to which these are bound */
    put_list(&o, uses.v, uses.n);
    rt_words_fini(&uses);
    if (!err)
        err = send_frame(&o);
    while (!err) {
        int known = frame_greeting(&serve.chan, NULL, NULL);
        if (known > 0)
            break;
        if (known < 0 || serve.chan.eof)
            err = -RT_ESPAWN;
        else
            wait_for_input();
    }
    if (!err && serve.chan.protocol != FRAME_VERSION)
        err = -RT_ESPAWN;
    if (err)
        log_error(BOOT,
                  "%s, started to spawn processes, is not the mpirun of this version of Weft, or "
                  "has failed; its own message may say why",
                  path);
    return err;
}

static int start(void)
{
    char room[4096];
    const char *path = find_mpirun(room, sizeof room);
    char *argv[] = { "mpirun", "--weft-serve", "3", NULL };
    int status;
    pid_t pid;

    int error = rt_serve_launch(path, argv, environ, false, &pid, &serve.chan);
    if (error) {
        log_error(BOOT, "could not start %s, which would spawn processes: %s", path,
                  strerror(error));
        return error == ENOENT ? -RT_ENOTSUP : -RT_ESPAWN;
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) /* mpirun forks and exits at once */
        ;
    int err = introduce(path);
    serve.running = !err;
    if (err)
        frame_close(&serve.chan);
    return err;
}

bool rt_serve_running(void)
{
    pthread_mutex_lock(&serve.lock);
    bool running = serve.running;
    pthread_mutex_unlock(&serve.lock);
    return running;
}

int rt_serve_start(void)
{
    pthread_mutex_lock(&serve.lock);
    int err = serve.running ? 0 : start();
    pthread_mutex_unlock(&serve.lock);
    return err;
}

/* ---- requests and answers ---- */

static void take_notice(struct frame *f)
{
    frame_get_int(&f->in); /* rank */
    const char *nspace = frame_get_text(&f->in);
    if (nspace)
        rt_boot_note_end(nspace);
}

/* True: this is the answer; then *err is its code. */
static bool take_answer(struct frame *f, int *err, int which, char *result, size_t len)
{
    if (frame_get_u32(&f->in) != serve.nasked)
        return false;
    *err = frame_get_int(&f->in);
    int n = (int)frame_get_count(&f->in, 5);
    for (int i = 0; i < n && !*err; i++) {
        const char *word = frame_get_text(&f->in);
        if (i == which && word && strlen(word) >= len)
            *err = -RT_ETRUNC;
        else if (i == which && word)
            strcpy(result, word);
    }
    if (f->in.bad || (!*err && result && n <= which))
        *err = -RT_ESPAWN;
    return true;
}

static int await(int which, char *result, size_t len)
{
    struct frame f;
    int err = 0, got;

    for (;; wait_for_input()) {
        while ((got = frame_next(&serve.chan, &f)) > 0)
            if (f.type == FRAME_NOTICE)
                take_notice(&f);
            else if (f.type == FRAME_ANSWER && take_answer(&f, &err, which, result, len))
                return err;
        if (got < 0 || serve.chan.eof) {
            log_error(BOOT, "the mpirun that this process has started has ended");
            return -RT_ESPAWN;
        }
    }
}

int rt_serve_ask(const struct rt_words *w, int which, char *result, size_t len)
{
    struct frame_out o = { 0 };

    if (w->failed)
        return -RT_ENOMEM;
    pthread_mutex_lock(&serve.lock);
    frame_begin(&o, FRAME_ASK, 0);
    frame_put_u32(&o, ++serve.nasked);
    frame_put_int(&o, rt_boot.rank);
    put_list(&o, w->v, w->n);
    int err = send_frame(&o);
    if (!err)
        err = await(which, result, len);
    pthread_mutex_unlock(&serve.lock);
    return err;
}

void rt_serve_poll(void)
{
    struct frame f;
    pthread_mutex_lock(&serve.lock);
    if (serve.running)
        frame_fill(&serve.chan);
    while (serve.running && frame_next(&serve.chan, &f) > 0)
        if (f.type == FRAME_NOTICE)
            take_notice(&f);
    pthread_mutex_unlock(&serve.lock);
}

void rt_serve_stop(void)
{
    struct frame_out o = { 0 };
    pthread_mutex_lock(&serve.lock);
    if (serve.running) {
        frame_begin(&o, FRAME_DONE, 0);
        send_frame(&o);
        frame_close(&serve.chan);
    }
    serve.running = false;
    pthread_mutex_unlock(&serve.lock);
}
