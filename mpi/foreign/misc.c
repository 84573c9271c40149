/* SPDX-License-Identifier: BSD-3-Clause */
/* Procedures whose arguments depend on each other, whose strings may be shorter in the foreign ABI,
 * or whose callbacks belong to a tool. */
#include <pthread.h>
#include <string.h>
#include "mpi/foreign/convert.h"

/* ---- statuses ---- */

/* The caller's error codes, which may be any numbers, stay as they are. */
WX_PROC(int, Status_set_error, (wx_MPI_Status * status, int error))
{
    if (!status || status == WX_STATUS_IGNORE)
        return wx_error_out(MPI_ERR_ARG);
    status->MPI_ERROR = error;
    return MPI_SUCCESS;
}

WX_PROC(int, Status_get_error, (const wx_MPI_Status *status, int *error))
{
    if (!status || status == WX_STATUS_IGNORE || !error)
        return wx_error_out(MPI_ERR_ARG);
    *error = status->MPI_ERROR;
    return MPI_SUCCESS;
}

/* ---- memory ---- */

/* Where the ABI accepts the call after MPI_Finalize, the end of the process releases the memory. */
WX_PROC(int, Free_mem, (void *base))
{
    int over = 0;
    wx_ready();
    if (WX_FREE_AFTER_END && !WX(Finalized)(&over) && over)
        return MPI_SUCCESS;
    return wx_error_out(WX(Free_mem)(base));
}

/* ---- contents of datatypes ---- */

/* The integers of subarrays and arrays distributed over processes contain constants
 * (MPI-5.0 section 5.1.13).  `n` integers are there; `large`: sizes are among the large counts. */
static void integers_out(int combiner, int *v, MPI_Count n, bool large)
{
    if (combiner == MPI_COMBINER_SUBARRAY && n > 0) {
        v[n - 1] = wx_order_out(v[n - 1]);
    } else if (combiner == MPI_COMBINER_DARRAY && n > 3) {
        int dims = v[2], *distribs = v + 3 + (large ? 0 : dims), *dargs = distribs + dims;
        wx_ints_out(distribs, dims, wx_distrib_out);
        wx_ints_out(dargs, dims, wx_darg_out);
        v[n - 1] = wx_order_out(v[n - 1]);
    }
}

static void types_out(wx_MPI_Datatype *v, MPI_Datatype *w, MPI_Count n)
{
    for (MPI_Count i = 0; i < n; i++)
        v[i] = wx_type_out(w[i]);
    free(w);
}

WX_PROC(int, Type_get_contents,
        (wx_MPI_Datatype datatype, int max_integers, int max_addresses, int max_datatypes,
         int integers[], MPI_Aint addresses[], wx_MPI_Datatype datatypes[]))
{
    wx_ready();
    MPI_Datatype type = wx_type_in(datatype), *w = NULL;
    int n = 0, na, nt = 0, combiner = 0;
    int ret = WX(Type_get_envelope)(type, &n, &na, &nt, &combiner);
    if (ret)
        return wx_error_out(ret);
    if (datatypes)
        w = wx_alloc((size_t)nt * sizeof *w);
    /* A limit below the number is an error, so no more than the number is stored. */
    ret = WX(Type_get_contents)(type, max_integers, max_addresses, max_datatypes, integers,
                                addresses, w);
    if (!ret)
        integers_out(combiner, integers, n, false);
    types_out(datatypes, w, ret || !w ? 0 : nt);
    return wx_error_out(ret);
}

WX_PROC(int, Type_get_contents_c,
        (wx_MPI_Datatype datatype, MPI_Count max_integers, MPI_Count max_addresses,
         MPI_Count max_large_counts, MPI_Count max_datatypes, int integers[], MPI_Aint addresses[],
         MPI_Count large_counts[], wx_MPI_Datatype datatypes[]))
{
    wx_ready();
    MPI_Datatype type = wx_type_in(datatype), *w = NULL;
    MPI_Count n = 0, na, nl = 0, nt = 0;
    int combiner = 0;
    int ret = WX(Type_get_envelope_c)(type, &n, &na, &nl, &nt, &combiner);
    if (ret)
        return wx_error_out(ret);
    if (datatypes)
        w = wx_alloc((size_t)nt * sizeof *w);
    ret = WX(Type_get_contents_c)(type, max_integers, max_addresses, max_large_counts,
                                  max_datatypes, integers, addresses, large_counts, w);
    if (!ret)
        integers_out(combiner, integers, n, nl > 0);
    types_out(datatypes, w, ret || !w ? 0 : nt);
    return wx_error_out(ret);
}

/* ---- strings ---- */

WX_PROC(int, Get_processor_name, (char *name, int *len))
{
    char ours[MPI_MAX_PROCESSOR_NAME];
    wx_ready();
    int ret = WX(Get_processor_name)(name ? ours : NULL, len);
    if (!ret)
        wx_string_out(name, len, ours, WX_MAX_PROCESSOR_NAME);
    return wx_error_out(ret);
}

/* A part of a port name cannot be used, so a name that is too long is an error. */
static int port_out(int ret, char *to, const char *from)
{
    if (!ret && strlen(from) >= WX_MAX_PORT_NAME)
        ret = MPI_ERR_PORT;
    if (!ret)
        wx_string_out(to, NULL, from, WX_MAX_PORT_NAME);
    return wx_error_out(ret);
}

WX_PROC(int, Open_port, (wx_MPI_Info info, char *port_name))
{
    char ours[MPI_MAX_PORT_NAME];
    wx_ready();
    return port_out(WX(Open_port)(wx_info_in(info), port_name ? ours : NULL), port_name, ours);
}

WX_PROC(int, Lookup_name, (const char *service_name, wx_MPI_Info info, char *port_name))
{
    char ours[MPI_MAX_PORT_NAME];
    wx_ready();
    int ret = WX(Lookup_name)(service_name, wx_info_in(info), port_name ? ours : NULL);
    return port_out(ret, port_name, ours);
}

/* ---- processes ---- */

/* Whether the caller is the root, whose arguments alone count. */
static bool at_root(int root, MPI_Comm comm)
{
    int rank = MPI_PROC_NULL;
    return !WX(Comm_rank)(comm, &rank) && rank == root;
}

static int spawned(int ret, wx_MPI_Comm *intercomm, MPI_Comm made, int *errcodes, int n)
{
    if (!ret)
        *intercomm = wx_comm_out(made);
    if (!ret || ret == MPI_ERR_SPAWN)
        wx_ints_out(errcodes, n, wx_error_out);
    return wx_error_out(ret);
}

WX_PROC(int, Comm_spawn,
        (const char *command, char *argv[], int maxprocs, wx_MPI_Info info, int root,
         wx_MPI_Comm comm, wx_MPI_Comm *intercomm, int errcodes[]))
{
    wx_ready();
    MPI_Comm c = wx_comm_in(comm), made = MPI_COMM_NULL;
    bool mine = at_root(root, c);
    int ret = WX(Comm_spawn)(command, argv, maxprocs, mine ? wx_info_in(info) : MPI_INFO_NULL, root,
                             c, intercomm ? &made : NULL, errcodes);
    return spawned(ret, intercomm, made, errcodes, mine ? maxprocs : 0);
}

WX_PROC(int, Comm_spawn_multiple,
        (int count, char *commands[], char **argvs[], const int maxprocs[],
         const wx_MPI_Info infos[], int root, wx_MPI_Comm comm, wx_MPI_Comm *intercomm,
         int errcodes[]))
{
    wx_ready();
    MPI_Comm c = wx_comm_in(comm), made = MPI_COMM_NULL;
    bool mine = at_root(root, c);
    struct wx_tmp t;
    int total = 0, ret = WX(Comm_spawn_multiple)(count, commands, argvs, maxprocs,
                                                 mine ? wx_infos_in(&t, infos, count) : NULL, root,
                                                 c, intercomm ? &made : NULL, errcodes);
    if (mine)
        wx_tmp_free(&t);
    for (int i = 0; mine && maxprocs && i < count; i++)
        total += maxprocs[i];
    return spawned(ret, intercomm, made, errcodes, total);
}

/* ---- tools ---- */

WX_PROC(int, Pcontrol, (const int level, ...))
{
    wx_ready();
    return wx_error_out(WX(Pcontrol)(level));
}

/* Only variables that are bound to a communicator have an object. */
WX_PROC(int, T_pvar_handle_alloc,
        (MPI_T_pvar_session session, int pvar_index, void *object, MPI_T_pvar_handle *handle,
         int *count))
{
    wx_ready();
    MPI_Comm comm = MPI_COMM_NULL;
    int bind = MPI_T_BIND_NO_OBJECT;
    int ret = WX(T_pvar_get_info)(pvar_index, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, &bind,
                                  NULL, NULL, NULL);
    if (ret)
        return wx_error_out(ret);
    if (object && bind == MPI_T_BIND_MPI_COMM) {
        comm = wx_comm_in(*(wx_MPI_Comm *)object);
        object = &comm;
    }
    return wx_error_out(WX(T_pvar_handle_alloc)(session, pvar_index, object, handle, count));
}

WX_PROC(int, T_event_get_info,
        (int event_index, char *name, int *name_len, int *verbosity, wx_MPI_Datatype datatypes[],
         MPI_Aint displacements[], int *num_elements, MPI_T_enum *enumtype, wx_MPI_Info *info,
         char *desc, int *desc_len, int *bind))
{
    wx_ready();
    int max = num_elements && *num_elements > 0 ? *num_elements : 0;
    MPI_Info made = MPI_INFO_NULL;
    MPI_Datatype *w = datatypes ? wx_alloc((size_t)max * sizeof *w) : NULL;
    int ret = WX(T_event_get_info)(event_index, name, name_len, verbosity, w, displacements,
                                   num_elements, enumtype, info ? &made : NULL, desc, desc_len,
                                   bind);
    int stored = ret || !w ? 0 : *num_elements < max ? *num_elements : max;
    types_out(datatypes, w, stored);
    if (ret)
        return wx_error_out(ret);
    if (info)
        *info = wx_info_out(made);
    if (verbosity)
        *verbosity = wx_verbosity_out(*verbosity);
    if (bind)
        *bind = wx_bind_out(*bind);
    return MPI_SUCCESS;
}

/* ---- events ---- */

typedef void event_fn(MPI_T_event_instance instance, MPI_T_event_registration registration,
                      int safety, void *user_data);
typedef void dropped_fn(MPI_Count count, MPI_T_event_registration registration, int source,
                        int safety, void *user_data);
typedef void event_free_fn(MPI_T_event_registration registration, int safety, void *user_data);

/* The user's callbacks of a registration, which see the ABI's safety levels. */
#define LEVELS 4
struct callbacks {
    struct callbacks *next;
    MPI_T_event_registration registration;
    event_fn *call[LEVELS];
    dropped_fn *dropped;
    event_free_fn *freed;
};
static struct callbacks *registrations;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Those of a registration; the caller holds the lock. */
static struct callbacks **place_of(MPI_T_event_registration registration)
{
    struct callbacks **c = &registrations;
    while (*c && (*c)->registration != registration)
        c = &(*c)->next;
    return c;
}

/* Copies what a registration has; none: all are NULL. */
static struct callbacks callbacks_of(MPI_T_event_registration registration)
{
    pthread_mutex_lock(&lock);
    const struct callbacks *c = *place_of(registration);
    struct callbacks copy = c ? *c : (struct callbacks){ .registration = registration };
    pthread_mutex_unlock(&lock);
    return copy;
}

static void callbacks_set(struct callbacks value)
{
    pthread_mutex_lock(&lock);
    struct callbacks **c = place_of(value.registration);
    struct callbacks *next = *c ? (*c)->next : NULL;
    if (!*c)
        *c = wx_alloc(sizeof **c);
    value.next = next;
    **c = value;
    pthread_mutex_unlock(&lock);
}

static bool is_level(int safety) { return safety >= 0 && safety < LEVELS; }

/* `safety` is the level of the event; the callback may have a higher one. */
static void event_call(MPI_T_event_instance instance, MPI_T_event_registration registration,
                       MPI_T_cb_safety safety, void *user_data)
{
    int theirs = wx_safety_out((int)safety), l = is_level(theirs) ? theirs : LEVELS;
    struct callbacks c = callbacks_of(registration);
    while (l < LEVELS && !c.call[l])
        l++;
    if (l < LEVELS)
        c.call[l](instance, registration, theirs, user_data);
}

static void event_dropped(MPI_Count count, MPI_T_event_registration registration, int source,
                          MPI_T_cb_safety safety, void *user_data)
{
    dropped_fn *dropped = callbacks_of(registration).dropped;
    if (dropped)
        dropped(count, registration, source, wx_safety_out((int)safety), user_data);
}

static void event_freed(MPI_T_event_registration registration, MPI_T_cb_safety safety,
                        void *user_data)
{
    event_free_fn *freed = callbacks_of(registration).freed;
    pthread_mutex_lock(&lock);
    struct callbacks **c = place_of(registration), *old = *c;
    if (old)
        *c = old->next;
    pthread_mutex_unlock(&lock);
    free(old);
    if (freed)
        freed(registration, wx_safety_out((int)safety), user_data);
}

/* The user's function is there before Weft may call it. */
WX_PROC(int, T_event_register_callback,
        (MPI_T_event_registration registration, int safety, wx_MPI_Info info, void *user_data,
         event_fn *call))
{
    wx_ready();
    struct callbacks old = callbacks_of(registration), new = old;
    if (is_level(safety))
        new.call[safety] = call;
    callbacks_set(new);
    int ret = WX(T_event_register_callback)(registration, (MPI_T_cb_safety)wx_safety_in(safety),
                                            wx_info_in(info), user_data, call ? event_call : NULL);
    if (ret)
        callbacks_set(old);
    return wx_error_out(ret);
}

WX_PROC(int, T_event_set_dropped_handler,
        (MPI_T_event_registration registration, dropped_fn *dropped))
{
    wx_ready();
    struct callbacks old = callbacks_of(registration), new = old;
    new.dropped = dropped;
    callbacks_set(new);
    int ret = WX(T_event_set_dropped_handler)(registration, dropped ? event_dropped : NULL);
    if (ret)
        callbacks_set(old);
    return wx_error_out(ret);
}

WX_PROC(int, T_event_handle_free,
        (MPI_T_event_registration registration, void *user_data, event_free_fn *freed))
{
    wx_ready();
    struct callbacks old = callbacks_of(registration), new = old;
    new.freed = freed;
    callbacks_set(new);
    int ret = WX(T_event_handle_free)(registration, user_data, event_freed);
    if (ret)
        callbacks_set(old);
    return wx_error_out(ret);
}
