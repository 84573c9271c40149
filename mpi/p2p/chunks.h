/* SPDX-License-Identifier: BSD-3-Clause */
/* Large non-contiguous messages in chunks, and the turns of all streams.  Under the domain's lock.
 */
#ifndef WM_P2P_CHUNKS_H
#define WM_P2P_CHUNKS_H

#include "mpi/p2p/engine.h"

/* Whether the transport's messages are long enough for chunks. */
bool wm_stream_possible(const struct wm_peer *p);
int wm_stream_send(struct wm_preq *q, int64_t len); /* the first `len` bytes; 0 or an error */
/* One turn of each stream; returns the number of steps taken. */
int wm_stream_progress(struct wm_domain *d);
void wm_on_data(const struct btl_peer *from, const struct btl_hdr *h, const void *data, size_t len);

#endif
