/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames between mpirun, its agents, and processes that spawn: see frame.h.  One thread at a time
 * for each channel. */
#include "runtime/boot/frame.h"
#include "runtime/base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_BYTES 65536
/* Most bytes read in one frame_fill(), before other channels get a turn. */
#define FILL_MAX (1 << 20)

/* The output of a login script does not contain these bytes. */
static const char magic[12] = { '\0', 'W', 'E', 'F', 'T', '-', 'A', 'G', 'E', 'N', 'T', '\n' };

static void store_u32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> 8 * i);
}

static uint32_t load_u32(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* ---- encoding ---- */

static uint8_t *add(struct frame_out *o, size_t len)
{
    if (o->failed || len > (size_t)FRAME_MAX + FRAME_HEADER - o->len) {
        o->failed = true;
        return NULL;
    }
    if (o->len + len > o->cap) {
        size_t cap = o->cap ? o->cap : 256;
        while (cap < o->len + len)
            cap *= 2;
        uint8_t *p = realloc(o->buf, cap);
        if (!p) {
            o->failed = true;
            return NULL;
        }
        o->buf = p;
        o->cap = cap;
    }
    o->len += len;
    return o->buf + o->len - len;
}

void frame_begin(struct frame_out *o, enum frame_type type, uint32_t node)
{
    o->len = 0;
    o->failed = false;
    uint8_t *p = add(o, FRAME_HEADER);
    if (!p)
        return;
    store_u32(p, 0);
    p[4] = (uint8_t)type;
    p[5] = (uint8_t)(type >> 8);
    p[6] = FRAME_VERSION;
    p[7] = 0;
    store_u32(p + 8, node);
}

void frame_put_u8(struct frame_out *o, unsigned v)
{
    uint8_t *p = add(o, 1);
    if (p)
        *p = (uint8_t)v;
}

void frame_put_u32(struct frame_out *o, uint32_t v)
{
    uint8_t *p = add(o, 4);
    if (p)
        store_u32(p, v);
}

void frame_put_u64(struct frame_out *o, uint64_t v)
{
    frame_put_u32(o, (uint32_t)v);
    frame_put_u32(o, (uint32_t)(v >> 32));
}

void frame_put_int(struct frame_out *o, int v) { frame_put_u32(o, (uint32_t)v); }

void frame_put_bytes(struct frame_out *o, const void *data, size_t len)
{
    if (len > FRAME_MAX) {
        o->failed = true;
        return;
    }
    frame_put_u32(o, (uint32_t)len);
    uint8_t *p = add(o, len);
    if (p && len)
        memcpy(p, data, len);
}

/* The length includes the terminating zero; NULL is sent as length 0. */
void frame_put_str(struct frame_out *o, const char *text)
{
    frame_put_bytes(o, text, text ? strlen(text) + 1 : 0);
}

int frame_end(struct frame_out *o)
{
    if (o->failed)
        return -RT_ENOMEM;
    store_u32(o->buf, (uint32_t)(o->len - FRAME_HEADER));
    return 0;
}

void frame_out_fini(struct frame_out *o)
{
    free(o->buf);
    memset(o, 0, sizeof *o);
}

/* ---- decoding ---- */

static const uint8_t *take(struct frame_in *i, size_t len)
{
    if (i->bad || len > (size_t)(i->end - i->at)) {
        i->bad = true;
        return NULL;
    }
    i->at += len;
    return i->at - len;
}

unsigned frame_get_u8(struct frame_in *i)
{
    const uint8_t *p = take(i, 1);
    return p ? *p : 0;
}

uint32_t frame_get_u32(struct frame_in *i)
{
    const uint8_t *p = take(i, 4);
    return p ? load_u32(p) : 0;
}

uint64_t frame_get_u64(struct frame_in *i)
{
    uint64_t low = frame_get_u32(i);
    return low | (uint64_t)frame_get_u32(i) << 32;
}

int frame_get_int(struct frame_in *i) { return (int)frame_get_u32(i); }

size_t frame_get_count(struct frame_in *i, size_t each)
{
    size_t n = frame_get_u32(i);
    if (!i->bad && n > (size_t)(i->end - i->at) / each)
        i->bad = true;
    return i->bad ? 0 : n;
}

const void *frame_get_bytes(struct frame_in *i, size_t *len)
{
    *len = frame_get_count(i, 1);
    const uint8_t *p = take(i, *len);
    if (!p)
        *len = 0;
    return p;
}

const char *frame_get_str(struct frame_in *i)
{
    size_t len;
    const char *p = frame_get_bytes(i, &len);
    if (!p || len == 0)
        return NULL;
    if (memchr(p, '\0', len) == p + len - 1)
        return p;
    i->bad = true;
    return NULL;
}

const char *frame_get_text(struct frame_in *i)
{
    const char *p = frame_get_str(i);
    if (!p)
        i->bad = true;
    return p;
}

bool frame_in_ok(const struct frame_in *i) { return !i->bad && i->at == i->end; }

/* ---- queues ---- */

static uint8_t *queue_room(struct frame_queue *q, size_t len)
{
    if (q->off && (q->off == q->len || q->off > q->cap / 2)) {
        memmove(q->buf, q->buf + q->off, q->len - q->off);
        q->len -= q->off;
        q->off = 0;
    }
    if (q->len + len > q->cap) {
        size_t cap = q->cap ? q->cap : READ_BYTES;
        while (cap < q->len + len)
            cap *= 2;
        uint8_t *p = realloc(q->buf, cap);
        if (!p)
            return NULL;
        q->buf = p;
        q->cap = cap;
    }
    return q->buf + q->len;
}

static size_t queued(const struct frame_queue *q) { return q->len - q->off; }

/* ---- channels ---- */

void frame_open(struct frame_chan *c, int in, int out)
{
    *c = (struct frame_chan){ .in = in, .out = out };
    fcntl(in, F_SETFL, fcntl(in, F_GETFL) | O_NONBLOCK);
    fcntl(out, F_SETFL, fcntl(out, F_GETFL) | O_NONBLOCK);
}

void frame_close(struct frame_chan *c)
{
    if (c->in >= 0)
        close(c->in);
    if (c->out >= 0 && c->out != c->in)
        close(c->out);
    c->in = c->out = -1;
    c->eof = c->broken = true;
    free(c->rx.buf);
    free(c->tx.buf);
    c->rx = c->tx = (struct frame_queue){ 0 };
}

int frame_send(struct frame_chan *c, const void *frame, size_t len)
{
    if (c->broken)
        return -RT_EPEER;
    uint8_t *p = queue_room(&c->tx, len);
    if (!p)
        return -RT_ENOMEM;
    memcpy(p, frame, len);
    c->tx.len += len;
    return 0;
}

int frame_greet(struct frame_chan *c)
{
    uint8_t g[FRAME_GREETING] = { 0 };
    memcpy(g, magic, sizeof magic);
    store_u32(g + sizeof magic, FRAME_VERSION);
    strncpy((char *)g + sizeof magic + 4, PACKAGE_VERSION, 32);
    return frame_send(c, g, sizeof g);
}

bool frame_waiting(const struct frame_chan *c) { return queued(&c->tx) > 0 && !c->broken; }

/* write(); on a socket without SIGPIPE, because an application that spawns need not ignore this
 * signal. */
static ssize_t write_some(int fd, const void *data, size_t len)
{
    ssize_t n = send(fd, data, len, MSG_NOSIGNAL);
    return n < 0 && errno == ENOTSOCK ? write(fd, data, len) : n;
}

void frame_flush(struct frame_chan *c)
{
    while (frame_waiting(c)) {
        ssize_t n = write_some(c->out, c->tx.buf + c->tx.off, queued(&c->tx));
        if (n >= 0)
            c->tx.off += (size_t)n;
        else if (errno == EAGAIN)
            return;
        else if (errno != EINTR)
            c->broken = true;
    }
}

void frame_fill(struct frame_chan *c)
{
    for (size_t sum = 0; !c->eof && sum < FILL_MAX;) {
        uint8_t *p = queue_room(&c->rx, READ_BYTES);
        ssize_t n = p ? read(c->in, p, READ_BYTES) : -1;
        if (p && n < 0 && errno == EINTR)
            continue;
        if (p && n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            c->eof = true;
            return;
        }
        c->rx.len += (size_t)n;
        sum += (size_t)n;
    }
}

int frame_greeting(struct frame_chan *c, void (*noise)(void *arg, const void *text, size_t len),
                   void *arg)
{
    struct frame_queue *q = &c->rx;
    if (c->greeted)
        return 1;
    const uint8_t *at = queued(q) ? memmem(q->buf + q->off, queued(q), magic, sizeof magic) : NULL;
    /* without a complete magic, its beginning may be the last bytes in the buffer */
    size_t skip = at                          ? (size_t)(at - (q->buf + q->off))
                  : c->eof                    ? queued(q)
                  : queued(q) >= sizeof magic ? queued(q) - sizeof magic + 1
                                              : 0;
    if (skip && noise)
        noise(arg, q->buf + q->off, skip);
    q->off += skip;
    c->noise += skip;
    if (c->noise > FRAME_NOISE_MAX)
        return -RT_EINVAL;
    if (!at || queued(q) < FRAME_GREETING)
        return 0;
    at = q->buf + q->off + sizeof magic;
    c->protocol = load_u32(at);
    memcpy(c->version, at + 4, 32);
    for (char *p = c->version; *p; p++)
        if (*p < ' ' || *p > '~')
            *p = '?';
    q->off += FRAME_GREETING;
    c->greeted = true;
    return 1;
}

int frame_next(struct frame_chan *c, struct frame *f)
{
    struct frame_queue *q = &c->rx;
    if (queued(q) < FRAME_HEADER)
        return 0;
    const uint8_t *p = q->buf + q->off;
    uint32_t len = load_u32(p);
    unsigned type = p[4] | (unsigned)p[5] << 8;
    if (len > FRAME_MAX || type == 0 || type >= FRAME_NTYPES || p[6] != FRAME_VERSION || p[7] != 0)
        return -RT_EINVAL;
    if (queued(q) - FRAME_HEADER < len)
        return 0;
    *f = (struct frame){ .type = (enum frame_type)type,
                         .node = load_u32(p + 8),
                         .raw = p,
                         .raw_len = FRAME_HEADER + len,
                         .in = { p + FRAME_HEADER, p + FRAME_HEADER + len, false } };
    q->off += f->raw_len;
    return 1;
}
