/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers of targets. */
#ifndef WM_RMA_ANSWER_H
#define WM_RMA_ANSWER_H

#include "mpi/rma/format.h"
#include "mpi/rma/rma.h"

/* An answer of a target, or its post. */
void wm_rma_on_answer(struct wm_rma *r, int rank, const struct wm_rma_msg *m, const char *data);

#endif
