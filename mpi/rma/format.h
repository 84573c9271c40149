/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of one-sided communication: control messages of mpi/p2p with the tag
 * WM_RMA_MESSAGE, the context of the window's hidden communicator, and struct wm_rma_msg in front
 * of the payload.  Processes of a job have the same byte order. */
#ifndef WM_RMA_FORMAT_H
#define WM_RMA_FORMAT_H

#include <stdint.h>

enum wm_rma_code {
    /* To a target. */
    WM_RMA_TYPE,     /* for `slot`: a part, from `pos` on, of a layout of `count` bytes */
    WM_RMA_PUT,      /* with the data */
    WM_RMA_PUT_BULK, /* the data follow as an ordinary message; answer: DONE */
    WM_RMA_GET,      /* answer: DATA */
    WM_RMA_GET_BULK, /* answer: an ordinary message, or DONE with an error */
    WM_RMA_ACC,      /* a part of an accumulate, from `pos` on; answer with WM_RMA_FETCH: DATA */
    /* The data follow as an ordinary message; answer: DONE; with WM_RMA_FETCH: an ordinary message,
     * or DONE with an error.  With WM_RMA_LENT the data follow only after the answer WANTED. */
    WM_RMA_ACC_BULK,
    WM_RMA_CAS,    /* with compare and new value; answer: DATA */
    WM_RMA_LOCK,   /* value: enum wm_want_kind; answer: GRANT */
    WM_RMA_UNLOCK, /* id not 0: answer FLUSHED */
    WM_RMA_FLUSH,  /* answer: FLUSHED */
    WM_RMA_COMPLETE,
    WM_RMA_KEY_ASKED, /* answer: KEY_GIVEN */
    /* To an origin. */
    WM_RMA_DATA,
    WM_RMA_DONE,   /* of operation `id`; value: 0 or -RT_E... */
    WM_RMA_WANTED, /* the data of operation `id`, whose memory the target cannot read */
    WM_RMA_GRANT,
    WM_RMA_FLUSHED, /* value: that of the request */
    WM_RMA_FAILED,  /* of an operation without an answer; value: -RT_E... */
    WM_RMA_POST,
    /* The key of the memory follows; count: its bytes, pos: displacement unit.  value: -RT_E...: it
     * cannot be accessed by RDMA. */
    WM_RMA_KEY_GIVEN
};

enum {
    WM_RMA_FETCH = 1,
    WM_RMA_ACK = 2,   /* of PUT, and of ACC without WM_RMA_FETCH: answer FLUSHED with value `id` */
    WM_RMA_APART = 4, /* the data begin at byte WM_RMA_HEAD */
    WM_RMA_LENT = 8   /* of ACC_BULK: the key of the origin's memory that holds the data follows */
};
/* Data that the transport takes from the user's buffer begin at a multiple of 64 (btl/tcp/format.h
 * has the reason). */
#define WM_RMA_HEAD 64u

struct wm_rma_msg {
    uint8_t code; /* enum wm_rma_code */
    uint8_t op, elem, flags;
    uint32_t id; /* operation of the origin */
    union {
        int64_t disp; /* in the target's units */
        int64_t value;
    };
    int64_t count; /* elements of the layout at the target; bytes if it is contiguous */
    union {
        int64_t pos;
        int64_t note; /* of a put: struct wm_rma_args.note */
    };
    uint32_t len; /* packed bytes of data that this message carries or requests */
    uint16_t slot;
    uint16_t esize; /* packed bytes of a basic element */
};

/* Values of the setting rma_path. */
enum { WM_RMA_FORCE_NONE, WM_RMA_FORCE_AM, WM_RMA_FORCE_CMA, WM_RMA_FORCE_RDMA };

#endif
