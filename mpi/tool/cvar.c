/* SPDX-License-Identifier: BSD-3-Clause */
/* Control variables (MPI-5.0 section 15.3.6): one for each setting of runtime/base/cfg.def, under
 * the setting's name.  They can be read at all times.  Most are used once, by MPI_Init, so they
 * can be written only before it.  The others are used repeatedly and can be written at any time. */
#include "mpi/tool/cvar.h"
#include <stdio.h>
#include <string.h>
#include "coll/coll.h"
#include "coll/select.h"
#include "coll/tune.h"
#include "mpi/api/bodies.h"
#include "mpi/core/state.h"
#include "mpi/tool/tool.h"
#include "runtime/base/cfg.h"
#include "runtime/base/log.h"

#define TEXT_BYTES 1024 /* of a variable that is a string, its null byte included */

struct trait {
    const char *name;
    int scope, verbosity;
    bool late; /* may be written after MPI_Init */
};

/* What cfg.def does not say of a setting.  The last row is for all settings without a row. */
static const struct trait traits[] = {
    { "log", MPI_T_SCOPE_LOCAL, MPI_T_VERBOSITY_USER_BASIC, true },
    { "abort_backtrace", MPI_T_SCOPE_LOCAL, MPI_T_VERBOSITY_MPIDEV_BASIC, true },
    { "check_leaks", MPI_T_SCOPE_LOCAL, MPI_T_VERBOSITY_USER_DETAIL, true },
    { "btl", MPI_T_SCOPE_ALL, MPI_T_VERBOSITY_TUNER_BASIC, false },
    { "coll", MPI_T_SCOPE_ALL_EQ, MPI_T_VERBOSITY_TUNER_BASIC, false },
    { "tune_file", MPI_T_SCOPE_ALL_EQ, MPI_T_VERBOSITY_TUNER_BASIC, false },
    { "shm_large", MPI_T_SCOPE_LOCAL, MPI_T_VERBOSITY_TUNER_DETAIL, false },
    { "shm_eager", MPI_T_SCOPE_ALL_EQ, MPI_T_VERBOSITY_TUNER_BASIC, false },
    { "spin_us", MPI_T_SCOPE_LOCAL, MPI_T_VERBOSITY_TUNER_DETAIL, false },
    { "sleep_us", MPI_T_SCOPE_LOCAL, MPI_T_VERBOSITY_TUNER_DETAIL, false },
    { NULL, MPI_T_SCOPE_ALL_EQ, MPI_T_VERBOSITY_USER_DETAIL, false },
};

/* The category of a setting, by the prefix of its name; the first match counts. */
static const struct {
    const char *prefix;
    enum tool_cat cat;
} places[] = {
    { "shm_", CAT_SHM },       { "tcp_", CAT_TCP },  { "net_", CAT_P2P },
    { "unexpected", CAT_P2P }, { "ib_", CAT_RDMA },  { "verbs_", CAT_RDMA },
    { "gpu", CAT_GPU },        { "rma_", CAT_RMA },  { "rsh", CAT_LAUNCH },
    { "host_", CAT_LAUNCH },   { "btl", CAT_P2P },   { "coll", CAT_COLL },
    { "tune", CAT_COLL },      { "spin", CAT_WAIT }, { "sleep", CAT_WAIT },
    { NULL, CAT_BASE },
};

static struct tool_obj *handles;

static const struct trait *trait_of(const char *name)
{
    const struct trait *t = traits;
    while (t->name && strcmp(t->name, name))
        t++;
    return t;
}

int tool_cvar_num(void) { return rt_cfg_count(); }

enum tool_cat tool_cvar_cat(int index)
{
    int i = 0;
    while (places[i].prefix &&
           strncmp(places[i].prefix, rt_cfg_row(index)->name, strlen(places[i].prefix)))
        i++;
    return places[i].cat;
}

static bool is_text(int i)
{
    return !strcmp(rt_cfg_row(i)->type, "STR") || !strcmp(rt_cfg_row(i)->type, "LIST");
}

static bool is_size(int i) { return !strcmp(rt_cfg_row(i)->type, "SIZE"); }

static MPI_Datatype datatype(int i)
{
    return is_text(i) ? MPI_CHAR : is_size(i) ? MPI_COUNT : MPI_INT;
}

static int enum_of(int i)
{
    const char *type = rt_cfg_row(i)->type;
    return !strcmp(type, "BOOL")   ? TOOL_ENUM_BOOL
           : !strcmp(type, "ENUM") ? TOOL_ENUM_CFG + i
                                   : TOOL_ENUM_NONE;
}

int wm_api_t_cvar_get_num(int *num_cvar)
{
    int err = tool_enter();
    if (err)
        return err;
    tool_leave();
    if (!num_cvar)
        return MPI_T_ERR_INVALID;
    *num_cvar = rt_cfg_count();
    return MPI_SUCCESS;
}

int wm_api_t_cvar_get_info(int cvar_index, char *name, int *name_len, int *verbosity,
                           MPI_Datatype *type, MPI_T_enum *enumtype, char *desc, int *desc_len,
                           int *bind, int *scope)
{
    int err = tool_enter();
    if (err)
        return err;
    tool_leave(); /* the table is constant */
    if (cvar_index < 0 || cvar_index >= rt_cfg_count())
        return MPI_T_ERR_INVALID_INDEX;
    const struct rt_cfg_row *r = rt_cfg_row(cvar_index);
    const struct trait *t = trait_of(r->name);
    tool_text(r->name, name, name_len);
    tool_text(r->help, desc, desc_len);
    tool_int(verbosity, t->verbosity);
    tool_int(bind, MPI_T_BIND_NO_OBJECT);
    tool_int(scope, t->scope);
    if (type)
        *type = datatype(cvar_index);
    if (enumtype)
        *enumtype = tool_enum_handle(enum_of(cvar_index));
    return MPI_SUCCESS;
}

int wm_api_t_cvar_get_index(const char *name, int *cvar_index)
{
    int err = tool_enter();
    if (err)
        return err;
    tool_leave();
    if (!name || !cvar_index)
        return MPI_T_ERR_INVALID;
    for (int i = 0; i < rt_cfg_count(); i++)
        if (!strcmp(rt_cfg_row(i)->name, name)) {
            *cvar_index = i;
            return MPI_SUCCESS;
        }
    return MPI_T_ERR_INVALID_NAME;
}

static int handle_alloc(int index, MPI_T_cvar_handle *handle, int *count)
{
    if (index < 0 || index >= rt_cfg_count())
        return MPI_T_ERR_INVALID_INDEX;
    if (!handle || !count)
        return MPI_T_ERR_INVALID;
    struct tool_obj *o = tool_obj_new(TOOL_CVAR, index);
    if (!o)
        return MPI_T_ERR_OUT_OF_HANDLES;
    o->next = handles;
    handles = o;
    *handle = tool_obj_handle(o);
    *count = is_text(index) ? TEXT_BYTES : 1;
    return MPI_SUCCESS;
}

int wm_api_t_cvar_handle_alloc(int cvar_index, void *obj_handle, MPI_T_cvar_handle *handle,
                               int *count)
{
    (void)obj_handle; /* no variable is bound to an object */
    int err = tool_enter();
    if (err)
        return err;
    err = handle_alloc(cvar_index, handle, count);
    tool_leave();
    return err;
}

static void handle_free(struct tool_obj *o)
{
    struct tool_obj **p = &handles;
    while (*p != o)
        p = &(*p)->next;
    *p = o->next;
    tool_obj_free(o);
}

int wm_api_t_cvar_handle_free(MPI_T_cvar_handle *handle)
{
    int err = tool_enter();
    if (err)
        return err;
    struct tool_obj *o = handle ? tool_obj_get(*handle, TOOL_CVAR) : NULL;
    if (o) {
        handle_free(o);
        *handle = MPI_T_CVAR_HANDLE_NULL;
    } else {
        err = handle ? MPI_T_ERR_INVALID_HANDLE : MPI_T_ERR_INVALID;
    }
    tool_leave();
    return err;
}

void tool_cvar_fini(void)
{
    while (handles)
        handle_free(handles);
}

static void read_value(int i, void *buf)
{
    enum rt_cfg_source source;
    int64_t v = rt_cfg_number(i);
    int n = (int)v;
    MPI_Count wide = v;
    if (is_text(i))
        rt_cfg_value(i, buf, TEXT_BYTES, &source);
    else if (is_size(i))
        memcpy(buf, &wide, sizeof wide);
    else
        memcpy(buf, &n, sizeof n);
}

int wm_api_t_cvar_read(MPI_T_cvar_handle handle, void *buf)
{
    int err = tool_enter();
    if (err)
        return err;
    const struct tool_obj *o = tool_obj_get(handle, TOOL_CVAR);
    if (!o)
        err = MPI_T_ERR_INVALID_HANDLE;
    else if (!buf)
        err = MPI_T_ERR_INVALID;
    else
        read_value(o->index, buf);
    tool_leave();
    return err;
}

/* The value as text, as in the environment; false when there is no such value. */
static bool value_text(int i, const void *buf, char *text)
{
    int n, len = TEXT_BYTES;
    MPI_Count wide;
    if (is_text(i)) {
        size_t used = strnlen(buf, TEXT_BYTES);
        memcpy(text, buf, used < TEXT_BYTES ? used + 1 : used);
        return used < TEXT_BYTES;
    }
    if (is_size(i)) {
        memcpy(&wide, buf, sizeof wide);
        snprintf(text, TEXT_BYTES, "%lld", (long long)wide);
        return true;
    }
    memcpy(&n, buf, sizeof n);
    if (enum_of(i) != TOOL_ENUM_NONE)
        return wm_api_t_enum_get_item(tool_enum_handle(enum_of(i)), n, NULL, text, &len) ==
               MPI_SUCCESS;
    snprintf(text, TEXT_BYTES, "%d", n);
    return true;
}

/* Settings that are text with a meaning take effect, or are refused, when they are set: the library
 * may have used their former values before MPI_Init already. */
static int apply(int i, const char *text)
{
    const char *name = rt_cfg_row(i)->name;
    return !strcmp(name, "log")         ? rt_log_configure(text)
           : !strcmp(name, "coll")      ? coll_configure(text)
           : !strcmp(name, "tune_file") ? coll_tune_load(text)
                                        : 0;
}

static int write_value(int i, const char *text)
{
    char old[TEXT_BYTES];
    enum rt_cfg_source source;
    rt_cfg_value(i, old, sizeof old, &source);
    int err = rt_cfg_try(i, text, RT_CFG_TOOL);
    if (!err && (err = apply(i, text)) != 0) {
        rt_cfg_try(i, old, source);
        apply(i, old);
    }
    return err == -RT_ENOMEM ? MPI_T_ERR_MEMORY : err ? MPI_T_ERR_INVALID : MPI_SUCCESS;
}

static int may_write(int i)
{
    if (trait_of(rt_cfg_row(i)->name)->late)
        return MPI_SUCCESS;
    if (wm_state.phase != WM_BEFORE_INIT)
        return MPI_T_ERR_CVAR_SET_NEVER;
    return wm_state.users > 0 ? MPI_T_ERR_CVAR_SET_NOT_NOW : MPI_SUCCESS;
}

int wm_api_t_cvar_write(MPI_T_cvar_handle handle, const void *buf)
{
    char text[TEXT_BYTES];
    int err = tool_enter();
    if (err)
        return err;
    const struct tool_obj *o = tool_obj_get(handle, TOOL_CVAR);
    if (!o)
        err = MPI_T_ERR_INVALID_HANDLE;
    else if (!buf)
        err = MPI_T_ERR_INVALID;
    if (!err)
        err = may_write(o->index);
    if (!err)
        err = value_text(o->index, buf, text) ? write_value(o->index, text) : MPI_T_ERR_INVALID;
    tool_leave();
    return err;
}
