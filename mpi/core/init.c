/* SPDX-License-Identifier: BSD-3-Clause */
/* Beginning and end of the library, and what a process may ask about itself (MPI-5.0 chapter 11 and
 * section 9.1).  MPI_Init waits for no other process and touches no GPU; a failure undoes what was
 * done and is reported like any other error. */
#include "mpi/api/bodies.h"
#include "coll/coll.h"
#include "mpi/core/attr.h"
#include "mpi/core/comm.h"
#include "mpi/core/errh.h"
#include "mpi/core/info.h"
#include "mpi/datatype/type.h"
#include "mpi/p2p/p2p.h"
#include "runtime/base/cfg.h"
#include "runtime/base/clock.h"
#include "runtime/mem/node.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct wm_state wm_state;
static struct wm_domain *domain; /* the one of the world model; NULL outside init..finalize */
static pthread_t main_thread;    /* that called MPI_Init */

static int start_settings(void)
{
    int err = rt_cfg_load();
    if (err)
        return wm_err_rt(err, "reading the settings");
    err = rt_log_configure(cfg.log);
    return err ? wm_err_rt(err, "the setting WEFT_LOG is \"%s\"", cfg.log) : MPI_SUCCESS;
}

static int start(int required)
{
    int err = start_settings();
    if (err)
        return err;
    err = coll_configure(cfg.coll);
    if (err)
        return wm_err_rt(err, "the setting WEFT_COLL is \"%s\"", cfg.coll);
    err = rt_boot_init();
    if (err)
        return wm_err_rt(err, "reaching the process manager");
    rt_log_identify(rt_boot.host, rt_boot.rank);
    rt_idle_configure(rt_boot.local_size, rt_boot.ncpus);
    if (required == MPI_THREAD_MULTIPLE)
        rt_lock_enable();
    err = rt_node_open(btl_node_pair_nbytes());
    if (err) {
        err = wm_err_rt(err, "opening the memory shared by the processes of host %s", rt_boot.host);
        goto err_boot;
    }
    err = wm_domain_create(&domain);
    if (err) {
        err = wm_err_rt(err, "opening the transports \"%s\"", cfg.btl);
        goto err_node;
    }
    err = wm_comm_init(domain);
    if (err)
        goto err_domain;
    wm_state.thread_level = required;
    wm_state.phase = WM_INITIALIZED;
    wm_state.users++;
    err = wm_info_env_init();
    if (err)
        goto err_comm;
    return MPI_SUCCESS;
err_comm:
    wm_state.users--;
    wm_state.phase = WM_BEFORE_INIT;
    wm_comm_fini();
err_domain:
    wm_domain_destroy(domain);
    domain = NULL;
err_node:
    rt_node_close();
err_boot:
    rt_boot_fini();
    return err;
}

int wm_api_init_thread(int *argc, char ***argv, int required, int *provided)
{
    (void)argc; /* nothing of Weft is on the command line */
    (void)argv;
    if (required != MPI_THREAD_SINGLE && required != MPI_THREAD_FUNNELED &&
        required != MPI_THREAD_SERIALIZED && required != MPI_THREAD_MULTIPLE)
        return wm_err(MPI_ERR_ARG, "required is %d, which is none of the MPI_THREAD_ constants",
                      required);
    if (wm_state.phase == WM_INITIALIZED)
        return wm_err(MPI_ERR_OTHER, "MPI is initialized already; test with MPI_Initialized");
    if (wm_state.phase == WM_FINALIZED)
        return wm_err(MPI_ERR_OTHER, "MPI was finalized and cannot be initialized again");
    main_thread = pthread_self();
    int err = start(required);
    if (!err)
        *provided = required;
    return err;
}

int wm_api_init(int *argc, char ***argv)
{
    int provided;
    return wm_api_init_thread(argc, argv, MPI_THREAD_SINGLE, &provided);
}

static void report_leak(const struct rt_slab *s)
{
    if (s->used)
        log_warn(MPI, "%u %s object%s still alive in MPI_Finalize", s->used, s->name,
                 s->used == 1 ? " is" : "s are");
}

/* Called when the library has given up what it owns itself: what is left is the user's. */
static void report_leaks(void)
{
    wm_type_fini();
    report_leak(&wm_comm_slab);
    report_leak(&wm_type_slab);
    report_leak(&wm_op_slab);
    report_leak(&wm_errh_slab);
    report_leak(&wm_info_slab);
    report_leak(&wm_request_slab);
    report_leak(&wm_group_slab);
}

/* Finalizing detaches what the user left attached (MPI-5.0 section 3.6). */
static void detach_buffers(void)
{
    void *addr;
    MPI_Count size;
    wm_comm_detach_buffer(wm_comm_world);
    wm_comm_detach_buffer(wm_comm_self);
    if (domain->bbuf)
        wm_api_buffer_detach(&addr, &size);
}

int wm_api_finalize(void)
{
    if (wm_state.phase != WM_INITIALIZED)
        return wm_err(MPI_ERR_OTHER, wm_state.phase == WM_FINALIZED ? "MPI is finalized already"
                                                                    : "MPI is not initialized");
    /* First of all, with MPI fully usable (MPI-5.0 section 11.2.4). */
    int err = wm_attrs_delete_all(&wm_comm_self->attrs, MPI_COMM_SELF);
    if (err)
        return err;
    detach_buffers();
    wm_comm_finish_dropped(domain);
    wm_state.phase = WM_FINALIZED;
    wm_state.users--;
    wm_comm_fini();
    wm_domain_destroy(domain); /* finishes what other processes still wait for */
    domain = NULL;
    rt_node_close();
    wm_info_env_fini();
    if (cfg.check_leaks)
        report_leaks();
    rt_boot_fini();
    return MPI_SUCCESS;
}

int wm_api_initialized(int *flag)
{
    *flag = wm_state.phase != WM_BEFORE_INIT;
    return MPI_SUCCESS;
}

int wm_api_finalized(int *flag)
{
    *flag = wm_state.phase == WM_FINALIZED;
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
             comm->name[0] ? comm->name : "a communicator", errorcode);
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
    (void)level; /* for profiling libraries that put their own MPI_Pcontrol in front */
    return MPI_SUCCESS;
}
