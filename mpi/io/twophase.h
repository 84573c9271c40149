/* SPDX-License-Identifier: BSD-3-Clause */
/* The two-phase exchange: collective access through aggregators. */
#ifndef WM_IO_TWOPHASE_H
#define WM_IO_TWOPHASE_H

#include "mpi/io/cop.h"

/* wm_cop_init() with the first step: the operation agrees on a plan, and carries it out. */
void wm_twophase_init(struct wm_cop *c, struct wm_file *f, struct wm_iop *op, bool write, int err);
/* Frees the buffers that a file keeps for its next exchange; NULL: none. */
struct wm_exchange;
void wm_exchange_free(struct wm_exchange *x);

#endif
