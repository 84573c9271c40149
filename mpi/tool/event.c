/* SPDX-License-Identifier: BSD-3-Clause */
/* Event types, their source, registrations and callbacks (MPI-5.0 section 15.3.8).
 *
 * An event is raised while the library works, under a domain's lock, so its callback may call only
 * what MPI_T_CB_REQUIRE_MPI_RESTRICTED allows.  Of a registration's callbacks for this safety level
 * and higher levels, the one with the lowest level is called, at once.  If there is none, the event
 * is dropped, and the dropped handler is called at once.  There is one source, whose clock is that
 * of MPI_Wtime in nanoseconds; its events come in order. */
#include "mpi/tool/event.h"
#include "mpi/base/event.h"
#include <string.h>
#include "mpi/api/bodies.h"
#include "mpi/core/info.h"
#include "mpi/tool/tool.h"
#include "runtime/base/clock.h"

#define LEVELS 4
#define RESTRICTED 1 /* level that events need */
static const MPI_T_cb_safety levels[LEVELS] = { MPI_T_CB_REQUIRE_NONE,
                                                MPI_T_CB_REQUIRE_MPI_RESTRICTED,
                                                MPI_T_CB_REQUIRE_THREAD_SAFE,
                                                MPI_T_CB_REQUIRE_ASYNC_SIGNAL_SAFE };

/* Elements of an event are the first ints of struct wm_event_data and, if it has one, the
 * bytes. */
static const struct {
    const char *name, *desc, *elements;
    int nints;
    bool bytes;
    enum tool_cat cat;
} types[WM_EVENTS] = {
    [WM_EVENT_UNEXPECTED] = { "p2p_unexpected_arrived",
                              "A message arrived before its receive was posted; source and context "
                              "are those of its communicator.",
                              "source,tag,context,bytes", 3, true, CAT_P2P },
    [WM_EVENT_RENDEZVOUS] = { "p2p_rendezvous_started",
                              "A large message was announced to its receiver.",
                              "destination,tag,context,bytes", 3, true, CAT_P2P },
    [WM_EVENT_PEER_LOST] = { "p2p_peer_lost",
                             "Contact with a process was lost; operations with it fail from now "
                             "on.  The rank is that in MPI_COMM_WORLD of its job.",
                             "rank,job", 2, false, CAT_P2P },
    [WM_EVENT_COLL] = { "coll_started",
                        "A collective operation was started with the algorithm chosen for it, -1 "
                        "when it needs none; bytes is what chose it, 0 on an "
                        "intercommunicator.",
                        "kind,algorithm,ranks,bytes", 3, true, CAT_COLL },
};

struct registration {
    struct tool_obj o; /* o.next: the next registration; o.index: the event type */
    struct {
        MPI_T_event_cb_function *fn;
        void *user_data;
    } cb[LEVELS];
    MPI_T_event_dropped_cb_function *dropped;
    bool freed; /* removed when no callback runs any more */
    MPI_T_event_free_cb_function *free_fn;
    void *free_data;
};

struct instance { /* lives while its callback runs */
    struct tool_obj o;
    MPI_Count time;
    struct wm_event_data data;
};

static struct tool_obj *regs;
static int raising; /* callbacks that run now, one inside the other */

enum tool_cat tool_event_cat(int index) { return types[index].cat; }
const char *tool_event_elements(int index) { return types[index].elements; }

static int nelements(int type) { return types[type].nints + types[type].bytes; }

static const void *element(const struct wm_event_data *d, int type, int i, size_t *len)
{
    bool is_int = i < types[type].nints;
    *len = is_int ? sizeof(int) : sizeof(int64_t);
    return is_int ? (const void *)&d->v[i] : &d->bytes;
}

static MPI_Aint displacement(int type, int i)
{
    return i < types[type].nints ? (MPI_Aint)((size_t)i * sizeof(int))
                                 : (MPI_Aint)offsetof(struct wm_event_data, bytes);
}

/* ---- raising ---- */

static void reg_remove(struct registration *r)
{
    struct tool_obj **p = &regs;
    while (*p != &r->o)
        p = &(*p)->next;
    *p = r->o.next;
    if (r->free_fn)
        r->free_fn(tool_obj_handle(&r->o), MPI_T_CB_REQUIRE_MPI_RESTRICTED, r->free_data);
    tool_obj_free(&r->o);
}

static void sweep(void)
{
    for (struct tool_obj *o = regs, *next; o; o = next) {
        next = o->next;
        if (((struct registration *)o)->freed)
            reg_remove((struct registration *)o);
    }
}

static void deliver(struct registration *r, struct instance *e)
{
    int l = RESTRICTED;
    while (l < LEVELS && !r->cb[l].fn)
        l++;
    if (l < LEVELS)
        r->cb[l].fn(tool_obj_handle(&e->o), tool_obj_handle(&r->o), levels[RESTRICTED],
                    r->cb[l].user_data);
    else if (r->dropped)
        r->dropped(1, tool_obj_handle(&r->o), 0, levels[RESTRICTED], r->cb[0].user_data);
}

static void raise_event(enum wm_event_type t, const struct wm_event_data *data)
{
    tool_lock();
    struct instance *e = (struct instance *)tool_obj_new(TOOL_INSTANCE, (int)t);
    if (e) {
        e->time = (MPI_Count)rt_now_ns();
        e->data = *data;
        raising++;
        for (struct tool_obj *o = regs; o; o = o->next)
            if (o->index == (int)t && !((struct registration *)o)->freed)
                deliver((struct registration *)o, e);
        tool_obj_free(&e->o);
        if (--raising == 0)
            sweep();
    }
    tool_unlock();
}

/* Types for which there are registrations. */
static void update_mask(void)
{
    uint32_t on = 0;
    for (const struct tool_obj *o = regs; o; o = o->next)
        if (!((const struct registration *)o)->freed)
            on |= 1u << o->index;
    wm_event_raise = raise_event;
    rt_store_release(&wm_events_on, on); /* a thread that reads a bit may call the function */
}

/* ---- types and source ---- */

/* Whether the interface is up and the index one of n. */
static int ready(int index, int n)
{
    int err = tool_enter();
    if (err)
        return err;
    tool_leave();
    return index < 0 || index >= n ? MPI_T_ERR_INVALID_INDEX : MPI_SUCCESS;
}

/* An empty info object, because no hints are known. */
static int new_info(MPI_Info *out)
{
    struct wm_info *i;
    if (!out)
        return MPI_SUCCESS;
    if (wm_info_create(&i))
        return MPI_T_ERR_MEMORY;
    *out = wm_info_handle(i);
    return MPI_SUCCESS;
}

static int valid_info(MPI_Info info)
{
    return info == MPI_INFO_NULL || wm_info_get(info) ? MPI_SUCCESS : MPI_T_ERR_INVALID;
}

int wm_api_t_event_get_num(int *num_events)
{
    int err = ready(0, 1);
    if (!err && !num_events)
        err = MPI_T_ERR_INVALID;
    if (!err)
        *num_events = WM_EVENTS;
    return err;
}

static void list_elements(int type, MPI_Datatype *datatypes, MPI_Aint *displs, int *num)
{
    if (!num)
        return;
    for (int i = 0; i < nelements(type) && i < *num; i++) {
        if (datatypes)
            datatypes[i] = i < types[type].nints ? MPI_INT : MPI_COUNT;
        if (displs)
            displs[i] = displacement(type, i);
    }
    *num = nelements(type);
}

int wm_api_t_event_get_info(int event_index, char *name, int *name_len, int *verbosity,
                            MPI_Datatype array_of_datatypes[], MPI_Aint array_of_displacements[],
                            int *num_elements, MPI_T_enum *enumtype, MPI_Info *info, char *desc,
                            int *desc_len, int *bind)
{
    int err = ready(event_index, WM_EVENTS);
    if (!err)
        err = new_info(info);
    if (err)
        return err;
    tool_text(types[event_index].name, name, name_len);
    tool_text(types[event_index].desc, desc, desc_len);
    tool_int(verbosity, MPI_T_VERBOSITY_TUNER_BASIC);
    tool_int(bind, MPI_T_BIND_NO_OBJECT);
    list_elements(event_index, array_of_datatypes, array_of_displacements, num_elements);
    if (enumtype)
        *enumtype = tool_enum_handle(TOOL_ENUM_EVENT + event_index);
    return MPI_SUCCESS;
}

int wm_api_t_event_get_index(const char *name, int *event_index)
{
    int err = ready(0, 1);
    if (!err && (!name || !event_index))
        err = MPI_T_ERR_INVALID;
    for (int i = 0; !err && i < WM_EVENTS; i++)
        if (!strcmp(types[i].name, name)) {
            *event_index = i;
            return MPI_SUCCESS;
        }
    return err ? err : MPI_T_ERR_INVALID_NAME;
}

int wm_api_t_source_get_num(int *num_sources)
{
    int err = ready(0, 1);
    if (!err && !num_sources)
        err = MPI_T_ERR_INVALID;
    if (!err)
        *num_sources = 1;
    return err;
}

int wm_api_t_source_get_info(int source_index, char *name, int *name_len, char *desc, int *desc_len,
                             MPI_T_source_order *ordering, MPI_Count *ticks_per_second,
                             MPI_Count *max_ticks, MPI_Info *info)
{
    int err = ready(source_index, 1);
    if (!err)
        err = new_info(info);
    if (err)
        return err;
    tool_text("weft", name, name_len);
    tool_text("The message engine and the collectives of this process.", desc, desc_len);
    if (ordering)
        *ordering = MPI_T_SOURCE_ORDERED;
    if (ticks_per_second)
        *ticks_per_second = 1000000000;
    if (max_ticks)
        *max_ticks = INT64_MAX;
    return MPI_SUCCESS;
}

int wm_api_t_source_get_timestamp(int source_index, MPI_Count *timestamp)
{
    int err = ready(source_index, 1);
    if (!err && !timestamp)
        err = MPI_T_ERR_INVALID;
    if (!err)
        *timestamp = (MPI_Count)rt_now_ns();
    return err;
}

/* ---- registrations ---- */

static struct registration *reg_of(MPI_T_event_registration h)
{
    struct registration *r = tool_obj_get(h, TOOL_REGISTRATION);
    return r && !r->freed ? r : NULL;
}

static int level_of(MPI_T_cb_safety safety)
{
    int l = 0;
    while (l < LEVELS && levels[l] != safety)
        l++;
    return l;
}

static int reg_make(int type, MPI_T_event_registration *out)
{
    struct tool_obj *o = tool_obj_new(TOOL_REGISTRATION, type);
    if (!o)
        return MPI_T_ERR_OUT_OF_HANDLES;
    struct tool_obj **last = &regs; /* callbacks run in the order of the registrations */
    while (*last)
        last = &(*last)->next;
    *last = o;
    update_mask();
    *out = tool_obj_handle(o);
    return MPI_SUCCESS;
}

int wm_api_t_event_handle_alloc(int event_index, void *obj_handle, MPI_Info info,
                                MPI_T_event_registration *event_registration)
{
    (void)obj_handle; /* no event is bound to an object */
    int err = tool_enter();
    if (err)
        return err;
    if (event_index < 0 || event_index >= WM_EVENTS)
        err = MPI_T_ERR_INVALID_INDEX;
    else if (!event_registration || valid_info(info))
        err = MPI_T_ERR_INVALID;
    else
        err = reg_make(event_index, event_registration);
    tool_leave();
    return err;
}

int wm_api_t_event_handle_free(MPI_T_event_registration event_registration, void *user_data,
                               MPI_T_event_free_cb_function free_cb_function)
{
    int err = tool_enter();
    if (err)
        return err;
    struct registration *r = reg_of(event_registration);
    if (r) {
        r->freed = true;
        r->free_fn = free_cb_function;
        r->free_data = user_data;
        update_mask();
        if (!raising)
            sweep();
    } else {
        err = MPI_T_ERR_INVALID_HANDLE;
    }
    tool_leave();
    return err;
}

void tool_event_fini(void)
{
    for (struct tool_obj *o = regs; o; o = o->next)
        ((struct registration *)o)->freed = true;
    update_mask();
    if (!raising)
        sweep();
}

int wm_api_t_event_register_callback(MPI_T_event_registration event_registration,
                                     MPI_T_cb_safety cb_safety, MPI_Info info, void *user_data,
                                     MPI_T_event_cb_function event_cb_function)
{
    int l = level_of(cb_safety), err = tool_enter();
    if (err)
        return err;
    struct registration *r = reg_of(event_registration);
    if (!r) {
        err = MPI_T_ERR_INVALID_HANDLE;
    } else if (l == LEVELS || valid_info(info)) {
        err = MPI_T_ERR_INVALID;
    } else { /* NULL removes the callback of this level */
        r->cb[l].fn = event_cb_function;
        r->cb[l].user_data = user_data;
    }
    tool_leave();
    return err;
}

int wm_api_t_event_set_dropped_handler(MPI_T_event_registration event_registration,
                                       MPI_T_event_dropped_cb_function dropped_cb_function)
{
    int err = tool_enter();
    if (err)
        return err;
    struct registration *r = reg_of(event_registration);
    if (r)
        r->dropped = dropped_cb_function;
    else
        err = MPI_T_ERR_INVALID_HANDLE;
    tool_leave();
    return err;
}

/* Hints of a registration, or of its callback at a level: none are known, so none are kept. */
static int hints(MPI_T_event_registration h, int level, MPI_Info info, MPI_Info *used)
{
    int err = tool_enter();
    if (err)
        return err;
    const struct registration *r = reg_of(h);
    if (!r)
        err = MPI_T_ERR_INVALID_HANDLE;
    else if (level == LEVELS || (level >= 0 && !r->cb[level].fn) || valid_info(info))
        err = MPI_T_ERR_INVALID;
    else
        err = new_info(used);
    tool_leave();
    return err;
}

int wm_api_t_event_handle_set_info(MPI_T_event_registration event_registration, MPI_Info info)
{
    return hints(event_registration, -1, info, NULL);
}

int wm_api_t_event_handle_get_info(MPI_T_event_registration event_registration, MPI_Info *info_used)
{
    return hints(event_registration, -1, MPI_INFO_NULL, info_used);
}

int wm_api_t_event_callback_set_info(MPI_T_event_registration event_registration,
                                     MPI_T_cb_safety cb_safety, MPI_Info info)
{
    return hints(event_registration, level_of(cb_safety), info, NULL);
}

int wm_api_t_event_callback_get_info(MPI_T_event_registration event_registration,
                                     MPI_T_cb_safety cb_safety, MPI_Info *info_used)
{
    return hints(event_registration, level_of(cb_safety), MPI_INFO_NULL, info_used);
}

/* ---- instances ---- */

static void copy_all(const struct instance *e, char *buffer)
{
    for (int i = 0; i < nelements(e->o.index); i++) {
        size_t len;
        const void *from = element(&e->data, e->o.index, i, &len);
        memcpy(buffer + displacement(e->o.index, i), from, len);
    }
}

int wm_api_t_event_copy(MPI_T_event_instance event_instance, void *buffer)
{
    int err = tool_enter();
    if (err)
        return err;
    const struct instance *e = tool_obj_get(event_instance, TOOL_INSTANCE);
    if (!e)
        err = MPI_T_ERR_INVALID_HANDLE;
    else if (!buffer)
        err = MPI_T_ERR_INVALID;
    else
        copy_all(e, buffer);
    tool_leave();
    return err;
}

int wm_api_t_event_read(MPI_T_event_instance event_instance, int element_index, void *buffer)
{
    int err = tool_enter();
    if (err)
        return err;
    const struct instance *e = tool_obj_get(event_instance, TOOL_INSTANCE);
    if (!e) {
        err = MPI_T_ERR_INVALID_HANDLE;
    } else if (element_index < 0 || element_index >= nelements(e->o.index)) {
        err = MPI_T_ERR_INVALID_INDEX;
    } else if (!buffer) {
        err = MPI_T_ERR_INVALID;
    } else {
        size_t len;
        const void *from = element(&e->data, e->o.index, element_index, &len);
        memcpy(buffer, from, len);
    }
    tool_leave();
    return err;
}

int wm_api_t_event_get_timestamp(MPI_T_event_instance event_instance, MPI_Count *event_timestamp)
{
    int err = tool_enter();
    if (err)
        return err;
    const struct instance *e = tool_obj_get(event_instance, TOOL_INSTANCE);
    if (!e || !event_timestamp)
        err = e ? MPI_T_ERR_INVALID : MPI_T_ERR_INVALID_HANDLE;
    else
        *event_timestamp = e->time;
    tool_leave();
    return err;
}

int wm_api_t_event_get_source(MPI_T_event_instance event_instance, int *source_index)
{
    int err = tool_enter();
    if (err)
        return err;
    const struct tool_obj *e = tool_obj_get(event_instance, TOOL_INSTANCE);
    if (!e || !source_index)
        err = e ? MPI_T_ERR_INVALID : MPI_T_ERR_INVALID_HANDLE;
    else
        *source_index = 0;
    tool_leave();
    return err;
}
