/* SPDX-License-Identifier: BSD-3-Clause */
/* The arguments of the message engine's calls, which are in send.h, recv.h and buffered.h.  The
 * calls take ranks in a communicator and layouts; bodies of chapter 3 and the collectives' team use
 * them. */
#ifndef WM_P2P_P2P_H
#define WM_P2P_P2P_H

#include "mpi/base/comm.h"
#include "mpi/p2p/domain.h"
#include "runtime/base/req.h"
#include "runtime/layout/layout.h"

struct wm_mem;

enum wm_mode { WM_STANDARD, WM_SYNCHRONOUS, WM_READY, WM_BUFFERED };

/* The arguments of a point-to-point call; layout must live until completion (callers hold the
 * datatype). */
struct wm_msg {
    const void *buf;
    int64_t count;
    const struct rt_layout *layout;
    struct wm_comm *comm;
    int peer; /* rank, MPI_ANY_SOURCE for receives; MPI_PROC_NULL is handled by the engine */
    int tag;  /* MPI_ANY_TAG for receives */
    /* Of buf; used until the call returns.  NULL: the engine resolves buf. */
    const struct wm_mem *mem;
    bool coll;   /* collective context */
    bool prompt; /* internal and rare: short ones are sent eagerly even to a peer that has asked to
                    stop (flow.h), because this process may not poll again before the receiver needs
                    the data */
};

#endif
