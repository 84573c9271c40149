/* SPDX-License-Identifier: BSD-3-Clause */
/* Error handlers as objects, and the members of other objects that point to them.  Any thread. */
#include "mpi/core/errh.h"
#include "mpi/api/bodies.h"
#include "mpi/core/state.h"
#include "runtime/base/cfg.h"

static struct wm_errh are_fatal = { .obj = { (uint32_t)(uintptr_t)MPI_ERRORS_ARE_FATAL, 1 },
                                    .kind = WM_ERRH_FATAL };
static struct wm_errh errors_abort = { .obj = { (uint32_t)(uintptr_t)MPI_ERRORS_ABORT, 1 },
                                       .kind = WM_ERRH_ABORT };
static struct wm_errh errors_return = { .obj = { (uint32_t)(uintptr_t)MPI_ERRORS_RETURN, 1 },
                                        .kind = WM_ERRH_RETURN };
struct wm_errh *wm_errh_predefined[8] = { NULL, &are_fatal, &errors_abort, &errors_return };
static struct rt_lock lock = RT_LOCK_INIT; /* guards the handlers of all objects */
struct rt_slab wm_errh_slab = RT_SLAB_ANYTIME(WM_ERRHANDLER, "error handler", struct wm_errh);

struct wm_errh *wm_errh_initial(void)
{
    if (wm_settings_read() != MPI_SUCCESS)
        return &are_fatal;
    return wm_errh_predefined[1 + cfg.initial_errhandler]; /* values in the ABI's order */
}

MPI_Errhandler wm_errh_handle(const struct wm_errh *e)
{
    return e ? (MPI_Errhandler)(uintptr_t)e->obj.handle : MPI_ERRHANDLER_NULL;
}

static bool errh_predefined(const struct wm_errh *e) { return e->obj.handle < WM_PREDEFINED_MAX; }

void wm_errh_ref(struct wm_errh *e)
{
    if (!errh_predefined(e))
        rt_fetch_add(&e->obj.refs, 1);
}

void wm_errh_unref(struct wm_errh *e)
{
    if (!e || errh_predefined(e) || rt_fetch_add(&e->obj.refs, -1) != 1)
        return;
    if (e->destroy)
        e->destroy(e->state);
    rt_slab_free(&wm_errh_slab, e);
}

struct wm_errh *wm_errh_ref_of(struct wm_errh *const *place)
{
    rt_lock(&lock);
    struct wm_errh *e = *place;
    if (e)
        wm_errh_ref(e);
    rt_unlock(&lock);
    return e;
}

int wm_errh_check(const struct wm_errh *e, enum wm_errh_kind kind)
{
    static const char *const objects[] = { [WM_ERRH_COMM] = "communicators",
                                           [WM_ERRH_WIN] = "windows",
                                           [WM_ERRH_FILE] = "files",
                                           [WM_ERRH_SESSION] = "sessions" };
    if (errh_predefined(e) || e->kind == kind)
        return MPI_SUCCESS;
    return wm_err(MPI_ERR_ARG, "the error handler was made for another class of object, not for %s",
                  objects[kind]);
}

int wm_errh_set(struct wm_errh **place, enum wm_errh_kind kind, struct wm_errh *e)
{
    int err = wm_errh_check(e, kind);
    if (err)
        return err;
    wm_errh_ref(e);
    rt_lock(&lock);
    struct wm_errh *old = *place;
    *place = e;
    rt_unlock(&lock);
    wm_errh_unref(old);
    return MPI_SUCCESS;
}

static int errh_create(enum wm_errh_kind kind, struct wm_errh **out)
{
    struct wm_errh *e = rt_slab_alloc(&wm_errh_slab);
    if (!e)
        return wm_err(MPI_ERR_NO_MEM, "no memory for another error handler");
    e->kind = kind;
    *out = e;
    return MPI_SUCCESS;
}

int wm_api_comm_create_errhandler(MPI_Comm_errhandler_function *fn, struct wm_errh **errhandler)
{
    int err = errh_create(WM_ERRH_COMM, errhandler);
    if (!err)
        (*errhandler)->fn.comm = fn;
    return err;
}

int wm_api_win_create_errhandler(MPI_Win_errhandler_function *fn, struct wm_errh **errhandler)
{
    int err = errh_create(WM_ERRH_WIN, errhandler);
    if (!err)
        (*errhandler)->fn.win = fn;
    return err;
}

int wm_api_file_create_errhandler(MPI_File_errhandler_function *fn, struct wm_errh **errhandler)
{
    int err = errh_create(WM_ERRH_FILE, errhandler);
    if (!err)
        (*errhandler)->fn.file = fn;
    return err;
}

int wm_api_session_create_errhandler(MPI_Session_errhandler_function *fn,
                                     struct wm_errh **errhandler)
{
    int err = errh_create(WM_ERRH_SESSION, errhandler);
    if (!err)
        (*errhandler)->fn.session = fn;
    return err;
}

int wm_api_errhandler_free(struct wm_errh *errhandler)
{
    /* Freeing a predefined handler, which MPI_Comm_get_errhandler may have returned, is allowed and
     * does nothing. */
    wm_errh_unref(errhandler);
    return MPI_SUCCESS;
}
