/* SPDX-License-Identifier: BSD-3-Clause */
/* What mpirun and its agents say to each other, over the standard streams of a remote shell.
 *
 * Each side first writes a greeting of WIRE_GREETING bytes: magic, protocol, Weft version.  Text
 * that a login script prints before it is skipped.  Then come frames: length of the payload,
 * type, version of the frames, node, all little endian, and the payload.  A frame on its way from
 * the head names the node it is for, WIRE_ALL or a part of the tree; one on its way to the head
 * the node it is from.
 *
 * The peer passed the authentication of the remote shell, but may be another program, another
 * version or broken: nothing that is read is believed before it is checked, and whatever is read,
 * decoding ends in a value or in `bad`.  Main thread only. */
#ifndef LAUNCHER_WIRE_H
#define LAUNCHER_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    WIRE_HEADER = 12,
    WIRE_VERSION = 2,             /* of the frames; changes with any of them */
    WIRE_GREETING = 64,
    WIRE_MAX = 256 << 20,         /* payload; far more than the fence data of 100,000 ranks */
    WIRE_NOISE_MAX = 65536        /* text before the greeting; more is no login script */
};

#define WIRE_ALL UINT32_MAX

enum wire_type {
    /* Between neighbours in the tree. */
    WIRE_PING = 1,                /* I am alive */
    WIRE_TREE,                    /* down: what you start: see tree.h */
    /* Up. */
    WIRE_INFO,                    /* an agent is there: what its host has */
    WIRE_LOST,                    /* a host could not be started or was lost: why */
    WIRE_READY,                   /* everything but the ranks is prepared, or why not */
    WIRE_STARTED,                 /* the ranks run, or why not */
    WIRE_EVENT,                   /* of the PMIx server */
    WIRE_EXIT,                    /* a rank ended */
    WIRE_OUT,                     /* a rank's output; empty: its end */
    WIRE_IN_DONE,                 /* a piece of stdin was taken */
    WIRE_SAY,                     /* a line for the user's stderr */
    WIRE_DONE,                    /* no rank, no output is left */
    /* Down. */
    WIRE_JOB,                     /* what is to run: see describe.c */
    WIRE_GO,                      /* start the ranks */
    WIRE_SIGNAL,                  /* to the ranks */
    WIRE_CREDIT,                  /* more output may be sent */
    WIRE_IN,                      /* a piece of stdin; empty: its end */
    WIRE_FINISH,                  /* no rank is left in the job: the rest of their groups goes */
    WIRE_QUIT,                    /* leave */
    /* Between agents. */
    WIRE_FENCE,                   /* up: part of a fence */
    WIRE_FENCE_DONE,              /* down: all of it */
    WIRE_FENCE_WAITS,             /* up, to the head: this fence has begun and waits for others */
    WIRE_FETCH,                   /* to the node of a rank: what did it publish? */
    WIRE_FETCHED,                 /* the answer, to the node that asked */
    WIRE_NTYPES
};

/* ---- encoding: after a failure (memory, too long) the rest is skipped, `failed` says so ---- */

struct wire_out { uint8_t *buf; size_t len, cap; bool failed; };

void wire_begin(struct wire_out *o, enum wire_type type, uint32_t node);
void wire_put_u8(struct wire_out *o, unsigned v);
void wire_put_u32(struct wire_out *o, uint32_t v);
void wire_put_int(struct wire_out *o, int v);
void wire_put_bytes(struct wire_out *o, const void *data, size_t len);   /* with its length */
void wire_put_str(struct wire_out *o, const char *text);                 /* NULL stays NULL */
/* Writes the length into the header; 0 or -RT_ENOMEM. */
int  wire_end(struct wire_out *o);
void wire_out_fini(struct wire_out *o);

/* ---- decoding: after the first thing that cannot be, all is 0 or NULL and `bad` is set ---- */

struct wire_in { const uint8_t *at, *end; bool bad; };

unsigned wire_get_u8(struct wire_in *i);
uint32_t wire_get_u32(struct wire_in *i);
int      wire_get_int(struct wire_in *i);
/* A count of things of which each takes at least `each` bytes of what is left: so no memory is
 * asked for that the frame could not fill. */
size_t   wire_get_count(struct wire_in *i, size_t each);
/* Points into the frame. */
const void *wire_get_bytes(struct wire_in *i, size_t *len);
/* Points into the frame, terminated there; NULL when the sender's was, or bad. */
const char *wire_get_str(struct wire_in *i);
/* The same; NULL is bad. */
const char *wire_get_text(struct wire_in *i);
/* All was read and nothing was wrong. */
bool wire_in_ok(const struct wire_in *i);

/* ---- channels ---- */

struct wire_frame {
    enum wire_type type;
    uint32_t node;
    const uint8_t *raw;           /* header and payload, to pass it on */
    size_t raw_len;
    struct wire_in in;            /* the payload */
};

struct wire_queue { uint8_t *buf; size_t off, len, cap; };

struct wire_chan {
    int in, out;                  /* non-blocking descriptors, owned; may be the same */
    struct wire_queue rx, tx;
    bool eof;                     /* nothing more comes */
    bool broken;                  /* nothing can be written any more */
    bool greeted;                 /* the other's greeting was read */
    size_t noise;                 /* bytes skipped before it */
    char version[33];             /* of the other Weft */
    uint32_t protocol;
};

void wire_open(struct wire_chan *c, int in, int out);
void wire_close(struct wire_chan *c);
/* Queues; wire_flush() writes what can be written without waiting. */
int  wire_greet(struct wire_chan *c);
int  wire_send(struct wire_chan *c, const void *frame, size_t len);
void wire_flush(struct wire_chan *c);
bool wire_waiting(const struct wire_chan *c);
/* Reads what is there, at most about 1 MiB. */
void wire_fill(struct wire_chan *c);
/* 1 when the greeting is here, 0 not yet, -RT_EINVAL: another program.  Text before it is handed to
 * `noise` (may be NULL). */
int  wire_greeting(struct wire_chan *c, void (*noise)(void *arg, const void *text, size_t len),
                   void *arg);
/* 1 with the next frame, valid until the next call with this channel; 0 none yet; -RT_EINVAL: what
 * came is no frame of ours, and no more can be read. */
int  wire_next(struct wire_chan *c, struct wire_frame *f);

#endif
