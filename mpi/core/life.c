/* SPDX-License-Identifier: BSD-3-Clause */
/* Brings the library up for its first user and lets it rest after the last.  MPI_Init and every
 * open session are users.  One mutex serialises start and end.  It is always taken, because several
 * threads may open sessions before the library knows the thread level. */
#include "mpi/core/life.h"
#include "btl/all/all.h"
#include "coll/coll.h"
#include "coll/select.h"
#include "coll/tune.h"
#include "mpi/base/session.h"
#include "mpi/check/made.h"
#include "mpi/check/messages.h"
#include "mpi/core/alloc.h"
#include "mpi/base/comm.h"
#include "mpi/core/comm.h"
#include "mpi/core/ctx.h"
#include "mpi/core/file.h"
#include "mpi/core/info.h"
#include "mpi/core/lanes.h"
#include "mpi/core/session_comm.h"
#include "mpi/core/win.h"
#include "mpi/datatype/f90.h"
#include "mpi/ft/ft.h"
#include "mpi/datatype/type.h"
#include "mpi/op/op.h"
#include "mpi/p2p/create.h"
#include "mpi/p2p/p2p.h"
#include "mpi/p2p/request.h"
#include "runtime/base/cfg.h"
#include "runtime/boot/store.h"
#include "runtime/gpu/gpu.h"
#include "runtime/layout/pack_gpu.h"
#include "runtime/mem/deaths.h"
#include "runtime/mem/segment.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void (*wm_life_at_rest[WM_RESTS])(void);

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct {
    bool built;      /* segment and domain exist */
    pthread_t owner; /* while `alone`, the only thread that may be inside MPI */
    bool alone;      /* every user so far came from `owner`, at SINGLE or FUNNELED */
} life;

static const struct {
    int level;
    const char *name;
} levels[] = {
    { MPI_THREAD_SINGLE, "MPI_THREAD_SINGLE" },
    { MPI_THREAD_FUNNELED, "MPI_THREAD_FUNNELED" },
    { MPI_THREAD_SERIALIZED, "MPI_THREAD_SERIALIZED" },
    { MPI_THREAD_MULTIPLE, "MPI_THREAD_MULTIPLE" },
};
#define NLEVELS (sizeof levels / sizeof levels[0])

const char *wm_thread_level_name(int level)
{
    for (size_t i = 0; i < NLEVELS; i++)
        if (levels[i].level == level)
            return levels[i].name;
    return NULL;
}

int wm_thread_level_of(const char *name)
{
    for (size_t i = 0; i < NLEVELS; i++)
        if (!strcmp(levels[i].name, name))
            return levels[i].level;
    return -1;
}

static bool is_child;

/* Runs in a child of fork(), whose other threads have gone and may have held any lock.  While the
 * library rests, calls fail for another reason; but no session may start. */
static void forked(void)
{
    is_child = true;
    if (wm_state.users == 0)
        return;
    wm_state.phase = WM_FORKED;
    wm_state.users = 0;
}

_Noreturn void wm_life_forked(const char *call)
{
    char text[640];
    int n = snprintf(text, sizeof text,
                     "\n*** MPI error: %s in process %d, a child that rank %d on %s has made by "
                     "fork()\n***   The child shares the connections of the rank, so only the rank "
                     "itself may call MPI;\n***   let the child call exec or _exit, or fork it "
                     "before MPI_Init\n***   This child ends with status %d; the rank continues\n",
                     call, (int)getpid(), rt_boot.rank, rt_boot.host, EXIT_FAILURE);
    if (write(STDERR_FILENO, text, (size_t)n) < 0)
        n = 0;           /* the report cannot be written anywhere */
    _exit(EXIT_FAILURE); /* the parent's buffers and exit handlers must not run in the child */
}

/* The first start of the library. */
static int build(void)
{
    pthread_atfork(NULL, NULL, forked);
    int err = coll_configure(cfg.coll); /* this late, because MPI_T may change settings until now */
    if (err)
        return wm_err_rt(err, "the setting WEFT_COLL is \"%s\"", cfg.coll);
    err = coll_tune_load(cfg.tune_file);
    if (err)
        return wm_err_rt(err, "the setting WEFT_TUNE_FILE is \"%s\"", cfg.tune_file);
    rt_node_register();
    rt_deaths_init();
    err = rt_boot_init();
    if (err)
        return wm_err_rt(err, "reaching the process manager");
    rt_log_identify(rt_boot.host, rt_boot.rank);
    rt_idle_configure(rt_boot.local_size, rt_boot.ncpus);
    rt_gpu_init();
    rt_gpu_prepare();
    err = rt_node_open(btl_node_pair_nbytes());
    if (err) {
        err = wm_err_rt(err, "opening the memory shared by the processes of host %s", rt_boot.host);
        goto err_boot;
    }
    struct wm_domain *d;
    err = wm_domain_create(&d);
    if (err) {
        err = wm_err_rt(err, "opening the transports \"%s\"", cfg.btl);
        goto err_node;
    }
    err = rt_boot_complete();
    if (err) {
        err = wm_err_rt(err, "waiting for all %d processes", rt_boot.size);
        goto err_domain;
    }
    rt_store_release(&wm_main_domain, d); /* tools read it at any time */
    wm_lanes_init();
    wm_ft_open(d);
    wm_ctx_init();
    life.built = true;
    return MPI_SUCCESS;
err_domain:
    wm_domain_destroy(d);
err_node:
    rt_node_close();
err_boot:
    rt_boot_fini();
    return err;
}

int wm_life_use_store(const struct rt_store *s)
{
    const struct rt_store *now = rt_store();
    pthread_mutex_lock(&mutex);
    bool same = now && now->rank == s->rank && now->size == s->size;
    bool late = life.built && !same;
    if (!life.built)
        rt_store_set(s);
    pthread_mutex_unlock(&mutex);
    if (late)
        return wm_err(MPI_ERR_OTHER,
                      "this process is rank %d of %d already, by %s; a store must be given before "
                      "MPI_Init and the first session, and with the same rank and size after them",
                      rt_boot.rank, rt_boot.size,
                      now                 ? "an earlier store"
                      : rt_boot.singleton ? "its start without a launcher"
                                          : "its launcher");
    return MPI_SUCCESS;
}

/* A later start, after a rest. */
static int resume(void)
{
    int err = rt_boot_init();
    if (err)
        return wm_err_rt(err, "reaching the process manager again");
    err = wm_domain_resume(wm_main_domain);
    if (err) {
        rt_boot_leave();
        return wm_err_rt(err, "using the transports again");
    }
    rt_node_rejoin();
    rt_gpu_init();
    rt_gpu_prepare();
    return MPI_SUCCESS;
}

/* Locks can be switched on while no thread is inside MPI: when the library is down, or when the
 * only thread that may be inside is the calling thread. */
static int grant(int required)
{
    bool mine = pthread_equal(life.owner, pthread_self()) != 0;
    bool first = wm_state.users == 0;
    if (first) {
        life.owner = pthread_self();
        life.alone = true;
        mine = true;
    }
    if (required == MPI_THREAD_MULTIPLE && !rt_threaded && mine && life.alone)
        rt_lock_enable();
    if (required == MPI_THREAD_MULTIPLE && !rt_threaded)
        required = MPI_THREAD_SERIALIZED;
    if (required > MPI_THREAD_FUNNELED || !mine)
        life.alone = false;
    return required;
}

/* In addition to grant(): below MPI_THREAD_MULTIPLE, the calls of a single user come one after
 * another, and this call is one of them, so no other thread is inside. */
bool wm_life_threads(void)
{
    if (rt_threaded) /* for good */
        return true;
    pthread_mutex_lock(&mutex);
    bool mine = life.alone && pthread_equal(life.owner, pthread_self());
    if (!rt_threaded && (mine || wm_state.users == 1))
        rt_lock_enable();
    bool on = rt_threaded;
    pthread_mutex_unlock(&mutex);
    return on;
}

int wm_life_enter(int required, int *provided)
{
    if (is_child)
        wm_life_forked("MPI_Session_init");
    pthread_mutex_lock(&mutex);
    int err = wm_settings_read();
    wm_settings_hold(!life.built);
    if (!err && wm_state.users == 0) {
        if (required == MPI_THREAD_MULTIPLE || cfg.check)
            rt_lock_enable(); /* before anything that takes a lock is built */
        if (cfg.check)        /* with the lock, all calls take the paths that have the checks */
            check_messages_init();
        err = life.built ? resume() : build();
    }
    wm_settings_hold(false);
    if (!err) {
        *provided = grant(required);
        rt_store_relaxed(&wm_state.users, wm_state.users + 1);
    }
    pthread_mutex_unlock(&mutex);
    return err;
}

/* Objects that only other objects reference, such as the communicator of a persistent request, were
 * not forgotten by the user. */
static bool comm_left(const void *obj) { return !((const struct wm_comm *)obj)->no_handle; }
static bool type_left(const void *obj) { return ((const struct wm_type *)obj)->handles > 0; }
static bool op_left(const void *obj) { return !((const struct wm_op *)obj)->freed; }
static bool session_left(const void *obj) { return !((const struct wm_session *)obj)->closed; }
static bool info_left(const void *obj) { return wm_check_is_made(obj); }

struct holders {
    const struct wm_group *group;
    int n;
};

static void count_holders(void *obj, void *arg)
{
    const struct wm_comm *c = obj;
    struct holders *h = arg;
    h->n += (c->group == h->group) + (c->remote == h->group && c->remote != c->group);
}

static bool group_left(const void *obj)
{
    struct holders h = { .group = obj };
    rt_slab_each(&wm_comm_slab, count_holders, &h);
    return h.group->obj.refs > h.n;
}

struct left {
    bool (*is_users)(const void *obj); /* whether the object is the user's; NULL: all are */
    unsigned n;
    const void *first;
};

static void count_left(void *obj, void *arg)
{
    struct left *k = arg;
    if (k->is_users && !k->is_users(obj))
        return;
    if (k->n++ == 0)
        k->first = obj;
}

/* `when`: "in MPI_Finalize". */
static void report_leak(struct rt_slab *s, bool (*is_users)(const void *obj), const char *when)
{
    char by[200];
    struct left k = { .is_users = is_users };
    rt_slab_each(s, count_left, &k);
    if (k.n && cfg.check)
        log_warn(MPI, "WEFT_CHECK: %u %s object%s not freed %s%s", k.n, s->name,
                 k.n == 1 ? " is" : "s are", when, wm_check_made_by(k.first, by, sizeof by));
    else if (k.n)
        log_warn(MPI, "%u %s object%s still alive %s", k.n, s->name, k.n == 1 ? " is" : "s are",
                 when);
}

/* Called after the library has released its own objects.  Info objects and error handlers may be
 * freed later (MPI-5.0 section 11.4.1); and while a session is open, the library does not rest. */
static void report_leaks(const char *call)
{
    char when[64];
    snprintf(when, sizeof when, "in %s", call);
    wm_type_fini();
    if (!cfg.check || cfg.check_leaks) { /* else WEFT_CHECK has reported these */
        report_leak(&wm_comm_slab, comm_left, when);
        report_leak(&wm_request_slab, NULL, when);
    }
    report_leak(&wm_type_slab, type_left, when);
    report_leak(&wm_op_slab, op_left, when);
    report_leak(&wm_group_slab, group_left, when);
    report_leak(&wm_win_slab, NULL, when);
    report_leak(&wm_file_slab, NULL, when);
    unsigned n = wm_alloc_count();
    if (n)
        log_warn(MPI, "%u block%s of MPI_Alloc_mem still allocated in %s", n,
                 n == 1 ? " is" : "s are", call);
}

/* The exit handlers and destructors of the program have run.  mpirun reports a process that ends
 * without MPI_Finalize. */
__attribute__((destructor)) static void unloaded(void)
{
    if (!cfg.check || is_child || wm_state.phase == WM_INITIALIZED)
        return;
    report_leak(&wm_session_slab, session_left, "when the program ends");
    report_leak(&wm_info_slab, info_left, "when the program ends");
}

static void rest(const char *call)
{
    for (int i = 0; i < WM_RESTS; i++)
        if (wm_life_at_rest[i])
            wm_life_at_rest[i]();
    rt_io_fini(); /* the threads that have ended above start jobs */
    wm_session_rest();
    wm_domain_rest(wm_main_domain); /* completes what other processes still wait for */
    rt_lock(&wm_main_domain->lock);
    wm_comm_sweep_lanes();
    rt_unlock(&wm_main_domain->lock);
    wm_comm_rest();
    rt_layout_gpu_fini();
    rt_gpu_fini();
    rt_node_publish();
    rt_node_leave();
    if (cfg.check_leaks || cfg.check)
        report_leaks(call);
    rt_boot_leave();
}

void wm_life_leave(const char *call)
{
    pthread_mutex_lock(&mutex);
    if (wm_state.users == 1)
        rest(call);
    rt_store_relaxed(&wm_state.users, wm_state.users - 1);
    pthread_mutex_unlock(&mutex);
}
