/* SPDX-License-Identifier: BSD-3-Clause */
/* Which events tools listen to, and where they go: see event.h. */
#include "mpi/base/event.h"

uint32_t wm_events_on;
void (*wm_event_raise)(enum wm_event_type t, const struct wm_event_data *data);
