/* SPDX-License-Identifier: BSD-3-Clause */
/* What every part of mpi/ may ask for in any phase of the library, from any thread. */
#ifndef WM_CORE_STATE_H
#define WM_CORE_STATE_H

#include "mpi/base/mpi_int.h"
#include "runtime/base/atomic.h"

/* FORKED: this process is a child made by fork() after MPI was initialized.  The child shares the
 * connections and the memory of its parent, so it must not use the library. */
enum wm_phase { WM_BEFORE_INIT, WM_INITIALIZED, WM_FINALIZED, WM_FORKED };
struct wm_state {
    int phase;        /* enum wm_phase of the world model */
    int users;        /* world model + open sessions; the library is up while > 0.  0 when FORKED */
    int thread_level; /* MPI_THREAD_... */
};
extern RT_HIDDEN struct wm_state wm_state;

/* Reads the settings once.  Returns MPI_SUCCESS or what wm_err() returned. */
int wm_settings_read(void);
/* While `hold` is true, errors are reported later.  Wrong settings are usually wrong on all ranks:
 * rank 0 reports them at once, and mpirun ends the job before the other ranks do. */
void wm_settings_hold(bool hold);

/* Whether an NVIDIA device and its driver are present and the settings do not disable them.  Loads
 * the driver's library, but does not initialise it: a program may still choose its devices. */
bool wm_has_gpu(void);

#endif
