/* SPDX-License-Identifier: BSD-3-Clause */
/* Enumerations of the tool information interface (MPI-5.0 section 15.3.5): the words of settings,
 * the kinds and algorithms of collectives, the elements of events.  Constant; any thread. */
#include <stdio.h>
#include <string.h>
#include "coll/coll.h"
#include "coll/select.h"
#include "mpi/api/bodies.h"
#include "mpi/tool/event.h"
#include "mpi/tool/tool.h"
#include "runtime/base/cfg.h"

#define ITEM_BYTES 128

/* The i-th of comma-separated words; false when there are fewer. */
static bool word(const char *words, int i, char *out)
{
    while (i-- > 0) {
        words += strcspn(words, ",");
        if (!*words++)
            return false;
    }
    snprintf(out, ITEM_BYTES, "%.*s", (int)strcspn(words, ","), words);
    return true;
}

static bool alg_name(int i, char *out)
{
    const struct coll_alg *a = coll_alg_at(i);
    if (a)
        snprintf(out, ITEM_BYTES, "%s:%s", coll_kind_names[a->kind], a->name);
    return a != NULL;
}

/* Item i of the enumeration, whose value is i; false when it has no such item. */
static bool item(int id, int i, char *out)
{
    if (i < 0)
        return false;
    switch (id) {
    case TOOL_ENUM_BOOL:
        return word("no,yes", i, out);
    case TOOL_ENUM_COLL_KIND:
        if (i < COLL_KINDS)
            snprintf(out, ITEM_BYTES, "%s", coll_kind_names[i]);
        return i < COLL_KINDS;
    case TOOL_ENUM_COLL_ALG:
        return alg_name(i, out);
    default:
        return id < TOOL_ENUM_CFG ? word(tool_event_elements(id - TOOL_ENUM_EVENT), i, out)
                                  : word(rt_cfg_row(id - TOOL_ENUM_CFG)->valid, i, out);
    }
}

static bool enum_name(int id, char *out)
{
    static const char *const fixed[] = { "yes_no",         "coll_kind",      "coll_algorithm",
                                         "p2p_unexpected", "p2p_rendezvous", "p2p_peer_lost",
                                         "coll_started" };
    _Static_assert(sizeof fixed / sizeof fixed[0] == TOOL_ENUM_CFG, "a name for each");
    if (id >= 0 && id < TOOL_ENUM_CFG) {
        snprintf(out, ITEM_BYTES, "%s", fixed[id]);
        return true;
    }
    if (id < 0 || id - TOOL_ENUM_CFG >= rt_cfg_count() ||
        strcmp(rt_cfg_row(id - TOOL_ENUM_CFG)->type, "ENUM"))
        return false;
    snprintf(out, ITEM_BYTES, "%s", rt_cfg_row(id - TOOL_ENUM_CFG)->name);
    return true;
}

static int id_of(MPI_T_enum h)
{
    uintptr_t v = (uintptr_t)h;
    return v && v < 0x10000 ? (int)v - 1 : -1;
}

int wm_api_t_enum_get_info(MPI_T_enum enumtype, int *num, char *name, int *name_len)
{
    char text[ITEM_BYTES];
    int n = 0, id = id_of(enumtype), err = tool_enter();
    if (err)
        return err;
    if (!enum_name(id, text)) {
        err = MPI_T_ERR_INVALID_HANDLE;
    } else {
        tool_text(text, name, name_len);
        while (item(id, n, text))
            n++;
        tool_int(num, n);
    }
    tool_leave();
    return err;
}

int wm_api_t_enum_get_item(MPI_T_enum enumtype, int indx, int *value, char *name, int *name_len)
{
    char text[ITEM_BYTES];
    int id = id_of(enumtype), err = tool_enter();
    if (err)
        return err;
    if (!enum_name(id, text)) {
        err = MPI_T_ERR_INVALID_HANDLE;
    } else if (!item(id, indx, text)) {
        err = MPI_T_ERR_INVALID_INDEX;
    } else {
        tool_int(value, indx);
        tool_text(text, name, name_len);
    }
    tool_leave();
    return err;
}
