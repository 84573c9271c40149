/* SPDX-License-Identifier: BSD-3-Clause */
/* Info objects (MPI-5.0 chapter 10).  Usable before MPI_Init and after MPI_Finalize.  Threads may
 * use different objects at the same time; only one thread at a time may use an object, as the
 * standard demands. */
#include "mpi/core/info.h"
#include "mpi/api/bodies.h"
#include "mpi/check/made.h"
#include "mpi/core/session.h"
#include "mpi/core/state.h"
#include "runtime/base/cfg.h"
#include "runtime/boot/boot.h"
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

static struct wm_info env_info = { .obj = { (uint32_t)(uintptr_t)MPI_INFO_ENV, 1 } };
static pthread_mutex_t env_mutex = PTHREAD_MUTEX_INITIALIZER; /* while it is filled */
static bool env_filled;
struct rt_slab wm_info_slab = RT_SLAB_ANYTIME(WM_INFO, "info", struct wm_info);

MPI_Info wm_info_handle(const struct wm_info *i)
{
    return i ? (MPI_Info)(uintptr_t)i->obj.handle : MPI_INFO_NULL;
}

int wm_info_create(struct wm_info **out)
{
    struct wm_info *i = rt_slab_alloc(&wm_info_slab);
    if (!i)
        return wm_err(MPI_ERR_NO_MEM, "no memory for another info object");
    *out = i;
    return MPI_SUCCESS;
}

static void clear(struct wm_info *i)
{
    for (int k = 0; k < i->n; k++) {
        free(i->item[k].key);
        free(i->item[k].value);
    }
    free(i->item);
    i->item = NULL;
    i->n = i->cap = 0;
}

void wm_info_destroy(struct wm_info *i)
{
    if (!i || i == &env_info)
        return;
    clear(i);
    if (rt_unlikely(cfg.check))
        wm_check_unmade(i);
    rt_slab_free(&wm_info_slab, i);
}

static int find(const struct wm_info *i, const char *key)
{
    for (int k = 0; i && k < i->n; k++)
        if (!strcmp(i->item[k].key, key))
            return k;
    return -1;
}

const char *wm_info_find(const struct wm_info *i, const char *key)
{
    int k = find(i, key);
    return k >= 0 ? i->item[k].value : NULL;
}

int wm_info_put(struct wm_info *i, const char *key, const char *value)
{
    int k = find(i, key);
    char *v = strdup(value), *name = NULL;
    if (!v)
        goto err_mem;
    if (k >= 0) {
        free(i->item[k].value);
        i->item[k].value = v;
        return MPI_SUCCESS;
    }
    if (i->n == i->cap) {
        int cap = i->cap ? 2 * i->cap : 8;
        struct wm_info_item *more = realloc(i->item, (size_t)cap * sizeof *more);
        if (!more)
            goto err_mem;
        i->item = more;
        i->cap = cap;
    }
    name = strdup(key);
    if (!name)
        goto err_mem;
    i->item[i->n++] = (struct wm_info_item){ name, v };
    return MPI_SUCCESS;
err_mem:
    free(v);
    return wm_err(MPI_ERR_NO_MEM, "no memory for another info key");
}

int wm_info_dup(const struct wm_info *from, struct wm_info **out)
{
    struct wm_info *i = NULL;
    int err = wm_info_create(&i);
    if (err)
        return err;
    for (int k = 0; k < from->n && !err; k++)
        err = wm_info_put(i, from->item[k].key, from->item[k].value);
    if (err)
        wm_info_destroy(i);
    else
        *out = i;
    return err;
}

static int check_key(const char *key)
{
    size_t n = strlen(key);
    if (!n || n >= MPI_MAX_INFO_KEY)
        return wm_err(MPI_ERR_INFO_KEY, "the key has %zu characters, allowed are 1..%d", n,
                      MPI_MAX_INFO_KEY - 1);
    return MPI_SUCCESS;
}

static int check_writable(const struct wm_info *i)
{
    if (i == &env_info)
        return wm_err(MPI_ERR_INFO, "MPI_INFO_ENV cannot be changed or freed");
    return MPI_SUCCESS;
}

int wm_api_info_create(struct wm_info **info) { return wm_info_create(info); }

int wm_api_info_dup(struct wm_info *info, struct wm_info **newinfo)
{
    return wm_info_dup(info, newinfo);
}

int wm_api_info_free(struct wm_info *info)
{
    int err = check_writable(info);
    if (!err)
        wm_info_destroy(info);
    return err;
}

int wm_api_info_set(struct wm_info *info, const char *key, const char *value)
{
    int err = check_writable(info);
    if (!err)
        err = check_key(key);
    if (err)
        return err;
    if (strlen(value) >= MPI_MAX_INFO_VAL)
        return wm_err(MPI_ERR_INFO_VALUE,
                      "the value of \"%s\" has %zu characters, at most %d are allowed", key,
                      strlen(value), MPI_MAX_INFO_VAL - 1);
    return wm_info_put(info, key, value);
}

int wm_api_info_delete(struct wm_info *info, const char *key)
{
    int err = check_writable(info);
    if (!err)
        err = check_key(key);
    if (err)
        return err;
    int k = find(info, key);
    if (k < 0)
        return wm_err(MPI_ERR_INFO_NOKEY, "there is no key \"%s\"", key);
    free(info->item[k].key);
    free(info->item[k].value);
    memmove(&info->item[k], &info->item[k + 1], (size_t)(info->n - k - 1) * sizeof info->item[0]);
    info->n--;
    return MPI_SUCCESS;
}

int wm_api_info_get_nkeys(struct wm_info *info, int *nkeys)
{
    *nkeys = info->n;
    return MPI_SUCCESS;
}

int wm_api_info_get_nthkey(struct wm_info *info, int n, char *key)
{
    if (n < 0 || n >= info->n)
        return wm_err(MPI_ERR_ARG,
                      "key number %d was asked for, the info object has %d keys, numbered from 0",
                      n, info->n);
    strcpy(
        key,
        info->item[n].key); /* the caller's buffer has MPI_MAX_INFO_KEY bytes; keys are shorter */
    return MPI_SUCCESS;
}

int wm_api_info_get_string(struct wm_info *info, const char *key, int *buflen, char *value,
                           int *flag)
{
    int err = check_key(key);
    if (err)
        return err;
    const char *v = wm_info_find(info, key);
    *flag = v != NULL;
    if (!v)
        return MPI_SUCCESS;
    if (*buflen > 0 && !value)
        return wm_err(MPI_ERR_ARG, "argument 4 (value): the pointer is null, but buflen is %d",
                      *buflen);
    if (*buflen > 0)
        snprintf(value, (size_t)*buflen, "%s", v);
    *buflen = (int)strlen(v) + 1; /* the length of the whole value, also if it was cut */
    return MPI_SUCCESS;
}

/* Deprecated since MPI-4.0: `valuelen` does not count the terminating null byte. */
int wm_api_info_get(struct wm_info *info, const char *key, int valuelen, char *value, int *flag)
{
    int err = check_key(key);
    if (err)
        return err;
    const char *v = wm_info_find(info, key);
    *flag = v != NULL;
    if (v)
        snprintf(value, (size_t)valuelen + 1, "%s", v);
    return MPI_SUCCESS;
}

/* Deprecated since MPI-4.0, like MPI_Info_get. */
int wm_api_info_get_valuelen(struct wm_info *info, const char *key, int *valuelen, int *flag)
{
    int err = check_key(key);
    if (err)
        return err;
    const char *v = wm_info_find(info, key);
    *flag = v != NULL;
    if (v)
        *valuelen = (int)strlen(v);
    return MPI_SUCCESS;
}

static int put_number(struct wm_info *i, const char *key, int n)
{
    char text[16];
    snprintf(text, sizeof text, "%d", n);
    return wm_info_put(i, key, text);
}

static int put_maxprocs(struct wm_info *i)
{
    int n = rt_boot_maxprocs(), err = MPI_SUCCESS;
    if (n > 0)
        err = put_number(i, "maxprocs", n);
    if (!err && n > 0)
        err = put_number(i, "soft", n);
    return err;
}

/* Fills `i` from a command line and the facts that this process has (MPI-5.0 section 11.2.1), with
 * the same result before, between and after MPI_Init and MPI_Finalize.  `file` and `thread_level`,
 * a level requested before the program started, are never set: mpirun has no such options. */
static int put_env(struct wm_info *i, int argc, char *const argv[])
{
    static const char *const handlers[] = { "mpi_errors_are_fatal", "mpi_errors_abort",
                                            "mpi_errors_return" };
    char text[MPI_MAX_INFO_VAL], args[MPI_MAX_INFO_VAL] = "";
    struct utsname u;
    int err = MPI_SUCCESS;
    const char *host = rt_boot_host_name();
    bool named = !uname(&u);
    if (argc > 0 && argv[0])
        err = wm_info_put(i, "command", argv[0]);
    size_t at = 0;
    for (int k = 1; k < argc && argv[k] && at < sizeof args; k++)
        at += (size_t)snprintf(args + at, sizeof args - at, "%s%s", k > 1 ? " " : "", argv[k]);
    if (!err && argc > 1)
        err = wm_info_put(i, "argv", args);
    if (!err && named)
        err = wm_info_put(i, "host", host ? host : u.nodename);
    if (!err && named)
        err = wm_info_put(i, "arch", u.machine);
    if (!err && getcwd(text, sizeof text))
        err = wm_info_put(i, "wdir", text);
    if (!err)
        err = put_maxprocs(i);
    if (!err && wm_settings_read() == MPI_SUCCESS) {
        err = wm_info_put(i, "mpi_initial_errhandler", handlers[cfg.initial_errhandler]);
        if (!err)
            err = wm_info_put(i, "mpi_memory_alloc_kinds", wm_session_kinds(NULL));
    }
    return err;
}

int wm_api_info_create_env(int argc, char *argv[], struct wm_info **info)
{
    struct wm_info *i = NULL;
    int err = wm_info_create(&i);
    if (err)
        return err;
    err = put_env(i, argc, argv);
    if (err)
        wm_info_destroy(i);
    else
        *info = i;
    return err;
}

/* The program's own command line from the system, because MPI_Init need not be given it. */
static int fill_env(void)
{
    char text[4096]; /* longer command lines are cut: an info value is shorter anyway */
    char *argv[64];
    int argc = 0;
    FILE *f = fopen("/proc/self/cmdline", "re");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f)
        fclose(f);
    text[n] = '\0';
    for (size_t at = 0; at < n && argc < 64; at += strlen(text + at) + 1)
        argv[argc++] = text + at;
    return put_env(&env_info, argc, argv);
}

/* A fact that cannot be found out, or for which there is no memory, is missing: the standard
 * guarantees no key of MPI_INFO_ENV. */
struct wm_info *wm_info_env(void)
{
    pthread_mutex_lock(&env_mutex);
    if (!env_filled) {
        env_filled = true;
        fill_env();
    }
    pthread_mutex_unlock(&env_mutex);
    return &env_info;
}

int wm_info_env_update(void)
{
    struct wm_info *i = wm_info_env();
    pthread_mutex_lock(&env_mutex);
    int err = put_maxprocs(i);
    if (!err)
        err = wm_info_put(i, "host", rt_boot.host);
    pthread_mutex_unlock(&env_mutex);
    return err;
}
