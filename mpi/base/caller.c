/* SPDX-License-Identifier: BSD-3-Clause */
/* The ABI of the calling program. */
#include "mpi/base/caller.h"

struct wm_caller wm_caller = { .null = MPI_REQUEST_NULL };

int wm_caller_code(int errcode) { return wm_caller.code ? wm_caller.code(errcode) : errcode; }
