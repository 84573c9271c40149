/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames between mpirun and its agents, over the standard streams of a remote shell.  Over a
 * socket also between a process that spawns and the mpirun that it has started (serve.c), and
 * between the mpiruns of spawned jobs (launcher/mpirun/family.h).
 *
 * Each side first writes a greeting of FRAME_GREETING bytes: magic, protocol, Weft version.  Text
 * that a login script prints before the greeting is skipped.  Frames follow: length of the payload,
 * type, version of the frames, node, all little endian, and the payload.  A frame from the head
 * names its destination: a node, FRAME_ALL or a part of the tree.  A frame to the head names its
 * source.
 *
 * The remote shell has authenticated the peer, but the peer may be another program, another
 * version, or faulty.  So all input is checked before use: decoding any input yields a value or
 * sets `bad`.  One thread at a time for each channel. */
#ifndef RT_BOOT_FRAME_H
#define RT_BOOT_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    FRAME_HEADER = 12,
    FRAME_VERSION = 9, /* of the frames; must change with each change of a frame */
    FRAME_GREETING = 64,
    FRAME_MAX = 256 << 20,  /* largest payload; far more than the fence data of 100,000 ranks */
    FRAME_NOISE_MAX = 65536 /* most text before the greeting; a login script prints less */
};

#define FRAME_ALL UINT32_MAX

enum frame_type {
    FRAME_PING = 1,    /* between neighbours in the tree: heartbeat */
    FRAME_TREE,        /* down: the subtree that the agent starts: see launcher/tree/tree.h */
    FRAME_INFO,        /* up: the agent runs; the resources of its host */
    FRAME_LOST,        /* a host could not be started or was lost: the reason */
    FRAME_READY,       /* the job is prepared except for the ranks, or the reason why not */
    FRAME_STARTED,     /* the ranks run, or the reason why not */
    FRAME_EVENT,       /* of the PMIx server */
    FRAME_EXIT,        /* a rank has ended */
    FRAME_OUT,         /* output of a rank; empty: end of the stream */
    FRAME_IN_DONE,     /* a piece of standard input has been taken */
    FRAME_SAY,         /* a line for the user's stderr */
    FRAME_DONE,        /* no rank and no output is left */
    FRAME_JOB,         /* down: the job: see launcher/tree/describe.c */
    FRAME_GO,          /* start the ranks */
    FRAME_SIGNAL,      /* for the ranks */
    FRAME_CREDIT,      /* more output may be sent */
    FRAME_IN,          /* a piece of standard input; empty: its end */
    FRAME_FINISH,      /* no rank of the job is left: end the processes in their groups */
    FRAME_QUIT,        /* end */
    FRAME_FENCE,       /* up: a part of a fence */
    FRAME_FENCE_DONE,  /* down: the data of the whole fence */
    FRAME_FENCE_WAITS, /* up, to the head: this fence has begun and waits for other ranks */
    FRAME_FETCH,       /* to the node of a rank: request for what the rank has published */
    FRAME_FETCHED,     /* the answer, to the requesting node */
    FRAME_ASK,         /* up: a request of a rank: see launcher/host/ask.h */
    FRAME_ANSWER,      /* down, to the requesting node or mpirun: the answer */
    FRAME_NOTICE,      /* down: a job that a rank has spawned has ended */
    FRAME_UP,          /* between mpiruns: the spawned job runs */
    FRAME_DIED,        /* down, and between mpiruns: a rank of a job has died (mpirun --ft) */
    FRAME_LOOK,        /* down: what do the ranks do?  See launcher/explain/merge.h */
    FRAME_MOVED,       /* up: whether they have done anything since the last look */
    FRAME_PICTURE,     /* up: what they wait for */
    FRAME_NTYPES
};

/* ---- encoding ---- */

/* After a failure (no memory, too long) `failed` is set and the rest is skipped. */
struct frame_out {
    uint8_t *buf;
    size_t len, cap;
    bool failed;
};

void frame_begin(struct frame_out *o, enum frame_type type, uint32_t node);
void frame_put_u8(struct frame_out *o, unsigned v);
void frame_put_u32(struct frame_out *o, uint32_t v);
void frame_put_u64(struct frame_out *o, uint64_t v);
void frame_put_int(struct frame_out *o, int v);
void frame_put_bytes(struct frame_out *o, const void *data, size_t len); /* preceded by its
                                                                          * length */
void frame_put_str(struct frame_out *o, const char *text);               /* NULL stays NULL */
/* Writes the length into the header.  0; -RT_ENOMEM: no memory, or longer than FRAME_MAX. */
int frame_end(struct frame_out *o);
void frame_out_fini(struct frame_out *o);

/* ---- decoding ---- */

/* After the first invalid value `bad` is set, and all further values are 0 or NULL. */
struct frame_in {
    const uint8_t *at, *end;
    bool bad;
};

unsigned frame_get_u8(struct frame_in *i);
uint32_t frame_get_u32(struct frame_in *i);
uint64_t frame_get_u64(struct frame_in *i);
int frame_get_int(struct frame_in *i);
/* A number of items, of which each takes at least `each` bytes of the rest of the frame; so no more
 * memory is allocated than a frame of this length can need. */
size_t frame_get_count(struct frame_in *i, size_t each);
/* The result points into the frame. */
const void *frame_get_bytes(struct frame_in *i, size_t *len);
/* The result points into the frame and is terminated; NULL if the sender's was NULL, or on
 * error. */
const char *frame_get_str(struct frame_in *i);
/* The same, but NULL is an error. */
const char *frame_get_text(struct frame_in *i);
/* Whether the whole frame has been read without an error. */
bool frame_in_ok(const struct frame_in *i);

/* ---- channels ---- */

struct frame {
    enum frame_type type;
    uint32_t node;
    const uint8_t *raw; /* header and payload, for passing it on */
    size_t raw_len;
    struct frame_in in; /* the payload */
};

struct frame_queue {
    uint8_t *buf;
    size_t off, len, cap;
};

struct frame_chan {
    int in, out; /* non-blocking descriptors, owned; may be equal */
    struct frame_queue rx, tx;
    bool eof;         /* end of input */
    bool broken;      /* nothing can be written any more */
    bool greeted;     /* the peer's greeting has been read */
    size_t noise;     /* bytes skipped before the greeting */
    char version[33]; /* Weft version of the peer */
    uint32_t protocol;
};

void frame_open(struct frame_chan *c, int in, int out);
void frame_close(struct frame_chan *c);
/* Queue data; frame_flush() writes what can be written without blocking.  -RT_EPEER: nothing can be
 * written any more; -RT_ENOMEM. */
int frame_greet(struct frame_chan *c);
int frame_send(struct frame_chan *c, const void *frame, size_t len);
void frame_flush(struct frame_chan *c);
bool frame_waiting(const struct frame_chan *c);
/* Reads what is available, at most about 1 MiB. */
void frame_fill(struct frame_chan *c);
/* Returns 1: the greeting has arrived; 0: not yet; -RT_EINVAL: the peer is another program.  Text
 * before the greeting is passed to `noise` (may be NULL). */
int frame_greeting(struct frame_chan *c, void (*noise)(void *arg, const void *text, size_t len),
                   void *arg);
/* Returns 1 with the next frame, valid until the next call with this channel; 0: none yet;
 * -RT_EINVAL: the input is no valid frame, and nothing further can be read. */
int frame_next(struct frame_chan *c, struct frame *f);

#endif
