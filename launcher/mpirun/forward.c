/* SPDX-License-Identifier: BSD-3-Clause */
/* Output of the ranks to mpirun's output, and mpirun's standard input to the ranks.  A rank's
 * output is passed on in whole lines, so that lines of several ranks do not mix.  The exceptions
 * are lines longer than LINE_MAX_BYTES and incomplete lines: of a rank that reads standard input
 * after PROMPT_NS, because they may be prompts, and of all ranks after OPEN_LOOKS, because they may
 * be the last words of a rank that hangs.  Nothing blocks: if the reader of mpirun's output is
 * slow, at most QUEUE_MAX_BYTES wait in memory, and the pipes of the ranks fill up.  In a job over
 * several hosts the output comes from the agents, and standard input is sent to them.  Main thread
 * only. */
#include "launcher/mpirun/head.h"
#include "launcher/mpirun/forward.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define READ_BYTES 65536 /* capacity of a pipe */
#define LINE_MAX_BYTES (1 << 20)
#define QUEUE_MAX_BYTES (4 << 20) /* of a slow reader; then the pipes of the ranks fill */
/* An incomplete line that has waited this long may be a prompt. */
#define PROMPT_NS 100000000
/* An incomplete line of any rank is passed on after this number of looks, LOOK_NS apart.  They are
 * counted, because time passes also while this process, or the machine, does not run. */
#define OPEN_LOOKS 10
#define LOOK_NS 100000000u

/* mpirun's stdout or stderr. */
struct sink {
    int fd;
    char *buf;
    size_t off, len, cap;       /* bytes off..len wait to be written */
    bool regular;               /* a regular file: writing never blocks */
    bool mid_line;              /* the last byte written was not a newline */
    struct launch_stream *open; /* the incomplete last line is this stream's; NULL: none is */
    int broken;                 /* errno of a failed write; further output is discarded */
};

enum polled_kind { SINK, STREAM, INPUT, SOURCE };
struct polled {
    enum polled_kind kind;
    void *what;
};

static struct {
    struct sink sink[2];   /* stdout, stderr */
    bool same;             /* both are the same terminal, pipe or file */
    struct polled *polled; /* subject of each pollfd, in order */
    int npolled;
    char *in; /* piece of standard input that is being passed to the ranks */
    size_t in_len;
    bool in_open;
    bool in_tty;
    bool lost;        /* the file of a rank could not be written */
    uint64_t look_ns; /* when to look for incomplete lines; 0: there are none */
} io = { .sink = { { .fd = 1 }, { .fd = 2 } } };

/* ---- mpirun's output ---- */

static int reserve(char **buf, size_t *cap, size_t need)
{
    size_t n = *cap ? *cap : READ_BYTES;
    if (need <= *cap)
        return 0;
    while (n < need)
        n *= 2;
    char *p = realloc(*buf, n);
    if (!p)
        return -RT_ENOMEM;
    *buf = p;
    *cap = n;
    return 0;
}

static void sink_put(struct sink *s, const char *text, size_t len)
{
    if (s->broken || len == 0)
        return;
    if (s->off && s->off == s->len)
        s->off = s->len = 0;
    if (s->off > QUEUE_MAX_BYTES) {
        memmove(s->buf, s->buf + s->off, s->len - s->off);
        s->len -= s->off;
        s->off = 0;
    }
    if (reserve(&s->buf, &s->cap, s->len + len) < 0) {
        log_error(LAUNCH, "out of memory; %zu bytes of output are lost", len);
        return;
    }
    memcpy(s->buf + s->len, text, len);
    s->len += len;
}

static size_t sink_waiting(const struct sink *s) { return s->len - s->off; }

/* Bytes to write at once.  A pipe or terminal that polls as writable takes PIPE_BUF bytes without
 * blocking.  A chunk preferably ends with a line, so that the other sink can write next. */
static size_t sink_chunk(const struct sink *s)
{
    size_t n = sink_waiting(s), most = 4096; /* PIPE_BUF on Linux */
    if (s->regular || n <= most)
        return n;
    const char *end = memrchr(s->buf + s->off, '\n', most);
    return end ? (size_t)(end - (s->buf + s->off)) + 1 : most;
}

static bool sink_writable(const struct sink *s)
{
    struct pollfd p = { .fd = s->fd, .events = POLLOUT };
    return s->regular || (poll(&p, 1, 0) > 0 && (p.revents & (POLLOUT | POLLERR | POLLHUP)));
}

/* If both sinks are the same file, one does not write into an incomplete line of the other. */
static bool sink_must_wait(const struct sink *s)
{
    const struct sink *other = &io.sink[s == &io.sink[0]];
    return io.same && other->mid_line && sink_waiting(other);
}

static void sink_flush(struct sink *s)
{
    while (sink_waiting(s) && !s->broken && !sink_must_wait(s) && sink_writable(s)) {
        ssize_t n = write(s->fd, s->buf + s->off, sink_chunk(s));
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n < 0) {
            int errno_was = errno;
            if (errno != EPIPE)
                log_error(LAUNCH, "could not write to %s: %m; output of ranks is lost",
                          s->fd == 1 ? "stdout" : "stderr");
            s->broken = errno_was;
            s->off = s->len = 0;
            return;
        }
        s->off += (size_t)n;
        s->mid_line = s->buf[s->off - 1] != '\n';
    }
}

/* What follows begins a line. */
static void sink_break_line(struct sink *s)
{
    if (!s->open)
        return;
    sink_put(s, "\n", 1);
    s->open->mid_line = false;
    s->open = NULL;
}

void launch_io_print(const char *text)
{
    struct sink *s = &io.sink[1];
    sink_break_line(s);
    sink_put(s, text, strlen(text));
    sink_flush(s);
}

bool launch_io_lost(void) { return io.lost; }

int launch_io_broken(void) { return io.sink[0].broken; }

/* ---- the output of ranks ---- */

static int make_prefix(const struct launch_output *o, const struct launch_stream *s, char *text,
                       size_t len)
{
    struct timeval now;
    struct tm tm;
    size_t n = 0;

    if (o->timestamp) {
        gettimeofday(&now, NULL);
        localtime_r(&now.tv_sec, &tm);
        n = strftime(text, len, "%Y-%m-%dT%H:%M:%S", &tm);
        n += (size_t)snprintf(text + n, len - n, ".%03d ", (int)(now.tv_usec / 1000));
    }
    if (o->tag)
        n += (size_t)snprintf(text + n, len - n, "[%d,%d]<%s>:", o->job, s->rank,
                              s->is_err ? "stderr" : "stdout");
    if (o->rank)
        n += (size_t)snprintf(text + n, len - n, "[%d] ", s->rank);
    return (int)n;
}

static void report_lost(const struct launch_output *o, const struct launch_stream *s)
{
    log_error(LAUNCH, "could not write %s of rank %d to its file under '%s': %m; output is lost",
              s->is_err ? "stderr" : "stdout", s->rank, o->dir);
    io.lost = true;
}

/* Passes on the first `len` bytes of the buffer: whole lines, or a piece of a long line. */
static void stream_emit(const struct launch_output *o, struct launch_stream *s, size_t len)
{
    struct sink *sink = &io.sink[s->is_err];
    char prefix[96];

    if (s->file && fwrite(s->buf, 1, len, s->file) < len) {
        report_lost(o, s);
        fclose(s->file);
        s->file = NULL;
    }
    if (o->dir && o->nocopy)
        return;
    int n = make_prefix(o, s, prefix, sizeof prefix);
    if (n && sink->open != s)
        sink_break_line(sink);
    sink->open = s->buf[len - 1] == '\n' ? NULL : s;
    if (n == 0) {
        sink_put(sink, s->buf, len);
        return;
    }
    for (size_t at = 0; at < len;) {
        const char *end = memchr(s->buf + at, '\n', len - at);
        size_t line = end ? (size_t)(end - (s->buf + at)) + 1 : len - at;
        if (!s->mid_line)
            sink_put(sink, prefix, (size_t)n);
        sink_put(sink, s->buf + at, line);
        s->mid_line = !end;
        at += line;
    }
}

static void stream_consume(const struct launch_output *o, struct launch_stream *s, size_t len)
{
    stream_emit(o, s, len);
    s->len -= len;
    memmove(s->buf, s->buf + len, s->len);
}

static void stream_close(const struct launch_output *o, struct launch_stream *s)
{
    s->far = false;
    if (s->len)
        stream_consume(o, s, s->len);
    if (s->mid_line && !(o->dir && o->nocopy))
        /* the following output begins with a prefix of its own */
        sink_put(&io.sink[s->is_err], "\n", 1);
    s->mid_line = false;
    if (io.sink[s->is_err].open == s)
        io.sink[s->is_err].open = NULL;
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
    if (s->file && fclose(s->file))
        report_lost(o, s);
    s->file = NULL;
    free(s->buf);
    s->buf = NULL;
    s->cap = 0;
}

/* Handles n bytes that have been appended to the buffer. */
static void stream_take(const struct launch_output *o, struct launch_stream *s, size_t n)
{
    const char *end = memrchr(s->buf + s->len, '\n', n);
    s->last_ns = rt_now_ns();
    if (end || !s->len)
        s->looks = 0;
    s->len += n;
    if (end)
        stream_consume(o, s, (size_t)(end - s->buf) + 1);
    if (s->len > LINE_MAX_BYTES)
        stream_consume(o, s, s->len);
    if (s->len && !io.look_ns)
        io.look_ns = s->last_ns + LOOK_NS;
}

/* Reads once.  False: nothing more is available now. */
static bool stream_read(const struct launch_output *o, struct launch_stream *s)
{
    if (s->fd < 0)
        return false;
    if (reserve(&s->buf, &s->cap, s->len + READ_BYTES) < 0) {
        /* the line is passed on in pieces rather than lost */
        stream_consume(o, s, s->len);
        return true;
    }
    ssize_t n = read(s->fd, s->buf + s->len, READ_BYTES);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n <= 0) {
        stream_close(o, s);
        return false;
    }
    stream_take(o, s, (size_t)n);
    return true;
}

void launch_io_feed(struct launch_job *job, int rank, bool is_err, const void *data, size_t len)
{
    struct launch_stream *s = is_err ? &job->ranks[rank].err : &job->ranks[rank].out;
    if (!s->far)
        return;
    if (len == 0) {
        stream_close(&job->opts->output, s);
        return;
    }
    if (reserve(&s->buf, &s->cap, s->len + len) < 0) {
        log_error(LAUNCH, "out of memory; %zu bytes of output are lost", len);
        return;
    }
    memcpy(s->buf + s->len, data, len);
    stream_take(&job->opts->output, s, len);
}

void launch_io_far(struct launch_job *job)
{
    for (int i = 0; i < job->n; i++) {
        job->ranks[i].out.far = true;
        job->ranks[i].err.far = !job->opts->output.merge_stderr;
    }
}

/* Whether an incomplete line may be a prompt, if it stays incomplete for PROMPT_NS: the rank reads
 * standard input, and the input has not ended. */
static bool is_prompt(const struct launch_job *job, const struct launch_stream *s)
{
    return s->len && !s->is_err && s->rank == job->opts->stdin_rank && io.in_open;
}

static void pass_prompts(struct launch_job *job)
{
    if (job->opts->stdin_rank < 0 || job->opts->stdin_rank >= job->n)
        return;
    struct launch_stream *s = &job->ranks[job->opts->stdin_rank].out;
    if (is_prompt(job, s) && rt_now_ns() - s->last_ns >= PROMPT_NS &&
        !stream_read(&job->opts->output, s) && s->len)
        stream_consume(&job->opts->output, s, s->len);
}

/* True: it stays incomplete for longer. */
static bool pass_open(const struct launch_job *job, struct launch_stream *s)
{
    if (s->len && s->looks++ >= OPEN_LOOKS && !stream_read(&job->opts->output, s) && s->len)
        stream_consume(&job->opts->output, s, s->len);
    return s->len > 0;
}

/* Passes on incomplete lines that have waited for OPEN_LOOKS. */
static void pass_open_lines(struct launch_job *job)
{
    uint64_t now = rt_now_ns();
    bool more = false;

    if (!io.look_ns || now < io.look_ns)
        return;
    for (int i = 0; i < job->n; i++) {
        more |= pass_open(job, &job->ranks[i].out);
        more |= pass_open(job, &job->ranks[i].err);
    }
    io.look_ns = more ? now + LOOK_NS : 0;
}

int launch_io_timeout_ms(const struct launch_job *job)
{
    int rank = job->opts->stdin_rank;
    uint64_t now = io.look_ns ? rt_now_ns() : 0;

    if (rank >= 0 && rank < job->n && is_prompt(job, &job->ranks[rank].out))
        return PROMPT_NS / 1000000;
    if (!io.look_ns)
        return -1;
    return now < io.look_ns ? (int)((io.look_ns - now) / 1000000u) + 1 : 0;
}

void launch_io_drain(struct launch_job *job, struct launch_rank *r)
{
    /* A child of the rank may write forever, so little more than the content of a full pipe is
     * read. */
    for (int i = 0; i < 4 && stream_read(&job->opts->output, &r->out); i++) {
    }
    for (int i = 0; i < 4 && stream_read(&job->opts->output, &r->err); i++) {
    }
}

/* ---- standard input ---- */

/* Only the foreground group of a terminal may read from it; a read stops other processes. */
static bool may_read_stdin(void) { return !io.in_tty || tcgetpgrp(0) == getpgrp(); }

static void input_close(struct launch_rank *r)
{
    if (r->in_fd >= 0)
        close(r->in_fd);
    r->in_fd = -1;
}

static bool input_pending(const struct launch_job *job)
{
    if (job->head)
        return head_input_busy(job->head);
    for (int i = 0; i < job->n; i++)
        if (job->ranks[i].in_fd >= 0 && job->ranks[i].in_off < io.in_len)
            return true;
    return false;
}

static void input_write(struct launch_rank *r)
{
    ssize_t n = write(r->in_fd, io.in + r->in_off, io.in_len - r->in_off);
    if (n > 0)
        r->in_off += (size_t)n;
    else if (n < 0 && errno != EAGAIN && errno != EINTR)
        input_close(r); /* the rank no longer reads */
}

static void source_read(struct launch_job *job)
{
    ssize_t n = read(0, io.in, READ_BYTES);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0)
        io.in_open = false;
    io.in_len = n > 0 ? (size_t)n : 0;
    if (job->head)
        head_input(job->head, io.in, io.in_len);
    for (int i = 0; i < job->n; i++) {
        job->ranks[i].in_off = 0;
        if (n <= 0)
            input_close(&job->ranks[i]);
    }
}

/* ---- called by the loop ---- */

static int make_folders(const char *path)
{
    char part[4096];
    snprintf(part, sizeof part, "%s", path);
    for (char *p = part + 1;; p++) {
        char c = *p;
        if (c != '/' && c != '\0')
            continue;
        *p = '\0';
        if (mkdir(part, 0777) < 0 && errno != EEXIST)
            return -RT_ESYS;
        if (c == '\0')
            return 0;
        *p = c;
    }
}

static int open_file(const struct launch_output *o, struct launch_stream *s, int digits)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/%d/rank.%0*d", o->dir, o->job, digits, s->rank);
    if (make_folders(path) < 0)
        return -RT_ESYS;
    snprintf(path, sizeof path, "%s/%d/rank.%0*d/%s", o->dir, o->job, digits, s->rank,
             s->is_err ? "stderr" : "stdout");
    s->file = fopen(path, "we");
    return s->file ? 0 : -RT_ESYS;
}

int launch_io_open_files(struct launch_job *job)
{
    int digits = snprintf(NULL, 0, "%d", job->n - 1), err = 0;

    for (int i = 0; i < job->n && job->opts->output.dir && !err; i++) {
        err = open_file(&job->opts->output, &job->ranks[i].out, digits);
        if (!err && !job->opts->output.merge_stderr)
            err = open_file(&job->opts->output, &job->ranks[i].err, digits);
    }
    if (err)
        launch_say(job, "could not write the output of ranks under '%s': %s; nothing was started",
                   job->opts->output.dir, strerror(errno));
    return err;
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

int launch_io_init(struct launch_job *job)
{
    struct stat st[2] = { 0 };

    for (int i = 0; i < 2; i++) {
        io.sink[i].fd = i + 1; /* the rest is kept: the buffer may hold warnings already */
        fstat(i + 1, &st[i]);
        io.sink[i].regular = S_ISREG(st[i].st_mode);
    }
    io.same = same_file(&st[0], &st[1]);
    io.in_tty = isatty(0);
    /* otherwise a rank reads mpirun's standard input itself */
    io.in_open = job->opts->stdin_rank == LAUNCH_STDIN_ALL ||
                 (job->opts->stdin_rank >= 0 && (io.in_tty || job->head));
    io.in = malloc(READ_BYTES);
    io.polled = malloc(((size_t)job->n * 3 + 3) * sizeof *io.polled);
    for (int i = 0; i < job->n; i++) {
        struct launch_rank *r = &job->ranks[i];
        r->out = (struct launch_stream){ .fd = -1, .rank = i };
        r->err = (struct launch_stream){ .fd = -1, .rank = i, .is_err = true };
        r->in_fd = -1;
    }
    return io.in && io.polled ? 0 : -RT_ENOMEM;
}

static void add_fd(struct pollfd *fds, int fd, short events, enum polled_kind kind, void *what)
{
    fds[io.npolled] = (struct pollfd){ .fd = fd, .events = events };
    io.polled[io.npolled++] = (struct polled){ kind, what };
}

static void add_stream(struct pollfd *fds, struct launch_stream *s)
{
    if (s->fd >= 0 && sink_waiting(&io.sink[s->is_err]) < QUEUE_MAX_BYTES)
        add_fd(fds, s->fd, POLLIN, STREAM, s);
}

int launch_io_fds(struct launch_job *job, struct pollfd *fds)
{
    io.npolled = 0;
    for (int i = 0; i < 2; i++)
        if (sink_waiting(&io.sink[i]) && !io.sink[i].broken && !sink_must_wait(&io.sink[i]))
            add_fd(fds, io.sink[i].fd, POLLOUT, SINK, &io.sink[i]);
    bool pending = input_pending(job);
    if (io.in_open && !pending && may_read_stdin())
        add_fd(fds, 0, POLLIN, SOURCE, NULL);
    for (int i = 0; i < job->n; i++) {
        struct launch_rank *r = &job->ranks[i];
        add_stream(fds, &r->out);
        add_stream(fds, &r->err);
        if (pending && r->in_fd >= 0 && r->in_off < io.in_len)
            add_fd(fds, r->in_fd, POLLOUT, INPUT, r);
    }
    return io.npolled;
}

void launch_io_step(struct launch_job *job, const struct pollfd *fds, int nfds)
{
    for (int i = 0; i < nfds; i++) {
        if (!fds[i].revents)
            continue;
        switch (io.polled[i].kind) {
        case STREAM:
            stream_read(&job->opts->output, io.polled[i].what);
            break;
        case INPUT:
            input_write(io.polled[i].what);
            break;
        case SOURCE:
            source_read(job);
            break;
        case SINK:
            break; /* written by the flush below */
        }
    }
    pass_prompts(job);
    pass_open_lines(job);
    sink_flush(&io.sink[0]);
    sink_flush(&io.sink[1]);
}

bool launch_io_full(void)
{
    return sink_waiting(&io.sink[0]) >= QUEUE_MAX_BYTES ||
           sink_waiting(&io.sink[1]) >= QUEUE_MAX_BYTES;
}

bool launch_io_busy(void) { return sink_waiting(&io.sink[0]) || sink_waiting(&io.sink[1]); }

bool launch_io_idle(const struct launch_job *job)
{
    for (int i = 0; i < job->n; i++)
        if (job->ranks[i].out.fd >= 0 || job->ranks[i].err.fd >= 0 || job->ranks[i].out.far ||
            job->ranks[i].err.far)
            return false;
    return !launch_io_busy();
}

void launch_io_fini(struct launch_job *job)
{
    for (int i = 0; i < job->n; i++) {
        stream_close(&job->opts->output, &job->ranks[i].out);
        stream_close(&job->opts->output, &job->ranks[i].err);
        input_close(&job->ranks[i]);
    }
    sink_flush(&io.sink[0]);
    sink_flush(&io.sink[1]);
    free(io.sink[0].buf);
    free(io.sink[1].buf);
    free(io.in);
    free(io.polled);
    memset(&io, 0, sizeof io);
}
