/* SPDX-License-Identifier: BSD-3-Clause */
/* Categories (MPI-5.0 section 15.3.9): a constant tree by part of the library.  A variable or
 * event names its own category.  Any thread. */
#include <string.h>
#include "mpi/api/bodies.h"
#include "mpi/tool/cvar.h"
#include "mpi/tool/event.h"
#include "mpi/tool/pvar.h"
#include "mpi/tool/tool.h"

static const struct {
    const char *name, *desc;
    int parent; /* -1: none */
} cats[CATS] = {
    [CAT_WEFT] = { "weft", "Everything of Weft MPI.", -1 },
    [CAT_BASE] = { "base", "Messages to the user and checks.", CAT_WEFT },
    [CAT_P2P] = { "p2p", "Point-to-point messages.", CAT_WEFT },
    [CAT_SHM] = { "shm", "Shared memory among the processes of a host.", CAT_P2P },
    [CAT_TCP] = { "tcp", "TCP between hosts.", CAT_P2P },
    [CAT_RDMA] = { "rdma", "RDMA between hosts.", CAT_P2P },
    [CAT_GPU] = { "gpu", "Device memory.", CAT_WEFT },
    [CAT_RMA] = { "rma", "One-sided communication.", CAT_WEFT },
    [CAT_COLL] = { "coll", "Collective operations.", CAT_WEFT },
    [CAT_WAIT] = { "wait", "What a process does while it waits.", CAT_WEFT },
    [CAT_OBJECTS] = { "objects", "Objects that are alive.", CAT_WEFT },
    [CAT_LAUNCH] = { "launch", "Start of a job over several hosts.", CAT_WEFT },
};

enum member { CVARS, PVARS, EVENTS, CHILDREN };

static bool belongs(enum member what, int i, int cat)
{
    switch (what) {
    case CVARS:
        return (int)tool_cvar_cat(i) == cat;
    case PVARS:
        return (int)tool_pvar_cat(i) == cat;
    case EVENTS:
        return (int)tool_event_cat(i) == cat;
    default:
        return cats[i].parent == cat;
    }
}

static int total(enum member what)
{
    return what == CVARS    ? tool_cvar_num()
           : what == PVARS  ? tool_pvar_num()
           : what == EVENTS ? WM_EVENTS
                            : CATS;
}

/* Number of members; the first `len` of them in `out`. */
static int members(enum member what, int cat, int len, int *out)
{
    int n = 0;
    for (int i = 0; i < total(what); i++)
        if (belongs(what, i, cat)) {
            if (n < len)
                out[n] = i;
            n++;
        }
    return n;
}

/* All of this is constant: only whether the interface is up matters. */
static int ready(int cat)
{
    int err = tool_enter();
    if (err)
        return err;
    tool_leave();
    return cat < 0 || cat >= CATS ? MPI_T_ERR_INVALID_INDEX : MPI_SUCCESS;
}

static int list(enum member what, int cat, int len, int *indices)
{
    int err = ready(cat);
    if (!err && (len < 0 || (len > 0 && !indices)))
        err = MPI_T_ERR_INVALID;
    if (!err)
        members(what, cat, len, indices);
    return err;
}

int wm_api_t_category_get_num(int *num_cat)
{
    int err = ready(0);
    if (!err && !num_cat)
        err = MPI_T_ERR_INVALID;
    if (!err)
        *num_cat = CATS;
    return err;
}

int wm_api_t_category_get_info(int cat_index, char *name, int *name_len, char *desc, int *desc_len,
                               int *num_cvars, int *num_pvars, int *num_categories)
{
    int err = ready(cat_index);
    if (err)
        return err;
    tool_text(cats[cat_index].name, name, name_len);
    tool_text(cats[cat_index].desc, desc, desc_len);
    tool_int(num_cvars, members(CVARS, cat_index, 0, NULL));
    tool_int(num_pvars, members(PVARS, cat_index, 0, NULL));
    tool_int(num_categories, members(CHILDREN, cat_index, 0, NULL));
    return MPI_SUCCESS;
}

int wm_api_t_category_get_num_events(int cat_index, int *num_events)
{
    int err = ready(cat_index);
    if (!err && !num_events)
        err = MPI_T_ERR_INVALID;
    if (!err)
        *num_events = members(EVENTS, cat_index, 0, NULL);
    return err;
}

int wm_api_t_category_get_index(const char *name, int *cat_index)
{
    int err = ready(0);
    if (!err && (!name || !cat_index))
        err = MPI_T_ERR_INVALID;
    for (int i = 0; !err && i < CATS; i++)
        if (!strcmp(cats[i].name, name)) {
            *cat_index = i;
            return MPI_SUCCESS;
        }
    return err ? err : MPI_T_ERR_INVALID_NAME;
}

int wm_api_t_category_get_cvars(int cat_index, int len, int indices[])
{
    return list(CVARS, cat_index, len, indices);
}

int wm_api_t_category_get_pvars(int cat_index, int len, int indices[])
{
    return list(PVARS, cat_index, len, indices);
}

int wm_api_t_category_get_events(int cat_index, int len, int indices[])
{
    return list(EVENTS, cat_index, len, indices);
}

int wm_api_t_category_get_categories(int cat_index, int len, int indices[])
{
    return list(CHILDREN, cat_index, len, indices);
}

/* The tree never changes. */
int wm_api_t_category_changed(int *update_number)
{
    int err = ready(0);
    if (!err && !update_number)
        err = MPI_T_ERR_INVALID;
    if (!err)
        *update_number = 1;
    return err;
}
