/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to mpi/p2p: message kinds, the point-to-point request, stored messages.
 *
 * Life of a rendezvous (sender S, receiver R):
 *     S: RTS {S's request, length, key of the buffer if the transport can get}
 *     R: on match, splits the length: get for one part, put for the other
 *        get: R reads, then FIN_GET {S's request}
 *        put: R: CTS {S's request, R's request, range, key of R's buffer};  S writes, then FIN_PUT
 * {R's request}, which is left out where R's transport tells that all has come (WM_CTS_KNOWS).
 * Either part may be empty, not both.  Several FIN_GET may go as one FIN_GETS.
 *     Where R's transport tells and nothing else is under way, S sends the first bytes behind the
 * RTS, without waiting (EARLY); an R that cannot use them asks for the whole.
 *     S wants it back (cancel.c): CANCEL {S's request};  R, if it is unmatched: CANCELLED {the
 * same}
 *     When a buffer at either end is not contiguous (chunks.c), R: CTS {..., stream}; S sends the
 * data as DATA messages named after R's request, in order, or in pieces, which are messages of the
 * collective context with a tag from R's request; the last one ends it at both sides.  Requests are
 * named by their handles, so a late message for one that has gone is recognised and dropped. */
#ifndef WM_P2P_ENGINE_H
#define WM_P2P_ENGINE_H

#include "mpi/base/comm.h"
#include "mpi/p2p/domain.h"
#include "mpi/p2p/p2p.h"
#include "runtime/base/copy.h"
#include "runtime/gpu/gpu.h"

enum wm_kind {
    WM_EAGER = 0,
    WM_EAGER_SYNC,
    WM_SYNC_ACK,
    WM_RTS,
    WM_CTS,
    WM_FIN_GET,
    WM_FIN_PUT,
    WM_PART_INIT,
    WM_DATA,
    WM_FIN_GETS,
    WM_LAST,
    WM_EARLY, /* the first bytes of the message whose RTS came last */
    WM_CANCEL,
    WM_CANCELLED,
    WM_VOID,   /* in place of a collective's message: the data are void, and not sent */
    WM_CONTROL /* the header's tag says which: enum wm_control.  The last value that has room in the
                  header, so each further kind of control message is one of these. */
};
enum wm_control { WM_FLOW_STOP, WM_FLOW_GO, WM_FLOW_MARK, WM_FLOW_MARKED }; /* flow.h; no payload */
#define WM_KIND_SHIFT 28
#define WM_CTX_MASK ((1u << WM_KIND_SHIFT) - 1)

#define WM_RTS_KEY 1u        /* `key` is there */
#define WM_RTS_CAN_STREAM 2u /* the sender can send DATA messages */
#define WM_RTS_PACKS 4u      /* its buffer is not contiguous: nothing but a stream will do */
#define WM_RTS_DEVICE 8u     /* its buffer is device memory, and so is what `key` names */
#define WM_RTS_STAGES 16u    /* it can send pieces of its device memory */
#define WM_RTS_NET \
    32u                  /* `key` is of the transport that carries messages, which a buffer that \
                            is no device memory always means */
#define WM_RTS_EARLY 64u /* a WM_EARLY of `early` bytes follows */
struct wm_rts {
    int64_t len;
    uint32_t sender;
    uint32_t flags; /* WM_RTS_... */
    union {
        char key[BTL_KEY_MAX];
        int64_t early;
    };
};
enum wm_stream {
    WM_STREAM_NONE,
    WM_STREAM_CHUNKS,
    WM_STREAM_PIECES,       /* messages of `step` bytes between host memory, the last shorter */
    WM_STREAM_PIECES_DEVICE /* ... between device memory */
};
#define WM_CTS_GETS 1u  /* the receiver reads the rest itself */
#define WM_CTS_KNOWS 2u /* and knows when what it asks for has come: only a failure is told */
struct wm_cts {
    int64_t off, len;
    uint32_t sender, receiver;
    uint32_t flags;  /* WM_CTS_... */
    uint32_t stream; /* enum wm_stream */
    union {
        int64_t step; /* of pieces */
        char key[BTL_KEY_MAX];
    };
};
struct wm_fin {
    uint32_t req;
    int32_t err;
};
/* To processes of other hosts, which share no memory in which to read it: this process is in
 * MPI_Finalize and posts no more receives; or it has come back. */
struct wm_last {
    uint32_t is_last;
};

/* FIN_GET without an error for several requests: device messages end in crowds. */
struct wm_fins {
    uint32_t n;
    uint32_t req[WM_FINS_MAX];
};

/* A message that met -RT_EAGAIN.  A control message owns `data` (allocated behind it); an eager
 * message is sent from its request, which it completes. */
struct wm_pend {
    struct rt_list link;
    struct btl_hdr hdr;
    uint32_t len;
    struct wm_preq *req;
    char data[];
};

enum wm_preq_kind {
    WM_PREQ_SEND,
    WM_PREQ_RECV,
    WM_PREQ_ON_STACK /* blocking receive that lives in its caller's frame: no handle */
};

/* How far a message has come; rndv.c has the transitions and the events that cause them. */
enum wm_preq_state {
    WM_IDLE,   /* in no use, complete, or an eager send that waits for room */
    WM_POSTED, /* receive: waits for its message, may be cancelled */
    /* send */
    WM_ANNOUNCED,  /* the receiver has not answered */
    WM_RECALLED,   /* ... and has been asked to give the message back */
    WM_PUT,        /* the transport has the put, or it waits for room (`pend`) */
    WM_PUT_SHARED, /* ... while the receiver gets the rest */
    WM_PUT_DONE,   /* the receiver still gets the rest */
    /* receive */
    WM_GET,        /* the transport has the get, or it waits for room */
    WM_GET_SHARED, /* ... while the sender puts the rest */
    WM_FILL,       /* the sender puts */
    WM_FILL_EARLY, /* ... and the first bytes are still to come */
    WM_EARLY_ONLY, /* the first bytes are still to come */
    WM_QUEUED,     /* waits for staging memory */
    /* both */
    WM_CHUNKS, /* chunks.c */
    WM_PIECES, /* pieces.c */
    WM_LOST,   /* the peer is lost, but the transport still has the put or get */
    WM_STATES
};
/* What moves a transfer on by itself. */
enum wm_preq_step {
    WM_STEP_OP,    /* this side's part has ended: its put, get, chunks or pieces */
    WM_STEP_PEER,  /* the peer's part has ended */
    WM_STEP_EARLY, /* the first bytes have come */
    WM_STEP_BACK,  /* the message has been given back */
    WM_STEP_LOST,  /* the peer is lost */
    WM_STEPS
};

/* What an eager message touches comes first, in three cache lines.  In a spare request r.arg is the
 * next spare one and r.err the handle it will get; ops, kind and dom stay, because sends and
 * receives have lists of their own; `type` and everything from `peer` on is zero, and is zero
 * again when the request is released, so that taking one clears nothing. */
struct wm_preq {
    struct rt_req r;         /* first member */
    struct wm_posted posted; /* receive: while posted; else `link` in wm_domain.streams */
    uint8_t kind;            /* enum wm_preq_kind */
    uint8_t mode;            /* enum wm_mode */
    uint8_t state;           /* enum wm_preq_state */
    uint8_t stream;          /* receive: enum wm_stream to ask for once it is its turn */
    bool coll;
    bool prompt; /* send: wm_msg.prompt */
    int tag;     /* as the user gave it */
    const void *buf;
    int64_t nbytes; /* send: message; receive: room, in packed bytes */
    const struct rt_layout *layout;
    struct wm_comm *comm; /* referenced */
    struct wm_domain *dom;
    struct wm_type *type; /* referenced, or NULL (predefined, or internal layout) */
    int64_t count;
    int peer_rank; /* as the user gave it */

    /* Rendezvous. */
    struct wm_peer *peer;
    struct rt_list link;   /* wm_peer.rndv */
    char *packed;          /* contiguous stand-in for a non-contiguous buffer, owned */
    struct btl_mem *mem;   /* registration of the local buffer */
    struct btl_rmem *rmem; /* peer's buffer */
    struct btl_op op;
    uint32_t remote;          /* the peer's request */
    int fail;                 /* first error, reported at completion */
    bool timed;               /* counted in the domain's choice */
    struct wm_pieces *pieces; /* pieces.c */
    struct wm_dev *dev;       /* its buffer is device memory: device.c */
    bool packed_pooled;       /* `packed` is from the domain's pool */
    int64_t moved_len;        /* receive: bytes that will arrive: min(message, room) */
    int64_t put_off; /* chunks: how far they have come; while announced: the bytes sent early */
    int64_t put_len;
    union {
        int64_t get_len; /* receive */
        int64_t ready;   /* sender of chunks: so far is packed */
    };
    struct wm_pend *pend; /* queued behind a full ring */
};

/* An unexpected message.  Short ones come from a free list. */
struct wm_stored {
    struct wm_unex unex;
    struct wm_peer *from;
    uint32_t kind;
    uint32_t room; /* payload bytes allocated */
    size_t len;
    struct wm_stored *next_free;
    _Alignas(16) char data[];
};

struct wm_message { /* MPI_Message */
    struct rt_obj obj;
    struct wm_stored *stored;
    struct wm_comm *comm;
};

static inline struct btl_hdr wm_hdr(enum wm_kind kind, uint32_t ctx, int tag, int src)
{
    return (struct btl_hdr){ .ctx = (uint32_t)kind << WM_KIND_SHIFT | ctx,
                             .tag = tag,
                             .src = (uint32_t)src };
}

static inline uint32_t wm_ctx(const struct wm_comm *c, bool coll)
{
    return c->ctx + (coll ? 1u : 0u);
}

static inline char *wm_rndv_buf(const struct wm_preq *q) /* contiguous bytes of the message */
{
    return q->packed ? q->packed : (char *)(uintptr_t)q->buf;
}

/* A message has been sent without asking, or has found its receive. */
static inline void wm_count_eager(struct wm_domain *d, int64_t nbytes)
{
    wm_stat_add(&d->stats.eager, 1);
    wm_stat_add(&d->stats.sent_bytes, (uint64_t)nbytes);
}
static inline void wm_count_received(struct wm_domain *d, int64_t nbytes)
{
    wm_stat_add(&d->stats.received, 1);
    wm_stat_add(&d->stats.received_bytes, (uint64_t)nbytes);
}

/* The engine's view of a rank, or -RT_E...; fills comm->peers. */
int wm_comm_peer(struct wm_comm *c, int rank, struct wm_peer **out);
/* Bytes of count elements, or -RT_EINVAL on overflow. */
int64_t wm_nbytes(int64_t count, const struct rt_layout *l);

/* request.c */
extern const struct rt_req_ops wm_recv_ops;
struct wm_preq *wm_preq_make(struct wm_domain *d, enum wm_preq_kind kind); /* none is spare */
static inline struct wm_preq *wm_preq_new(struct wm_domain *d, enum wm_preq_kind kind)
{
    struct wm_preq *q = d->spare[kind];
    if (rt_unlikely(!q))
        return wm_preq_make(d, kind);
    d->spare[kind] = q->r.arg;
    q->r.obj.handle = (uint32_t)q->r.err;
    q->r.err = 0;
    q->r.done = 0;
    q->r.flags = 0;
    q->r.notify = NULL;
    return q;
}
void wm_preq_release(struct rt_req *r);
static inline void wm_preq_finish(struct wm_preq *q, int err) { wm_req_end(&q->r, err); }

/* send.c: control messages.  Both queue one that meets -RT_EAGAIN; wm_send_ctl ends the job when
 * the message cannot be sent at all, wm_try_ctl leaves that to the caller. */
void wm_send_ctl(struct wm_domain *d, struct wm_peer *p, struct btl_hdr hdr, const void *data,
                 uint32_t len);
int wm_try_ctl(struct wm_domain *d, struct wm_peer *p, struct btl_hdr hdr, const void *data,
               uint32_t len);
int wm_retry(struct wm_domain *d);
/* Queues a put or get that met -RT_EAGAIN. */
void wm_pend_rma(struct wm_preq *q);
void wm_pend_drop(struct wm_peer *p, int err); /* the peer is lost */
/* The sync acknowledgement and the answers of a rendezvous, for the sender's side. */
void wm_on_sync_ack(struct wm_domain *d, const struct wm_fin *f);

/* recv.c */
void wm_on_recv(void *arg, struct btl_peer *from, const struct btl_hdr *h, const void *data,
                size_t len);
/* Delivers a message to a matching receive; from store or straight from the transport. */
void wm_deliver(struct wm_preq *q, struct wm_peer *from, uint32_t kind, const struct wm_key *k,
                const void *data, size_t len);
void wm_stored_free(struct wm_domain *d, struct wm_stored *s);
/* Ends the receives that wait for a lost peer. */
void wm_recv_fail_peer(struct wm_domain *d, const struct wm_peer *p, int err);

/* part.c: a partitioned send has been made; a peer is lost; the end. */
void wm_on_part_init(struct wm_domain *d, const struct wm_key *k, const void *data);
void wm_part_fail_peer(struct wm_domain *d, const struct wm_peer *p, int err);
void wm_part_fini(struct wm_domain *d);

/* choose.c: which way a message of this length goes, and that it has arrived. */
enum wm_way wm_choice_begin(struct wm_domain *d, int64_t len);
void wm_choice_end(struct wm_domain *d, int64_t len, bool failed);

/* cancel.c: of a send that is complete, too, if its target is gone.  0, or an error of the request
 * to the target. */
int wm_cancel_send(struct wm_preq *q);
void wm_on_cancel(struct wm_domain *d, struct wm_peer *from, const struct wm_key *k,
                  const void *data, size_t len);
void wm_on_cancelled(const struct wm_fin *f);
/* Nothing else happens: targets may have gone that have not answered; one has. */
void wm_cancel_look(struct wm_domain *d);
void wm_cancel_left(struct wm_peer *p);

/* rndv.c */
int wm_rndv_send(struct wm_preq *q);
int wm_rndv_announce(struct wm_preq *q, const struct wm_rts *rts); /* sends the RTS */
/* Registers the message with the transport that moves its device memory; its key. */
int wm_rndv_dev_key(struct wm_preq *q, struct btl_peer *by, char *key);
/* Asks the sender to write [off, off + len) of the message. */
int wm_rndv_ask_put(struct wm_preq *q, int64_t off, int64_t len, bool will_get);
int wm_rndv_pull(struct wm_preq *q, const void *key); /* gets the message, all of it or get_len */
/* Whether a message that goes by one of put and get goes by put. */
bool wm_rndv_put_wins(const struct wm_preq *q);
void wm_rndv_got(struct wm_preq *q, int err);
void wm_rndv_send_fin(struct wm_preq *q, enum wm_kind kind, int err);
int wm_rndv_start(struct wm_preq *q); /* its put or get: 0, -RT_EAGAIN, or an error */
void wm_rndv_recv(struct wm_preq *q, const struct wm_rts *rts);
void wm_on_cts(const struct wm_cts *cts);
void wm_on_fin(struct wm_domain *d, enum wm_kind kind, const struct wm_fin *f);
void wm_on_fins(struct wm_domain *d, const struct wm_fins *f);
/* One step of the state machine; err: this part has failed.  The request may be gone on return. */
void wm_rndv_step(struct wm_preq *q, enum wm_preq_step step, int err);
/* The next state is this side's decision. */
void wm_rndv_enter(struct wm_preq *q, enum wm_preq_state state);
/* This side gives up, or has nothing to move: the transport and the peer have no part in it. */
void wm_rndv_end(struct wm_preq *q, int err);
void wm_rndv_fail_peer(struct wm_peer *p, int err);
/* chunks.c: chunks, and the turns of all streams */
bool wm_stream_possible(const struct wm_peer *p);
int wm_stream_send(struct wm_preq *q, int64_t len); /* the first `len` bytes; 0 or an error */
int wm_stream_progress(struct wm_domain *d);
/* pieces.c */
#define WM_PIECE_MAX (512 << 10) /* longest piece in host memory */
/* A buffer of nbytes as `packed`, and its return. */
int wm_packed_take(struct wm_preq *q, int64_t nbytes);
void wm_packed_drop(struct wm_preq *q);
void wm_pieces_ask(struct wm_preq *q, bool on_device); /* the receiver asks for pieces */
int wm_pieces_send(struct wm_preq *q, const struct wm_cts *cts);
int wm_pieces_step(struct wm_preq *q);
void wm_pieces_stop(struct wm_preq *q, int err); /* the sender has failed */
void wm_pieces_drop(struct wm_preq *q);
void wm_pieces_resume(struct wm_domain *d);
void wm_pieces_fini(struct wm_domain *d);
void wm_on_early(const struct btl_peer *from, const void *data, size_t len);
void wm_on_data(const struct btl_peer *from, const struct btl_hdr *h, const void *data, size_t len);
/* Message size from the payload of an unexpected message, for probes. */
int64_t wm_stored_len(const struct wm_stored *s);

#endif
