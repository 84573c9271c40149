/* SPDX-License-Identifier: BSD-3-Clause */
/* PMIx's upcalls for what the first mpirun serves: spawning and names.  PMIx's thread turns the
 * arguments, which become invalid when an upcall returns, into words (ask.h) and passes them to the
 * main loop.  The main thread answers later. */
#include "launcher/host/ask.h"
#include "launcher/host/server.h"
#include "launcher/host/server_ask.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/boot/boot.h"

#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <pmix.h>

/* Keys of PMIx_Spawn() and the words for them.  PMIx has no key for three of them. */
static const struct {
    const char *key, *word;
} spawn_keys[] = {
    { PMIX_HOST, "host" },
    { PMIX_HOSTFILE, "hostfile" },
    { PMIX_MAPBY, "map_by" },
    { PMIX_WDIR, "cwd" },
    { RT_BOOT_KEY_PATH, "path" },
    { RT_BOOT_KEY_SOFT, "soft" },
    { RT_BOOT_KEY_NSPACE, "nspace" },
    { PMIX_PREFIX, NULL },
    { PMIX_PREPEND_ENVAR, NULL },
    { PMIX_APPEND_ENVAR, NULL },
    { PMIX_ADD_HOST, "add_host" },
    { PMIX_ADD_HOSTFILE, NULL },
};

/* ---- on PMIx's thread ---- */

static struct launch_call *begin(const char *what, void (*cbfunc)(void), void *cbdata)
{
    struct launch_call *call = calloc(1, sizeof *call);
    if (call && launch_list_add(&call->words, what) < 0) {
        launch_call_free(call);
        call = NULL;
    }
    if (call) {
        call->answer = cbfunc;
        call->cbdata = cbdata;
    }
    return call;
}

static pmix_status_t post(struct launch_call *call, const pmix_proc_t *proc, int err)
{
    struct launch_event e = { .kind = LAUNCH_ASK, .rank = (int)proc->rank, .call = call };
    if (err < 0) {
        launch_call_free(call);
        return err == -RT_ENOTSUP ? PMIX_ERR_NOT_SUPPORTED : PMIX_ERR_NOMEM;
    }
    launch_server_post(&e);
    return PMIX_SUCCESS;
}

/* Adds the word for a directive.  A directive that is required and unknown is an error; so are
 * directives that would change the job if they were known. */
static int add_directive(struct launch_call *call, const pmix_info_t *info)
{
    for (size_t i = 0; i < sizeof spawn_keys / sizeof spawn_keys[0]; i++) {
        if (strncmp(info->key, spawn_keys[i].key, PMIX_MAX_KEYLEN))
            continue;
        if (!spawn_keys[i].word || info->value.type != PMIX_STRING || !info->value.data.string) {
            log_warn(LAUNCH, "a rank asked to spawn a job with \"%s\", which is not supported",
                     info->key);
            return -RT_ENOTSUP;
        }
        return launch_list_addf(&call->words, "%s=%s", spawn_keys[i].word, info->value.data.string);
    }
    return info->flags & PMIX_INFO_REQD ? -RT_ENOTSUP : 0;
}

static int add_app(struct launch_call *call, const pmix_app_t *app)
{
    int err = launch_list_add(&call->words, "app");
    if (!err)
        err = launch_list_addf(&call->words, "n=%d", app->maxprocs);
    if (!err && app->cwd)
        err = launch_list_addf(&call->words, "cwd=%s", app->cwd);
    for (char **e = app->env; e && *e && !err; e++) /* PMIx's variables are those of the parent */
        if (strncmp(*e, "PMIX_", 5))
            err = launch_list_addf(&call->words, "env=%s", *e);
    for (size_t i = 0; i < app->ninfo && !err; i++)
        err = add_directive(call, &app->info[i]);
    if (!err)
        err = launch_list_addf(&call->words, "arg=%s", app->cmd ? app->cmd : app->argv[0]);
    for (char **a = app->argv ? app->argv + 1 : NULL; a && a[-1] && *a && !err; a++)
        err = launch_list_addf(&call->words, "arg=%s", *a);
    return err;
}

pmix_status_t launch_on_spawn(const pmix_proc_t *proc, const pmix_info_t info[], size_t ninfo,
                              const pmix_app_t apps[], size_t napps, pmix_spawn_cbfunc_t cbfunc,
                              void *cbdata)
{
    struct launch_call *call = begin("spawn", (void (*)(void))cbfunc, cbdata);
    if (!call)
        return PMIX_ERR_NOMEM;
    int err = launch_list_addf(&call->words, "%u", proc->rank);
    for (size_t i = 0; i < ninfo && !err; i++)
        err = add_directive(call, &info[i]);
    for (size_t a = 0; a < napps && !err; a++)
        err = !apps[a].cmd && !(apps[a].argv && apps[a].argv[0]) ? -RT_ENOTSUP
                                                                 : add_app(call, &apps[a]);
    return post(call, proc, napps ? err : -RT_ENOTSUP);
}

/* Keys of PMIx's own are directives; the other key is the name to publish.  A call with several
 * names is not supported. */
pmix_status_t launch_on_publish(const pmix_proc_t *proc, const pmix_info_t info[], size_t ninfo,
                                pmix_op_cbfunc_t cbfunc, void *cbdata)
{
    struct launch_call *call = begin("publish", (void (*)(void))cbfunc, cbdata);
    if (!call)
        return PMIX_ERR_NOMEM;
    int err = -RT_ENOTSUP;
    for (size_t i = 0; i < ninfo; i++) {
        bool text = info[i].value.type == PMIX_STRING && info[i].value.data.string;
        if (!strncmp(info[i].key, "pmix.", 5))
            continue;
        bool second = call->words.n > 1;
        err = !text || second ? -RT_ENOTSUP : launch_list_add(&call->words, info[i].key);
        if (!err)
            err = launch_list_add(&call->words, info[i].value.data.string);
        if (err)
            break;
    }
    return post(call, proc, err);
}

static int add_keys(struct launch_call *call, char **keys)
{
    int err = keys && keys[0] ? 0 : -RT_ENOTSUP;
    for (char **k = keys; k && *k && !err; k++)
        err = launch_list_add(&call->words, *k);
    return err;
}

pmix_status_t launch_on_lookup(const pmix_proc_t *proc, char **keys, const pmix_info_t info[],
                               size_t ninfo, pmix_lookup_cbfunc_t cbfunc, void *cbdata)
{
    struct launch_call *call = begin("lookup", (void (*)(void))cbfunc, cbdata);
    (void)info, (void)ninfo;
    return call ? post(call, proc, add_keys(call, keys)) : PMIX_ERR_NOMEM;
}

pmix_status_t launch_on_unpublish(const pmix_proc_t *proc, char **keys, const pmix_info_t info[],
                                  size_t ninfo, pmix_op_cbfunc_t cbfunc, void *cbdata)
{
    struct launch_call *call = begin("unpublish", (void (*)(void))cbfunc, cbdata);
    (void)info, (void)ninfo;
    return call ? post(call, proc, add_keys(call, keys)) : PMIX_ERR_NOMEM;
}

/* ---- on the main thread ---- */

static pmix_status_t status_of(int err)
{
    static const struct {
        int err;
        pmix_status_t status;
    } rows[] = {
        { RT_OK, PMIX_SUCCESS },
        { RT_ENOMEM, PMIX_ERR_NOMEM },
        { RT_ENOENT, PMIX_ERR_NOT_FOUND },
        { RT_EEXIST, PMIX_ERR_DUPLICATE_KEY },
        { RT_ENOTSUP, PMIX_ERR_NOT_SUPPORTED },
        { RT_ENOSPC, PMIX_ERR_OUT_OF_RESOURCE },
        { RT_ENOFILE, PMIX_ERR_JOB_EXE_NOT_FOUND },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (-rows[i].err == err)
            return rows[i].status;
    return PMIX_ERR_JOB_FAILED_TO_LAUNCH;
}

static void answer_lookup(struct launch_call *call, int err, const struct launch_list *words)
{
    pmix_lookup_cbfunc_t cbfunc = (pmix_lookup_cbfunc_t)call->answer;
    size_t n = err || !words ? 0 : (size_t)words->n / 2;
    pmix_pdata_t *data = NULL;
    pmix_proc_t owner = { .rank = PMIX_RANK_UNDEF }; /* not recorded */

    if (n)
        PMIX_PDATA_CREATE(data, n);
    if (n && !data)
        err = -RT_ENOMEM;
    for (size_t i = 0; i < n && data; i++)
        PMIX_PDATA_LOAD(&data[i], &owner, words->v[2 * i], words->v[2 * i + 1], PMIX_STRING);
    cbfunc(status_of(err), data, data ? n : 0, call->cbdata);
    if (data)
        PMIX_PDATA_FREE(data, n);
}

static bool names_its_job(const struct launch_call *call)
{
    for (int i = 2; i < call->words.n && strcmp(call->words.v[i], "app"); i++)
        if (!strncmp(call->words.v[i], "nspace=", 7))
            return true;
    return false;
}

void launch_ask_answer(struct launch_call *call, int err, const struct launch_list *words)
{
    const char *what = call->words.v[0];
    pmix_nspace_t nspace = "";

    if (!strcmp(what, "lookup")) {
        answer_lookup(call, err, words);
    } else if (!strcmp(what, "spawn")) {
        if (!err && words && words->n)
            PMIX_LOAD_NSPACE(nspace, names_its_job(call) ? RT_BOOT_SPAWNED : words->v[0]);
        ((pmix_spawn_cbfunc_t)call->answer)(status_of(err), nspace, call->cbdata);
    } else {
        ((pmix_op_cbfunc_t)call->answer)(status_of(err), call->cbdata);
    }
    launch_call_free(call);
}

static void notified(pmix_status_t status, void *arg)
{
    (void)status;
    sem_post(arg);
}

void launch_ask_ended(const char *nspace, int rank, const char *job_nspace, int code)
{
    pmix_proc_t to, source;
    pmix_data_array_t range = { .type = PMIX_PROC, .size = 1, .array = &to };
    pmix_info_t info[3];
    sem_t done;

    PMIX_LOAD_PROCID(&to, nspace, (pmix_rank_t)rank);
    PMIX_LOAD_PROCID(&source, job_nspace, PMIX_RANK_WILDCARD);
    PMIX_INFO_LOAD(&info[0], PMIX_EVENT_CUSTOM_RANGE, &range, PMIX_DATA_ARRAY);
    PMIX_INFO_LOAD(&info[1], PMIX_EVENT_AFFECTED_PROC, &source, PMIX_PROC);
    PMIX_INFO_LOAD(&info[2], PMIX_EXIT_CODE, &code, PMIX_INT);
    sem_init(&done, 0, 0);
    if (PMIx_Notify_event(PMIX_EVENT_JOB_END, &source, PMIX_RANGE_CUSTOM, info, 3, notified,
                          &done) == PMIX_SUCCESS)
        while (sem_wait(&done)) {
        }
    for (int i = 0; i < 3; i++)
        PMIX_INFO_DESTRUCT(&info[i]);
}
