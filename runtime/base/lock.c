/* SPDX-License-Identifier: BSD-3-Clause */
/* The switch that turns the library's locks on.  Called before a second thread can be inside the
 * library, so a plain store is enough: creating that thread, or the program's own
 * synchronisation, orders it. */
#include "runtime/base/lock.h"

bool rt_threaded;

void rt_lock_enable(void) { rt_threaded = true; }
