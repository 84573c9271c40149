/* SPDX-License-Identifier: BSD-3-Clause */
/* The machine as hwloc sees it, loaded at first use.  Called by one thread at a time (the launcher,
 * or a rank that holds the domain's lock).  The topology is owned here until rt_topo_fini(). */
#include "runtime/topo/topo.h"
#include "runtime/base/err.h"
#include "runtime/base/hwloc.h"
#include "runtime/base/log.h"

#include <errno.h>
#include <hwloc.h>
#include <stdlib.h>
#include <string.h>

static struct {
    hwloc_topology_t hw; /* NULL until loaded */
    struct rt_topo facts;
    bool devices; /* look for PCI devices, too */
} topo;

static int count(hwloc_const_cpuset_t allowed, hwloc_obj_type_t type)
{
    int n = hwloc_get_nbobjs_by_type(topo.hw, type), seen = 0;
    for (int i = 0; i < n; i++) {
        hwloc_obj_t o = hwloc_get_obj_by_type(topo.hw, type, (unsigned)i);
        seen += hwloc_bitmap_intersects(o->cpuset, allowed);
    }
    return seen;
}

static size_t cache_bytes(hwloc_obj_type_t type)
{
    hwloc_obj_t o = hwloc_get_obj_by_type(topo.hw, type, 0);
    return o ? (size_t)o->attr->cache.size : 0;
}

/* The model is an attribute of packages, or of the machine if the kernel shows no packages. */
static const char *cpu_model(void)
{
    hwloc_obj_t o = hwloc_get_obj_by_type(topo.hw, HWLOC_OBJ_PACKAGE, 0);
    const char *model = o ? hwloc_obj_get_info_by_name(o, "CPUModel") : NULL;
    if (!model)
        model = hwloc_obj_get_info_by_name(hwloc_get_root_obj(topo.hw), "CPUModel");
    return model ? model : "unknown";
}

/* Counts the objects that contain cores on which this process may run: cores of its cgroup and of
 * its binding. */
static void gather(void)
{
    struct rt_topo *f = &topo.facts;
    hwloc_bitmap_t mine = hwloc_bitmap_dup(hwloc_topology_get_allowed_cpuset(topo.hw));
    hwloc_bitmap_t bound = hwloc_bitmap_alloc();
    if (hwloc_topology_is_thissystem(topo.hw) &&
        !hwloc_get_cpubind(topo.hw, bound, HWLOC_CPUBIND_PROCESS))
        hwloc_bitmap_and(mine, mine, bound);
    f->npackage = count(mine, HWLOC_OBJ_PACKAGE);
    f->nnuma = count(mine, HWLOC_OBJ_NUMANODE);
    f->nl3 = count(mine, HWLOC_OBJ_L3CACHE);
    f->ncore = count(mine, HWLOC_OBJ_CORE);
    f->npu = count(mine, HWLOC_OBJ_PU);
    if (!f->ncore) /* some virtual machines show no cores */
        f->ncore = f->npu;
    f->l2_bytes = cache_bytes(HWLOC_OBJ_L2CACHE);
    f->l3_bytes = cache_bytes(HWLOC_OBJ_L3CACHE);
    snprintf(f->cpu_model, sizeof f->cpu_model, "%s", cpu_model());
    hwloc_bitmap_free(bound);
    hwloc_bitmap_free(mine);
}

/* Loads this machine, or the one of an XML file. */
static int load(const char *xml_path)
{
    hwloc_topology_t hw;
    if (!xml_path && !rt_hwloc_works())
        return -RT_ESYS;
    bool hidden = rt_hwloc_hide_plugins();
    int failed = hwloc_topology_init(&hw);
    rt_hwloc_show_plugins(hidden);
    if (failed) {
        log_error(TOPO, "hwloc could not be initialised: %m");
        return -RT_ESYS;
    }
    if (xml_path && hwloc_topology_set_xml(hw, xml_path)) {
        log_error(TOPO, "could not read the topology file '%s': %s", xml_path,
                  errno == EINVAL || !errno ? "it is not an hwloc XML file" : strerror(errno));
        hwloc_topology_destroy(hw);
        return -RT_EINVAL;
    }
    hwloc_topology_set_io_types_filter(hw, topo.devices ? HWLOC_TYPE_FILTER_KEEP_IMPORTANT
                                                        : HWLOC_TYPE_FILTER_KEEP_NONE);
    if (hwloc_topology_load(hw)) {
        if (xml_path)
            log_error(TOPO,
                      "could not load the topology file '%s': it is not a valid hwloc XML file",
                      xml_path);
        else
            log_error(TOPO, "hwloc could not read the topology of this machine: %m");
        hwloc_topology_destroy(hw);
        return xml_path ? -RT_EINVAL : -RT_ESYS;
    }
    rt_topo_fini();
    topo.hw = hw;
    gather();
    return 0;
}

const struct rt_topo *rt_topo_get(void)
{
    if (!topo.hw && load(NULL))
        return NULL;
    return &topo.facts;
}

void *rt_topo_hwloc(void) { return rt_topo_get() ? topo.hw : NULL; }

void rt_topo_place(int ids[3])
{
    static const hwloc_obj_type_t types[] = { HWLOC_OBJ_PACKAGE, HWLOC_OBJ_L3CACHE,
                                              HWLOC_OBJ_CORE };
    hwloc_bitmap_t bound = hwloc_bitmap_alloc();
    bool known = bound && rt_topo_get() && hwloc_topology_is_thissystem(topo.hw) &&
                 !hwloc_get_cpubind(topo.hw, bound, HWLOC_CPUBIND_THREAD);
    for (int i = 0; i < 3; i++) {
        hwloc_obj_t o = known ? hwloc_get_next_obj_covering_cpuset_by_type(topo.hw, bound, types[i],
                                                                           NULL)
                              : NULL;
        ids[i] = o ? (int)o->logical_index : -1;
    }
    hwloc_bitmap_free(bound);
}

void rt_topo_find_devices(void) { topo.devices = true; }

int rt_topo_load(const char *xml_path) { return load(xml_path); }

void rt_topo_fini(void)
{
    if (topo.hw)
        hwloc_topology_destroy(topo.hw);
    topo.hw = NULL;
    memset(&topo.facts, 0, sizeof topo.facts);
}

/* ---- weft_info ---- */

static void print_bytes(FILE *f, size_t n)
{
    if (n >= 1u << 20)
        fprintf(f, "%zu MiB", n >> 20);
    else
        fprintf(f, "%zu KiB", n >> 10);
}

/* NUMA node nearest to a device; -1: the firmware does not publish it, or there is only one
 * node. */
static int near_numa(hwloc_obj_t o)
{
    while (o && !o->cpuset)
        o = o->parent;
    if (!o || !o->nodeset || hwloc_bitmap_weight(o->nodeset) != 1)
        return -1;
    return hwloc_bitmap_first(o->nodeset);
}

/* One line for each device: kind, PCI address, kernel names of its functions, nearest NUMA node. */
static void print_device(FILE *f, const char *what, hwloc_obj_t o)
{
    const struct hwloc_pcidev_attr_s *pci = &o->attr->pcidev;
    const char *model = o->name ? o->name : hwloc_obj_get_info_by_name(o, "PCIDevice");
    fprintf(f, "%-15s%04x:%02x:%02x.%x ", what, pci->domain, pci->bus, pci->dev, pci->func);
    if (model)
        fprintf(f, "%s", model);
    else
        fprintf(f, "[%04x:%04x]", pci->vendor_id, pci->device_id);
    for (hwloc_obj_t os = o->io_first_child; os; os = os->next_sibling)
        if (os->type == HWLOC_OBJ_OS_DEVICE)
            fprintf(f, " %s", os->name);
    if (near_numa(o) >= 0)
        fprintf(f, ", NUMA node %d", near_numa(o));
    fputc('\n', f);
}

/* PCI classes: 02xx network controllers, including 0207 InfiniBand; 03xx display and 3D
 * controllers. */
static void print_devices(FILE *f)
{
    for (hwloc_obj_t o = NULL; (o = hwloc_get_next_pcidev(topo.hw, o));) {
        unsigned base_class = o->attr->pcidev.class_id >> 8;
        if (base_class == 0x03)
            print_device(f, "GPU", o);
        else if (base_class == 0x02)
            print_device(f, "NIC", o);
    }
}

void rt_topo_print(FILE *f)
{
    const struct rt_topo *t = rt_topo_get();
    if (!t)
        return;
    fprintf(f, "%-15s%s\n", "CPU", t->cpu_model);
    fprintf(f, "%-15s%d\n", "packages", t->npackage);
    fprintf(f, "%-15s%d\n", "NUMA nodes", t->nnuma);
    fprintf(f, "%-15s%d, ", "L3 caches", t->nl3);
    print_bytes(f, t->l3_bytes);
    fprintf(f, " each; L2 ");
    print_bytes(f, t->l2_bytes);
    fprintf(f, "\n%-15s%d, hardware threads %d\n", "cores", t->ncore, t->npu);
    print_devices(f);
}
