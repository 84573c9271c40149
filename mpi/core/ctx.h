/* SPDX-License-Identifier: BSD-3-Clause */
/* Agreement on context ids among some ranks of a communicator. */
#ifndef WM_CORE_CTX_H
#define WM_CORE_CTX_H

#include "mpi/core/exch.h"

/* The ids that every process starts with. */
#define WM_CTX_WORLD 2u
#define WM_CTX_SELF 4u

/* Finds an id that is free in all participants and takes it.  `order` tells agreements of this
 * process apart that go on at the same time in several threads: the same in all participants,
 * different for different agreements.  Under the domain's lock; waits.  MPI_SUCCESS or what
 * wm_err() returned. */
int wm_ctx_agree(const struct wm_exch *x, uint64_t order, uint32_t *ctx);
void wm_ctx_init(void);

#endif
