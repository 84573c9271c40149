/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames between mpirun and its agents: see wire.h.  Main thread only. */
#include "launcher/wire.h"
#include "runtime/base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define READ_BYTES 65536
#define FILL_MAX   (1 << 20)      /* of one wire_fill(): the other channels want their turn */

/* No text of a login script contains this. */
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

static uint8_t *add(struct wire_out *o, size_t len)
{
    if (o->failed || len > (size_t)WIRE_MAX + WIRE_HEADER - o->len) {
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

void wire_begin(struct wire_out *o, enum wire_type type, uint32_t node)
{
    o->len = 0;
    o->failed = false;
    uint8_t *p = add(o, WIRE_HEADER);
    if (!p)
        return;
    store_u32(p, 0);
    p[4] = (uint8_t)type;
    p[5] = (uint8_t)(type >> 8);
    p[6] = WIRE_VERSION;
    p[7] = 0;
    store_u32(p + 8, node);
}

void wire_put_u8(struct wire_out *o, unsigned v)
{
    uint8_t *p = add(o, 1);
    if (p)
        *p = (uint8_t)v;
}

void wire_put_u32(struct wire_out *o, uint32_t v)
{
    uint8_t *p = add(o, 4);
    if (p)
        store_u32(p, v);
}

void wire_put_int(struct wire_out *o, int v)
{
    wire_put_u32(o, (uint32_t)v);
}

void wire_put_bytes(struct wire_out *o, const void *data, size_t len)
{
    if (len > WIRE_MAX) {
        o->failed = true;
        return;
    }
    wire_put_u32(o, (uint32_t)len);
    uint8_t *p = add(o, len);
    if (p && len)
        memcpy(p, data, len);
}

/* One byte more than the text, its end; nothing at all is NULL. */
void wire_put_str(struct wire_out *o, const char *text)
{
    wire_put_bytes(o, text, text ? strlen(text) + 1 : 0);
}

int wire_end(struct wire_out *o)
{
    if (o->failed)
        return -RT_ENOMEM;
    store_u32(o->buf, (uint32_t)(o->len - WIRE_HEADER));
    return 0;
}

void wire_out_fini(struct wire_out *o)
{
    free(o->buf);
    memset(o, 0, sizeof *o);
}

/* ---- decoding ---- */

static const uint8_t *take(struct wire_in *i, size_t len)
{
    if (i->bad || len > (size_t)(i->end - i->at)) {
        i->bad = true;
        return NULL;
    }
    i->at += len;
    return i->at - len;
}

unsigned wire_get_u8(struct wire_in *i)
{
    const uint8_t *p = take(i, 1);
    return p ? *p : 0;
}

uint32_t wire_get_u32(struct wire_in *i)
{
    const uint8_t *p = take(i, 4);
    return p ? load_u32(p) : 0;
}

int wire_get_int(struct wire_in *i)
{
    return (int)wire_get_u32(i);
}

size_t wire_get_count(struct wire_in *i, size_t each)
{
    size_t n = wire_get_u32(i);
    if (!i->bad && n > (size_t)(i->end - i->at) / each)
        i->bad = true;
    return i->bad ? 0 : n;
}

const void *wire_get_bytes(struct wire_in *i, size_t *len)
{
    *len = wire_get_count(i, 1);
    const uint8_t *p = take(i, *len);
    if (!p)
        *len = 0;
    return p;
}

const char *wire_get_str(struct wire_in *i)
{
    size_t len;
    const char *p = wire_get_bytes(i, &len);
    if (!p || len == 0)
        return NULL;
    if (memchr(p, '\0', len) == p + len - 1)
        return p;
    i->bad = true;
    return NULL;
}

const char *wire_get_text(struct wire_in *i)
{
    const char *p = wire_get_str(i);
    if (!p)
        i->bad = true;
    return p;
}

bool wire_in_ok(const struct wire_in *i)
{
    return !i->bad && i->at == i->end;
}

/* ---- queues ---- */

static uint8_t *queue_room(struct wire_queue *q, size_t len)
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

static size_t queued(const struct wire_queue *q)
{
    return q->len - q->off;
}

/* ---- channels ---- */

void wire_open(struct wire_chan *c, int in, int out)
{
    *c = (struct wire_chan){ .in = in, .out = out };
    fcntl(in, F_SETFL, fcntl(in, F_GETFL) | O_NONBLOCK);
    fcntl(out, F_SETFL, fcntl(out, F_GETFL) | O_NONBLOCK);
}

void wire_close(struct wire_chan *c)
{
    if (c->in >= 0)
        close(c->in);
    if (c->out >= 0 && c->out != c->in)
        close(c->out);
    c->in = c->out = -1;
    c->eof = c->broken = true;
    free(c->rx.buf);
    free(c->tx.buf);
    c->rx = c->tx = (struct wire_queue){ 0 };
}

int wire_send(struct wire_chan *c, const void *frame, size_t len)
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

int wire_greet(struct wire_chan *c)
{
    uint8_t g[WIRE_GREETING] = { 0 };
    memcpy(g, magic, sizeof magic);
    store_u32(g + sizeof magic, WIRE_VERSION);
    strncpy((char *)g + sizeof magic + 4, PACKAGE_VERSION, 32);
    return wire_send(c, g, sizeof g);
}

bool wire_waiting(const struct wire_chan *c)
{
    return queued(&c->tx) > 0 && !c->broken;
}

void wire_flush(struct wire_chan *c)
{
    while (wire_waiting(c)) {
        ssize_t n = write(c->out, c->tx.buf + c->tx.off, queued(&c->tx));
        if (n >= 0)
            c->tx.off += (size_t)n;
        else if (errno == EAGAIN)
            return;
        else if (errno != EINTR)
            c->broken = true;
    }
}

void wire_fill(struct wire_chan *c)
{
    for (size_t sum = 0; !c->eof && sum < FILL_MAX; ) {
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

int wire_greeting(struct wire_chan *c, void (*noise)(void *arg, const void *text, size_t len),
                  void *arg)
{
    struct wire_queue *q = &c->rx;
    if (c->greeted)
        return 1;
    const uint8_t *at = queued(q) ? memmem(q->buf + q->off, queued(q), magic, sizeof magic) : NULL;
    /* Without the magic, its beginning may be at the end of what is here. */
    size_t skip = at                          ? (size_t)(at - (q->buf + q->off))
                  : c->eof                    ? queued(q)
                  : queued(q) >= sizeof magic ? queued(q) - sizeof magic + 1
                                              : 0;
    if (skip && noise)
        noise(arg, q->buf + q->off, skip);
    q->off += skip;
    c->noise += skip;
    if (c->noise > WIRE_NOISE_MAX)
        return -RT_EINVAL;
    if (!at || queued(q) < WIRE_GREETING)
        return 0;
    at = q->buf + q->off + sizeof magic;
    c->protocol = load_u32(at);
    memcpy(c->version, at + 4, 32);
    for (char *p = c->version; *p; p++)
        if (*p < ' ' || *p > '~')
            *p = '?';
    q->off += WIRE_GREETING;
    c->greeted = true;
    return 1;
}

int wire_next(struct wire_chan *c, struct wire_frame *f)
{
    struct wire_queue *q = &c->rx;
    if (queued(q) < WIRE_HEADER)
        return 0;
    const uint8_t *p = q->buf + q->off;
    uint32_t len = load_u32(p);
    unsigned type = p[4] | (unsigned)p[5] << 8;
    if (len > WIRE_MAX || type == 0 || type >= WIRE_NTYPES || p[6] != WIRE_VERSION || p[7] != 0)
        return -RT_EINVAL;
    if (queued(q) - WIRE_HEADER < len)
        return 0;
    *f = (struct wire_frame){ .type = (enum wire_type)type,
                              .node = load_u32(p + 8),
                              .raw = p,
                              .raw_len = WIRE_HEADER + len,
                              .in = { p + WIRE_HEADER, p + WIRE_HEADER + len, false } };
    q->off += f->raw_len;
    return 1;
}
