/* SPDX-License-Identifier: BSD-3-Clause */
/* The streams of an agent's ranks: see forward.h.  Main thread only. */
#include "launcher/agent/forward.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define READ_BYTES 65536 /* capacity of a pipe */
/* Reads from the pipe of a rank that has ended; a child of the rank may write forever. */
#define DRAIN_READS 4

int pump_init(struct pump *p, struct launch_job *job)
{
    p->job = job;
    for (int i = 0; i < job->n; i++) {
        struct launch_rank *r = &job->ranks[i];
        r->out = (struct launch_stream){ .fd = -1, .rank = r->rank };
        r->err = (struct launch_stream){ .fd = -1, .rank = r->rank, .is_err = true };
        r->in_fd = -1;
    }
    p->polled = calloc((size_t)job->n * 3 + 1, sizeof *p->polled);
    return p->polled ? 0 : -RT_ENOMEM;
}

/* ---- output ---- */

static void send_output(struct pump *p, const struct launch_stream *s, const void *data, size_t len)
{
    struct frame_out o = { 0 };
    frame_begin(&o, FRAME_OUT, (uint32_t)p->job->node);
    frame_put_int(&o, s->rank);
    frame_put_u8(&o, s->is_err);
    frame_put_bytes(&o, data, len);
    if (frame_end(&o) < 0)
        log_error(LAUNCH, "out of memory; %zu bytes of rank %d's output are lost", len, s->rank);
    else
        p->up(p->arg, &o);
    p->credit -= (int64_t)len;
    frame_out_fini(&o);
}

static void stream_end(struct pump *p, struct launch_stream *s)
{
    if (s->fd < 0)
        return;
    close(s->fd);
    s->fd = -1;
    send_output(p, s, NULL, 0);
}

/* Reads once.  False: nothing more is available now. */
static bool stream_read(struct pump *p, struct launch_stream *s)
{
    static char buf[READ_BYTES];
    if (s->fd < 0)
        return false;
    ssize_t n = read(s->fd, buf, sizeof buf);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n <= 0) {
        stream_end(p, s);
        return false;
    }
    send_output(p, s, buf, (size_t)n);
    return true;
}

void pump_drain(struct pump *p, struct launch_rank *r)
{
    for (int i = 0; i < DRAIN_READS && stream_read(p, &r->out); i++) {
    }
    for (int i = 0; i < DRAIN_READS && stream_read(p, &r->err); i++) {
    }
}

bool pump_idle(const struct pump *p)
{
    for (int i = 0; i < p->job->n; i++)
        if (p->job->ranks[i].out.fd >= 0 || p->job->ranks[i].err.fd >= 0)
            return false;
    return true;
}

/* ---- input ---- */

static void input_close(struct launch_rank *r)
{
    if (r->in_fd >= 0)
        close(r->in_fd);
    r->in_fd = -1;
}

/* Notifies the head when all ranks that still read have received the piece. */
static void input_check(struct pump *p)
{
    struct frame_out o = { 0 };
    for (int i = 0; i < p->job->n; i++)
        if (p->job->ranks[i].in_fd >= 0 && p->job->ranks[i].in_off < p->in_len)
            return;
    if (!p->in_busy)
        return;
    p->in_busy = false;
    frame_begin(&o, FRAME_IN_DONE, (uint32_t)p->job->node);
    if (frame_end(&o) == 0)
        p->up(p->arg, &o);
    frame_out_fini(&o);
}

static void input_write(struct pump *p, struct launch_rank *r)
{
    ssize_t n = write(r->in_fd, p->in + r->in_off, p->in_len - r->in_off);
    if (n > 0)
        r->in_off += (size_t)n;
    else if (n < 0 && errno != EAGAIN && errno != EINTR)
        input_close(r); /* the rank no longer reads */
}

void pump_input(struct pump *p, const void *data, size_t len)
{
    uint8_t *copy = malloc(len ? len : 1);

    free(p->in);
    p->in = copy;
    p->in_len = copy ? len : 0;
    p->in_busy = true;
    if (copy && len)
        memcpy(copy, data, len);
    for (int i = 0; i < p->job->n; i++) {
        struct launch_rank *r = &p->job->ranks[i];
        r->in_off = 0;
        if (p->in_len == 0)
            input_close(r);
        else if (r->in_fd >= 0)
            input_write(p, r);
    }
    input_check(p);
}

/* ---- called by the loop ---- */

static int add_fd(struct pump *p, struct pollfd *fds, int fd, short events, int rank, bool is_err)
{
    p->polled[p->npolled].rank = rank;
    p->polled[p->npolled].is_err = is_err;
    fds[p->npolled++] = (struct pollfd){ .fd = fd, .events = events };
    return p->npolled;
}

int pump_fds(struct pump *p, struct pollfd *fds)
{
    p->npolled = 0;
    for (int i = 0; i < p->job->n; i++) {
        struct launch_rank *r = &p->job->ranks[i];
        if (r->out.fd >= 0 && p->credit > 0)
            add_fd(p, fds, r->out.fd, POLLIN, i, false);
        if (r->err.fd >= 0 && p->credit > 0)
            add_fd(p, fds, r->err.fd, POLLIN, i, true);
        if (r->in_fd >= 0 && p->in_busy && r->in_off < p->in_len)
            add_fd(p, fds, r->in_fd, POLLOUT, i, false);
    }
    return p->npolled;
}

void pump_step(struct pump *p, const struct pollfd *fds, int n)
{
    for (int i = 0; i < n && i < p->npolled; i++) {
        struct launch_rank *r = &p->job->ranks[p->polled[i].rank];
        if (!fds[i].revents)
            continue;
        if (fds[i].fd == r->in_fd && (fds[i].events & POLLOUT))
            input_write(p, r);
        else if (p->credit > 0)
            stream_read(p, p->polled[i].is_err ? &r->err : &r->out);
    }
    if (p->in_busy)
        input_check(p);
}

void pump_close(struct pump *p)
{
    for (int i = 0; i < p->job->n; i++) {
        stream_end(p, &p->job->ranks[i].out);
        stream_end(p, &p->job->ranks[i].err);
        input_close(&p->job->ranks[i]);
    }
}
