/* SPDX-License-Identifier: BSD-3-Clause */
/* Pictures of the placement of ranks: one pair of brackets for each package, cores separated by
 * "/", one character for each hardware thread, "B" if the rank is bound to it.  Main thread
 * only. */
#include "launcher/host/show.h"
#include "launcher/job.h"

#include <stdlib.h>

static void draw_core(hwloc_obj_t core, hwloc_const_bitmap_t bound, FILE *f)
{
    unsigned pu;
    hwloc_bitmap_foreach_begin(pu, core->cpuset)
        fputc(bound && hwloc_bitmap_isset(bound, pu) ? 'B' : '.', f);
    hwloc_bitmap_foreach_end();
}

/* Draws the cores in `cpus`, or the hardware threads if no cores are shown. */
static void draw_package(hwloc_topology_t topo, hwloc_const_cpuset_t cpus,
                         hwloc_const_bitmap_t bound, FILE *f)
{
    hwloc_obj_type_t type = hwloc_get_nbobjs_by_type(topo, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE
                                                                               : HWLOC_OBJ_PU;
    hwloc_obj_t core = NULL;
    const char *sep = "";

    fputc('[', f);
    while ((core = hwloc_get_next_obj_inside_cpuset_by_type(topo, cpus, type, core))) {
        fputs(sep, f);
        draw_core(core, bound, f);
        sep = "/";
    }
    fputc(']', f);
}

static void draw(hwloc_topology_t topo, hwloc_const_bitmap_t bound, FILE *f)
{
    hwloc_obj_t package = NULL;
    if (hwloc_get_nbobjs_by_type(topo, HWLOC_OBJ_PACKAGE) < 1) {
        draw_package(topo, hwloc_topology_get_topology_cpuset(topo), bound, f);
        return;
    }
    while ((package = hwloc_get_next_obj_by_type(topo, HWLOC_OBJ_PACKAGE, package)))
        draw_package(topo, package->cpuset, bound, f);
}

static void name_cpus(hwloc_topology_t topo, hwloc_const_bitmap_t set, FILE *f)
{
    hwloc_obj_t core = NULL;
    hwloc_bitmap_t cores = hwloc_bitmap_alloc();
    char *text = NULL;

    while ((core = hwloc_get_next_obj_by_type(topo, HWLOC_OBJ_CORE, core)))
        if (hwloc_bitmap_intersects(core->cpuset, set))
            hwloc_bitmap_set(cores, core->logical_index);
    bool threads = hwloc_bitmap_iszero(cores);
    hwloc_bitmap_list_asprintf(&text, threads ? set : cores);
    fprintf(f, "%s %s", threads ? "hardware thread" : "core", text);
    free(text);
    hwloc_bitmap_free(cores);
}

void launch_show_bindings(const struct launch_job *job, hwloc_topology_t topo, FILE *f)
{
    for (int i = 0; i < job->n; i++) {
        const struct launch_rank *r = &job->ranks[i];
        fprintf(f, "[%s] rank %d ", job->host, r->rank);
        if (r->cpus) {
            fputs("bound to ", f);
            name_cpus(topo, r->cpus, f);
            fputs(": ", f);
            draw(topo, r->cpus, f);
        } else {
            fputs("not bound", f);
        }
        fputc('\n', f);
    }
    fflush(f);
}

void launch_show_map(const struct launch_job *job, hwloc_topology_t topo, FILE *f)
{
    fprintf(f, "Map of %d rank%s on host %s, %d core%s in use\n", job->n, job->n == 1 ? "" : "s",
            job->host, job->ncpus, job->ncpus == 1 ? "" : "s");
    for (int i = 0; i < job->n; i++) {
        const struct launch_rank *r = &job->ranks[i];
        fprintf(f, "  rank %d  program %d (%s)  ", r->rank, r->app,
                job->opts->apps[r->app].argv.v[0]);
        if (r->place && (r->cpus || job->opts->placement.map != LAUNCH_UNSET))
            name_cpus(topo, r->place, f);
        else
            fputs("any core", f);
        fputc('\n', f);
    }
    fflush(f);
}
