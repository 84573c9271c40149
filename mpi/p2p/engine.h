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
enum wm_control {
    WM_FLOW_STOP, /* flow.h; no payload */
    WM_FLOW_GO,
    WM_FLOW_MARK,
    WM_FLOW_MARKED,
    WM_RMA_MESSAGE /* mpi/rma/format.h */
};
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

#endif
