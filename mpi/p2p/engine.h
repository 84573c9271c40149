/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to mpi/p2p: message kinds, the point-to-point request, stored messages.
 *
 * Life of a rendezvous (sender S, receiver R):
 *  - S sends RTS {S's request, length, key of its buffer if the transport can get}.
 *  - R, on the match, divides the length: it gets one part, and S puts the other.  Either part may
 *    be empty, not both.
 *  - get: R reads, then sends FIN_GET {S's request}.  Several FIN_GET may be one FIN_GETS.
 *  - put: R sends CTS {S's request, R's request, range, key of R's buffer}.  S writes, then sends
 *    FIN_PUT {R's request}, unless R's transport detects the end of the put (WM_CTS_KNOWS).
 *  - Early bytes: where the transport offers them and nothing else is under way, S sends the first
 *    bytes behind the RTS, without waiting (EARLY).  If they are the whole message, R sends FIN_GET
 *    with the match: S's buffer is free.  An R that cannot use them asks for the whole message.
 *  - Cancel (cancel.c): S sends CANCEL {S's request}; an R without a match answers CANCELLED with
 *    the same content.
 *  - A buffer at either end is not contiguous (chunks.c): R sends CTS {..., stream}.  S sends the
 *    data as DATA messages that name R's request, in order, or in pieces: messages of the
 *    collective context with a tag made of R's request.  The last one completes both sides.
 * Requests are named by their handles, so a late message for a request that no longer exists is
 * recognised and dropped. */
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
    WM_VOID,   /* in place of a collective's message: its data are poisoned and not sent */
    WM_CONTROL /* the last value of four bits; the header's tag contains an enum wm_control */
};
enum wm_control {
    WM_FLOW_STOP, /* flow.h; no payload */
    WM_FLOW_GO,
    WM_FLOW_MARK,
    WM_FLOW_MARKED,
    WM_RMA_MESSAGE, /* mpi/rma/format.h */
    WM_DIED,        /* struct rt_name: this process has died */
    WM_INTERRUPT,   /* what came before it may end waits; no payload */
    WM_FT           /* mpi/ft/ft.h */
};
#define WM_KIND_SHIFT 28
#define WM_CTX_MASK ((1u << WM_KIND_SHIFT) - 1)

#define WM_RTS_KEY 1u        /* `key` is set */
#define WM_RTS_CAN_STREAM 2u /* the sender can send DATA messages */
#define WM_RTS_PACKS 4u      /* the data must come as a stream, not by put or get */
#define WM_RTS_DEVICE 8u     /* its buffer and the memory of `key` are device memory */
#define WM_RTS_STAGES 16u    /* it can send pieces of its device memory */
/* `key` is of the transport that carries messages.  Always so for a buffer in host memory. */
#define WM_RTS_NET 32u
#define WM_RTS_SIG_SHIFT 8 /* from this bit on: the signature of the data (checks.h), or 0 */
#define WM_RTS_EARLY 64u   /* a WM_EARLY of `early` bytes follows */
struct wm_rts {
    int64_t len;     /* bytes of the message */
    uint32_t sender; /* handle of the sender's request */
    uint32_t flags;  /* WM_RTS_... flags */
    union {
        char key[BTL_KEY_MAX];
        int64_t early; /* bytes */
    };
};
enum wm_stream {
    WM_STREAM_NONE,
    WM_STREAM_CHUNKS,
    WM_STREAM_PIECES,       /* messages of `step` bytes between host memory, the last shorter */
    WM_STREAM_PIECES_DEVICE /* ... between device memory */
};
#define WM_CTS_GETS 1u /* the receiver gets the rest itself */
/* The receiver's transport detects the end of the put: FIN_PUT is sent only after a failure. */
#define WM_CTS_KNOWS 2u
/* The receiver has measured that put alone is faster: the next messages need no key. */
#define WM_CTS_ALONE 4u
struct wm_cts {
    int64_t off, len;          /* bytes of the message */
    uint32_t sender, receiver; /* handles of both requests */
    uint32_t flags;            /* WM_CTS_... */
    uint32_t stream;           /* enum wm_stream */
    union {
        int64_t step; /* bytes of a piece */
        char key[BTL_KEY_MAX];
    };
};
struct wm_fin {
    uint32_t req; /* handle of the request that it is for */
    int32_t err;  /* 0 or -RT_E... */
};
/* Sent to processes of other hosts, which share no memory with this process.  1: this process is in
 * MPI_Finalize and posts no more receives; 0: it uses MPI again. */
struct wm_last {
    uint32_t is_last;
};

/* FIN_GET without an error for several requests: device messages often complete together. */
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

/* How far a message has come; transfer.c has the transitions and the events that cause them. */
enum wm_preq_state {
    WM_IDLE,   /* unused, complete, or an eager send that waits for room */
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
/* Events that move a transfer on. */
enum wm_preq_step {
    WM_STEP_OP,    /* this side's part has ended: its put, get, chunks or pieces */
    WM_STEP_PEER,  /* the peer's part has ended */
    WM_STEP_EARLY, /* the first bytes have come */
    WM_STEP_BACK,  /* the message has been given back */
    WM_STEP_LOST,  /* the peer is lost */
    WM_STEPS
};

/* What an eager message touches comes first, in three cache lines.  A spare request keeps what the
 * next use needs: r.arg is the next spare request, r.err the handle, and ops, kind and dom stay,
 * because sends and receives have lists of their own.  `type` and everything from `peer` on is zero
 * in a spare request; a release sets them to zero again, so that taking a request clears
 * nothing. */
struct wm_preq {
    struct rt_req r;         /* first member */
    struct wm_posted posted; /* receive: while posted; else `link` in wm_domain.streams */
    uint8_t kind;            /* enum wm_preq_kind */
    uint8_t mode;            /* enum wm_mode */
    uint8_t state;           /* enum wm_preq_state */
    uint8_t stream;          /* receive: enum wm_stream to ask for when staging memory is free */
    bool coll;
    bool prompt; /* send: wm_msg.prompt */
    int tag;     /* the user's */
    const void *buf;
    int64_t nbytes; /* send: message; receive: room, in packed bytes */
    const struct rt_layout *layout;
    struct wm_comm *comm; /* referenced */
    struct wm_domain *dom;
    struct wm_type *type; /* referenced, or NULL (predefined, or internal layout) */
    int64_t count;
    int peer_rank; /* the user's */

    /* Rendezvous. */
    struct wm_peer *peer;
    struct rt_list link;   /* wm_peer.rndv */
    char *packed;          /* contiguous copy of a non-contiguous buffer, owned */
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
    int64_t put_off; /* chunks: bytes done; while announced: the bytes sent early, and at the
                      * receiver those that have come */
    int64_t put_len;
    union {
        int64_t get_len; /* receive */
        int64_t ready;   /* sender of chunks: bytes packed */
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

/* Bytes of the message. */
static inline int64_t wm_stored_len(const struct wm_stored *s)
{
    if (s->kind == WM_RTS)
        return ((const struct wm_rts *)(const void *)s->data)->len;
    return (int64_t)s->len - (s->kind == WM_EAGER_SYNC ? (int64_t)sizeof(uint64_t) : 0);
}

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

/* A message has been sent eagerly, or has found its receive. */
static inline void wm_count_eager(struct wm_domain *d, int64_t nbytes)
{
    wm_stat_add(&d->stats->eager, 1);
    wm_stat_add(&d->stats->sent_bytes, (uint64_t)nbytes);
}
static inline void wm_count_received(struct wm_domain *d, int64_t nbytes)
{
    wm_stat_add(&d->stats->received, 1);
    wm_stat_add(&d->stats->received_bytes, (uint64_t)nbytes);
}

#endif
