/* SPDX-License-Identifier: BSD-3-Clause */
/* The error texts of the bindings' argument checks: what was found, what was expected, what to do.
 * Reached only when a check has failed, except wm_check_counts().  Any thread; no state. */
#include "mpi/api/bad.h"
#include "mpi/api/bind.h"
#include "mpi/core/life.h"
#include <stdio.h>

#define HANDLE_TEXT 96

/* Singular names of the handle classes, by enum wm_class. */
static const char *const class_name[WM_CLASSES] = {
    [WM_COMM] = "communicator", [WM_GROUP] = "group",     [WM_TYPE] = "datatype",
    [WM_OP] = "operation",      [WM_REQUEST] = "request", [WM_ERRHANDLER] = "error handler",
    [WM_INFO] = "info object",  [WM_MESSAGE] = "message", [WM_WIN] = "window",
    [WM_FILE] = "file",         [WM_SESSION] = "session", [WM_XSTREAM] = "stream",
};

/* The ABI's ranges of predefined handles (MPI-5.0 section 20.3): first value, class. */
static const struct {
    unsigned first;
    enum wm_class cls;
} ranges[] = {
    { 0x020, WM_OP },      { 0x040, 0 },       { 0x100, WM_COMM },       { 0x108, WM_GROUP },
    { 0x110, WM_WIN },     { 0x118, WM_FILE }, { 0x120, WM_SESSION },    { 0x128, WM_MESSAGE },
    { 0x130, WM_INFO },    { 0x138, 0 },       { 0x140, WM_ERRHANDLER }, { 0x148, 0 },
    { 0x180, WM_REQUEST }, { 0x188, 0 },       { 0x200, WM_TYPE },       { 0x300, 0 },
};

/* The class that a value claims to be of, whether such an object lives or not; 0 when none. */
static enum wm_class claimed_class(uintptr_t h)
{
    enum wm_class cls = 0;
    if (h >= WM_PREDEFINED_MAX) {
        uintptr_t bits = h >> RT_SLAB_CLASS_SHIFT;
        return bits < WM_CLASSES ? (enum wm_class)bits : 0;
    }
    for (unsigned i = 0; i < sizeof ranges / sizeof ranges[0] && ranges[i].first <= h; i++)
        cls = ranges[i].cls;
    return cls;
}

static int bad_handle(const char *arg, uintptr_t h, enum wm_class want, const char *null,
                      uintptr_t null_value, int errclass)
{
    enum wm_class is = claimed_class(h);
    if (h == null_value)
        return wm_err(errclass, "%s: %s is not allowed here; give a live %s", arg, null,
                      class_name[want]);
    if (want == WM_COMM && (h == (uintptr_t)MPI_COMM_WORLD || h == (uintptr_t)MPI_COMM_SELF))
        return wm_err(errclass,
                      "%s: %s exists from MPI_Init to MPI_Finalize only; use a communicator of a "
                      "session (MPI_Comm_create_from_group)",
                      arg, h == (uintptr_t)MPI_COMM_WORLD ? "MPI_COMM_WORLD" : "MPI_COMM_SELF");
    if (h == 0)
        return wm_err(errclass, "%s: 0 is no handle; the variable was never set to a %s", arg,
                      class_name[want]);
    if (is == want)
        return wm_err(errclass, "%s: %#zx is not a live %s; it was freed or never made", arg,
                      (size_t)h, class_name[want]);
    if (is)
        return wm_err(errclass, "%s: %#zx is the handle of a %s; a %s is expected", arg, (size_t)h,
                      class_name[is], class_name[want]);
    return wm_err(errclass, "%s: %#zx is no MPI handle; a %s is expected", arg, (size_t)h,
                  class_name[want]);
}

#define BAD_HANDLE(name, type, cls, null, errclass) \
    int name(const char *arg, type h) \
    { \
        return bad_handle(arg, (uintptr_t)h, cls, #null, (uintptr_t)null, errclass); \
    }
BAD_HANDLE(wm_bad_comm, MPI_Comm, WM_COMM, MPI_COMM_NULL, MPI_ERR_COMM)
BAD_HANDLE(wm_bad_group, MPI_Group, WM_GROUP, MPI_GROUP_NULL, MPI_ERR_GROUP)
BAD_HANDLE(wm_bad_op, MPI_Op, WM_OP, MPI_OP_NULL, MPI_ERR_OP)
BAD_HANDLE(wm_bad_errh, MPI_Errhandler, WM_ERRHANDLER, MPI_ERRHANDLER_NULL, MPI_ERR_ERRHANDLER)
BAD_HANDLE(wm_bad_info, MPI_Info, WM_INFO, MPI_INFO_NULL, MPI_ERR_INFO)
BAD_HANDLE(wm_bad_win, MPI_Win, WM_WIN, MPI_WIN_NULL, MPI_ERR_WIN)
BAD_HANDLE(wm_bad_file, MPI_File, WM_FILE, MPI_FILE_NULL, MPI_ERR_FILE)
BAD_HANDLE(wm_bad_session, MPI_Session, WM_SESSION, MPI_SESSION_NULL, MPI_ERR_SESSION)

static const char *type_label(const struct wm_type *t)
{
    return t && t->name[0] ? t->name : "a derived datatype";
}

int wm_bad_type(const char *arg, MPI_Datatype h)
{
    const struct wm_type *t = wm_type_get(h);
    if (!t)
        return bad_handle(arg, (uintptr_t)h, WM_TYPE, "MPI_DATATYPE_NULL",
                          (uintptr_t)MPI_DATATYPE_NULL, MPI_ERR_TYPE);
    if (t->absent)
        return wm_err(
            MPI_ERR_TYPE,
            "%s: this machine has no type for %s; MPI_Type_size of it gives MPI_UNDEFINED", arg,
            type_label(t));
    return wm_err(MPI_ERR_TYPE, "%s: %s is not committed; call MPI_Type_commit first", arg,
                  type_label(t));
}

/* Names of predefined operations by handle & 0x1f. */
static const char *const op_name[32] = {
    [0x01] = "MPI_SUM",     [0x02] = "MPI_MIN",   [0x03] = "MPI_MAX",    [0x04] = "MPI_PROD",
    [0x08] = "MPI_BAND",    [0x09] = "MPI_BOR",   [0x0a] = "MPI_BXOR",   [0x10] = "MPI_LAND",
    [0x11] = "MPI_LOR",     [0x12] = "MPI_LXOR",  [0x18] = "MPI_MINLOC", [0x19] = "MPI_MAXLOC",
    [0x1c] = "MPI_REPLACE", [0x1d] = "MPI_NO_OP",
};

int wm_bad_op_type(const char *arg, MPI_Op op, MPI_Datatype type)
{
    uintptr_t v = (uintptr_t)op;
    const char *name = v < WM_PREDEFINED_MAX ? op_name[v & 0x1f] : NULL;
    return wm_err(
        MPI_ERR_OP,
        "%s: %s is not defined for %s (MPI-5.0 section 6.9.2); use another operation or make one "
        "with MPI_Op_create",
        arg, name ? name : "the operation", type_label(wm_type_get(type)));
}

static const char *comm_label(const struct wm_comm *c, char text[HANDLE_TEXT])
{
    if (c->name[0])
        snprintf(text, HANDLE_TEXT, "%s %.*s", c->inter ? "intercommunicator" : "communicator",
                 HANDLE_TEXT - 20, c->name);
    else
        snprintf(text, HANDLE_TEXT, "%s %#x", c->inter ? "intercommunicator" : "communicator",
                 c->obj.handle);
    return text;
}

static int bad_rank(const char *arg, const struct wm_comm *c, int found, int n, int errclass,
                    const char *advice)
{
    char label[HANDLE_TEXT];
    return wm_err(errclass, "%s: rank %d is outside 0..%d of %s; use a rank of %s%s", arg, found,
                  n - 1, comm_label(c, label), c->inter ? "the remote group" : "the communicator",
                  advice);
}

int wm_bad_rank(const char *arg, const struct wm_comm *c, int found)
{
    return bad_rank(arg, c, found, wm_comm_npeers(c), MPI_ERR_RANK, " or MPI_PROC_NULL");
}

int wm_bad_source(const char *arg, const struct wm_comm *c, int found)
{
    return bad_rank(arg, c, found, wm_comm_npeers(c), MPI_ERR_RANK,
                    ", MPI_ANY_SOURCE or MPI_PROC_NULL");
}

int wm_bad_member(const char *arg, const struct wm_comm *c, int found)
{
    return bad_rank(arg, c, found, c->size, MPI_ERR_RANK, "");
}

int wm_bad_root(const char *arg, const struct wm_comm *c, int found)
{
    return bad_rank(arg, c, found, wm_comm_npeers(c), MPI_ERR_ROOT,
                    c->inter ? ", MPI_ROOT or MPI_PROC_NULL" : "");
}

int wm_bad_tag(const char *arg, int found)
{
    return wm_err(MPI_ERR_TAG, "%s: tag %d is outside 0..%d; %s", arg, found, INT_MAX,
                  found == MPI_ANY_TAG ? "MPI_ANY_TAG is for receives" : "tags are not negative");
}

int wm_bad_recv_tag(const char *arg, int found)
{
    return wm_err(MPI_ERR_TAG, "%s: tag %d is outside 0..%d; use such a tag or MPI_ANY_TAG", arg,
                  found, INT_MAX);
}

int wm_bad_count(const char *arg, MPI_Count found)
{
    return wm_bad_number(arg, found, MPI_ERR_COUNT);
}

int wm_bad_number(const char *arg, MPI_Count found, int errclass)
{
    return wm_err(errclass, "%s: %lld is negative; give 0 or more", arg, (long long)found);
}

int wm_bad_null(const char *arg, int errclass)
{
    return wm_err(errclass, "%s: the pointer is null; give the address of a variable or array",
                  arg);
}

int wm_bad_in_place(const char *arg, const struct wm_comm *c)
{
    return wm_err(MPI_ERR_BUFFER, "%s: MPI_IN_PLACE is not allowed %s; give a buffer", arg,
                  c->inter ? "on an intercommunicator" : "at a process that is not the root");
}

int wm_bad_buffer(const char *arg, const void *buf, const struct wm_type *t)
{
    if (buf)
        return wm_err(MPI_ERR_BUFFER, "%s: %s is not allowed here; give a buffer", arg,
                      buf == MPI_IN_PLACE ? "MPI_IN_PLACE" : "MPI_BUFFER_AUTOMATIC");
    return wm_err(MPI_ERR_BUFFER,
                  "%s: the buffer is null, but the count is not 0 and %s holds no absolute "
                  "addresses; give a buffer",
                  arg, t ? type_label(t) : "a sequence of bytes");
}

int wm_check_counts(const char *arg, struct wm_counts v, int n)
{
    if (rt_unlikely(!v.v && n > 0))
        return wm_bad_null(arg, MPI_ERR_ARG);
    for (int i = 0; i < n; i++)
        if (rt_unlikely(wm_count_at(v, i) < 0))
            return wm_err(MPI_ERR_COUNT, "%s: element %d is %lld; counts are not negative", arg, i,
                          (long long)wm_count_at(v, i));
    return MPI_SUCCESS;
}

int wm_bad_phase(const char *call)
{
    if (wm_state.phase == WM_FORKED)
        wm_life_forked(call);
    int err = wm_state.phase == WM_FINALIZED
                  ? wm_err(MPI_ERR_OTHER, "called after MPI_Finalize, and no session is open; MPI "
                                          "calls belong before it, or into a session")
                  : wm_err(MPI_ERR_OTHER, "called before MPI_Init; call MPI_Init, MPI_Init_thread "
                                          "or MPI_Session_init first");
    return wm_raise_comm(NULL, err, call);
}

int wm_bad_world(const char *call)
{
    if (wm_state.phase == WM_FORKED)
        wm_life_forked(call);
    int err = wm_err(MPI_ERR_OTHER,
                     "called %s MPI_Init%s; the call is about the world model, not about sessions",
                     wm_state.phase == WM_FINALIZED ? "after" : "before",
                     wm_state.phase == WM_FINALIZED ? " and MPI_Finalize" : "");
    return wm_raise_comm(NULL, err, call);
}

int wm_unsupported(struct wm_comm *comm, const char *call)
{
    int err = wm_err(MPI_ERR_UNSUPPORTED_OPERATION,
                     "this version of Weft MPI does not implement the call; "
                     "`weft_info --api` lists those that it does");
    return wm_raise_comm(comm, err, call);
}
