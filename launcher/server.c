/* SPDX-License-Identifier: BSD-3-Clause */
/* The PMIx server inside mpirun.  PMIx calls the functions of `module` on its own progress
 * thread; they hand what matters over to the main loop through a pipe and answer at once, so the
 * main thread alone owns the job's state.  The event is in the pipe before the answer frees the
 * client: the loop learns of a finalize before it can see that process exit. */
#include "launcher/launch.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/boot/boot.h"

#include <fcntl.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <pmix_server.h>
#include <pmix.h>

static struct {
    int event_fd;                 /* write end */
    bool running;
    char nspace[PMIX_MAX_NSLEN + 1];
} server = { .event_fd = -1 };

/* Settings of PMIx for us and for the ranks: one host needs neither a shared store of job data
 * with its session directory (gds), nor compression (64 KiB of zlib state a rank), nor
 * credentials beyond the owner of a local socket. */
static const char *const tuning[][2] = {
    { "PMIX_MCA_gds", "hash" },
    { "PMIX_MCA_psec", "native" },
    { "PMIX_MCA_pcompress", "^zlib" },
    { "PMIX_MCA_pcompress_base_silence_warning", "1" },
};
#define NTUNING (sizeof tuning / sizeof tuning[0])

void launch_server_tune(void)
{
    for (size_t i = 0; i < NTUNING; i++)
        setenv(tuning[i][0], tuning[i][1], 0);
    /* hwloc's plugins look for X11 displays, OpenCL and CUDA: up to a second, for nothing that a
     * launcher needs. */
    setenv("HWLOC_PLUGINS_PATH", "/nonexistent", 1);
}

/* ---- on PMIx's thread ---- */

static void post(enum launch_event_kind kind, const pmix_proc_t *proc, int code, const char *text)
{
    struct launch_event e = { .kind = kind, .rank = (int)proc->rank, .code = code };
    snprintf(e.text, sizeof e.text, "%s", text ? text : "");
    if (write(server.event_fd, &e, sizeof e) != sizeof e)
        log_error(LAUNCH, "could not pass on an event of rank %d: %m", e.rank);
}

static void answer(pmix_op_cbfunc_t cbfunc, void *cbdata)
{
    if (cbfunc)
        cbfunc(PMIX_SUCCESS, cbdata);
}

static pmix_status_t on_connected(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t cbfunc,
                                  void *cbdata)
{
    (void)object;
    post(LAUNCH_CONNECTED, proc, 0, NULL);
    answer(cbfunc, cbdata);
    return PMIX_SUCCESS;
}

static pmix_status_t on_finalized(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t cbfunc,
                                  void *cbdata)
{
    (void)object;
    post(LAUNCH_FINALIZED, proc, 0, NULL);
    answer(cbfunc, cbdata);
    return PMIX_SUCCESS;
}

static pmix_status_t on_abort(const pmix_proc_t *proc, void *object, int status, const char text[],
                              pmix_proc_t procs[], size_t nprocs, pmix_op_cbfunc_t cbfunc,
                              void *cbdata)
{
    (void)object, (void)procs, (void)nprocs;
    post(LAUNCH_ABORT, proc, status, text);
    answer(cbfunc, cbdata);
    return PMIX_SUCCESS;
}

/* Called when every local participant has entered; with one host that is everybody. */
static pmix_status_t on_fence(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[],
                              size_t ninfo, char *data, size_t ndata, pmix_modex_cbfunc_t cbfunc,
                              void *cbdata)
{
    char *copy = ndata ? malloc(ndata) : NULL;
    (void)procs, (void)nprocs, (void)info, (void)ninfo;
    if (ndata && !copy)
        return PMIX_ERR_NOMEM;
    if (ndata)
        /* `data` is PMIx's own and may go when this function returns. */
        memcpy(copy, data, ndata);
    cbfunc(PMIX_SUCCESS, copy, ndata, cbdata, free, copy);
    return PMIX_SUCCESS;
}

/* Asked only for processes of other hosts: the library itself answers for its clients. */
static pmix_status_t on_direct_modex(const pmix_proc_t *proc, const pmix_info_t info[],
                                     size_t ninfo, pmix_modex_cbfunc_t cbfunc, void *cbdata)
{
    (void)proc, (void)info, (void)ninfo, (void)cbfunc, (void)cbdata;
    return PMIX_ERR_NOT_FOUND;
}

static pmix_server_module_t module = {
    .client_connected = on_connected,
    .client_finalized = on_finalized,
    .abort = on_abort,
    .fence_nb = on_fence,
    .direct_modex = on_direct_modex,
};

/* ---- on the main thread ---- */

struct wait { sem_t done; pmix_status_t status; };

static void waited(pmix_status_t status, void *arg)
{
    struct wait *w = arg;
    if (status != PMIX_SUCCESS)
        w->status = status;
    sem_post(&w->done);
}

static int failed(const char *what, pmix_status_t rc)
{
    log_error(LAUNCH, "PMIx server: %s: %s (PMIx %s)", what, PMIx_Error_string(rc),
              PMIx_Get_version());
    return -RT_EBOOT;
}

static char *rank_list(int n)
{
    size_t len = (size_t)n * 11 + 1, at = 0;
    char *text = malloc(len);
    for (int i = 0; text && i < n; i++)
        at += (size_t)snprintf(text + at, len - at, i ? ",%d" : "%d", i);
    return text;
}

static void load_u32(pmix_info_t *info, const char *key, int value)
{
    uint32_t v = (uint32_t)value;
    PMIX_INFO_LOAD(info, key, &v, PMIX_UINT32);
}

/* What PMIx tells others about one rank.  `Local rank` is the rank: there is one host. */
static void load_rank(pmix_info_t *info, const struct launch_job *job, int rank)
{
    enum { NKEYS = 5 };
    pmix_data_array_t *array;
    pmix_rank_t r = (pmix_rank_t)rank;
    uint16_t local = (uint16_t)rank;
    int app = job->ranks[rank].app;

    PMIX_DATA_ARRAY_CREATE(array, NKEYS, PMIX_INFO);
    pmix_info_t *v = array->array;
    PMIX_INFO_LOAD(&v[0], PMIX_RANK, &r, PMIX_PROC_RANK);
    load_u32(&v[1], PMIX_APPNUM, app);
    PMIX_INFO_LOAD(&v[2], PMIX_LOCAL_RANK, &local, PMIX_UINT16);
    PMIX_INFO_LOAD(&v[3], PMIX_NODE_RANK, &local, PMIX_UINT16);
    r = (pmix_rank_t)(rank - job->opts->apps[app].first);
    PMIX_INFO_LOAD(&v[4], PMIX_APP_RANK, &r, PMIX_PROC_RANK);
    PMIX_LOAD_KEY(info->key, PMIX_PROC_DATA);
    info->value.type = PMIX_DATA_ARRAY;
    info->value.data.darray = array;
}

/* Facts about the whole job; the regular expressions name the one host and all ranks on it. */
static int load_job(pmix_info_t *info, const struct launch_job *job)
{
    char *peers = rank_list(job->n), *nodes = NULL, *procs = NULL;
    int n = 0;

    if (!peers || PMIx_generate_regex(job->host, &nodes) || PMIx_generate_ppn(peers, &procs)) {
        free(peers), free(nodes);
        return -RT_ENOMEM;
    }
    load_u32(&info[n++], PMIX_JOB_SIZE, job->n);
    load_u32(&info[n++], PMIX_LOCAL_SIZE, job->n);
    load_u32(&info[n++], PMIX_NODE_SIZE, job->n);
    load_u32(&info[n++], PMIX_MAX_PROCS, job->n);
    load_u32(&info[n++], PMIX_UNIV_SIZE, job->n > job->ncpus ? job->n : job->ncpus);
    load_u32(&info[n++], PMIX_JOB_NUM_APPS, job->opts->napps);
    load_u32(&info[n++], PMIX_NUM_NODES, 1);
    load_u32(&info[n++], RT_BOOT_KEY_NCPUS, job->ncpus);
    PMIX_INFO_LOAD(&info[n++], PMIX_LOCAL_PEERS, peers, PMIX_STRING);
    PMIX_INFO_LOAD(&info[n++], PMIX_JOBID, job->nspace, PMIX_STRING);
    PMIX_INFO_LOAD(&info[n++], PMIX_NODE_MAP, nodes, PMIX_REGEX);
    PMIX_INFO_LOAD(&info[n++], PMIX_PROC_MAP, procs, PMIX_REGEX);
    free(peers), free(nodes), free(procs);
    return n;
}

static int register_job(struct launch_job *job)
{
    enum { NJOB = 12 };
    size_t ninfo = NJOB + (size_t)job->n;
    pmix_info_t *info;
    struct wait w = { .status = PMIX_SUCCESS };

    PMIX_INFO_CREATE(info, ninfo);
    if (!info || load_job(info, job) != NJOB) {
        log_error(LAUNCH, "no memory to describe a job of %d ranks", job->n);
        return -RT_ENOMEM;
    }
    for (int r = 0; r < job->n; r++)
        load_rank(&info[NJOB + r], job, r);
    sem_init(&w.done, 0, 0);
    pmix_status_t rc = PMIx_server_register_nspace(server.nspace, job->n, info, ninfo, waited, &w);
    if (rc == PMIX_SUCCESS)
        while (sem_wait(&w.done)) { }
    PMIX_INFO_FREE(info, ninfo);
    if (rc == PMIX_OPERATION_SUCCEEDED)
        rc = PMIX_SUCCESS;
    if (rc == PMIX_SUCCESS)
        rc = w.status;
    return rc == PMIX_SUCCESS ? 0 : failed("could not register the job", rc);
}

/* All at once, then one wait for all: PMIx's thread works while we go on. */
static int register_ranks(struct launch_job *job)
{
    struct wait w = { .status = PMIX_SUCCESS };
    pmix_status_t rc = PMIX_SUCCESS;
    pmix_proc_t proc;
    int started = 0;

    sem_init(&w.done, 0, 0);
    for (int r = 0; r < job->n; r++) {
        PMIX_LOAD_PROCID(&proc, server.nspace, (pmix_rank_t)r);
        pmix_status_t one = PMIx_server_register_client(&proc, geteuid(), getegid(), NULL, waited,
                                                        &w);
        if (one == PMIX_SUCCESS)
            started++;
        else if (one != PMIX_OPERATION_SUCCEEDED)
            rc = one;
    }
    while (started--)
        while (sem_wait(&w.done)) { }
    if (rc == PMIX_SUCCESS)
        rc = w.status;
    return rc == PMIX_SUCCESS ? 0 : failed("could not register the ranks", rc);
}

int launch_server_start(struct launch_job *job)
{
    int fds[2];

    if (pipe2(fds, O_CLOEXEC) < 0) {
        log_error(LAUNCH, "pipe: %m");
        return -RT_ESYS;
    }
    /* The reader polls; the writer may wait for the loop. */
    fcntl(fds[0], F_SETFL, O_NONBLOCK);
    job->event_fd = fds[0];
    server.event_fd = fds[1];
    snprintf(server.nspace, sizeof server.nspace, "%s", job->nspace);
    pmix_status_t rc = PMIx_server_init(&module, NULL, 0);
    if (rc != PMIX_SUCCESS)
        return failed("could not start; it needs a loopback interface (ip link set lo up)", rc);
    server.running = true;
    int err = register_job(job);
    return err < 0 ? err : register_ranks(job);
}

int launch_server_env(struct launch_job *job, int rank, struct launch_list *env)
{
    pmix_proc_t proc;
    char **vars = NULL;
    int err = 0;

    (void)job;
    PMIX_LOAD_PROCID(&proc, server.nspace, (pmix_rank_t)rank);
    pmix_status_t rc = PMIx_server_setup_fork(&proc, &vars);
    if (rc != PMIX_SUCCESS)
        return failed("could not make the environment of a rank", rc);
    for (int i = 0; vars && vars[i]; i++) {
        char *eq = strchr(vars[i], '=');
        if (eq && !err) {
            *eq = '\0';
            err = launch_list_setenv(env, vars[i], eq + 1);
        }
        free(vars[i]);
    }
    free(vars);
    for (size_t i = 0; i < NTUNING && !err; i++)
        err = launch_list_setenv(env, tuning[i][0], getenv(tuning[i][0]));
    return err;
}

void launch_server_stop(struct launch_job *job)
{
    /* After a violent end the library may still hold collectives of dead ranks, and version 4.2
     * crashes while it frees them.  It keeps nothing outside this process: leaving is enough. */
    if (server.running && !job->ending)
        PMIx_server_finalize();
    server.running = false;
}
