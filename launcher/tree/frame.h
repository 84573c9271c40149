/* SPDX-License-Identifier: BSD-3-Clause */
/* What mpirun and its agents say to each other, over the standard streams of a remote shell.
 *
 * Each side first writes a greeting of FRAME_GREETING bytes: magic, protocol, Weft version.  Text
 * that a login script prints before it is skipped.  Then come frames: length of the payload,
 * type, version of the frames, node, all little endian, and the payload.  A frame on its way from
 * the head names the node it is for, FRAME_ALL or a part of the tree; one on its way to the head
 * the node it is from.
 *
 * The peer passed the authentication of the remote shell, but may be another program, another
 * version or broken: nothing that is read is believed before it is checked, and whatever is read,
 * decoding ends in a value or in `bad`.  Main thread only. */
#ifndef LAUNCHER_TREE_FRAME_H
#define LAUNCHER_TREE_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    FRAME_HEADER = 12,
    FRAME_VERSION = 2, /* of the frames; changes with any of them */
    FRAME_GREETING = 64,
    FRAME_MAX = 256 << 20,  /* payload; far more than the fence data of 100,000 ranks */
    FRAME_NOISE_MAX = 65536 /* text before the greeting; more is no login script */
};

#define FRAME_ALL UINT32_MAX

enum frame_type {
    /* Between neighbours in the tree. */
    FRAME_PING = 1, /* I am alive */
    FRAME_TREE,     /* down: what you start: see tree.h */
    /* Up. */
    FRAME_INFO,    /* an agent is there: what its host has */
    FRAME_LOST,    /* a host could not be started or was lost: why */
    FRAME_READY,   /* everything but the ranks is prepared, or why not */
    FRAME_STARTED, /* the ranks run, or why not */
    FRAME_EVENT,   /* of the PMIx server */
    FRAME_EXIT,    /* a rank ended */
    FRAME_OUT,     /* a rank's output; empty: its end */
    FRAME_IN_DONE, /* a piece of stdin was taken */
    FRAME_SAY,     /* a line for the user's stderr */
    FRAME_DONE,    /* no rank, no output is left */
    /* Down. */
    FRAME_JOB,    /* what is to run: see describe.c */
    FRAME_GO,     /* start the ranks */
    FRAME_SIGNAL, /* to the ranks */
    FRAME_CREDIT, /* more output may be sent */
    FRAME_IN,     /* a piece of stdin; empty: its end */
    FRAME_FINISH, /* no rank is left in the job: the rest of their groups goes */
    FRAME_QUIT,   /* leave */
    /* Between agents. */
    FRAME_FENCE,       /* up: part of a fence */
    FRAME_FENCE_DONE,  /* down: all of it */
    FRAME_FENCE_WAITS, /* up, to the head: this fence has begun and waits for others */
    FRAME_FETCH,       /* to the node of a rank: what did it publish? */
    FRAME_FETCHED,     /* the answer, to the node that asked */
    FRAME_NTYPES
};

/* ---- encoding: after a failure (memory, too long) the rest is skipped, `failed` says so ---- */

struct frame_out {
    uint8_t *buf;
    size_t len, cap;
    bool failed;
};

void frame_begin(struct frame_out *o, enum frame_type type, uint32_t node);
void frame_put_u8(struct frame_out *o, unsigned v);
void frame_put_u32(struct frame_out *o, uint32_t v);
void frame_put_int(struct frame_out *o, int v);
void frame_put_bytes(struct frame_out *o, const void *data, size_t len); /* with its length */
void frame_put_str(struct frame_out *o, const char *text);               /* NULL stays NULL */
/* Writes the length into the header; 0 or -RT_ENOMEM. */
int frame_end(struct frame_out *o);
void frame_out_fini(struct frame_out *o);

/* ---- decoding: after the first thing that cannot be, all is 0 or NULL and `bad` is set ---- */

struct frame_in {
    const uint8_t *at, *end;
    bool bad;
};

unsigned frame_get_u8(struct frame_in *i);
uint32_t frame_get_u32(struct frame_in *i);
int frame_get_int(struct frame_in *i);
/* A count of things of which each takes at least `each` bytes of what is left: so no memory is
 * asked for that the frame could not fill. */
size_t frame_get_count(struct frame_in *i, size_t each);
/* Points into the frame. */
const void *frame_get_bytes(struct frame_in *i, size_t *len);
/* Points into the frame, terminated there; NULL when the sender's was, or bad. */
const char *frame_get_str(struct frame_in *i);
/* The same; NULL is bad. */
const char *frame_get_text(struct frame_in *i);
/* All was read and nothing was wrong. */
bool frame_in_ok(const struct frame_in *i);

/* ---- channels ---- */

struct frame {
    enum frame_type type;
    uint32_t node;
    const uint8_t *raw; /* header and payload, to pass it on */
    size_t raw_len;
    struct frame_in in; /* the payload */
};

struct frame_queue {
    uint8_t *buf;
    size_t off, len, cap;
};

struct frame_chan {
    int in, out; /* non-blocking descriptors, owned; may be the same */
    struct frame_queue rx, tx;
    bool eof;         /* nothing more comes */
    bool broken;      /* nothing can be written any more */
    bool greeted;     /* the other's greeting was read */
    size_t noise;     /* bytes skipped before it */
    char version[33]; /* of the other Weft */
    uint32_t protocol;
};

void frame_open(struct frame_chan *c, int in, int out);
void frame_close(struct frame_chan *c);
/* Queues; frame_flush() writes what can be written without waiting. */
int frame_greet(struct frame_chan *c);
int frame_send(struct frame_chan *c, const void *frame, size_t len);
void frame_flush(struct frame_chan *c);
bool frame_waiting(const struct frame_chan *c);
/* Reads what is there, at most about 1 MiB. */
void frame_fill(struct frame_chan *c);
/* 1 when the greeting is here, 0 not yet, -RT_EINVAL: another program.  Text before it is handed to
 * `noise` (may be NULL). */
int frame_greeting(struct frame_chan *c, void (*noise)(void *arg, const void *text, size_t len),
                   void *arg);
/* 1 with the next frame, valid until the next call with this channel; 0 none yet; -RT_EINVAL: the
 * input is no valid frame, and nothing further can be read. */
int frame_next(struct frame_chan *c, struct frame *f);

#endif
