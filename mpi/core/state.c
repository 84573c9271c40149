/* SPDX-License-Identifier: BSD-3-Clause */
/* The phase of the library, and its settings, which are read before the library is up.  One mutex;
 * it is always taken, because the thread level is not known yet. */
#include "mpi/core/state.h"
#include "runtime/base/cfg.h"
#include "runtime/base/log.h"
#include "runtime/gpu/gpu.h"
#include <pthread.h>

#define HOLD_MS 1000 /* ranks that start together usually get here within this time */

struct wm_state wm_state;

void wm_settings_hold(bool hold) { rt_log_hold(hold && !rt_cfg_speaks() ? HOLD_MS : 0); }

static int read_settings(void)
{
    int err = rt_cfg_load();
    if (err)
        return wm_err_rt(err, "reading the settings");
    err = rt_log_configure(cfg.log);
    return err ? wm_err_rt(err, "the setting WEFT_LOG is \"%s\"", cfg.log) : MPI_SUCCESS;
}

int wm_settings_read(void)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static bool done;
    int err = MPI_SUCCESS;
    pthread_mutex_lock(&mutex);
    if (!done) {
        wm_settings_hold(true);
        err = read_settings();
        wm_settings_hold(false);
        done = !err;
    }
    pthread_mutex_unlock(&mutex);
    return err;
}

bool wm_has_gpu(void)
{
    return wm_settings_read() == MPI_SUCCESS && rt_gpu_possible() &&
           rt_gpu_driver(true) == RT_GPU_DRIVER_READY;
}
