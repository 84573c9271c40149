/* SPDX-License-Identifier: BSD-3-Clause */
/* The text that a body leaves for the error handler, and the communicator whose handler applies.
 * Both are thread-local; any thread. */
#include "mpi/base/err.h"
#include <stdarg.h>
#include <stdio.h>
#include "mpi/base/comm.h"
#include "runtime/base/cfg.h"

static __thread char detail[MPI_MAX_ERROR_STRING];
static __thread struct wm_comm *attached; /* with a reference */

int wm_err(int errclass, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(detail, sizeof detail, fmt, ap);
    va_end(ap);
    return errclass;
}

/* With the setting `ft`, the death of a process has a class of its own, by which programs know
 * that they may continue. */
static int class_of(int rt_err)
{
    switch (rt_err < 0 ? -rt_err : rt_err) {
#define RT_ERR(name, mpi_class, text) \
    case RT_##name: \
        return mpi_class;
#include "runtime/base/err.def"
#undef RT_ERR
    default:
        return MPI_ERR_INTERN;
    }
}

int wm_err_class(int rt_err)
{
    int errclass = class_of(rt_err);
    return cfg.ft && errclass == MPI_ERR_PROC_ABORTED ? MPIX_ERR_PROC_FAILED : errclass;
}

int wm_err_rt(int rt_err, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(detail, sizeof detail, fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof detail)
        snprintf(detail + n, sizeof detail - (size_t)n, "%s%s", n ? ": " : "", rt_err_text(rt_err));
    return wm_err_class(rt_err);
}

const char *wm_err_detail(void) { return detail; }

void wm_err_clear(void) { detail[0] = '\0'; }

void wm_err_attach(struct wm_comm *comm)
{
    struct wm_comm *old = wm_err_take_comm();
    if (comm)
        wm_comm_ref(comm);
    attached = comm;
    if (old)
        wm_comm_unref(old);
}

struct wm_comm *wm_err_take_comm(void)
{
    struct wm_comm *c = attached;
    attached = NULL;
    return c;
}
