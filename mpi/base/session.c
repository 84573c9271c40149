/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of sessions: see session.h. */
#include "mpi/base/session.h"

struct rt_slab wm_session_slab = RT_SLAB_ANYTIME(WM_SESSION, "session", struct wm_session);
