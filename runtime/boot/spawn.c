/* SPDX-License-Identifier: BSD-3-Clause */
/* What a launcher does for running jobs: it starts further jobs, and it keeps names.  Requests go
 * to the PMIx server that has started this process, or, if that does not spawn, to an mpirun of
 * this process's own (serve.h).  Any thread; the handler of events runs on PMIx's thread. */
#include "runtime/boot/boot.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/boot/serve.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <pmix.h>

/* Jobs whose ends are remembered.  Only ends of jobs that are being connected matter, and a process
 * connects few jobs at a time. */
#define ENDS 64

static struct {
    pthread_mutex_t lock;
    pmix_nspace_t ended[ENDS]; /* a ring */
    unsigned nended;
    bool registered; /* the handler of events */
} spawns = { .lock = PTHREAD_MUTEX_INITIALIZER };

static bool offered(void) { return !rt_boot.singleton && PMIx_Initialized(); }

static int to_err(const char *what, pmix_status_t rc)
{
    switch (rc) {
    case PMIX_SUCCESS:
    case PMIX_OPERATION_SUCCEEDED:
        return 0;
    case PMIX_ERR_NOT_FOUND:
        return -RT_ENOENT;
    case PMIX_ERR_DUPLICATE_KEY:
        return -RT_EEXIST;
    case PMIX_ERR_NOT_SUPPORTED:
        return -RT_ENOTSUP;
    default:
        log_error(BOOT, "%s: the launcher answered %s", what, PMIx_Error_string(rc));
        return -RT_EBOOT;
    }
}

/* ---- names ---- */

static int publish(const char *what, const char *name, const char *value)
{
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, name, value, PMIX_STRING);
    pmix_status_t rc = PMIx_Publish(&info, 1);
    PMIX_INFO_DESTRUCT(&info);
    return to_err(what, rc);
}

/* A request to the own mpirun with at most two words behind the first. */
static int ask(const char *what, const char *a, const char *b, int which, char *result, size_t len)
{
    struct rt_words w = { 0 };
    rt_words_add(&w, what, "");
    rt_words_add(&w, a, "");
    if (b)
        rt_words_add(&w, b, "");
    int err = rt_serve_ask(&w, which, result, len);
    rt_words_fini(&w);
    return err;
}

static int publish_anywhere(const char *what, const char *name, const char *value)
{
    if (rt_serve_running())
        return ask("publish", name, value, 0, NULL, 0);
    return offered() ? publish(what, name, value) : -RT_ENOTSUP;
}

int rt_boot_publish(const char *name, const char *value)
{
    return publish_anywhere("publishing a name", name, value);
}

int rt_boot_lookup(const char *name, char *value, size_t len)
{
    pmix_pdata_t data;
    int err;

    if (rt_serve_running())
        return ask("lookup", name, NULL, 1, value, len); /* the answer: the name, its value */
    if (!offered())
        return -RT_ENOTSUP;
    PMIX_PDATA_CONSTRUCT(&data);
    PMIX_LOAD_KEY(data.key, name);
    err = to_err("looking up a name", PMIx_Lookup(&data, 1, NULL, 0));
    if (!err && (data.value.type != PMIX_STRING || !data.value.data.string))
        err = -RT_ENOENT;
    if (!err && strlen(data.value.data.string) >= len)
        err = -RT_ETRUNC;
    if (!err)
        strcpy(value, data.value.data.string);
    PMIX_PDATA_DESTRUCT(&data);
    return err;
}

int rt_boot_unpublish(const char *name)
{
    char *keys[2] = { (char *)name, NULL }; /* PMIx copies them */
    if (rt_serve_running())
        return ask("unpublish", name, NULL, 0, NULL, 0);
    return offered() ? to_err("unpublishing a name", PMIx_Unpublish(keys, NULL, 0)) : -RT_ENOTSUP;
}

int rt_boot_join(const char *nspace)
{
    return publish_anywhere("connecting jobs", RT_BOOT_KEY_JOIN, nspace);
}

int rt_boot_part(const char *nspace)
{
    return publish_anywhere("disconnecting jobs", RT_BOOT_KEY_PART, nspace);
}

/* ---- ends of jobs ---- */

void rt_boot_note_end(const char *nspace)
{
    pthread_mutex_lock(&spawns.lock);
    PMIX_LOAD_NSPACE(spawns.ended[spawns.nended++ % ENDS], nspace);
    pthread_mutex_unlock(&spawns.lock);
}

static void on_end(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[],
                   size_t ninfo, pmix_info_t results[], size_t nresults,
                   pmix_event_notification_cbfunc_fn_t cbfunc, void *cbdata)
{
    (void)id, (void)status, (void)info, (void)ninfo, (void)results, (void)nresults;
    rt_boot_note_end(source->nspace);
    if (cbfunc)
        cbfunc(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
}

static void on_registered(pmix_status_t status, size_t ref, void *done)
{
    (void)ref;
    if (status != PMIX_SUCCESS)
        log_warn(BOOT, "could not register for the ends of jobs: %s", PMIx_Error_string(status));
    sem_post(done);
}

static void watch_ends(void)
{
    static pthread_mutex_t registering = PTHREAD_MUTEX_INITIALIZER;
    pmix_status_t code = PMIX_EVENT_JOB_END;
    sem_t done;

    pthread_mutex_lock(&registering);
    if (!spawns.registered) {
        sem_init(&done, 0, 0);
        PMIx_Register_event_handler(&code, 1, NULL, 0, on_end, on_registered, &done);
        while (sem_wait(&done)) {
        }
        spawns.registered = true;
    }
    pthread_mutex_unlock(&registering);
}

bool rt_boot_ended(const char *nspace)
{
    bool found = false;
    rt_serve_poll();
    pthread_mutex_lock(&spawns.lock);
    for (unsigned i = 0; i < spawns.nended && i < ENDS; i++)
        found |= !strcmp(spawns.ended[i], nspace);
    pthread_mutex_unlock(&spawns.lock);
    return found;
}

int rt_boot_ended_ranks(char **list)
{
    pmix_pdata_t data;
    int err = -RT_ENOENT;

    if (!offered() || !rt_boot.cpulist) /* other launchers do not publish the hardware threads */
        return -RT_ENOTSUP;
    PMIX_PDATA_CONSTRUCT(&data);
    PMIX_LOAD_KEY(data.key, RT_BOOT_KEY_ENDED);
    pmix_status_t rc = PMIx_Lookup(&data, 1, NULL, 0);
    if (rc != PMIX_SUCCESS) {
        err = rc == PMIX_ERR_NOT_FOUND ? -RT_ENOENT : -RT_EBOOT;
    } else if (data.value.type == PMIX_STRING && data.value.data.string) {
        *list = strdup(data.value.data.string);
        err = *list ? 0 : -RT_ENOMEM;
    }
    PMIX_PDATA_DESTRUCT(&data);
    return err;
}

void rt_boot_spawn_fini(void)
{
    rt_serve_stop();
    spawns.registered = false;
    spawns.nended = 0;
}

/* ---- spawning ---- */

static void add_text(pmix_info_t *info, size_t *n, const char *key, const char *text)
{
    if (text)
        PMIX_INFO_LOAD(&info[(*n)++], key, text, PMIX_STRING);
}

/* A list that PMIx frees: `first`, if it is not NULL, and the rest. */
static int copy_list(char ***to, const char *first, char *const *rest)
{
    size_t n = first != NULL, at = 0;
    while (rest && rest[n - (first != NULL)])
        n++;
    char **v = n ? calloc(n + 1, sizeof *v) : NULL;
    *to = v;
    if (n && !v)
        return -RT_ENOMEM;
    if (first && !(v[at++] = strdup(first)))
        return -RT_ENOMEM;
    for (; rest && *rest; rest++)
        if (!(v[at++] = strdup(*rest)))
            return -RT_ENOMEM;
    return 0;
}

static int load_app(pmix_app_t *to, const struct rt_boot_app *app)
{
    bool asks = app->path || app->soft || app->host;
    to->cmd = strdup(app->command);
    to->cwd = app->wdir ? strdup(app->wdir) : NULL;
    to->maxprocs = app->n;
    /* Without an element, no array: PMIx 5 looks in it for an end mark that it did not set. */
    if (asks)
        PMIX_INFO_CREATE(to->info, 3);
    if (!to->cmd || (app->wdir && !to->cwd) || (asks && !to->info))
        return -RT_ENOMEM;
    add_text(to->info, &to->ninfo, RT_BOOT_KEY_PATH, app->path);
    add_text(to->info, &to->ninfo, RT_BOOT_KEY_SOFT, app->soft);
    add_text(to->info, &to->ninfo, PMIX_HOST, app->host);
    int err = copy_list(&to->argv, app->command, app->args);
    return err ? err : copy_list(&to->env, NULL, app->env);
}

static int spawn_err(pmix_status_t rc)
{
    switch (rc) {
    case PMIX_ERR_JOB_EXE_NOT_FOUND:
        return -RT_ENOFILE;
    case PMIX_ERR_OUT_OF_RESOURCE:
        return -RT_ENOSPC;
    case PMIX_ERR_NOT_SUPPORTED:
        return -RT_ENOTSUP;
    case PMIX_ERR_NOMEM:
        return -RT_ENOMEM;
    default:
        return rc == PMIX_SUCCESS ? 0 : -RT_ESPAWN;
    }
}

/* Through the PMIx server. */
static int spawn_pmix(const struct rt_boot_spawn *what, char nspace[256])
{
    size_t napps = (size_t)what->napps, ninfo = 0;
    pmix_app_t *apps;
    pmix_info_t info[4];
    pmix_nspace_t name = "";
    int err = 0;

    watch_ends();
    PMIX_APP_CREATE(apps, napps);
    if (!apps)
        return -RT_ENOMEM;
    for (size_t a = 0; a < napps && !err; a++)
        err = load_app(&apps[a], &what->apps[a]);
    add_text(info, &ninfo, PMIX_HOSTFILE, what->hostfile);
    add_text(info, &ninfo, PMIX_ADD_HOST, what->add_host);
    add_text(info, &ninfo, PMIX_MAPBY, what->map_by);
    add_text(info, &ninfo, RT_BOOT_KEY_NSPACE, nspace);
    if (!err)
        err = spawn_err(PMIx_Spawn(info, ninfo, apps, napps, name));
    for (size_t i = 0; i < ninfo; i++)
        PMIX_INFO_DESTRUCT(&info[i]);
    PMIX_APP_FREE(apps, napps);
    if (!err && strcmp(name, RT_BOOT_SPAWNED))
        snprintf(nspace, 256, "%s", name);
    return err;
}

static void add_word(struct rt_words *w, const char *key, const char *text)
{
    if (text)
        rt_words_add(w, key, text);
}

/* Through the own mpirun: the words of launcher/host/ask.h. */
static int spawn_served(const struct rt_boot_spawn *what, char nspace[256])
{
    struct rt_words w = { 0 };
    char number[16];

    int err = rt_serve_start();
    if (err)
        return err;
    snprintf(number, sizeof number, "%d", rt_boot.rank);
    rt_words_add(&w, "spawn", "");
    rt_words_add(&w, number, "");
    add_word(&w, "nspace=", nspace);
    add_word(&w, "hostfile=", what->hostfile);
    add_word(&w, "add_host=", what->add_host);
    add_word(&w, "map_by=", what->map_by);
    for (int i = 0; i < what->napps; i++) {
        const struct rt_boot_app *app = &what->apps[i];
        snprintf(number, sizeof number, "%d", app->n);
        rt_words_add(&w, "app", "");
        rt_words_add(&w, "n=", number);
        add_word(&w, "cwd=", app->wdir);
        for (char *const *e = app->env; e && *e; e++)
            rt_words_add(&w, "env=", *e);
        add_word(&w, "path=", app->path);
        add_word(&w, "soft=", app->soft);
        add_word(&w, "host=", app->host);
        rt_words_add(&w, "arg=", app->command);
        for (char *const *a = app->args; a && *a; a++)
            rt_words_add(&w, "arg=", *a);
    }
    err = rt_serve_ask(&w, 0, nspace, 256);
    rt_words_fini(&w);
    return err;
}

/* The spawning process names the job: a name that PMIx_Spawn() returns costs the process 50 KB,
 * which PMIx keeps until the end. */
static void name_job(char nspace[256])
{
    static unsigned counter;
    snprintf(nspace, 256, "weft-%.100s-%ld-%llx-%x", rt_boot.host, (long)getpid(),
             (unsigned long long)rt_now_ns(), __atomic_add_fetch(&counter, 1, __ATOMIC_RELAXED));
}

int rt_boot_spawn(const struct rt_boot_spawn *what, char nspace[256])
{
    char name[256];
    name_job(name);
    int err = offered() && !rt_serve_running() ? spawn_pmix(what, name) : -RT_ENOTSUP;
    if (err == -RT_ENOTSUP)
        err = spawn_served(what, name);
    if (!err)
        snprintf(nspace, 256, "%s", name);
    return err;
}
