/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of one-sided communication: the origin sends them, the target and the origin handle
 * those that arrive. */
#ifndef WM_RMA_MESSAGE_H
#define WM_RMA_MESSAGE_H

#include "mpi/rma/format.h"
#include "mpi/rma/op.h"

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

/* ---- the origin: am.c, answer.c ---- */

/* Sends the messages of an operation.  0: all have been sent; -RT_EAGAIN: call again later; else
 * -RT_E... */
int wm_rma_am_send(struct wm_rma_op *op);
/* Sends the data of an operation by an ordinary message.  0 or -RT_E... */
int wm_rma_bulk_data(struct wm_rma_op *op);
/* No result will come: ends the message that would carry it. */
void wm_rma_fetch_fails(struct wm_rma_op *op, int err);
/* An answer of a target, or its post. */
void wm_rma_on_answer(struct wm_rma *r, int rank, const struct wm_rma_msg *m, const char *data);

/* ---- the target: serve.c ---- */

/* A message of an origin, with `len` bytes of data. */
void wm_rma_serve(struct wm_rma *r, struct wm_peer *from, int rank, const struct wm_rma_msg *m,
                  const char *data, size_t len);
void wm_rma_deferred_run(struct wm_rma *r); /* messages deferred while a kernel ran */

#endif
