/* SPDX-License-Identifier: BSD-3-Clause */
/* Placement of the ranks on this host.  The machine is a sequence of units (cores or hardware
 * threads); the objects to map by are sets of units.  Mapping assigns places to ranks, object by
 * object; ordering permutes the places; binding widens each place to the requested object.  All are
 * pure functions of the options and an hwloc topology, so that tests run them on recorded
 * machines. */
#include "launcher/host/place.h"
#include "launcher/job.h"
#include "runtime/base/err.h"
#include "runtime/base/quota.h"

#include <stdlib.h>
#include <string.h>

struct object {
    hwloc_const_cpuset_t cpus;
    int *units, nunits, next;
};

struct machine {
    hwloc_topology_t topo;
    /* Hardware threads that this job may use: those of the cgroup and of mpirun's own binding. */
    hwloc_bitmap_t allowed;
    hwloc_bitmap_t *units; /* allowed hardware threads of each unit */
    int nunits;
};

static hwloc_obj_type_t type_of(enum launch_obj obj)
{
    static const hwloc_obj_type_t types[] = {
        [LAUNCH_NODE] = HWLOC_OBJ_MACHINE,  [LAUNCH_PACKAGE] = HWLOC_OBJ_PACKAGE,
        [LAUNCH_NUMA] = HWLOC_OBJ_NUMANODE, [LAUNCH_L3] = HWLOC_OBJ_L3CACHE,
        [LAUNCH_L2] = HWLOC_OBJ_L2CACHE,    [LAUNCH_L1] = HWLOC_OBJ_L1CACHE,
        [LAUNCH_CORE] = HWLOC_OBJ_CORE,     [LAUNCH_HWTHREAD] = HWLOC_OBJ_PU,
        [LAUNCH_UNSET] = HWLOC_OBJ_CORE,
    };
    return types[obj];
}

static const char *name_of(enum launch_obj obj)
{
    static const char *const names[] = { "node",     "package",         "NUMA node",
                                         "L3 cache", "L2 cache",        "L1 cache",
                                         "core",     "hardware thread", "core" };
    return names[obj];
}

static hwloc_bitmap_t allowed_cpus(hwloc_topology_t topo)
{
    hwloc_bitmap_t set = hwloc_bitmap_dup(hwloc_topology_get_allowed_cpuset(topo)),
                   bound = hwloc_bitmap_alloc();
    if (hwloc_topology_is_thissystem(topo) &&
        hwloc_get_cpubind(topo, bound, HWLOC_CPUBIND_PROCESS) == 0)
        hwloc_bitmap_and(set, set, bound);
    hwloc_bitmap_free(bound);
    return set;
}

/* Virtual machines may show no cores, packages or NUMA nodes; then the next finer or coarser object
 * is used. */
static hwloc_obj_type_t unit_type(hwloc_topology_t topo, bool hwthreads)
{
    return hwthreads || hwloc_get_nbobjs_by_type(topo, HWLOC_OBJ_CORE) < 1 ? HWLOC_OBJ_PU
                                                                           : HWLOC_OBJ_CORE;
}

static int machine_init(struct machine *m, hwloc_topology_t topo, bool hwthreads)
{
    hwloc_obj_t obj = NULL;
    hwloc_obj_type_t type = unit_type(topo, hwthreads);
    int max = hwloc_get_nbobjs_by_type(topo, type);

    *m = (struct machine){ .topo = topo, .allowed = allowed_cpus(topo) };
    m->units = calloc((size_t)max, sizeof *m->units);
    if (!m->units || !m->allowed)
        return -RT_ENOMEM;
    while ((obj = hwloc_get_next_obj_by_type(topo, type, obj))) {
        if (!hwloc_bitmap_intersects(obj->cpuset, m->allowed))
            continue;
        hwloc_bitmap_t set = hwloc_bitmap_dup(obj->cpuset);
        hwloc_bitmap_and(set, set, m->allowed);
        m->units[m->nunits++] = set;
    }
    return m->nunits > 0 ? 0 : -RT_ENOENT;
}

static void machine_fini(struct machine *m)
{
    for (int i = 0; i < m->nunits; i++)
        hwloc_bitmap_free(m->units[i]);
    free(m->units);
    hwloc_bitmap_free(m->allowed);
}

/* ---- objects to map by ---- */

static bool is_unit(enum launch_obj obj)
{
    return obj == LAUNCH_CORE || obj == LAUNCH_HWTHREAD || obj == LAUNCH_UNSET;
}

static void object_fill(const struct machine *m, struct object *o, hwloc_const_cpuset_t cpus)
{
    o->cpus = cpus;
    o->units = malloc((size_t)m->nunits * sizeof *o->units);
    for (int u = 0; u < m->nunits && o->units; u++)
        if (hwloc_bitmap_intersects(m->units[u], cpus))
            o->units[o->nunits++] = u;
}

/* The objects of a kind that contain allowed units; if the machine has no such object, one for the
 * whole machine. */
static int find_objects(const struct machine *m, enum launch_obj kind, struct object **out)
{
    hwloc_obj_type_t type = type_of(kind);
    int max = is_unit(kind) ? 0 : hwloc_get_nbobjs_by_type(m->topo, type), n = 0;
    hwloc_obj_t obj = NULL;

    *out = calloc((size_t)(max > 0 ? max : 1), sizeof **out);
    if (!*out)
        return -RT_ENOMEM;
    while (max > 0 && (obj = hwloc_get_next_obj_by_type(m->topo, type, obj)))
        if (hwloc_bitmap_intersects(obj->cpuset, m->allowed))
            object_fill(m, &(*out)[n++], obj->cpuset);
    if (n == 0)
        object_fill(m, &(*out)[n++], m->allowed);
    return n;
}

static void free_objects(struct object *o, int n)
{
    for (int i = 0; i < n; i++)
        free(o[i].units);
    free(o);
}

/* Takes the next `pe` units of an object, from the first one again when all are used. */
static hwloc_bitmap_t take_units(const struct machine *m, struct object *o, int pe)
{
    hwloc_bitmap_t place = hwloc_bitmap_alloc();
    if (o->next + pe > o->nunits)
        o->next = 0;
    for (int i = 0; i < pe && place; i++)
        hwloc_bitmap_or(place, place, m->units[o->units[o->next++]]);
    return place;
}

/* ---- number of ranks ---- */

/* Number of objects of a kind; if the machine shows none, one, as in find_objects(). */
static int count_objects(const struct machine *m, enum launch_obj kind)
{
    hwloc_obj_t obj = NULL;
    int n = 0;
    if (kind != LAUNCH_NODE)
        while ((obj = hwloc_get_next_obj_by_type(m->topo, type_of(kind), obj)))
            n += hwloc_bitmap_intersects(obj->cpuset, m->allowed);
    return n > 0 ? n : 1;
}

int launch_count_objects(hwloc_topology_t topo, int nobj[LAUNCH_UNSET])
{
    struct machine cores, threads;
    int err = machine_init(&cores, topo, false);
    if (err < 0)
        return err;
    err = machine_init(&threads, topo, true);
    for (int kind = 0; kind < LAUNCH_UNSET && err == 0; kind++)
        nobj[kind] = kind == LAUNCH_CORE       ? cores.nunits
                     : kind == LAUNCH_HWTHREAD ? threads.nunits
                                               : count_objects(&cores, (enum launch_obj)kind);
    machine_fini(&threads);
    machine_fini(&cores);
    return err;
}

/* ---- mapping, ordering, binding ---- */

static int deal_places(struct launch_job *job, struct machine *m)
{
    const struct launch_placement *p = &job->opts->placement;
    struct object *objects;
    int n = find_objects(m, p->map, &objects), code = 0;

    for (int i = 0; i < n && !code; i++)
        if (objects[i].nunits < p->pe) {
            launch_say(
                job, "%d %ss are required for each rank, but %s%s%s has %d; nothing was started",
                p->pe, p->hwthreads ? "hardware thread" : "core", n > 1 ? "a " : "this host",
                n > 1 ? name_of(p->map) : "", n > 1 ? " of this host" : "", objects[i].nunits);
            code = LAUNCH_EXIT_USAGE;
        }
    for (int r = 0; r < job->n && !code; r++) {
        struct object *to = &objects[p->ppr ? r / p->ppr % n : r % n];
        if (p->ppr && is_unit(p->map)) /* ppr:2:core: two ranks on a core, then two on the next
                                        * core */
            to->next = r / p->ppr * p->pe % to->nunits;
        job->ranks[r].place = take_units(m, to, p->pe);
        if (!job->ranks[r].place)
            code = LAUNCH_EXIT_FAIL;
    }
    free_objects(objects, n);
    return code;
}

/* Index of the unit that contains the first hardware thread of the place. */
static int unit_of(const struct machine *m, hwloc_const_bitmap_t place)
{
    for (int u = 0; u < m->nunits; u++)
        if (hwloc_bitmap_intersects(m->units[u], place))
            return u;
    return m->nunits;
}

static void order_along_units(struct launch_job *job, const struct machine *m)
{
    for (int i = 1; i < job->n; i++) /* insertion sort: stable, and the input is nearly sorted */
        for (int j = i;
             j > 0 && unit_of(m, job->ranks[j].place) < unit_of(m, job->ranks[j - 1].place); j--) {
            hwloc_bitmap_t t = job->ranks[j].place;
            job->ranks[j].place = job->ranks[j - 1].place;
            job->ranks[j - 1].place = t;
        }
}

/* Orders the places round robin over objects: the next place of each object in turn. */
static int order_over_objects(struct launch_job *job, struct machine *m)
{
    struct object *objects;
    int n = find_objects(m, job->opts->placement.order, &objects), left = job->n, at = 0;
    hwloc_bitmap_t *sorted = calloc((size_t)job->n, sizeof *sorted);

    for (int i = 0; sorted && left > 0; i = (i + 1) % n)
        for (int r = 0; r < job->n; r++) {
            if (!job->ranks[r].place ||
                !hwloc_bitmap_intersects(job->ranks[r].place, objects[i].cpus))
                continue;
            sorted[at++] = job->ranks[r].place;
            job->ranks[r].place = NULL;
            left--;
            break;
        }
    for (int r = 0; sorted && r < job->n; r++)
        job->ranks[r].place = sorted[r];
    int code = sorted ? 0 : LAUNCH_EXIT_FAIL;
    free(sorted);
    free_objects(objects, n);
    return code;
}

/* All hardware threads of the objects that contain a part of the place; for cores and threads, the
 * place itself. */
static hwloc_bitmap_t widen(const struct machine *m, hwloc_const_bitmap_t place, enum launch_obj to)
{
    hwloc_bitmap_t set = hwloc_bitmap_dup(place);
    hwloc_obj_t obj = NULL;
    if (to == LAUNCH_HWTHREAD) {
        hwloc_bitmap_singlify(set);
        return set;
    }
    while ((obj = hwloc_get_next_obj_by_type(m->topo, type_of(to), obj)))
        if (hwloc_bitmap_intersects(obj->cpuset, place))
            hwloc_bitmap_or(set, set, obj->cpuset);
    if (to == LAUNCH_NODE)
        hwloc_bitmap_copy(set, m->allowed);
    hwloc_bitmap_and(set, set, m->allowed);
    return set;
}

/* Checks that the machine shows the requested objects.  A machine without packages or NUMA nodes
 * counts as one.  Returns 0; -1: ranks are not bound; or an exit code after a message. */
static int check_binding(const struct launch_job *job, const struct machine *m,
                         enum launch_obj bind)
{
    bool cache = bind == LAUNCH_L3 || bind == LAUNCH_L2 || bind == LAUNCH_L1;
    if (!cache || hwloc_get_nbobjs_by_type(m->topo, type_of(bind)) > 0)
        return 0;
    if (job->opts->placement.bind_if_supported)
        return -1;
    launch_say(job, "--bind-to: this host shows no %s; choose another object, or add :if-supported",
               name_of(bind));
    return LAUNCH_EXIT_USAGE;
}

/* Whether other jobs may use the same cores: Slurm has allocated a part of this host, but does not
 * confine the job to it. */
static bool is_shared(const struct machine *m)
{
    const char *cpus = getenv("SLURM_JOB_ID") ? getenv("SLURM_CPUS_ON_NODE") : NULL;
    long n = cpus ? strtol(cpus, NULL, 10) : 0;
    return n > 0 && n < m->nunits && hwloc_topology_is_thissystem(m->topo);
}

static int bind_places(struct launch_job *job, struct machine *m)
{
    const struct launch_placement *p = &job->opts->placement;
    bool fits = (long)job->n * p->pe <= m->nunits;
    enum launch_obj bind = p->bind != LAUNCH_UNSET      ? p->bind
                           : p->hwthreads && p->pe == 1 ? LAUNCH_HWTHREAD
                                                        : LAUNCH_CORE;

    if (p->hwthreads && bind == LAUNCH_HWTHREAD && p->pe > 1)
        bind = LAUNCH_UNSET; /* the place, not widened */
    if (p->bind_none || (p->bind == LAUNCH_UNSET && (!fits || is_shared(m))))
        return 0;
    int code = check_binding(job, m, bind);
    for (int r = 0; r < job->n && !code; r++) {
        job->ranks[r].cpus = bind == LAUNCH_UNSET ? hwloc_bitmap_dup(job->ranks[r].place)
                                                  : widen(m, job->ranks[r].place, bind);
        if (!job->ranks[r].cpus)
            code = LAUNCH_EXIT_FAIL;
    }
    return code > 0 ? code : 0;
}

/* Counts the cores that the ranks may use in total: all, unless the ranks are bound to fewer, or
 * control groups allow fewer (their limit holds for mpirun and its ranks together).  The threads of
 * bound ranks may use all that is allowed, but no core that may be another job's. */
static int count_used(struct launch_job *job, const struct machine *m)
{
    hwloc_bitmap_t used = hwloc_bitmap_alloc();
    bool bound = job->n > 0 && job->ranks[0].cpus;
    for (int r = 0; r < job->n && used; r++)
        hwloc_bitmap_or(used, used, job->ranks[r].cpus ? job->ranks[r].cpus : m->allowed);
    job->ncpus = 0;
    for (int u = 0; u < m->nunits && used; u++)
        job->ncpus += hwloc_bitmap_intersects(m->units[u], used);
    int quota = hwloc_topology_is_thissystem(m->topo) ? rt_quota_cores("", getpid()) : 0;
    if (quota && quota < job->ncpus)
        job->ncpus = quota;
    if (bound && used)
        hwloc_bitmap_list_asprintf(&job->cpus, is_shared(m) ? used : m->allowed);
    else if (used)
        job->cpus = strdup("");
    hwloc_bitmap_free(used);
    return job->cpus ? 0 : LAUNCH_EXIT_FAIL;
}

int launch_place(struct launch_job *job, hwloc_topology_t topo)
{
    const struct launch_placement *p = &job->opts->placement;
    struct machine m;

    if (machine_init(&m, topo, p->hwthreads) < 0)
        return LAUNCH_EXIT_FAIL;
    int code = 0;
    if (p->no_oversubscribe && (long)job->n * p->pe > m.nunits) {
        launch_say(
            job,
            "%d ranks do not fit on %d %s%s, and --nooversubscribe forbids more; nothing was "
            "started",
            job->n, m.nunits, p->hwthreads ? "hardware threads" : "cores",
            p->pe > 1 ? " with more than one for each" : "");
        code = LAUNCH_EXIT_USAGE;
    }
    if (!code)
        code = deal_places(job, &m);
    if (!code && p->order != LAUNCH_UNSET && is_unit(p->order))
        order_along_units(job, &m);
    else if (!code && p->order != LAUNCH_UNSET && p->order != LAUNCH_NODE)
        code = order_over_objects(job, &m);
    if (!code)
        code = bind_places(job, &m);
    if (!code)
        code = count_used(job, &m);
    machine_fini(&m);
    return code;
}
