/* SPDX-License-Identifier: BSD-3-Clause */
/* The tool information interface as a whole (MPI-5.0 sections 15.3.3 and 15.3.4): begin and end,
 * counted and independent of MPI_Init; the mutex; its objects.  Any thread.
 *
 * Calls of this interface never reach an error handler: they return MPI_SUCCESS or MPI_T_ERR_... */
#include "mpi/tool/tool.h"
#include <pthread.h>
#include <string.h>
#include "mpi/api/bodies.h"
#include "mpi/core/state.h"
#include "mpi/tool/cvar.h"
#include "mpi/tool/event.h"
#include "mpi/tool/pvar_session.h"
#include "runtime/base/lock.h"

/* The largest object: an event registration. */
struct obj_slot {
    char bytes[256];
};
static struct rt_slab slab = RT_SLAB(WM_TOOL, "tool", struct obj_slot);

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t mutex;
static int users; /* calls of MPI_T_init_thread without their MPI_T_finalize */

static void make_mutex(void)
{
    pthread_mutexattr_t a;
    pthread_mutexattr_init(&a);
    pthread_mutexattr_settype(&a, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&mutex, &a);
    pthread_mutexattr_destroy(&a);
}

void tool_lock(void)
{
    pthread_once(&once, make_mutex);
    pthread_mutex_lock(&mutex);
}

void tool_unlock(void) { pthread_mutex_unlock(&mutex); }

int tool_enter(void)
{
    tool_lock();
    if (users > 0)
        return MPI_SUCCESS;
    tool_unlock();
    return MPI_T_ERR_NOT_INITIALIZED;
}

void tool_leave(void) { tool_unlock(); }

struct tool_obj *tool_obj_new(enum tool_kind kind, int index)
{
    struct tool_obj *o = rt_slab_alloc(&slab);
    if (!o)
        return NULL;
    o->kind = kind;
    o->index = index;
    return o;
}

void tool_obj_free(struct tool_obj *o) { rt_slab_free(&slab, o); }

void *tool_obj_get(const void *handle, enum tool_kind kind)
{
    struct tool_obj *o = rt_slab_get(&slab, (uintptr_t)handle);
    return o && o->kind == (int)kind ? o : NULL;
}

void *tool_obj_handle(const struct tool_obj *o) { return (void *)(uintptr_t)o->obj.handle; }

void tool_text(const char *text, char *buf, int *len)
{
    if (!len)
        return;
    size_t n = strlen(text);
    if (buf && *len > 0) {
        size_t room = (size_t)*len - 1, copied = n < room ? n : room;
        memcpy(buf, text, copied);
        buf[copied] = '\0';
    }
    *len = (int)n + 1;
}

/* The library's locks work once they are switched on, which must happen before a second thread is
 * inside: so several threads at once are possible when MPI has not begun or has them already. */
static int thread_level(int required)
{
    if (required != MPI_THREAD_MULTIPLE || rt_threaded)
        return required;
    if (wm_state.users > 0 || wm_state.phase == WM_INITIALIZED)
        return MPI_THREAD_SERIALIZED;
    rt_lock_enable();
    return required;
}

int wm_api_t_init_thread(int required, int *provided)
{
    if (required != MPI_THREAD_SINGLE && required != MPI_THREAD_FUNNELED &&
        required != MPI_THREAD_SERIALIZED && required != MPI_THREAD_MULTIPLE)
        return MPI_T_ERR_INVALID;
    if (wm_settings_read() != MPI_SUCCESS)
        return MPI_T_ERR_CANNOT_INIT;
    tool_lock();
    users++;
    tool_int(provided, thread_level(required));
    tool_unlock();
    return MPI_SUCCESS;
}

int wm_api_t_finalize(void)
{
    int err = tool_enter();
    if (err)
        return err;
    if (--users == 0) {
        tool_cvar_fini();
        tool_pvar_fini();
        tool_event_fini();
    }
    tool_leave();
    return MPI_SUCCESS;
}
