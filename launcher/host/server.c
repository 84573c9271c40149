/* SPDX-License-Identifier: BSD-3-Clause */
/* The PMIx server in mpirun, or in the agent of a host.  PMIx calls the functions of `module` on
 * its own progress thread.  They pass events to the main loop through a pipe and answer at once, so
 * only the main thread accesses the job.  An event is in the pipe before the answer lets the client
 * continue: so the loop sees a finalize before it can see that the process has exited.  Calls that
 * involve other hosts (fences, and fetches of what their ranks have published) are answered later
 * by the main thread (relay.c). */
#include "launcher/host/guard.h"
#include "launcher/host/server.h"
#include "launcher/host/server_ask.h"
#include "launcher/job.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/log.h"
#include "runtime/boot/boot.h"
#include "runtime/topo/topo.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <link.h>
#include <net/if.h>
#include <netinet/in.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <pmix_server.h>
#include <pmix.h>

static struct {
    int event_fd;   /* write end */
    bool relay;     /* the job has other hosts */
    bool tuned_gds; /* the user has not set PMIx's component for job data */
    char nspace[PMIX_MAX_NSLEN + 1];
} server = { .event_fd = -1 };

/* Settings of PMIx for this process and the ranks: a job of few ranks needs no shared store of job
 * data (gds, see keep_in_store()), no compression (64 KiB of zlib state for each rank), and no
 * credentials besides the user id: accept.c checks which user has opened a connection. */
static const char *const tuning[][2] = {
    { "PMIX_MCA_gds", "hash" },
    { "PMIX_MCA_psec", "native" },
    { "PMIX_MCA_pcompress", "^zlib" },
    { "PMIX_MCA_pcompress_base_silence_warning", "1" },
};
/* Ranks from which a job uses a store, which consists of sparse files of some MiB.  PMIx 4 calls
 * its store ds21; PMIx 5 calls it shmem or shmem2.  A name that a version does not know is an
 * error, so the variable excludes the component that must not be used. */
#define STORE_RANKS 64
#define STORE "^ds12"
#define STORE_ROOM (32u << 20) /* bytes of free space needed: 65 ranks use 12 MiB */
#define NTUNING (sizeof tuning / sizeof tuning[0])

void launch_server_tune(void)
{
    const char *gds = getenv("PMIX_MCA_gds");
    if (!gds || !strcmp(gds, STORE)) /* set by an mpirun that has started this one */
        server.tuned_gds = true;
    for (size_t i = 0; i < NTUNING; i++)
        setenv(tuning[i][0], tuning[i][1], 0);
    /* By default PMIx collects events, such as the loss of a rank, for a second. */
    setenv("PMIX_MCA_pmix_event_caching_window", "0", 0);
    /* hwloc's plugins search for X11 displays, OpenCL and CUDA, which takes up to a second and
     * which a launcher does not need. */
    setenv("HWLOC_PLUGINS_PATH", "/nonexistent", 1);
}

/* ---- on PMIx's thread ---- */

static void post_event(const struct launch_event *e)
{
    if (write(server.event_fd, e, sizeof *e) != sizeof *e)
        log_error(LAUNCH, "could not pass on an event of rank %d: %m", e->rank);
}

void launch_server_post(const struct launch_event *e) { post_event(e); }

static void post(enum launch_event_kind kind, const pmix_proc_t *proc, int code, const char *text)
{
    struct launch_event e = { .kind = kind, .rank = (int)proc->rank, .code = code };
    snprintf(e.text, sizeof e.text, "%s", text ? text : "");
    post_event(&e);
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

/* PMIx has read everything that the rank wrote, and the rank has not finalized.  If PMIx notices
 * the loss of several ranks at once, it calls this once: the other ranks are in info[]. */
static void on_lost(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[],
                    size_t ninfo, pmix_info_t results[], size_t nresults,
                    pmix_event_notification_cbfunc_fn_t cbfunc, void *cbdata)
{
    (void)id, (void)status, (void)results, (void)nresults;
    if (!strcmp(source->nspace, server.nspace))
        post(LAUNCH_LOST, source, 0, NULL);
    for (size_t i = 0; i < ninfo; i++)
        if (PMIX_CHECK_KEY(&info[i], PMIX_PROCID) && info[i].value.type == PMIX_PROC &&
            !strcmp(info[i].value.data.proc->nspace, server.nspace))
            post(LAUNCH_LOST, info[i].value.data.proc, 0, NULL);
    if (cbfunc)
        cbfunc(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
}

/* The arguments of a call that the main thread will answer; NULL: out of memory. */
static struct launch_call *make_call(const void *data, size_t len, pmix_modex_cbfunc_t cbfunc,
                                     void *cbdata)
{
    struct launch_call *call = calloc(1, sizeof *call);
    char *copy = malloc(len ? len : 1);
    if (!call || !copy) {
        free(call), free(copy);
        return NULL;
    }
    if (len)
        memcpy(copy, data, len);
    call->data = copy;
    call->len = len;
    call->answer = (void (*)(void))cbfunc;
    call->cbdata = cbdata;
    return call;
}

/* Collects the ranks among the participants; none: all ranks of the job. */
static int list_ranks(struct launch_call *call, const pmix_proc_t procs[], size_t nprocs)
{
    call->ranks = calloc(nprocs ? nprocs : 1, sizeof *call->ranks);
    if (!call->ranks)
        return -RT_ENOMEM;
    for (size_t i = 0; i < nprocs; i++) {
        if (strcmp(procs[i].nspace, server.nspace))
            return -RT_ENOTSUP;
        if (procs[i].rank == PMIX_RANK_WILDCARD) {
            call->nranks = 0;
            return 0;
        }
        call->ranks[call->nranks++] = procs[i].rank;
    }
    return 0;
}

/* Called when every local participant has entered the fence.  `data` belongs to PMIx and may become
 * invalid when this function returns. */
static pmix_status_t on_fence(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[],
                              size_t ninfo, char *data, size_t ndata, pmix_modex_cbfunc_t cbfunc,
                              void *cbdata)
{
    struct launch_call *call = make_call(data, ndata, cbfunc, cbdata);
    struct launch_event e = { .kind = LAUNCH_FENCE, .call = call };
    (void)info, (void)ninfo;
    if (!call)
        return PMIX_ERR_NOMEM;
    int err = list_ranks(call, procs, nprocs);
    if (err < 0) {
        launch_call_free(call);
        return err == -RT_ENOTSUP ? PMIX_ERR_NOT_SUPPORTED : PMIX_ERR_NOMEM;
    }
    if (server.relay)
        post_event(&e);
    else
        launch_server_answer(call, 0, call->data, call->len);
    return PMIX_SUCCESS;
}

/* PMIx calls this only for processes of other hosts; the PMIx library answers for its own
 * clients. */
static pmix_status_t on_direct_modex(const pmix_proc_t *proc, const pmix_info_t info[],
                                     size_t ninfo, pmix_modex_cbfunc_t cbfunc, void *cbdata)
{
    struct launch_event e = { .kind = LAUNCH_FETCH, .rank = (int)proc->rank };
    const char *key = "";

    if (!server.relay || strcmp(proc->nspace, server.nspace))
        return PMIX_ERR_NOT_FOUND;
    for (size_t i = 0; i < ninfo; i++) {
        if (!strncmp(info[i].key, PMIX_REQUIRED_KEY, PMIX_MAX_KEYLEN) &&
            info[i].value.type == PMIX_STRING && info[i].value.data.string)
            key = info[i].value.data.string;
        if (!strncmp(info[i].key, PMIX_TIMEOUT, PMIX_MAX_KEYLEN))
            e.code = info[i].value.type == PMIX_INT || info[i].value.type == PMIX_UINT32
                         ? info[i].value.data.integer
                         : 0;
    }
    e.call = make_call(key, strlen(key) + 1, cbfunc, cbdata);
    if (!e.call)
        return PMIX_ERR_NOMEM;
    post_event(&e);
    return PMIX_SUCCESS;
}

/* Receives what a rank of this host has published, for another host; `arg` is the number of the
 * request. */
static void on_published(pmix_status_t status, char *data, size_t len, void *arg)
{
    struct launch_call *call = make_call(data, status == PMIX_SUCCESS ? len : 0, NULL, NULL);
    struct launch_event e = { .kind = LAUNCH_PUBLISHED, .call = call };
    e.code = status == PMIX_SUCCESS && call ? 0 : -RT_ENOENT;
    e.number = (uint32_t)(uintptr_t)arg;
    post_event(&e);
}

static pmix_server_module_t module = {
    .client_connected = on_connected,
    .client_finalized = on_finalized,
    .abort = on_abort,
    .fence_nb = on_fence,
    .direct_modex = on_direct_modex,
    .publish = launch_on_publish,
    .lookup = launch_on_lookup,
    .unpublish = launch_on_unpublish,
    .spawn = launch_on_spawn,
};

/* ---- on the main thread ---- */

struct wait {
    sem_t done;
    pmix_status_t status;
};

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

/* The ranks of each host, "0,1;2,3", as PMIx_generate_ppn() reads them; *own is the part of this
 * host.  Hosts without ranks are omitted. */
static char *rank_lists(const struct launch_job *job, char **own)
{
    char *text = NULL;
    size_t len, begin = 0;
    FILE *f = open_memstream(&text, &len);

    *own = NULL;
    for (int h = 0; f && h < job->nhosts; h++) {
        const char *sep = job->hosts[h].node > 0 ? ";" : "";
        fflush(f);
        begin = h == job->node ? len + strlen(sep) : begin;
        for (int i = 0; i < job->hosts[h].nranks; i++, sep = ",")
            fprintf(f, "%s%u", sep, launch_rank_on(job, h, i));
        if (h == job->node) {
            fflush(f);
            *own = strdup(text + begin);
        }
    }
    if (f)
        fclose(f);
    return text;
}

/* "raw:n0,n1,n2": a form of PMIX_REGEX that avoids PMIx_generate_regex(), which in versions 4 and 5
 * has only 50 bytes for the letters before the first digit of a name, and keeps numbers as int. */
static char *host_list(const struct launch_job *job)
{
    char *text = NULL;
    size_t len;
    FILE *f = open_memstream(&text, &len);
    if (f)
        fputs("raw:", f);
    for (int h = 0; f && h < job->nhosts; h++)
        if (job->hosts[h].node >= 0)
            fprintf(f, "%s%s", job->hosts[h].node ? "," : "", launch_bare_name(job->hosts[h].name));
    if (f)
        fclose(f);
    return text;
}

static void load_u32(pmix_info_t *info, const char *key, int value)
{
    uint32_t v = (uint32_t)value;
    PMIX_INFO_LOAD(info, key, &v, PMIX_UINT32);
}

static int app_of(const struct launch_job *job, uint32_t rank)
{
    const struct launch_opts *o = job->opts;
    int a = 0;
    while (a + 1 < o->napps && rank >= (uint32_t)o->apps[a + 1].first)
        a++;
    return a;
}

/* What PMIx publishes about one rank, the i-th of its host.  Of ranks on other hosts it contains
 * only what a rank on this host may request; the names of their hosts are in the maps. */
static void load_rank(pmix_info_t *info, const struct launch_job *job, int host, int i)
{
    pmix_data_array_t *array;
    pmix_rank_t r = launch_rank_on(job, host, i);
    uint16_t local = (uint16_t)i;
    int app = app_of(job, r), n = 0;

    PMIX_DATA_ARRAY_CREATE(array, host == job->node ? 6 : 3, PMIX_INFO);
    pmix_info_t *v = array->array;
    PMIX_INFO_LOAD(&v[n++], PMIX_RANK, &r, PMIX_PROC_RANK);
    load_u32(&v[n++], PMIX_APPNUM, app);
    load_u32(&v[n++], PMIX_NODEID, job->hosts[host].node);
    if (host == job->node) {
        r -= (pmix_rank_t)job->opts->apps[app].first;
        PMIX_INFO_LOAD(&v[n++], PMIX_LOCAL_RANK, &local, PMIX_UINT16);
        PMIX_INFO_LOAD(&v[n++], PMIX_NODE_RANK, &local, PMIX_UINT16);
        PMIX_INFO_LOAD(&v[n++], PMIX_APP_RANK, &r, PMIX_PROC_RANK);
    }
    PMIX_LOAD_KEY(info->key, PMIX_PROC_DATA);
    info->value.type = PMIX_DATA_ARRAY;
    info->value.data.darray = array;
}

static int count_nodes(const struct launch_job *job)
{
    int n = 0;
    for (int h = 0; h < job->nhosts; h++)
        n += job->hosts[h].nranks > 0;
    return n;
}

/* Data of the whole job; the maps contain the hosts and the ranks of each. */
static int load_job(pmix_info_t *info, const struct launch_job *job, const char *store)
{
    char *own, *lists = rank_lists(job, &own), *hosts = host_list(job);
    char *procs = NULL;
    int n = 0;

    if (!lists || !own || !hosts || PMIx_generate_ppn(lists, &procs)) {
        free(lists), free(own), free(hosts);
        return -RT_ENOMEM;
    }
    load_u32(&info[n++], PMIX_JOB_SIZE, job->total);
    load_u32(&info[n++], PMIX_LOCAL_SIZE, job->n);
    load_u32(&info[n++], PMIX_NODE_SIZE, job->n);
    load_u32(&info[n++], PMIX_MAX_PROCS, job->total);
    load_u32(&info[n++], PMIX_UNIV_SIZE, job->total > job->universe ? job->total : job->universe);
    load_u32(&info[n++], PMIX_JOB_NUM_APPS, job->opts->napps);
    load_u32(&info[n++], PMIX_NUM_NODES, count_nodes(job));
    load_u32(&info[n++], RT_BOOT_KEY_NCPUS, job->ncpus);
    PMIX_INFO_LOAD(&info[n++], RT_BOOT_KEY_CPUS, job->cpus ? job->cpus : "", PMIX_STRING);
    PMIX_INFO_LOAD(&info[n++], PMIX_LOCAL_PEERS, own, PMIX_STRING);
    PMIX_INFO_LOAD(&info[n++], PMIX_JOBID, job->nspace, PMIX_STRING);
    PMIX_INFO_LOAD(&info[n++], PMIX_NODE_MAP, hosts, PMIX_REGEX);
    PMIX_INFO_LOAD(&info[n++], PMIX_PROC_MAP, procs, PMIX_REGEX);
    if (*store) /* otherwise PMIx 5 makes its files in /tmp */
        PMIX_INFO_LOAD(&info[n++], PMIX_NSDIR, store, PMIX_STRING);
    free(lists), free(own), free(hosts), free(procs);
    return n;
}

static int register_job(struct launch_job *job, const char *store)
{
    size_t njob = 13 + (*store != '\0'), ninfo = njob + (size_t)job->total, n = njob;
    pmix_info_t *info;
    struct wait w = { .status = PMIX_SUCCESS };

    PMIX_INFO_CREATE(info, ninfo);
    if (!info || load_job(info, job, store) != (int)njob) {
        log_error(LAUNCH, "no memory to describe a job of %d ranks", job->total);
        return -RT_ENOMEM;
    }
    for (int h = 0; h < job->nhosts; h++)
        for (int i = 0; i < job->hosts[h].nranks; i++)
            load_rank(&info[n++], job, h, i);
    sem_init(&w.done, 0, 0);
    pmix_status_t rc = PMIx_server_register_nspace(server.nspace, job->n, info, ninfo, waited, &w);
    if (rc == PMIX_SUCCESS)
        while (sem_wait(&w.done)) {
        }
    PMIX_INFO_FREE(info, ninfo);
    if (rc == PMIX_OPERATION_SUCCEEDED)
        rc = PMIX_SUCCESS;
    if (rc == PMIX_SUCCESS)
        rc = w.status;
    return rc == PMIX_SUCCESS ? 0 : failed("could not register the job", rc);
}

/* Starts all registrations, then waits for all: PMIx's thread works meanwhile. */
static int register_ranks(struct launch_job *job)
{
    struct wait w = { .status = PMIX_SUCCESS };
    pmix_status_t rc = PMIX_SUCCESS;
    pmix_proc_t proc;
    int started = 0;

    sem_init(&w.done, 0, 0);
    for (int r = 0; r < job->n; r++) {
        PMIX_LOAD_PROCID(&proc, server.nspace, (pmix_rank_t)job->ranks[r].rank);
        pmix_status_t one = PMIx_server_register_client(&proc, geteuid(), getegid(), NULL, waited,
                                                        &w);
        if (one == PMIX_SUCCESS)
            started++;
        else if (one != PMIX_OPERATION_SUCCEEDED)
            rc = one;
    }
    while (started--)
        while (sem_wait(&w.done)) {
        }
    if (rc == PMIX_SUCCESS)
        rc = w.status;
    return rc == PMIX_SUCCESS ? 0 : failed("could not register the ranks", rc);
}

/* Whether the file system has room for a store; a store without room would end the job. */
static bool has_room(const char *path)
{
    struct statvfs fs;
    if (statvfs(path, &fs) == 0 && (uint64_t)fs.f_bavail * fs.f_frsize >= STORE_ROOM)
        return true;
    rmdir(path);
    return false;
}

/* Selects PMIx's store for large jobs.  With its table of job data (hash), each process keeps 2 KB
 * for each rank of the job; only a sixth of that depends on how much is published about a rank.  A
 * store consists of files that the processes of a host share: 13 bytes for each pair of rank and
 * process with PMIx 4.2, 4 with 5.0, measured between 65 and 129 ranks. */
static void keep_in_store(const struct launch_job *job, char *path)
{
    bool wanted = job->total >= STORE_RANKS;

    if (server.tuned_gds)
        setenv("PMIX_MCA_gds", "hash", 1);
    if (!server.tuned_gds || !wanted || mkdir(path, 0700) < 0 || !has_room(path))
        *path = '\0';
    else
        setenv("PMIX_MCA_gds", STORE, 1);
}

/* Whether the loopback interface, over which ranks connect to the server, is up. */
static bool has_loopback(void)
{
    const unsigned up = IFF_LOOPBACK | IFF_UP;
    struct ifaddrs *all, *i;
    if (getifaddrs(&all) < 0)
        return true; /* unknown: assume it is */
    for (i = all; i && (i->ifa_flags & up) != up;)
        i = i->ifa_next;
    freeifaddrs(all);
    return i != NULL;
}

#ifdef PMIX_TOPOLOGY2
static int count_hwloc(struct dl_phdr_info *info, size_t size, void *n)
{
    (void)size;
    *(int *)n += strstr(info->dlpi_name, "/libhwloc.") != NULL;
    return 0;
}

/* Gives PMIx the topology that this process has read already: a second discovery takes 5 to 10 ms.
 * Not if PMIx uses another hwloc than this program. */
static size_t add_topology(pmix_info_t *info)
{
    static pmix_topology_t topology = { .source = "hwloc" }; /* PMIx keeps what this points to */
    int nhwloc = 0;
    dl_iterate_phdr(count_hwloc, &nhwloc);
    topology.topology = nhwloc == 1 ? rt_topo_hwloc() : NULL;
    if (!topology.topology)
        return 0;
    memset(info, 0, sizeof *info);
    PMIX_LOAD_KEY(info->key, PMIX_TOPOLOGY2);
    info->value.type = PMIX_TOPO;
    info->value.data.topo = &topology;
    return 1;
}
#else
static size_t add_topology(pmix_info_t *info)
{
    (void)info;
    return 0;
}
#endif

/* The call that is refused to a listening socket such as PMIx's; NULL: none. */
static const char *refused_to_listen(void)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof at;
    int yes = 1, s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const char *failed_in = s < 0 ? "socket"
                            : setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) < 0
                                ? "setsockopt"
                            : bind(s, (struct sockaddr *)&at, sizeof at) < 0   ? "bind"
                            : listen(s, 1) < 0                                 ? "listen"
                            : getsockname(s, (struct sockaddr *)&at, &len) < 0 ? "getsockname"
                                                                               : NULL;
    int why = errno;
    if (s >= 0)
        close(s);
    errno = why;
    return failed_in && (why == EPERM || why == EACCES || why == ENOSYS) ? failed_in : NULL;
}

/* PMIx aborts this process, or waits for ever, where one of these calls is refused. */
static int check_calls(void)
{
    const char *refused = rt_fd_refused();
    if (!refused)
        refused = refused_to_listen();
    if (!refused)
        return 0;
    log_error(LAUNCH,
              "PMIx server: %s(2) is refused: %m; allow it in the seccomp filter of this container",
              refused);
    return -RT_EPERM;
}

static void notified(pmix_status_t status, void *arg)
{
    (void)arg;
    if (status != PMIX_SUCCESS && status != PMIX_OPERATION_SUCCEEDED)
        log_error(LAUNCH, "could not notify the ranks of a death: %s", PMIx_Error_string(status));
}

/* PMIx keeps the event for ranks that register for it later, and sends it to each rank once. */
void launch_server_died(const char *nspace, int rank)
{
    pmix_proc_t who;
    PMIX_LOAD_PROCID(&who, nspace, (pmix_rank_t)rank);
    pmix_status_t rc = PMIx_Notify_event(PMIX_ERR_PROC_TERM_WO_SYNC, &who, PMIX_RANGE_LOCAL, NULL,
                                         0, notified, NULL);
    if (rc != PMIX_SUCCESS)
        notified(rc, NULL);
}

int launch_server_start(struct launch_job *job, const char *segment)
{
    pmix_status_t lost = PMIX_ERR_LOST_CONNECTION;
    pmix_info_t info[3]; /* the topology is not freed */
    char store[4096 + 8];
    int fds[2], refused = check_calls();

    if (refused)
        return refused;
    if (pipe2(fds, O_CLOEXEC) < 0) {
        log_error(LAUNCH, "pipe: %m");
        return -RT_ESYS;
    }
    /* The reader polls; the writer may block until the loop reads. */
    fcntl(fds[0], F_SETFL, O_NONBLOCK);
    job->event_fd = fds[0];
    server.event_fd = fds[1];
    snprintf(server.nspace, sizeof server.nspace, "%s", job->nspace);
    server.relay = job->by_host != NULL;
    launch_store_name(segment, store, sizeof store);
    keep_in_store(job, store);
    PMIX_INFO_LOAD(&info[0], PMIX_HOSTNAME, job->host, PMIX_STRING);
    PMIX_INFO_LOAD(&info[1], PMIX_SERVER_TMPDIR, store, PMIX_STRING);
    size_t ninfo = *store ? 2 : 1, ntopo = add_topology(&info[ninfo]);
    pmix_status_t rc = PMIx_server_init(&module, info, ninfo + ntopo);
    PMIX_INFO_DESTRUCT(&info[0]);
    if (ninfo > 1)
        PMIX_INFO_DESTRUCT(&info[1]);
    if (rc != PMIX_SUCCESS)
        return failed(has_loopback()
                          ? "could not start; the lines above may say why"
                          : "could not start; it needs a loopback interface (ip link set lo up)",
                      rc);
    PMIx_Register_event_handler(&lost, 1, NULL, 0, on_lost, NULL, NULL);
    int err = register_job(job, store);
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

void launch_call_free(struct launch_call *call)
{
    launch_list_fini(&call->words);
    free(call->data);
    free(call->ranks);
    free(call);
}

void launch_server_answer(struct launch_call *call, int err, const void *data, size_t len)
{
    pmix_modex_cbfunc_t cbfunc = (pmix_modex_cbfunc_t)call->answer;
    char *copy = !err && len ? malloc(len) : NULL;
    pmix_status_t status = err == -RT_ENOENT       ? PMIX_ERR_NOT_FOUND
                           : err == -RT_ETIMEOUT   ? PMIX_ERR_TIMEOUT
                           : err || (len && !copy) ? PMIX_ERR_NOMEM
                                                   : PMIX_SUCCESS;
    if (copy)
        memcpy(copy, data, len);
    cbfunc(status, copy, copy ? len : 0, call->cbdata, free, copy);
    launch_call_free(call);
}

int launch_server_fetch(int rank, uint32_t number)
{
    pmix_proc_t proc;
    PMIX_LOAD_PROCID(&proc, server.nspace, (pmix_rank_t)rank);
    pmix_status_t rc = PMIx_server_dmodex_request(&proc, on_published, (void *)(uintptr_t)number);
    return rc == PMIX_SUCCESS ? 0 : failed("could not read what a rank published", rc);
}

uint32_t launch_rank_on(const struct launch_job *job, int host, int i)
{
    return job->by_host ? job->by_host[job->hosts[host].begin + i] : (uint32_t)i;
}
