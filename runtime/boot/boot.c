/* SPDX-License-Identifier: BSD-3-Clause */
/* The PMIx client of a rank, or a singleton if no launcher has started this process.
 * Initialisation sends no request after the connection, because the server sends all facts about
 * the job when a process connects.  They are read with PMIX_OPTIONAL, so that a key which a server
 * does not offer costs no round trip.  A store of the program, or of a launcher with PMI-1, takes
 * the server's place: store.h, pmi.h.
 * Called by one thread at a time. */
#include "runtime/boot/boot.h"
#include "runtime/boot/dead.h"
#include "runtime/boot/jobs.h"
#include "runtime/boot/launched.h"
#include "runtime/boot/pmi.h"
#include "runtime/boot/store.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/hmac.h"
#include "runtime/base/hwloc.h"
#include "runtime/base/log.h"
#include "runtime/base/quota.h"
#include "runtime/base/stdio.h"
#include "runtime/base/thread.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <pmix.h>

/* Committed after everything else: a process with this key has committed all that it publishes. */
#define COMMITTED_KEY "weft.committed"
/* Seconds that a peer may take to commit, in MPI_Init, if the caller sets no limit and the server
 * does not wait itself. */
#define COMMIT_S 60
/* Longest time, in seconds, for the server to confirm that it ends the job; it needs
 * milliseconds. */
#define ABORT_S 5

struct rt_boot rt_boot;

static struct {
    pmix_proc_t me;
    bool connected;            /* PMIx_Init() succeeded and PMIx_Finalize() was not called */
    bool dirty;                /* a value has been put and not yet committed */
    char remove_at_abort[512]; /* file; "": none */
} boot;

/* PMIx_Get() without a request to the server. */
static int get_local(pmix_rank_t rank, const char *key, pmix_value_t **val)
{
    pmix_proc_t proc;
    pmix_info_t info;
    bool yes = true;

    PMIX_LOAD_PROCID(&proc, boot.me.nspace, rank);
    PMIX_INFO_LOAD(&info, PMIX_OPTIONAL, &yes, PMIX_BOOL);
    pmix_status_t rc = PMIx_Get(&proc, key, &info, 1, val);
    PMIX_INFO_DESTRUCT(&info);
    return rc == PMIX_SUCCESS && *val ? 0 : -RT_ENOENT;
}

/* Integer fact about the job (rank PMIX_RANK_WILDCARD) or this process; `otherwise` if the server
 * does not offer it. */
static int get_int(pmix_rank_t rank, const char *key, int otherwise)
{
    pmix_value_t *val = NULL;
    int n;

    if (get_local(rank, key, &val) < 0)
        return otherwise;
    switch (val->type) {
    case PMIX_UINT32:
        n = (int)val->data.uint32;
        break;
    case PMIX_UINT16:
        n = val->data.uint16;
        break;
    case PMIX_INT32:
        n = val->data.int32;
        break;
    case PMIX_INT:
        n = val->data.integer;
        break;
    case PMIX_UINT:
        n = (int)val->data.uint;
        break;
    case PMIX_SIZE:
        n = (int)val->data.size;
        break;
    default:
        n = otherwise;
        break;
    }
    PMIX_VALUE_RELEASE(val);
    return n;
}

static int compare_ranks(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Parses ranks in "0,1,5-7" and stores at most max of them.  Returns their number; -1: invalid
 * text. */
static int parse_ranks(const char *text, uint32_t *out, int max)
{
    int n = 0;

    while (*text) {
        char *end;
        unsigned long first = strtoul(text, &end, 10), last = first;
        if (end == text)
            return -1;
        if (*end == '-') {
            text = end + 1;
            last = strtoul(text, &end, 10);
            if (end == text)
                return -1;
        }
        for (unsigned long r = first; r <= last; r++, n++)
            if (n < max)
                out[n] = (uint32_t)r;
        if (*end && *end != ',')
            return -1;
        text = *end ? end + 1 : end;
    }
    return n;
}

/* Sets local_procs, local_rank and local_size.  Local ranks have the order of job ranks, so all
 * processes derive the same table from the same list; PMIX_LOCAL_RANK is ignored. */
static int find_local_peers(const char *peers)
{
    int n = parse_ranks(peers, NULL, 0);
    rt_boot.local_procs = malloc((size_t)(n > 0 ? n : 1) * sizeof *rt_boot.local_procs);
    if (!rt_boot.local_procs) {
        log_error(BOOT, "no memory for a list of the %d ranks on this host", n);
        return -RT_ENOMEM;
    }
    parse_ranks(peers, rt_boot.local_procs, n);
    if (n < 1 || n > rt_boot.size) {
        log_error(
            BOOT,
            "the PMIx server publishes \"%s\" as the ranks on this host, which is not a list of "
            "ranks below %d",
            peers, rt_boot.size);
        return -RT_EBOOT;
    }
    qsort(rt_boot.local_procs, (size_t)n, sizeof *rt_boot.local_procs, compare_ranks);
    rt_boot.local_size = n;
    rt_boot.local_rank = rt_boot_local((uint32_t)rt_boot.rank);
    if (rt_boot.local_rank < 0) {
        log_error(
            BOOT,
            "the PMIx server lists the ranks \"%s\" on this host, and rank %d, this process, is "
            "not among them",
            peers, rt_boot.rank);
        return -RT_EBOOT;
    }
    return 0;
}

int rt_boot_local(uint32_t rank)
{
    const uint32_t *procs = rt_boot.local_procs;
    uint32_t n = (uint32_t)rt_boot.local_size, i = rank - procs[0];

    if (i < n && procs[i] == rank) /* ranks assigned host by host */
        return (int)i;
    const uint32_t *at = bsearch(&rank, procs, n, sizeof *procs, compare_ranks);
    return at ? (int)(at - procs) : -1;
}

static int count_cpus(pid_t pid)
{
    cpu_set_t set;
    int n = sched_getaffinity(pid, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
    return n > 0 ? n : 1;
}

/* Used if the server does not publish the number of cores.  A launcher that binds its ranks is
 * usually not bound itself, so the mask of the parent process, and the limit of its control group,
 * is what the ranks share; otherwise each rank has as many cores as this one. */
static int guess_ncpus(void)
{
    int mine = count_cpus(0), parent = count_cpus(getppid());
    int all = mine * rt_boot.local_size;
    int quota = rt_quota_cores("", rt_boot.singleton ? getpid() : getppid());

    if (rt_boot.singleton || all < mine)
        all = mine;
    else if (all > parent)
        all = parent > mine ? parent : mine;
    return quota && quota < all ? quota : all;
}

/* Several processes started by a launcher without PMIx would each be rank 0 of 1 without a message.
 * The first process logs a warning. */
static void warn_if_one_of_several(const struct rt_launched *l)
{
    if (l->how == RT_LAUNCHED_SEVERAL && l->rank == 0)
        log_warn(BOOT,
                 "%s has started %ld processes, but neither a PMIx server nor PMI-1 for them: each "
                 "is alone, rank 0 of 1; to start them as one job: %s",
                 l->by, l->size, l->advice);
}

static int become_singleton(const struct rt_launched *by)
{
    char self[16];
    uint32_t random; /* distinguishes this job from that of a later process with this PID */

    int err = rt_random(&random, sizeof random);
    if (err < 0)
        return err;
    warn_if_one_of_several(by);
    rt_boot.singleton = true;
    rt_boot.size = rt_boot.universe_size = rt_boot.nnodes = 1;
    snprintf(rt_boot.nspace, sizeof rt_boot.nspace, "singleton-%.200s-%ld-%08x", rt_boot.host,
             (long)getpid(), random);
    snprintf(self, sizeof self, "%d", rt_boot.rank);
    err = find_local_peers(self);
    rt_boot.ncpus = guess_ncpus();
    return err;
}

static int connect_server(void)
{
    const char *refused = rt_fd_refused();
    if (refused)
        log_error(BOOT, "%s(2) is refused (%m), without which PMIx does not work", refused);
    if (refused || (PMIX_VERSION_MAJOR >= 5 && !rt_hwloc_works()))
        return -RT_EBOOT;
    bool hidden = rt_hwloc_hide_plugins(); /* PMIx 5 reads the topology here */
    pmix_status_t rc = PMIx_Init(&boot.me, NULL, 0);

    rt_hwloc_show_plugins(hidden);
    if (rc != PMIX_SUCCESS) {
        log_error(
            BOOT,
            "could not connect to the PMIx server that started this process: %s; is the launcher "
            "still running, is its PMIx version compatible with %s, and is this process in the "
            "launcher's network namespace and of its user (containers: --network=host, "
            "--userns=host)?",
            PMIx_Error_string(rc), PMIx_Get_version());
        return -RT_EBOOT;
    }
    boot.connected = true;
    return 0;
}

static int join_store(void)
{
    int err = rt_store_join();
    if (err < 0) {
        rt_boot_fini();
        return err;
    }
    rt_boot.ncpus = guess_ncpus();
    return 0;
}

/* The server must still assign the same rank of the same job. */
static int reconnect(void)
{
    if (rt_boot.singleton || boot.connected || rt_store())
        return 0;
    int err = connect_server();
    if (err == 0 && (int)boot.me.rank != rt_boot.rank) {
        log_error(BOOT,
                  "the PMIx server now assigns rank %u to this process; before, it was rank %d",
                  boot.me.rank, rt_boot.rank);
        rt_boot_leave();
        err = -RT_EBOOT;
    }
    if (err == 0)
        rt_dead_open();
    return err;
}

/* The index of this host in the job, and the number of hosts.  If the server does not publish the
 * number and some ranks are not on this host, one other host is assumed, which is enough to open
 * transports to other hosts. */
static void read_node(void)
{
    pmix_value_t *val = NULL;

    rt_boot.node = get_int(boot.me.rank, PMIX_NODEID, 0);
    rt_boot.nnodes = get_int(PMIX_RANK_WILDCARD, PMIX_NUM_NODES, 0);
    if (rt_boot.local_size == rt_boot.size)
        rt_boot.nnodes = 1;
    else if (rt_boot.nnodes < 2)
        rt_boot.nnodes = 2;
    if (get_local(boot.me.rank, PMIX_HOSTNAME, &val) < 0)
        return;
    if (val->type == PMIX_STRING && val->data.string && *val->data.string)
        snprintf(rt_boot.host, sizeof rt_boot.host, "%s", val->data.string);
    PMIX_VALUE_RELEASE(val);
}

static int read_cpulist(void)
{
    pmix_value_t *val = NULL;
    if (get_local(PMIX_RANK_WILDCARD, RT_BOOT_KEY_CPUS, &val) < 0)
        return 0;
    bool listed = val->type == PMIX_STRING && val->data.string;
    if (listed)
        rt_boot.cpulist = strdup(val->data.string);
    PMIX_VALUE_RELEASE(val);
    if (!listed || rt_boot.cpulist)
        return 0;
    log_error(BOOT, "no memory for the list of this job's cores");
    return -RT_ENOMEM;
}

static int read_job(void)
{
    pmix_value_t *val = NULL;
    char self[16];

    snprintf(rt_boot.nspace, sizeof rt_boot.nspace, "%s", boot.me.nspace);
    rt_boot.rank = (int)boot.me.rank;
    rt_boot.size = get_int(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, 0);
    if (rt_boot.size <= rt_boot.rank) {
        log_error(
            BOOT,
            "the PMIx server publishes %d processes for the job and rank %d for this process; "
            "start the "
            "program with a launcher that provides PMIX_JOB_SIZE, such as mpirun",
            rt_boot.size, rt_boot.rank);
        return -RT_EBOOT;
    }
    rt_boot.universe_size = get_int(PMIX_RANK_WILDCARD, PMIX_UNIV_SIZE, rt_boot.size);
    rt_boot.appnum = get_int(boot.me.rank, PMIX_APPNUM, 0);

    /* Without the list, no other rank is assumed on this host; transports then report unreachable
     * peers. */
    snprintf(self, sizeof self, "%d", rt_boot.rank);
    int err = get_local(PMIX_RANK_WILDCARD, PMIX_LOCAL_PEERS, &val);
    if (err < 0 && rt_boot.size > 1)
        log_warn(BOOT,
                 "the PMIx server does not publish which ranks are on this host; assuming none");
    bool listed = err == 0 && val->type == PMIX_STRING && val->data.string;
    err = find_local_peers(listed ? val->data.string : self);
    if (val)
        PMIX_VALUE_RELEASE(val);
    if (err < 0)
        return err;
    read_node();
    rt_boot.ncpus = get_int(PMIX_RANK_WILDCARD, RT_BOOT_KEY_NCPUS, 0);
    if (rt_boot.ncpus < 1)
        rt_boot.ncpus = guess_ncpus();
    return read_cpulist();
}

/* Without a launcher: 1.  mpirun publishes the number; for other launchers it is the size of the
 * job. */
int rt_boot_maxprocs(void)
{
    const char *text = getenv("WEFT_LAUNCH_MAXPROCS");
    long published = text && *text ? strtol(text, NULL, 10) : -1;
    struct rt_launched by;
    if (rt_store())
        return rt_store()->size;
    rt_launched_find(&by);
    if (by.how != RT_LAUNCHED_PMIX)
        return by.how == RT_LAUNCHED_PMI ? (int)by.size : 1;
    return published > 0 ? (int)published : rt_boot.size;
}

const char *rt_boot_host_name(void)
{
    return rt_boot.host[0] ? rt_boot.host : getenv("PMIX_HOSTNAME");
}

char *rt_boot_take_parent(void)
{
    const char *port = getenv(RT_BOOT_PARENT_PORT);
    char *copy = port && *port ? strdup(port) : NULL;
    if (port)
        unsetenv(RT_BOOT_PARENT_PORT);
    return copy;
}

int rt_boot_init(void)
{
    struct rt_launched by;
    int err;

    if (rt_boot.local_procs)
        return reconnect();
    memset(&rt_boot, 0, sizeof rt_boot);
    if (gethostname(rt_boot.host, sizeof rt_boot.host) < 0)
        snprintf(rt_boot.host, sizeof rt_boot.host, "localhost");
    rt_boot.host[sizeof rt_boot.host - 1] = '\0';
    rt_launched_find(&by);
    if (!rt_store() && by.how == RT_LAUNCHED_PMI && (err = rt_pmi_open()) < 0)
        return err;
    if (rt_store())
        return join_store();
    if (by.how != RT_LAUNCHED_PMIX)
        return become_singleton(&by);
    err = connect_server();
    if (err == 0)
        err = read_job();
    if (err == 0)
        rt_dead_open();
    if (err < 0)
        rt_boot_fini();
    return err;
}

void rt_boot_leave(void)
{
    if (boot.connected) {
        rt_boot_commit();
        PMIx_Finalize(NULL, 0);
    }
    rt_store_leave();
    rt_boot_spawn_fini();
    boot.connected = false;
}

void rt_boot_fini(void)
{
    rt_boot_leave();
    rt_boot_nodes_fini();
    rt_boot_jobs_fini();
    rt_store_fini();
    free(rt_boot.local_procs);
    rt_boot.local_procs = NULL;
    free(rt_boot.cpulist);
    rt_boot.cpulist = NULL;
}

int rt_boot_put(const char *key, const void *val, size_t len)
{
    pmix_value_t v;

    int err = rt_boot_keep(key, val, len);
    if (err < 0 || rt_boot.singleton)
        return err;
    boot.dirty = true;
    if (rt_store())
        return 0;
    v.type = PMIX_BYTE_OBJECT;
    v.data.bo.bytes = (char *)val; /* PMIx_Put copies it */
    v.data.bo.size = len;
    pmix_status_t rc = PMIx_Put(PMIX_GLOBAL, key, &v);
    if (rc != PMIX_SUCCESS) {
        log_error(BOOT, "could not publish %zu bytes as \"%s\": %s", len, key,
                  PMIx_Error_string(rc));
        return -RT_EBOOT;
    }
    return 0;
}

int rt_boot_commit(void)
{
    pmix_value_t yes = { .type = PMIX_BOOL, .data.flag = true };

    if (!boot.dirty)
        return 0;
    boot.dirty = false;
    if (rt_store())
        return rt_store_commit();
    pmix_status_t rc = PMIx_Put(PMIX_GLOBAL, COMMITTED_KEY, &yes);
    if (rc == PMIX_SUCCESS)
        rc = PMIx_Commit();
    if (rc != PMIX_SUCCESS) {
        log_error(BOOT, "could not commit what this rank publishes: %s", PMIx_Error_string(rc));
        return -RT_EBOOT;
    }
    return 0;
}

static int copy_out(const pmix_value_t *v, const char *key, void **val, size_t *len)
{
    if (v->type != PMIX_BYTE_OBJECT) {
        log_error(
            BOOT,
            "\"%s\" has PMIx type %d, expected bytes; do all ranks run the same version of the "
            "library?",
            key, (int)v->type);
        return -RT_EBOOT;
    }
    void *copy = malloc(v->data.bo.size ? v->data.bo.size : 1);
    if (!copy)
        return -RT_ENOMEM;
    memcpy(copy, v->data.bo.bytes, v->data.bo.size);
    *val = copy;
    *len = v->data.bo.size;
    return 0;
}

static pmix_status_t get_once(const pmix_proc_t *proc, const char *key, int timeout_s,
                              pmix_value_t **v)
{
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, PMIX_TIMEOUT, &timeout_s, PMIX_INT);
    pmix_status_t rc = PMIx_Get(proc, key, &info, timeout_s > 0 ? 1 : 0, v);
    PMIX_INFO_DESTRUCT(&info);
    return rc;
}

/* Each look is a message to the PMIx server. */
#define PAUSE_FIRST_US 200u
static void pause_longer(unsigned *us)
{
    usleep(*us);
    *us = *us < 20000 ? 2 * *us : *us;
}

/* Fetches a peer's value, and waits for it.  After some seconds PMIx's server answers that the
 * peer is late; without a limit of the caller, the request is then repeated as long as the job
 * runs, because the peer may not have called MPI_Init yet.
 *
 * For a peer on this host that has not committed yet, a server with a shared store (Slurm's)
 * answers that the key does not exist, instead of waiting.  This answer counts only once the peer
 * has committed. */
static pmix_status_t get_patiently(const pmix_proc_t *proc, const char *key, int timeout_s,
                                   pmix_value_t **v)
{
    uint64_t limit = (uint64_t)(timeout_s > 0 ? timeout_s : COMMIT_S) * 1000000000u;
    uint64_t until = rt_now_ns() + limit;
    unsigned pause_us = PAUSE_FIRST_US;

    for (;;) {
        pmix_status_t rc = get_once(proc, key, timeout_s, v);
        if (rc != PMIX_SUCCESS && rt_dead_has((struct rt_proc){ 0, proc->rank }))
            return PMIX_ERR_NOT_FOUND; /* it will commit nothing more */
        if (rc == PMIX_ERR_TIMEOUT && timeout_s <= 0)
            continue;
        if (rc != PMIX_ERR_NOT_FOUND)
            return rc;
        pmix_value_t *committed = NULL;
        rc = get_once(proc, COMMITTED_KEY, timeout_s, &committed);
        if (rc == PMIX_SUCCESS) {
            PMIX_VALUE_RELEASE(committed);
            return get_once(proc, key, timeout_s, v);
        }
        if (rc != PMIX_ERR_NOT_FOUND)
            return rc;
        if (rt_now_ns() > until)
            return PMIX_ERR_TIMEOUT;
        pause_longer(&pause_us);
    }
}

int rt_boot_get(struct rt_proc peer, const char *key, void **val, size_t *len, int timeout_s)
{
    pmix_value_t *v = NULL;
    pmix_proc_t proc;

    if (peer.ns != 0)
        return rt_boot_card_get(peer, key, val, len);
    if (rt_boot.singleton || peer.rank >= (uint32_t)rt_boot.size)
        return -RT_ENOENT;
    if (rt_store())
        return rt_store_get(peer.rank, key, val, len);
    PMIX_LOAD_PROCID(&proc, boot.me.nspace, peer.rank);
    pmix_status_t rc = get_patiently(&proc, key, timeout_s, &v);
    if (rc == PMIX_ERR_TIMEOUT)
        return -RT_ETIMEOUT;
    if (rc == PMIX_ERR_NOT_FOUND)
        return -RT_ENOENT;
    if (rc != PMIX_SUCCESS || !v) {
        log_error(BOOT, "could not fetch \"%s\" of rank %u: %s", key, peer.rank,
                  PMIx_Error_string(rc));
        return -RT_EBOOT;
    }
    int err = copy_out(v, key, val, len);
    PMIX_VALUE_RELEASE(v);
    return err;
}

void rt_boot_await(struct rt_proc peer, const char *key)
{
    unsigned pause_us = PAUSE_FIRST_US;
    void *val = NULL;
    size_t len;
    while (!rt_dead_has(peer) && rt_boot_get(peer, key, &val, &len, 0) == -RT_ENOENT)
        pause_longer(&pause_us);
    free(val);
}

static void on_value(pmix_status_t rc, pmix_value_t *v, void *cbdata)
{
    struct rt_boot_question *q = cbdata;
    bool good = rc == PMIX_SUCCESS && v && v->type == PMIX_BYTE_OBJECT;
    q->done(q, good ? v->data.bo.bytes : NULL, good ? v->data.bo.size : 0);
}

int rt_boot_ask(uint32_t rank, const char *key, struct rt_boot_question *q)
{
    pmix_proc_t proc;
    PMIX_LOAD_PROCID(&proc, boot.me.nspace, rank);
    if (boot.connected && PMIx_Get_nb(&proc, key, NULL, 0, on_value, q) == PMIX_SUCCESS)
        return 0;
    return -RT_EBOOT;
}

/* mpirun ends a job of which a rank dies in its start; with a store each rank waits for all. */
int rt_boot_complete(void) { return rt_store() ? rt_store_fence() : 0; }

int rt_boot_fence(void)
{
    if (rt_boot.singleton)
        return 0;
    if (rt_store())
        return rt_store_fence();
    pmix_status_t rc = PMIx_Fence(NULL, 0, NULL, 0);
    if (rc != PMIX_SUCCESS) {
        log_error(BOOT, "barrier through the PMIx server: %s", PMIx_Error_string(rc));
        return -RT_EBOOT;
    }
    return 0;
}

static void *end_after_limit(void *code)
{
    sleep(ABORT_S);
    _exit((int)(intptr_t)code);
}

/* Limits the time of PMIx_Abort(), which waits for the server's answer.  The answer never arrives
 * if the program has closed the descriptors of the connection, or if the server hangs.  The
 * launcher sees the end of this process. */
static void limit_abort(int code)
{
    pthread_t t;
    if (rt_thread_start(&t, NULL, end_after_limit, (void *)(intptr_t)code))
        _exit(code);
}

void rt_boot_remove_at_abort(const char *path)
{
    snprintf(boot.remove_at_abort, sizeof boot.remove_at_abort, "%s", path);
}

_Noreturn void rt_boot_abort(int code, const char *msg)
{
    limit_abort(code);
    rt_stdio_flush();
    if (boot.remove_at_abort[0])
        unlink(boot.remove_at_abort);
    bool aborted = boot.connected && !PMIx_Abort(code, msg ? msg : "", NULL, 0);
    bool ends_job = aborted || !rt_store() || rt_store()->abort;
    if (!aborted && msg) /* no launcher that prints it, or no memory for a message to it */
        log_error(BOOT, "%s; %s", msg,
                  ends_job ? "this process ends the job"
                           : "this process ends, and the others get errors from their calls");
    if (rt_store_abort(code))
        pause(); /* until the launcher ends it; with limit_abort() */
    _exit(code);
}
