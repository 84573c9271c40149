/* SPDX-License-Identifier: BSD-3-Clause */
/* See lane.h. */
#include "mpi/p2p/lane.h"

struct wm_lanes wm_lanes;
