/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions and handles of performance variables (MPI-5.0 section 15.3.7): each handle has a value
 * of its own: its value when it was started, plus the increase of the counter since.  The engine
 * keeps the watermark, which restarts when a handle starts or is set; the other handles first save
 * the watermark's value.  Any thread, under the interface's mutex. */
#include "mpi/tool/pvar_session.h"
#include <stdlib.h>
#include <string.h>
#include "mpi/api/bodies.h"
#include "mpi/tool/pvar.h"

struct session {
    struct tool_obj o;        /* o.next: the next session */
    struct tool_obj *handles; /* struct handle */
};

struct handle {
    struct tool_obj o; /* o.next: the next of its session */
    struct session *session;
    const struct pvar *var;
    MPI_Comm comm;   /* of a bound variable */
    bool running;    /* started; always for variables that cannot be stopped */
    uint64_t *value; /* var->count of them, owned */
    uint64_t *base;  /* the counter when the handle was started; behind `value` */
};

static struct tool_obj *sessions;

static bool is_mark(const struct handle *h)
{
    return h->var->class == MPI_T_PVAR_CLASS_HIGHWATERMARK;
}

/* The communicator of a bound variable may have been freed. */
static int now(const struct handle *h, int i, uint64_t *out)
{
    const struct wm_comm *c = NULL;
    if (h->var->bind == MPI_T_BIND_MPI_COMM) {
        c = tool_is_up() ? wm_comm_get(h->comm) : NULL;
        if (!c)
            return MPI_T_ERR_INVALID_HANDLE;
    }
    *out = tool_pvar_now(h->var, i, c);
    return MPI_SUCCESS;
}

/* Saves the watermark in its handles, and restarts it. */
static void fold(void)
{
    uint64_t top = tool_unexpected_peak();
    for (const struct tool_obj *s = sessions; s; s = s->next)
        for (struct tool_obj *o = ((const struct session *)s)->handles; o; o = o->next) {
            struct handle *h = (struct handle *)o;
            if (is_mark(h) && h->running && h->value[0] < top)
                h->value[0] = top;
        }
    tool_unexpected_rebase();
}

static int current(const struct handle *h, int i, uint64_t *out)
{
    uint64_t raw = 0;
    *out = h->value[i];
    if (is_mark(h)) {
        uint64_t peak = tool_unexpected_peak();
        if (h->running && peak > *out)
            *out = peak;
        return MPI_SUCCESS;
    }
    if (!h->running)
        return MPI_SUCCESS;
    int err = now(h, i, &raw);
    *out = h->var->access == PVAR_FREE ? raw : *out + raw - h->base[i];
    return err;
}

/* The value counts on from `value` (NULL: the starting value of its class). */
static int set(struct handle *h, const uint64_t *value)
{
    int err = MPI_SUCCESS;
    if (is_mark(h))
        fold();
    for (int i = 0; !err && i < h->var->count; i++) {
        uint64_t raw = 0;
        err = now(h, i, &raw);
        h->base[i] = raw;
        h->value[i] = value ? value[i] : is_mark(h) ? raw : 0;
    }
    return err;
}

static void stop(struct handle *h)
{
    for (int i = 0; i < h->var->count; i++)
        current(h, i, &h->value[i]);
    h->running = false;
}

/* The value of the handle is kept; increases while it was stopped do not count. */
static void start(struct handle *h)
{
    if (is_mark(h))
        fold();
    for (int i = 0; i < h->var->count; i++)
        now(h, i, &h->base[i]);
    h->running = true;
}

static void handle_free(struct handle *h)
{
    struct tool_obj **p = &h->session->handles;
    while (*p != &h->o)
        p = &(*p)->next;
    *p = h->o.next;
    free(h->value);
    tool_obj_free(&h->o);
}

static void session_free(struct session *s)
{
    struct tool_obj **p = &sessions;
    while (s->handles)
        handle_free((struct handle *)s->handles);
    while (*p != &s->o)
        p = &(*p)->next;
    *p = s->o.next;
    tool_obj_free(&s->o);
}

void tool_pvar_fini(void)
{
    while (sessions)
        session_free((struct session *)sessions);
}

int wm_api_t_pvar_session_create(MPI_T_pvar_session *session)
{
    int err = tool_enter();
    if (err)
        return err;
    struct tool_obj *o = session ? tool_obj_new(TOOL_SESSION, 0) : NULL;
    if (o) {
        o->next = sessions;
        sessions = o;
        *session = tool_obj_handle(o);
    } else {
        err = session ? MPI_T_ERR_OUT_OF_SESSIONS : MPI_T_ERR_INVALID;
    }
    tool_leave();
    return err;
}

int wm_api_t_pvar_session_free(MPI_T_pvar_session *session)
{
    int err = tool_enter();
    if (err)
        return err;
    struct session *s = session ? tool_obj_get(*session, TOOL_SESSION) : NULL;
    if (s) {
        session_free(s);
        *session = MPI_T_PVAR_SESSION_NULL;
    } else {
        err = session ? MPI_T_ERR_INVALID_SESSION : MPI_T_ERR_INVALID;
    }
    tool_leave();
    return err;
}

static int handle_make(struct session *s, int index, MPI_Comm comm, struct handle **out)
{
    const struct pvar *v = tool_pvar(index);
    struct handle *h = (struct handle *)tool_obj_new(TOOL_PVAR, index);
    if (!h)
        return MPI_T_ERR_OUT_OF_HANDLES;
    h->value = calloc(2 * (size_t)v->count, sizeof *h->value);
    h->base = h->value + v->count;
    if (!h->value) {
        tool_obj_free(&h->o);
        return MPI_T_ERR_MEMORY;
    }
    h->var = v;
    h->comm = comm;
    h->session = s;
    h->o.next = s->handles;
    s->handles = &h->o;
    set(h, NULL);
    h->running = v->access != PVAR_OPEN;
    *out = h;
    return MPI_SUCCESS;
}

static int handle_alloc(MPI_T_pvar_session session, int index, const void *obj_handle,
                        MPI_T_pvar_handle *handle, int *count)
{
    struct session *s = tool_obj_get(session, TOOL_SESSION);
    const struct pvar *v = tool_pvar(index);
    MPI_Comm comm = MPI_COMM_NULL;
    struct handle *h;
    if (!s)
        return MPI_T_ERR_INVALID_SESSION;
    if (!v)
        return MPI_T_ERR_INVALID_INDEX;
    if (!handle || !count || (v->bind == MPI_T_BIND_MPI_COMM && !obj_handle))
        return MPI_T_ERR_INVALID;
    if (v->bind == MPI_T_BIND_MPI_COMM) {
        memcpy(&comm, obj_handle, sizeof comm);
        if (!tool_is_up() || !wm_comm_get(comm))
            return MPI_T_ERR_INVALID_HANDLE;
    }
    int err = handle_make(s, index, comm, &h);
    if (err)
        return err;
    *handle = tool_obj_handle(&h->o);
    *count = v->count;
    return MPI_SUCCESS;
}

int wm_api_t_pvar_handle_alloc(MPI_T_pvar_session session, int pvar_index, void *obj_handle,
                               MPI_T_pvar_handle *handle, int *count)
{
    int err = tool_enter();
    if (err)
        return err;
    err = handle_alloc(session, pvar_index, obj_handle, handle, count);
    tool_leave();
    return err;
}

/* The handle, which must be of that session; MPI_T_PVAR_ALL_HANDLES is none. */
static int find(MPI_T_pvar_session session, MPI_T_pvar_handle handle, struct handle **out)
{
    struct session *s = tool_obj_get(session, TOOL_SESSION);
    struct handle *h = tool_obj_get(handle, TOOL_PVAR);
    if (!s)
        return MPI_T_ERR_INVALID_SESSION;
    if (!h || h->session != s)
        return MPI_T_ERR_INVALID_HANDLE;
    *out = h;
    return MPI_SUCCESS;
}

int wm_api_t_pvar_handle_free(MPI_T_pvar_session session, MPI_T_pvar_handle *handle)
{
    struct handle *h;
    int err = tool_enter();
    if (err)
        return err;
    err = handle ? find(session, *handle, &h) : MPI_T_ERR_INVALID;
    if (!err) {
        handle_free(h);
        *handle = MPI_T_PVAR_HANDLE_NULL;
    }
    tool_leave();
    return err;
}

enum control { START, STOP, RESET };

static int control_one(struct handle *h, enum control what)
{
    if (h->var->access != PVAR_OPEN)
        return what == RESET ? MPI_T_ERR_PVAR_NO_WRITE : MPI_T_ERR_PVAR_NO_STARTSTOP;
    if (what == RESET)
        return set(h, NULL);
    if (what == START && !h->running)
        start(h);
    else if (what == STOP && h->running)
        stop(h);
    return MPI_SUCCESS;
}

/* Controls all handles of a session, except those that cannot be controlled. */
static int control_all(const struct session *s, enum control what)
{
    int err = MPI_SUCCESS;
    if (!s)
        return MPI_T_ERR_INVALID_SESSION;
    for (struct tool_obj *o = s->handles; o; o = o->next) {
        struct handle *h = (struct handle *)o;
        int one = h->var->access == PVAR_OPEN ? control_one(h, what) : MPI_SUCCESS;
        err = err ? err : one;
    }
    return err;
}

static int control(MPI_T_pvar_session session, MPI_T_pvar_handle handle, enum control what)
{
    struct handle *h;
    int err = tool_enter();
    if (err)
        return err;
    if (handle == MPI_T_PVAR_ALL_HANDLES) {
        err = control_all(tool_obj_get(session, TOOL_SESSION), what);
    } else {
        err = find(session, handle, &h);
        err = err ? err : control_one(h, what);
    }
    tool_leave();
    return err;
}

int wm_api_t_pvar_start(MPI_T_pvar_session session, MPI_T_pvar_handle handle)
{
    return control(session, handle, START);
}

int wm_api_t_pvar_stop(MPI_T_pvar_session session, MPI_T_pvar_handle handle)
{
    return control(session, handle, STOP);
}

int wm_api_t_pvar_reset(MPI_T_pvar_session session, MPI_T_pvar_handle handle)
{
    return control(session, handle, RESET);
}

static void show(const struct pvar *v, uint64_t value, int i, void *buf)
{
    if (v->value == PVAR_INT)
        ((int *)buf)[i] = (int)(int64_t)value;
    else if (v->value == PVAR_SECONDS)
        ((double *)buf)[i] = (double)value * 1e-9;
    else
        ((unsigned long long *)buf)[i] = value;
}

static int read_values(const struct handle *h, void *buf)
{
    uint64_t value;
    int err = MPI_SUCCESS;
    if (!buf)
        return MPI_T_ERR_INVALID;
    for (int i = 0; !err && i < h->var->count; i++) {
        err = current(h, i, &value);
        if (!err)
            show(h->var, value, i, buf);
    }
    return err;
}

int wm_api_t_pvar_read(MPI_T_pvar_session session, MPI_T_pvar_handle handle, void *buf)
{
    struct handle *h;
    int err = tool_enter();
    if (err)
        return err;
    err = find(session, handle, &h);
    if (!err)
        err = read_values(h, buf);
    tool_leave();
    return err;
}

int wm_api_t_pvar_readreset(MPI_T_pvar_session session, MPI_T_pvar_handle handle, void *buf)
{
    struct handle *h;
    int err = tool_enter();
    if (err)
        return err;
    err = find(session, handle, &h);
    if (!err && h->var->access != PVAR_OPEN)
        err = MPI_T_ERR_PVAR_NO_WRITE;
    if (!err)
        err = read_values(h, buf);
    if (!err)
        err = set(h, NULL);
    tool_leave();
    return err;
}

static int write_values(struct handle *h, const void *buf)
{
    uint64_t value[COLL_KINDS];
    if (h->var->access != PVAR_OPEN)
        return MPI_T_ERR_PVAR_NO_WRITE;
    if (!buf)
        return MPI_T_ERR_INVALID;
    for (int i = 0; i < h->var->count; i++)
        value[i] = h->var->value == PVAR_SECONDS ? (uint64_t)(((const double *)buf)[i] * 1e9)
                                                 : ((const unsigned long long *)buf)[i];
    return set(h, value);
}

int wm_api_t_pvar_write(MPI_T_pvar_session session, MPI_T_pvar_handle handle, const void *buf)
{
    struct handle *h;
    int err = tool_enter();
    if (err)
        return err;
    err = find(session, handle, &h);
    if (!err)
        err = write_values(h, buf);
    tool_leave();
    return err;
}
