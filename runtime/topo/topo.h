/* SPDX-License-Identifier: BSD-3-Clause */
/* The machine as hwloc sees it, loaded only at first use, so that a rank which never needs it pays
 * nothing.  Tests load recorded machines from an XML file instead (rt_topo_load). */
#ifndef RT_TOPO_TOPO_H
#define RT_TOPO_TOPO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct rt_topo {
    int npackage, nnuma, nl3, ncore, npu; /* objects that this process may use */
    char cpu_model[128];
    size_t l2_bytes, l3_bytes; /* of one cache; 0: unknown */
};

/* Called before the first use by a program that needs PCI devices, too (weft_info).  Reading their
 * configuration takes half of mpirun's time on virtual machines. */
void rt_topo_find_devices(void);
/* Facts about this machine; NULL after logging the cause if hwloc fails.  Cheap after the first
 * call. */
const struct rt_topo *rt_topo_get(void);
/* The hwloc_topology_t, for the launcher; loads it. */
void *rt_topo_hwloc(void);
/* Logical numbers of the package, L3 cache and core to which the calling thread is bound; -1: it is
 * not bound within one. */
void rt_topo_place(int ids[3]);
/* Uses an hwloc XML file instead of this machine (tests, mpirun --topo). */
int rt_topo_load(const char *xml_path);
void rt_topo_fini(void);
/* Kinds of hardware that processes share, from the machine to the hardware thread: names for
 * mpi_hw_resource_type and MPI_Get_hw_resource_info.  *object: index of the object within which
 * this process is bound; -1: it is not bound within one, or the machine has none. */
#define RT_TOPO_RESOURCES 9
#define RT_TOPO_URI "hwloc://"
const char *rt_topo_resource(int i, int *object);
bool rt_topo_resource_exists(int i);
/* The kind with that name, in any spelling that hwloc accepts; -1: unknown. */
int rt_topo_find_resource(const char *name);
/* Prints packages, NUMA nodes, caches, cores, GPUs and NICs for weft_info. */
void rt_topo_print(FILE *f);

#endif
