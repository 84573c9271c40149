/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations by messages, the origin's side. */
#ifndef WM_RMA_AM_H
#define WM_RMA_AM_H

#include "mpi/rma/op.h"

/* Sends the messages of an operation.  0: all have been sent; -RT_EAGAIN: call again later; else
 * -RT_E... */
int wm_rma_am_send(struct wm_rma_op *op);
/* Sends the data of an operation by an ordinary message.  0 or -RT_E... */
int wm_rma_bulk_data(struct wm_rma_op *op);
/* No result will come: ends the message that would carry it. */
void wm_rma_fetch_fails(struct wm_rma_op *op, int err);

#endif
