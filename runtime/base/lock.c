/* SPDX-License-Identifier: BSD-3-Clause */
/* The switch that enables the library's locks.  It is set before a second thread can enter the
 * library, so a plain store is sufficient: the creation of that thread, or the synchronisation of
 * the program, orders it. */
#include "runtime/base/lock.h"

bool rt_threaded;

void rt_lock_enable(void) { rt_threaded = true; }
