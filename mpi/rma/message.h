/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of one-sided communication: sending. */
#ifndef WM_RMA_MESSAGE_H
#define WM_RMA_MESSAGE_H

#include "mpi/rma/format.h"
#include "mpi/rma/target.h"

/* A message without data. */
void wm_rma_send(struct wm_rma *r, struct wm_peer *p, int code, uint32_t id, int64_t value);
struct btl_hdr wm_rma_hdr(const struct wm_rma *r);
/* The tag of the ordinary message that carries the data of an operation. */
int wm_rma_tag(uint32_t id, bool to_origin);
/* Most bytes of data that a message carries behind its struct wm_rma_msg. */
size_t wm_rma_room(const struct wm_peer *p);
/* Memory of this process, valid until the next call; NULL: there is none. */
char *wm_rma_scratch(size_t nbytes);
void wm_rma_scratch_free(void);
/* Requests a lock from the target, once. */
void wm_rma_ask(struct wm_rma *r, struct wm_rma_target *t, enum wm_want_kind kind);

#endif
