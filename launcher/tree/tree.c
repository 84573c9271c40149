/* SPDX-License-Identifier: BSD-3-Clause */
/* The children of one process in the tree of agents: start, greeting, routing, heartbeats, and the
 * reason if a child is lost.  See tree.h.  Main thread only. */
#include "launcher/tree/tree.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* How long a remote shell may still write after the channel has closed. */
#define LAST_WORDS_NS 1000000000
#define SECOND_NS 1000000000ull

/* ---- starting ---- */

static void fail(struct tree_child *c, const char *why)
{
    c->state = TREE_FAILING;
    c->why = why;
    c->since_ns = rt_now_ns();
}

static void note(void *arg, const void *text, size_t len)
{
    struct tree_child *c = arg;
    size_t room = sizeof c->output - c->noutput;
    if (len > room)
        len = room;
    memcpy(c->output + c->noutput, text, len);
    c->noutput += len;
}

/* The same with a number in the text. */
static __attribute__((format(printf, 2, 0))) void fail_after(struct tree_child *c, const char *fmt,
                                                             int seconds)
{
    snprintf(c->text, sizeof c->text, fmt, seconds);
    fail(c, c->text);
}

static void start_child(struct tree *t, int first, int end, int self)
{
    struct tree_child *c = &t->children[t->n++];
    int fds[3];
    char why[512];

    *c = (struct tree_child){ .state = TREE_STARTING,
                              .first = first,
                              .end = end,
                              .self = first == self,
                              .host = t->names[first - t->base],
                              .err_fd = -1,
                              .polled_in = -1,
                              .polled_err = -1,
                              .since_ns = rt_now_ns() };
    c->pid = tree_rsh(t->conf, c->host, c->self, fds, why, sizeof why);
    if (c->pid < 0) {
        c->chan = (struct frame_chan){ .in = -1, .out = -1, .eof = true, .broken = true };
        note(c, why, strlen(why));
        fail(c, NULL);
        return;
    }
    frame_open(&c->chan, fds[1], fds[0]);
    c->err_fd = fds[2];
    fcntl(c->err_fd, F_SETFL, O_NONBLOCK);
    frame_greet(&c->chan);
    frame_flush(&c->chan);
}

/* Divides first..end-1 into at most `parts` subtrees of similar size. */
static void start_range(struct tree *t, int first, int end, int parts, int self)
{
    int n = end - first;
    if (parts > n)
        parts = n;
    for (int i = 0; i < parts; i++)
        start_child(t, first + (int)((long)n * i / parts), first + (int)((long)n * (i + 1) / parts),
                    self);
}

int tree_start(struct tree *t, int first, int end, int self)
{
    int n = end - first, radix = t->conf->radix;

    t->children = calloc((size_t)(radix < n ? radix : n) + 3, sizeof *t->children);
    if (!t->children) {
        log_error(LAUNCH, "no memory for %d hosts", n);
        return -RT_ENOMEM;
    }
    t->stepped_ns = rt_now_ns();
    if (self < first || self >= end || n <= radix) {
        start_range(t, first, end, radix, self);
        return 0;
    }
    /* the agent on mpirun's own host gets no children, so that no host depends on a busy machine */
    int before = (int)((long)radix * (self - first) / n), after = radix - before;
    start_child(t, self, self + 1, self);
    start_range(t, first, self, before > 0 ? before : 1, self);
    start_range(t, self + 1, end, after > 0 ? after : 1, self);
    return 0;
}

/* ---- sending ---- */

static int send_to(struct tree_child *c, const void *frame, size_t len)
{
    if (c->state != TREE_UP)
        return -RT_EPEER;
    c->spoke_ns = rt_now_ns();
    int err = frame_send(&c->chan, frame, len);
    frame_flush(&c->chan);
    return err;
}

/* The child whose subtree contains `node`, or NULL. */
static struct tree_child *find(struct tree *t, uint32_t node)
{
    for (int i = 0; i < t->n; i++)
        if (node >= (uint32_t)t->children[i].first && node < (uint32_t)t->children[i].end)
            return &t->children[i];
    return NULL;
}

int tree_send(struct tree *t, uint32_t node, const void *frame, size_t len)
{
    if (node != FRAME_ALL) {
        struct tree_child *c = find(t, node);
        return c ? send_to(c, frame, len) : -RT_ENOENT;
    }
    for (int i = 0; i < t->n; i++)
        send_to(&t->children[i], frame, len);
    return 0;
}

/* ---- a turn of a child ---- */

static void welcome(struct tree *t, struct tree_child *c)
{
    struct frame_out o = { 0 };

    if (c->chan.protocol != FRAME_VERSION || strcmp(c->chan.version, PACKAGE_VERSION)) {
        c->noutput = 0;
        char text[256];
        int n = snprintf(
            text, sizeof text,
            "%.100s on that host is Weft %s (protocol %u), this is Weft %s (protocol %u); "
            "install the same version on all hosts",
            t->conf->agent, c->chan.version, c->chan.protocol, PACKAGE_VERSION,
            (unsigned)FRAME_VERSION);
        note(c, text, (size_t)n);
        fail(c, NULL);
        return;
    }
    c->state = TREE_UP;
    c->was_up = true;
    c->noutput = 0;
    c->heard_ns = c->spoke_ns = rt_now_ns();
    frame_begin(&o, FRAME_TREE, (uint32_t)c->first);
    tree_put(&o, t, c->first, c->end);
    if (frame_end(&o) < 0 || send_to(c, o.buf, o.len) < 0)
        fail(c, "out of memory for its part of the tree");
    frame_out_fini(&o);
}

static void take_frames(struct tree *t, struct tree_child *c)
{
    struct frame f;
    int more = 0;

    while (c->state == TREE_UP && (more = frame_next(&c->chan, &f)) > 0) {
        c->heard_ns = rt_now_ns();
        if (f.type == FRAME_PING)
            continue;
        bool direct = f.type == FRAME_FETCH || f.type == FRAME_FETCHED; /* these frames name their
                                                                         * destination */
        if (!direct && (f.node < (uint32_t)c->first || f.node >= (uint32_t)c->end))
            more = -RT_EINVAL;
        else
            t->up(t->arg, &f);
        if (more < 0 || f.in.bad)
            break;
    }
    if (c->state == TREE_UP && (more < 0 || (more > 0 && f.in.bad)))
        fail(c, "its agent sent an invalid message");
}

static void take_input(struct tree *t, struct tree_child *c)
{
    frame_fill(&c->chan);
    if (c->state == TREE_STARTING) {
        int here = frame_greeting(&c->chan, note, c);
        if (here > 0)
            welcome(t, c);
        else if (here < 0)
            fail(c, "the remote shell printed text, but no agent answered");
    }
    take_frames(t, c);
    if (c->chan.eof && (c->state == TREE_STARTING || c->state == TREE_UP))
        fail(c, NULL);
}

static void take_stderr(struct tree *t, struct tree_child *c)
{
    char text[4096];
    ssize_t n = read(c->err_fd, text, sizeof text);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        close(c->err_fd);
        c->err_fd = -1;
        return;
    }
    if (c->state == TREE_UP)
        t->output(t->arg, text, (size_t)n);
    note(c, text, (size_t)n);
}

/* The channel has closed.  The remote shell has ended, or will not end in time. */
static void bury(struct tree *t, struct tree_child *c)
{
    char why[3072];
    bool complete = c->pid < 0 || (c->exited && c->err_fd < 0);

    if (!complete && rt_now_ns() < c->since_ns + LAST_WORDS_NS)
        return;
    if (c->pid > 0 && !c->exited)
        kill(-c->pid, SIGKILL);
    c->state = TREE_GONE;
    frame_close(&c->chan);
    if (c->err_fd >= 0)
        close(c->err_fd);
    c->err_fd = -1;
    tree_explain(t->conf, c, why, sizeof why);
    if (!t->stopping)
        t->lost(t->arg, c, why);
}

static uint64_t interval_ns(const struct tree *t)
{
    return (uint64_t)t->conf->timeout_s * SECOND_NS / 4;
}

static void check_time(struct tree *t, struct tree_child *c, uint64_t now)
{
    uint64_t patience = (uint64_t)t->conf->timeout_s * SECOND_NS;
    uint8_t ping[FRAME_HEADER];

    if (c->state == TREE_STARTING && now >= c->since_ns + patience)
        fail_after(c, "no answer within %d s (setting host_timeout_s)", t->conf->timeout_s);
    if (c->state != TREE_UP)
        return;
    if (now >= c->heard_ns + patience) {
        fail_after(c,
                   "its agent was silent for %d s (setting host_timeout_s): the host is "
                   "frozen or disconnected",
                   t->conf->timeout_s);
        c->since_ns = now - LAST_WORDS_NS;
        return;
    }
    if (now >= c->spoke_ns + interval_ns(t)) {
        struct frame_out o = { .buf = ping, .cap = sizeof ping };
        frame_begin(&o, FRAME_PING, 0);
        frame_end(&o);
        send_to(c, ping, sizeof ping);
    }
}

/* The part of the time since the last step that was not spent in poll(): this process was stopped,
 * its machine was frozen, or it did other work.  During that time no other host counts as
 * silent. */
static uint64_t unheard_ns(const struct tree *t, uint64_t now)
{
    uint64_t gap = now - t->stepped_ns, wait = t->n ? interval_ns(t) / 2 : gap;
    return gap > wait ? gap - wait : 0;
}

void tree_step(struct tree *t, const struct pollfd *fds)
{
    uint64_t now = rt_now_ns(), unheard = unheard_ns(t, now);

    t->stepped_ns = now;
    for (int i = 0; i < t->n; i++) {
        struct tree_child *c = &t->children[i];
        if (c->state == TREE_GONE)
            continue;
        c->heard_ns += unheard;
        if (c->state == TREE_STARTING)
            c->since_ns += unheard;
        frame_flush(&c->chan);
        if (c->err_fd >= 0 && (!fds || c->polled_err < 0 || fds[c->polled_err].revents))
            take_stderr(t, c);
        if (c->state != TREE_FAILING && (!fds || c->polled_in < 0 || fds[c->polled_in].revents))
            take_input(t, c);
        check_time(t, c, now);
        if (c->state == TREE_FAILING)
            bury(t, c);
    }
}

/* ---- called by the loop ---- */

int tree_fds(struct tree *t, struct pollfd *fds)
{
    int n = 0;
    for (int i = 0; i < t->n; i++) {
        struct tree_child *c = &t->children[i];
        c->polled_in = c->polled_err = -1;
        if (c->state == TREE_GONE)
            continue;
        if (!c->chan.eof && c->state != TREE_FAILING) {
            fds[c->polled_in = n++] = (struct pollfd){ .fd = c->chan.in, .events = POLLIN };
            if (frame_waiting(&c->chan))
                fds[n++] = (struct pollfd){ .fd = c->chan.out, .events = POLLOUT };
        }
        if (c->err_fd >= 0)
            fds[c->polled_err = n++] = (struct pollfd){ .fd = c->err_fd, .events = POLLIN };
    }
    return n;
}

int tree_timeout_ms(const struct tree *t)
{
    int ms = -1;
    for (int i = 0; i < t->n; i++) {
        const struct tree_child *c = &t->children[i];
        int mine = c->state == TREE_FAILING ? 10
                   : c->state == TREE_GONE  ? -1
                                            : (int)(interval_ns(t) / 1000000 / 2);
        if (mine >= 0 && (ms < 0 || mine < ms))
            ms = mine;
    }
    return ms;
}

bool tree_exited(struct tree *t, pid_t pid, int status)
{
    for (int i = 0; i < t->n; i++)
        if (t->children[i].pid == pid) {
            t->children[i].exited = true;
            t->children[i].status = status;
            return true;
        }
    return false;
}

bool tree_alive(const struct tree *t)
{
    for (int i = 0; i < t->n; i++)
        if (t->children[i].state != TREE_GONE)
            return true;
    return false;
}

void tree_stop(struct tree *t)
{
    t->stopping = true;
    for (int i = 0; i < t->n; i++)
        if (t->children[i].state == TREE_STARTING) {
            fail(&t->children[i], NULL);
            t->children[i].since_ns -= LAST_WORDS_NS;
        }
}

void tree_fini(struct tree *t)
{
    for (int i = 0; i < t->n; i++) {
        struct tree_child *c = &t->children[i];
        frame_close(&c->chan);
        if (c->err_fd >= 0)
            close(c->err_fd);
        if (c->pid > 0 && !c->exited) {
            kill(-c->pid, SIGKILL);
            while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR) {
            }
        }
    }
    free(t->children);
    t->children = NULL;
    t->n = 0;
}

/* ---- the configuration in frames ---- */

void tree_put(struct frame_out *o, const struct tree *t, int first, int end)
{
    const struct tree_conf *conf = t->conf;
    frame_put_u8(o, conf->via);
    frame_put_int(o, conf->radix);
    frame_put_int(o, conf->timeout_s);
    frame_put_str(o, conf->command);
    frame_put_str(o, conf->agent);
    frame_put_str(o, conf->libpath);
    frame_put_int(o, first);
    frame_put_u32(o, (uint32_t)(end - first));
    for (int i = first; i < end; i++)
        frame_put_str(o, t->names[i - t->base]);
}

static char *copy(struct frame_in *i, const char *text)
{
    char *s = text ? strdup(text) : NULL;
    if (text && !s)
        i->bad = true;
    return s;
}

int tree_get(struct frame_in *i, struct tree_conf *conf, int *first, int *end, char ***names)
{
    memset(conf, 0, sizeof *conf);
    unsigned via = frame_get_u8(i);
    conf->via = (enum tree_via)via;
    conf->radix = frame_get_int(i);
    conf->timeout_s = frame_get_int(i);
    conf->command = copy(i, frame_get_str(i));
    conf->agent = copy(i, frame_get_text(i));
    conf->libpath = copy(i, frame_get_str(i));
    *first = frame_get_int(i);
    size_t n = frame_get_count(i, 5);
    *names = calloc(n + 1, sizeof **names);
    for (size_t k = 0; k < n && *names; k++)
        (*names)[k] = copy(i, frame_get_text(i));
    *end = *first + (int)n;
    bool good = frame_in_ok(i) && *names && n > 0 && n < INT32_MAX / 2 && *first >= 0 &&
                *first < INT32_MAX / 2 && via <= TREE_COMMAND && conf->radix > 0 &&
                conf->radix <= 65536 && conf->timeout_s > 0 && conf->timeout_s <= 1000000 &&
                (conf->via == TREE_COMMAND) == (conf->command != NULL);
    if (good)
        return 0;
    for (size_t k = 0; k < n && *names; k++)
        free((*names)[k]);
    free(*names);
    *names = NULL;
    tree_conf_fini(conf);
    return -RT_EINVAL;
}

void tree_conf_fini(struct tree_conf *conf)
{
    free(conf->command);
    free(conf->agent);
    free(conf->libpath);
    memset(conf, 0, sizeof *conf);
}
