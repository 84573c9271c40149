/* SPDX-License-Identifier: BSD-3-Clause */
/* Kinds of hardware with their MPI names, and the object of each kind to which this process is
 * bound.  Called by one thread at a time, like topo.c. */
#include "runtime/topo/topo.h"

#include <hwloc.h>
#include <string.h>

/* Every process must have the same kinds in the same order, on any machine. */
static const struct {
    const char *name;
    hwloc_obj_type_t type;
} kinds[] = {
    { RT_TOPO_URI "Machine", HWLOC_OBJ_MACHINE },
    { RT_TOPO_URI "Package", HWLOC_OBJ_PACKAGE },
    { RT_TOPO_URI "NUMANode", HWLOC_OBJ_NUMANODE },
    { RT_TOPO_URI "Die", HWLOC_OBJ_DIE },
    { RT_TOPO_URI "L3Cache", HWLOC_OBJ_L3CACHE },
    { RT_TOPO_URI "L2Cache", HWLOC_OBJ_L2CACHE },
    { RT_TOPO_URI "L1Cache", HWLOC_OBJ_L1CACHE },
    { RT_TOPO_URI "Core", HWLOC_OBJ_CORE },
    { RT_TOPO_URI "PU", HWLOC_OBJ_PU },
};
_Static_assert(sizeof kinds / sizeof kinds[0] == RT_TOPO_RESOURCES, "must match the header");

/* The cores on which this process may run; false: unknown. */
static bool binding(hwloc_topology_t hw, hwloc_bitmap_t set)
{
    if (hwloc_topology_is_thissystem(hw) && hwloc_get_cpubind(hw, set, HWLOC_CPUBIND_PROCESS))
        return false;
    if (!hwloc_topology_is_thissystem(hw))
        hwloc_bitmap_fill(set);
    hwloc_bitmap_and(set, set, hwloc_topology_get_allowed_cpuset(hw));
    return !hwloc_bitmap_iszero(set);
}

static int object_around(hwloc_topology_t hw, hwloc_obj_type_t type, hwloc_const_bitmap_t set)
{
    int n = hwloc_get_nbobjs_by_type(hw, type);
    for (int i = 0; i < n; i++)
        if (hwloc_bitmap_isincluded(set, hwloc_get_obj_by_type(hw, type, (unsigned)i)->cpuset))
            return i;
    return -1;
}

const char *rt_topo_resource(int i, int *object)
{
    hwloc_topology_t hw = rt_topo_hwloc();
    *object = -1;
    if (i < 0 || i >= RT_TOPO_RESOURCES)
        return NULL;
    hwloc_bitmap_t set = hw ? hwloc_bitmap_alloc() : NULL;
    if (set && binding(hw, set))
        *object = object_around(hw, kinds[i].type, set);
    hwloc_bitmap_free(set);
    return kinds[i].name;
}

bool rt_topo_resource_exists(int i)
{
    hwloc_topology_t hw = rt_topo_hwloc();
    return hw && hwloc_get_nbobjs_by_type(hw, kinds[i].type) > 0;
}

int rt_topo_find_resource(const char *name)
{
    const size_t len = sizeof RT_TOPO_URI - 1;
    hwloc_obj_type_t type;
    if (strncmp(name, RT_TOPO_URI, len) != 0 || hwloc_type_sscanf(name + len, &type, NULL, 0) < 0)
        return -1;
    for (int i = 0; i < RT_TOPO_RESOURCES; i++)
        if (kinds[i].type == type)
            return i;
    return -1;
}
