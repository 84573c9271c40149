/* SPDX-License-Identifier: BSD-3-Clause */
/* Start and end of the world model, and queries about this process (MPI-5.0 chapter 11 and section
 * 9.1).  MPI_Init waits for no other process.  It opens no context on a GPU; a context that the
 * program has opened is prepared.  After a failure it undoes its work and reports the failure like
 * any other error.  life.c brings up the library itself. */
#include "mpi/api/bodies.h"
#include "mpi/base/attr.h"
#include "mpi/coll/check.h"
#include "mpi/core/comm.h"
#include "mpi/core/idup.h"
#include "mpi/core/info.h"
#include "mpi/core/init.h"
#include "mpi/core/life.h"
#include "mpi/core/raise.h"
#include "mpi/p2p/p2p.h"
#include "runtime/base/clock.h"
#include "runtime/topo/topo.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int (*wm_init_parent)(void);
static pthread_t main_thread; /* the thread that called MPI_Init */

/* Creates the predefined communicators, once the library is up. */
static int start_world(int provided)
{
    int err = wm_comm_init(wm_main_domain);
    if (err)
        return err;
    err = wm_info_env_update();
    if (err) {
        wm_comm_fini();
        return err;
    }
    wm_state.thread_level = provided;
    wm_state.phase = WM_INITIALIZED;
    return MPI_SUCCESS;
}

int wm_api_init_thread(int *argc, char ***argv, int required, int *provided)
{
    (void)argc; /* Weft takes no command-line arguments */
    (void)argv;
    if (required != MPI_THREAD_SINGLE && required != MPI_THREAD_FUNNELED &&
        required != MPI_THREAD_SERIALIZED && required != MPI_THREAD_MULTIPLE)
        return wm_err(MPI_ERR_ARG, "required is %d, which is none of the MPI_THREAD_ constants",
                      required);
    if (wm_state.phase == WM_FORKED)
        wm_life_forked("MPI_Init");
    if (wm_state.phase == WM_INITIALIZED)
        return wm_err(MPI_ERR_OTHER, "MPI is initialized already; test with MPI_Initialized");
    if (wm_state.phase == WM_FINALIZED)
        return wm_err(MPI_ERR_OTHER, "MPI was finalized and cannot be initialized again");
    main_thread = pthread_self();
    int level, err = wm_life_enter(required, &level);
    if (err)
        return err;
    err = start_world(level);
    if (!err && wm_init_parent) {
        err = wm_init_parent();
        if (err) {
            wm_state.phase = WM_BEFORE_INIT;
            wm_comm_fini();
        }
    }
    if (err)
        wm_life_leave("MPI_Init");
    else
        *provided = level;
    return err;
}

int wm_api_init(int *argc, char ***argv)
{
    int provided;
    return wm_api_init_thread(argc, argv, MPI_THREAD_SINGLE, &provided);
}

/* Finalizing detaches what the user left attached (MPI-5.0 section 3.6). */
static void detach_buffers(void)
{
    void *addr;
    MPI_Count size;
    wm_comm_detach_buffer(wm_comm_world);
    wm_comm_detach_buffer(wm_comm_self);
    if (wm_main_domain->bbuf)
        wm_api_buffer_detach(&addr, &size);
}

int wm_api_finalize(void)
{
    if (wm_state.phase != WM_INITIALIZED)
        return wm_err(MPI_ERR_OTHER, wm_state.phase == WM_FINALIZED ? "MPI is finalized already"
                                                                    : "MPI is not initialized");
    /* Before anything else, while MPI is fully usable (MPI-5.0 section 11.2.4). */
    int err = wm_attrs_delete_all(&wm_comm_self->attrs, MPI_COMM_SELF);
    if (err)
        return err;
    detach_buffers();
    wm_comm_finish_dropped(wm_main_domain);
    if (cfg.check)
        wm_check_finalize(wm_comm_world, wm_state.users == 1);
    wm_state.phase = WM_FINALIZED;
    wm_comm_fini();
    wm_life_leave("MPI_Finalize");
    return MPI_SUCCESS;
}

int wm_api_initialized(int *flag)
{
    *flag = wm_state.phase != WM_BEFORE_INIT;
    return MPI_SUCCESS;
}

int wm_api_finalized(int *flag)
{
    *flag = wm_state.phase == WM_FINALIZED || wm_state.phase == WM_FORKED;
    return MPI_SUCCESS;
}

int wm_api_query_thread(int *provided)
{
    *provided = wm_state.thread_level;
    return MPI_SUCCESS;
}

int wm_api_is_thread_main(int *flag)
{
    *flag = pthread_equal(main_thread, pthread_self()) != 0;
    return MPI_SUCCESS;
}

int wm_api_abort(struct wm_comm *comm, int errorcode)
{
    char msg[MPI_MAX_OBJECT_NAME + 128];
    snprintf(msg, sizeof msg, "MPI_Abort called by rank %d on %s with code %d", rt_boot.rank,
             !comm           ? "a wrong handle"
             : comm->name[0] ? comm->name
                             : "a communicator",
             errorcode);
    wm_err_backtrace();
    rt_boot_abort(errorcode, msg);
}

int wm_api_get_version(int *version, int *subversion)
{
    *version = MPI_VERSION;
    *subversion = MPI_SUBVERSION;
    return MPI_SUCCESS;
}

int wm_api_get_library_version(char *version, int *resultlen)
{
    *resultlen = snprintf(version, MPI_MAX_LIBRARY_VERSION_STRING,
                          "Weft MPI %s, MPI %d.%d, ABI %d.%d", PACKAGE_VERSION, MPI_VERSION,
                          MPI_SUBVERSION, MPI_ABI_VERSION, MPI_ABI_SUBVERSION);
    return MPI_SUCCESS;
}

int wm_api_get_processor_name(char *name, int *resultlen)
{
    /* At most 255 characters, as MPI_MAX_PROCESSOR_NAME allows. */
    *resultlen = (int)strlen(strcpy(name, rt_boot.host));
    return MPI_SUCCESS;
}

double wm_api_wtime(void) { return (double)rt_now_ns() * 1e-9; }

double wm_api_wtick(void) { return 1e-9; /* CLOCK_MONOTONIC counts nanoseconds */ }

int wm_api_pcontrol(int level)
{
    (void)level; /* a hook for profiling libraries, which replace MPI_Pcontrol */
    return MPI_SUCCESS;
}

/* The types of hardware resources, and whether this process is bound within one resource of each
 * type (MPI-5.0 section 9.1.2); the keys are the types that MPI_Comm_split_type accepts. */
int wm_api_get_hw_resource_info(struct wm_info **hw_info)
{
    struct wm_info *i = NULL;
    int err = wm_info_create(&i);
    rt_lock(&wm_main_domain->lock); /* rt_topo_... needs the lock */
    for (int k = 0; k < RT_TOPO_RESOURCES && !err; k++) {
        int object = -1;
        const char *key = rt_topo_resource(k, &object);
        if (rt_topo_resource_exists(k))
            err = wm_info_put(i, key, object >= 0 ? "true" : "false");
    }
    rt_unlock(&wm_main_domain->lock);
    if (err)
        wm_info_destroy(i);
    else
        *hw_info = i;
    return err;
}
