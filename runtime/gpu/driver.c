/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the CUDA driver in this process and fills the table of its functions; says what its errors
 * mean.  Any thread may look for it at the same time: the table is filled under a lock of its own
 * and published by `found`.  The library stays open for the rest of the process, because the
 * application uses it, too. */
#include "runtime/gpu/gpu_int.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

struct rt_cuda rt_cuda;

static struct {
    pthread_mutex_t lock;
    int found; /* enum rt_cuda_found */
} driver = { PTHREAD_MUTEX_INITIALIZER, RT_CUDA_NONE };

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
    if (!t->device_get_uuid) { /* before 11.4; does not tell MIG instances apart */
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
    log_warn(GPU, "the CUDA driver (for CUDA %d.%d) has no %s: device buffers need a driver for "
             "CUDA 11.2 or newer and are refused", version / 1000, version % 1000 / 10, missing);
}

static enum rt_cuda_found find(bool load)
{
    if (rt_cuda.init)
        return RT_CUDA_READY; /* a test has filled the table */
    void *lib = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL | (load ? 0 : RTLD_NOLOAD));
    if (!lib)
        return RT_CUDA_NONE;
    struct rt_cuda t;
    const char *missing = fill(lib, &t);
    if (!missing) {
        rt_cuda = t;
        return RT_CUDA_READY;
    }
    say_old(&t, missing);
    rt_cuda.pointer_get_attributes = t.pointer_get_attributes;
    rt_cuda.driver_get_version = t.driver_get_version;
    return RT_CUDA_OLD;
}

enum rt_cuda_found rt_cuda_find(bool load)
{
    int found = rt_load_acquire(&driver.found);
    if (rt_likely(found != RT_CUDA_NONE))
        return (enum rt_cuda_found)found;
    pthread_mutex_lock(&driver.lock);
    found = driver.found;
    if (found == RT_CUDA_NONE) {
        found = (int)find(load);
        rt_store_release(&driver.found, found); /* after the table */
    }
    pthread_mutex_unlock(&driver.lock);
    return (enum rt_cuda_found)found;
}

void rt_cuda_forget(void)
{
    memset(&rt_cuda, 0, sizeof rt_cuda);
    rt_store_release(&driver.found, RT_CUDA_NONE);
}

int rt_cuda_open(bool load)
{
    return rt_cuda_find(load) == RT_CUDA_READY ? 0 : -RT_ENOENT;
}

int rt_cuda_error(cu_result r, const char *what)
{
    const char *name = NULL, *text = NULL;
    if (rt_cuda.get_error_name)
        rt_cuda.get_error_name(r, &name);
    if (rt_cuda.get_error_string)
        rt_cuda.get_error_string(r, &text);
    /* While the process ends, CUDA may be gone before MPI: nobody can do anything about it. */
    enum rt_log_level level = r == CU_ERROR_DEINITIALIZED ? RT_LOG_DEBUG : RT_LOG_ERROR;
    log_at(GPU, level, "%s: the CUDA driver answered %d, %s (%s)", what, r,
           name ? name : "an unknown error", text ? text : "no explanation");
    return r == CU_ERROR_OUT_OF_MEMORY ? -RT_ENOMEM : -RT_EGPU;
}
