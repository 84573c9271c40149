/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the CUDA driver in this process, fills the table of its functions, and interprets its
 * errors.  Any thread may look for it at the same time: the table is filled under a lock of its own
 * and published by `found`.  The library stays open for the rest of the process, because the
 * application uses it, too.
 *
 * Only this file knows the driver's own functions.  The rest of the library calls, by the same
 * names, the functions of class FREE directly, and for the others functions of this file.  These
 * put the thread into relaxed capture mode for the length of the call (9 ns each way, H200), and
 * repeat a call that failed for lack of memory once deferred calls have freed some. */
#include "runtime/gpu/driver.h"
#include "runtime/base/atomic.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/gpu/cu.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

struct rt_cuda rt_cuda;
bool (*rt_cuda_make_room)(void);
static struct rt_cuda own; /* the driver's functions */

/* ---- capture modes ---- */

/* This thread is in the relaxed mode, by rt_gpu_capture_relax(). */
static _Thread_local bool relaxed;

int rt_gpu_capture_relax(void)
{
    int mode = CU_CAPTURE_RELAXED;
    if (relaxed || !own.thread_exchange_capture_mode ||
        own.thread_exchange_capture_mode(&mode) != CU_OK)
        return -1;
    relaxed = true;
    return mode;
}

void rt_gpu_capture_restore(int was)
{
    if (was < 0)
        return;
    own.thread_exchange_capture_mode(&was);
    relaxed = false;
}

/* Makes the deferred calls if memory was short; true if that has freed some. */
static bool deferred_was_in_the_way(cu_result r)
{
    return r == CU_ERROR_OUT_OF_MEMORY && rt_cuda_make_room && rt_cuda_make_room();
}

#define GUARD_FREE(field, params, args)
#define GUARD_GUARDED(field, params, args) \
    static cu_result guarded_##field params \
    { \
        int was = rt_gpu_capture_relax(); \
        cu_result r = own.field args; \
        if (rt_unlikely(r != CU_OK) && deferred_was_in_the_way(r)) \
            r = own.field args; \
        rt_gpu_capture_restore(was); \
        return r; \
    }
#define GUARD_WAITS GUARD_GUARDED
#define GUARD(must, class, field, symbol, params, args) GUARD_##class(field, params, args)
CU_LIST(GUARD, , )

/* The rest of the library's view of the driver: a function that the driver does not have is NULL
 * there, too. */
#define SHOW_FREE(field) t->field = own.field;
#define SHOW_GUARDED(field) t->field = own.field ? guarded_##field : NULL;
#define SHOW_WAITS SHOW_GUARDED
#define SHOW(must, class, field, symbol, params, args) SHOW_##class(field)
static void show(struct rt_cuda *t) { CU_LIST(SHOW, , ) }

/* ---- finding the driver ---- */

static struct {
    pthread_mutex_t lock;
    int found; /* enum rt_gpu_driver */
} driver = { PTHREAD_MUTEX_INITIALIZER, RT_GPU_DRIVER_NONE };

#define NAME_MUST(field, symbol, params) { #symbol, offsetof(struct rt_cuda, field), true },
#define NAME_MAY(field, symbol, params) { #symbol, offsetof(struct rt_cuda, field), false },
static const struct {
    const char *symbol;
    size_t off;
    bool must;
} names[] = { CU_FUNCTIONS(NAME_MUST, NAME_MAY) };

/* The first function that is missing, or NULL. */
static const char *fill(void *lib, struct rt_cuda *t)
{
    const char *missing = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *f = dlsym(lib, names[i].symbol);
        memcpy((char *)t + names[i].off, &f, sizeof f);
        if (!f && names[i].must && !missing)
            missing = names[i].symbol;
    }
    if (!t->device_get_uuid) { /* before 11.4; does not distinguish MIG instances */
        void *f = dlsym(lib, "cuDeviceGetUuid");
        memcpy(&t->device_get_uuid, &f, sizeof f);
    }
    return missing;
}

static void say_old(const struct rt_cuda *t, const char *missing)
{
    int version = 0;
    if (t->driver_get_version)
        t->driver_get_version(&version);
    log_warn(GPU,
             "the CUDA driver (for CUDA %d.%d) has no %s: device buffers need a driver for "
             "CUDA 11.2 or newer and are refused",
             version / 1000, version % 1000 / 10, missing);
}

static enum rt_gpu_driver find(bool load)
{
    if (rt_cuda.init)
        return RT_GPU_DRIVER_READY; /* a test has filled the table */
    void *lib = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL | (load ? 0 : RTLD_NOLOAD));
    if (!lib)
        return RT_GPU_DRIVER_NONE;
    const char *missing = fill(lib, &own);
    if (!missing) {
        show(&rt_cuda);
        return RT_GPU_DRIVER_READY;
    }
    say_old(&own, missing);
    rt_cuda.pointer_get_attributes = own.pointer_get_attributes;
    rt_cuda.driver_get_version = own.driver_get_version;
    return RT_GPU_DRIVER_OLD;
}

enum rt_gpu_driver rt_gpu_driver(bool load)
{
    int found = rt_load_acquire(&driver.found);
    if (rt_likely(found != RT_GPU_DRIVER_NONE))
        return (enum rt_gpu_driver)found;
    pthread_mutex_lock(&driver.lock);
    found = driver.found;
    if (found == RT_GPU_DRIVER_NONE) {
        found = (int)find(load);
        rt_store_release(&driver.found, found); /* after the table */
    }
    pthread_mutex_unlock(&driver.lock);
    return (enum rt_gpu_driver)found;
}

void rt_cuda_forget(void)
{
    memset(&rt_cuda, 0, sizeof rt_cuda);
    memset(&own, 0, sizeof own);
    rt_store_release(&driver.found, RT_GPU_DRIVER_NONE);
}

int rt_cuda_open(bool load) { return rt_gpu_driver(load) == RT_GPU_DRIVER_READY ? 0 : -RT_ENOENT; }

/* ---- errors ---- */

enum rt_cuda_fault rt_cuda_fault(cu_result r)
{
    if (r == CU_OK || r == CU_ERROR_NOT_READY)
        return RT_CUDA_FINE;
    if (r >= CU_ERROR_CAPTURE_FIRST && r <= CU_ERROR_CAPTURE_LAST)
        return RT_CUDA_CAPTURE;
    if (r == CU_ERROR_CONTEXT_IS_DESTROYED || r == CU_ERROR_INVALID_CONTEXT ||
        r == CU_ERROR_DEINITIALIZED)
        return RT_CUDA_GONE;
    return RT_CUDA_CALL;
}

int rt_cuda_error(cu_result r, const char *what)
{
    const char *name = NULL, *text = NULL;
    if (rt_cuda.get_error_name)
        rt_cuda.get_error_name(r, &name);
    if (rt_cuda.get_error_string)
        rt_cuda.get_error_string(r, &text);
    /* While the process ends, CUDA may be gone before MPI: this cannot be avoided. */
    enum rt_log_level level = r == CU_ERROR_DEINITIALIZED ? RT_LOG_DEBUG : RT_LOG_ERROR;
    log_at(GPU, level, "%s: the CUDA driver answered %d, %s (%s)", what, r,
           name ? name : "an unknown error", text ? text : "no explanation");
    return r == CU_ERROR_OUT_OF_MEMORY ? -RT_ENOMEM : -RT_EGPU;
}
