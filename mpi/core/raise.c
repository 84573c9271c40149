/* SPDX-License-Identifier: BSD-3-Clause */
/* What happens after an error: the choice of the error handler and its call.  Any thread.  Handlers
 * are called without locks. */
#include "mpi/core/raise.h"
#include "mpi/api/bodies.h"
#include "mpi/base/comm.h"
#include "mpi/base/session.h"
#include "mpi/coll/check.h"
#include "mpi/core/errcode.h"
#include "mpi/core/errh.h"
#include "mpi/core/file.h"
#include "mpi/core/state.h"
#include "mpi/core/win.h"
#include "mpi/p2p/domain.h"
#include "mpi/p2p/lane.h"
#include "runtime/base/cfg.h"
#include "runtime/base/stdio.h"
#include <execinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One write(2), so that the output of several ranks does not mix. */
static void print_fatal(int errcode, const char *call, const char *where, const char *handler)
{
    char text[MPI_MAX_ERROR_STRING], block[3 * MPI_MAX_ERROR_STRING], who[64] = "";
    const char *detail = wm_err_detail();
    if (wm_err_text(errcode, text, (int)sizeof text) < 0)
        snprintf(text, sizeof text, "error code %d", errcode);
    if (rt_boot.size > 0)
        snprintf(who, sizeof who, "rank %d", rt_boot.rank);
    else
        snprintf(who, sizeof who, "process %d", (int)getpid());
    int n = snprintf(block, sizeof block,
                     "\n*** MPI error: %s%s%s, %s%s%s\n***   %s%s%s\n***   %s\n", who,
                     rt_boot.host[0] ? " on " : "", rt_boot.host, call, where[0] ? " with " : "",
                     where, text, detail[0] ? "\n***   " : "", detail, handler);
    if (n > (int)sizeof block - 1)
        n = (int)sizeof block - 1;
    if (write(STDERR_FILENO, block, (size_t)n) < 0)
        return; /* the report cannot be written anywhere */
}

void wm_err_backtrace(void)
{
    void *frame[64];
    if (cfg.abort_backtrace)
        backtrace_symbols_fd(frame, backtrace(frame, 64), STDERR_FILENO);
}

/* MPI_ERRORS_ARE_FATAL while the library is not up: there is no job to abort, only this process. */
static void fatal_outside(int errcode, const char *call)
{
    print_fatal(errcode, call, "",
                wm_state.phase == WM_FINALIZED ? "MPI has been finalized: this process ends"
                                               : "MPI is not initialized: this process ends");
    exit(EXIT_FAILURE);
}

/* MPI_ERRORS_ABORT of a session: this process ends, not the job (MPI-5.0 section 9.3).  The
 * launcher may still end the job. */
static void fatal_alone(int errcode, const char *call, const char *where)
{
    print_fatal(errcode, call, where,
                "The error handler is MPI_ERRORS_ABORT: this process is aborted");
    wm_err_backtrace();
    rt_stdio_flush();
    _exit(errcode & 255 ? errcode & 255 : EXIT_FAILURE);
}

static void fatal_inside(int errcode, const char *call, const char *where, const struct wm_errh *h)
{
    char msg[128];
    print_fatal(errcode, call, where,
                h->kind == WM_ERRH_ABORT
                    ? "The error handler is MPI_ERRORS_ABORT: the job is aborted"
                    : "The error handler is MPI_ERRORS_ARE_FATAL: the job is aborted");
    const char *name = wm_err_class_name(wm_err_class_of(errcode));
    snprintf(msg, sizeof msg, "%s: %s", call, name ? name : "error");
    wm_err_backtrace();
    if (cfg.check)
        wm_check_before_abort();
    rt_boot_abort(errcode, msg);
}

/* Carries out what the handler requires: ends the process, calls the user's function, or does
 * nothing; the caller returns `errcode`.  `handle` is the ABI handle of the object that has this
 * handler. */
static void errh_call(const struct wm_errh *h, void *handle, int errcode, const char *call,
                      const char *where)
{
    if (h->extra) {
        h->extra(handle, &errcode, h->state);
        return;
    }
    switch (h->kind) {
    case WM_ERRH_FATAL:
    case WM_ERRH_ABORT:
        if (!wm_state.users)
            fatal_outside(errcode, call);
        fatal_inside(errcode, call, where, h);
        return;
    case WM_ERRH_RETURN:
        return;
    case WM_ERRH_COMM: {
        MPI_Comm comm = handle;
        h->fn.comm(&comm, &errcode, NULL);
        return;
    }
    case WM_ERRH_WIN: {
        MPI_Win win = handle;
        h->fn.win(&win, &errcode, NULL);
        return;
    }
    case WM_ERRH_FILE: {
        MPI_File file = handle;
        h->fn.file(&file, &errcode, NULL);
        return;
    }
    case WM_ERRH_SESSION: {
        MPI_Session session = handle;
        h->fn.session(&session, &errcode, NULL);
        return;
    }
    }
    RT_BUG("error handler of unknown kind %d", (int)h->kind);
}

/* For errors without an object whose handler could be called. */
static int raise_initial(int errcode, const char *call)
{
    char kept[MPI_MAX_ERROR_STRING];
    strcpy(kept, wm_err_detail()); /* reading the settings may report an error of its own */
    struct wm_errh *h = wm_errh_initial();
    wm_err(errcode, "%s", kept);
    errh_call(h, NULL, errcode, call, "");
    wm_err_clear();
    return errcode;
}

/* Calls `h` and drops a reference to it. */
static int raise_with(struct wm_errh *h, void *handle, int errcode, const char *call,
                      const char *where)
{
    errh_call(h, handle, errcode, call, where);
    wm_errh_unref(h);
    wm_err_clear();
    return errcode;
}

int wm_raise_file(struct wm_file *file, int errcode, const char *call)
{
    char where[MPI_MAX_OBJECT_NAME];
    snprintf(where, sizeof where, "file %s", file ? file->name : "MPI_FILE_NULL");
    return raise_with(wm_file_errh_ref(file), wm_file_handle(file), errcode, call, where);
}

/* Set when the program sets the error handler of MPI_COMM_SELF.  Errors without an object raise
 * that handler (MPI-5.0 section 9.3).  Programs written before MPI-4.0 set only the handler of
 * MPI_COMM_WORLD; then that handler is called, as other libraries do. */
static bool self_chosen; /* atomic */

int wm_raise_comm(struct wm_comm *comm, int errcode, const char *call)
{
    struct wm_comm *held = wm_err_take_comm(), *c = comm ? comm : held ? wm_lane_whole(held) : NULL;
    bool no_object = !c || c == wm_comm_self;
    if (!c)
        c = rt_load_relaxed(&self_chosen) ? wm_comm_self : wm_comm_world;
    if (!c)
        return raise_initial(errcode, call);
    char where[MPI_MAX_OBJECT_NAME + 16] = "";
    if (!no_object)
        snprintf(where, sizeof where, "communicator %s", c->name[0] ? c->name : "(unnamed)");
    if (c->file)
        wm_raise_file(c->file, errcode, call);
    else
        raise_with(wm_errh_ref_of(&c->errh), wm_comm_handle(c), errcode, call, where);
    if (held) {
        struct wm_domain *dom = held->dom;
        rt_lock(&dom->lock);
        wm_comm_unref(held);
        rt_unlock(&dom->lock);
    }
    return errcode;
}

int wm_raise_win(struct wm_win *win, int errcode, const char *call)
{
    char where[MPI_MAX_OBJECT_NAME + 16];
    if (!win)
        return wm_raise_comm(NULL, errcode, call);
    snprintf(where, sizeof where, "window %s", win->name[0] ? win->name : "(unnamed)");
    return raise_with(wm_errh_ref_of(&win->errh), wm_win_handle(win), errcode, call, where);
}

int wm_raise_session(struct wm_session *s, int errcode, const char *call)
{
    if (!s || rt_load_relaxed(&s->closed))
        return wm_raise_comm(NULL, errcode, call);
    struct wm_errh *h = wm_errh_ref_of(&s->errh);
    if (h->kind == WM_ERRH_ABORT)
        fatal_alone(errcode, call, "a session");
    return raise_with(h, wm_session_handle(s), errcode, call, "a session");
}

int wm_raise_group(struct wm_group *g, int errcode, const char *call)
{
    return wm_raise_session(g ? g->session : NULL, errcode, call);
}

int wm_raise_errh(struct wm_errh *h, int errcode, const char *call)
{
    if (!h)
        return wm_raise_comm(NULL, errcode, call);
    void *none = h->kind == WM_ERRH_SESSION ? (void *)MPI_SESSION_NULL : (void *)MPI_COMM_NULL;
    wm_errh_ref(h);
    return raise_with(h, none, errcode, call, "");
}

int wm_api_comm_set_errhandler(struct wm_comm *comm, struct wm_errh *errhandler)
{
    int err = wm_errh_set(&comm->errh, WM_ERRH_COMM, errhandler);
    if (!err && comm == wm_comm_self)
        rt_store_relaxed(&self_chosen, true);
    return err;
}

int wm_api_comm_get_errhandler(struct wm_comm *comm, struct wm_errh **errhandler)
{
    *errhandler = wm_errh_ref_of(&comm->errh);
    return MPI_SUCCESS;
}

/* Checks the code that a user passes to MPI_X_call_errhandler. */
static int check_code(int errorcode)
{
    wm_err_clear();
    if (wm_err_class_of(errorcode) >= 0)
        return MPI_SUCCESS;
    return wm_err(MPI_ERR_ARG,
                  "error code %d is not in the MPI standard, and this program has not added it",
                  errorcode);
}

int wm_api_comm_call_errhandler(struct wm_comm *comm, int errorcode)
{
    int err = check_code(errorcode);
    if (!err)
        wm_raise_comm(comm, errorcode, "MPI_Comm_call_errhandler");
    return err;
}

int wm_api_win_call_errhandler(struct wm_win *win, int errorcode)
{
    int err = check_code(errorcode);
    if (!err)
        wm_raise_win(win, errorcode, "MPI_Win_call_errhandler");
    return err;
}

int wm_api_file_call_errhandler(struct wm_file *file, int errorcode)
{
    int err = check_code(errorcode);
    if (!err)
        wm_raise_file(file, errorcode, "MPI_File_call_errhandler");
    return err;
}

int wm_api_session_call_errhandler(struct wm_session *session, int errorcode)
{
    int err = check_code(errorcode);
    if (!err)
        wm_raise_session(session, errorcode, "MPI_Session_call_errhandler");
    return err;
}
