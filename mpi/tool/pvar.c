/* SPDX-License-Identifier: BSD-3-Clause */
/* The performance variables (MPI-5.0 section 15.3.7): their table and their current values.  Values
 * come from the counters of the domain (mpi/p2p/stats.h) or are looked up when they are read;
 * nothing is computed ahead.  Any thread, under the interface's mutex. */
#include "mpi/tool/pvar.h"
#include <string.h>
#include "coll/select.h"
#include "mpi/api/bodies.h"
#include "mpi/coll/call.h"
#include "mpi/core/ctx.h"
#include "mpi/datatype/type.h"
#include "mpi/p2p/lane.h"
#include "mpi/p2p/p2p.h"
#include "mpi/p2p/request.h"
#include "runtime/mem/others.h"
#include "runtime/mem/segment.h"

#define STAT(field) offsetof(struct wm_stats, field)

static struct wm_domain *domain(void) { return rt_load_acquire(&wm_main_domain); }

bool tool_is_up(void) { return domain() != NULL; }

/* The sum over the lanes of this process. */
static uint64_t sum(uint64_t (*of)(const struct wm_domain *d, size_t off), size_t off)
{
    const struct wm_domain *d = domain();
    uint64_t n = d ? of(d, off) : 0;
    for (int i = 1; i < rt_load_acquire(&wm_lanes.n); i++)
        if ((d = wm_lane_at(i)))
            n += of(d, off);
    return n;
}

static uint64_t stat_of(const struct wm_domain *d, size_t off)
{
    return rt_load_relaxed((const uint64_t *)(const void *)((const char *)d->stats + off));
}

static uint64_t stat(size_t off) { return sum(stat_of, off); }

static uint64_t unexpected_of(const struct wm_domain *d, size_t off)
{
    (void)off;
    return rt_load_relaxed(&d->match.nunex);
}

static uint64_t posted_of(const struct wm_domain *d, size_t off)
{
    (void)off;
    return rt_load_relaxed(&d->match.nposted_all) + (rt_load_relaxed(&d->hot) != NULL);
}

static uint64_t taken_of(const struct wm_domain *d, size_t off)
{
    (void)off;
    return rt_load_relaxed(&d->lock.ntaken);
}

static uint64_t waits_of(const struct wm_domain *d, size_t off)
{
    (void)off;
    return rt_load_relaxed(&d->lock.nwaited);
}

uint64_t tool_unexpected_peak(void) { return stat(STAT(unexpected_peak)); }

static void rebase(struct wm_domain *d)
{
    rt_store_relaxed(&d->stats->unexpected_peak, (uint64_t)rt_load_relaxed(&d->match.nunex));
}

/* The peak of several lanes is the sum of their peaks. */
void tool_unexpected_rebase(void)
{
    if (domain())
        rebase(domain());
    for (int i = 1; i < rt_load_acquire(&wm_lanes.n); i++)
        if (wm_lane_at(i))
            rebase(wm_lane_at(i));
}

static uint64_t used(const struct rt_slab *s) { return rt_load_relaxed(&s->used); }
static uint64_t comms(const struct wm_comm *c) { return (void)c, used(&wm_comm_slab); }
static uint64_t requests(const struct wm_comm *c) { return (void)c, used(&wm_request_slab); }
static uint64_t types(const struct wm_comm *c) { return (void)c, used(&wm_type_slab); }
static uint64_t unexpected(const struct wm_comm *c)
{
    (void)c;
    return sum(unexpected_of, 0);
}
static uint64_t unexpected_bytes(const struct wm_comm *c)
{
    (void)c;
    return stat(STAT(unexpected_bytes));
}
/* A blocking receive in progress counts, though it is in no table. */
static uint64_t posted(const struct wm_comm *c)
{
    (void)c;
    return sum(posted_of, 0);
}
static uint64_t comm_calls(const struct wm_comm *c) { return rt_load_relaxed(&c->team.seq); }
static uint64_t comm_size(const struct wm_comm *c) { return (uint64_t)c->size; }

static uint64_t retired_of(const struct wm_domain *d, size_t off)
{
    (void)off;
    return rt_load_relaxed(&d->failed.nretired);
}
static uint64_t contexts(const struct wm_comm *c)
{
    (void)c;
    return wm_ctx_used() - sum(retired_of, 0);
}

/* The segment stays mapped. */
static uint64_t segment(const struct wm_comm *c)
{
    (void)c;
    return tool_is_up() && rt_node.base ? rt_node.nbytes : 0;
}

static uint64_t segment_used(const struct wm_comm *c)
{
    (void)c;
    return tool_is_up() && rt_node.base ? rt_node_used() : 0;
}

static uint64_t other_jobs(const struct wm_comm *c)
{
    (void)c;
    return tool_is_up() ? rt_others_count() : 0;
}

static uint64_t lock_taken(const struct wm_comm *c)
{
    (void)c;
    return sum(taken_of, 0);
}

static uint64_t lock_waits(const struct wm_comm *c)
{
    (void)c;
    return sum(waits_of, 0);
}

static uint64_t gpu_memory(const struct wm_comm *c)
{
    struct wm_domain *d = domain();
    (void)c;
    if (!d)
        return 0;
    rt_lock(&d->lock);
    uint64_t n = rt_gpu_held();
    rt_unlock(&d->lock);
    return n;
}

/* No algorithm yet, or none needed: -1. */
static uint64_t last_alg(const struct wm_comm *c)
{
    (void)c;
    return (uint64_t)(int64_t)coll_alg_index(domain() ? rt_load_relaxed(&wm_coll_last) : NULL);
}

#define BASIC MPI_T_VERBOSITY_USER_BASIC
#define TUNER MPI_T_VERBOSITY_TUNER_BASIC
#define DEV MPI_T_VERBOSITY_MPIDEV_BASIC
#define ALONE MPI_T_BIND_NO_OBJECT
#define CLASS(c) MPI_T_PVAR_CLASS_##c

/* A counter of struct wm_stats, a value that is looked up, and one of a communicator. */
#define COUNT(name, cls, verb, cat, field, desc) \
    { \
        name, desc, CLASS(cls), verb, ALONE, PVAR_ULL, PVAR_OPEN, TOOL_ENUM_NONE, 1, cat, \
            STAT(field), NULL \
    }
#define LOOK(name, cls, verb, cat, fn, desc) \
    { \
        name, desc, CLASS(cls), verb, ALONE, PVAR_ULL, PVAR_FREE, TOOL_ENUM_NONE, 1, cat, 0, fn \
    }

static const struct pvar table[] = {
    COUNT("p2p_sent_eager", COUNTER, BASIC, CAT_P2P, eager,
          "Messages sent at once, without waiting for the receiver, of collectives too."),
    COUNT("p2p_sent_rendezvous", COUNTER, BASIC, CAT_P2P, rndv,
          "Messages announced first and moved when the receiver was ready."),
    COUNT("p2p_sent_bytes", AGGREGATE, BASIC, CAT_P2P, sent_bytes,
          "Bytes of the messages sent, counted when the send begins."),
    COUNT("p2p_received", COUNTER, BASIC, CAT_P2P, received,
          "Messages that have found their receive."),
    COUNT("p2p_received_bytes", AGGREGATE, BASIC, CAT_P2P, received_bytes,
          "Bytes of the messages that have found their receive."),
    COUNT("p2p_unexpected", COUNTER, TUNER, CAT_P2P, unexpected,
          "Messages that arrived before their receive was posted."),
    LOOK("p2p_unexpected_queue", LEVEL, TUNER, CAT_P2P, unexpected,
         "Messages that wait for their receive."),
    { "p2p_unexpected_peak", "Most messages that have waited for their receive at once.",
      CLASS(HIGHWATERMARK), TUNER, ALONE, PVAR_ULL, PVAR_OPEN, TOOL_ENUM_NONE, 1, CAT_P2P, 0,
      unexpected },
    LOOK("p2p_unexpected_bytes", LEVEL, TUNER, CAT_P2P, unexpected_bytes,
         "Memory of the messages that wait for their receive, bytes."),
    COUNT("p2p_stops", COUNTER, TUNER, CAT_P2P, stops,
          "Times that a sender had so many messages waiting here that it was asked to announce "
          "further ones first (unexpected_max)."),
    LOOK("p2p_posted_queue", LEVEL, TUNER, CAT_P2P, posted,
         "Receives that wait for their message."),
    COUNT("p2p_retries", COUNTER, TUNER, CAT_P2P, retries,
          "Messages deferred because the transport to the receiver had no room."),
    COUNT("p2p_device", COUNTER, BASIC, CAT_P2P, device,
          "Messages sent from and received into device memory on this process."),
    COUNT("p2p_device_bytes", AGGREGATE, BASIC, CAT_P2P, device_bytes,
          "Bytes of the messages sent from and received into device memory."),
    COUNT("p2p_device_staged_bytes", AGGREGATE, TUNER, CAT_P2P, staged_bytes,
          "Bytes of those messages that went through staging memory of this process."),
    LOOK("gpu_memory_bytes", LEVEL, BASIC, CAT_GPU, gpu_memory,
         "Memory of devices that the library has allocated in this process, bytes; "
         "MPIX_GPU_release() frees what is idle."),
    COUNT("p2p_peers", COUNTER, TUNER, CAT_P2P, peers, "Processes that this one has connected to."),
    LOOK("shm_segment_bytes", SIZE, DEV, CAT_SHM, segment,
         "Address space of the memory that the job's processes on this host share, bytes."),
    LOOK("shm_segment_used_bytes", LEVEL, DEV, CAT_SHM, segment_used,
         "Blocks of that memory in use by collectives and MPI_Alloc_mem, of all processes, bytes."),
    LOOK("shm_other_jobs", LEVEL, BASIC, CAT_SHM, other_jobs,
         "Processes of other jobs that share memory with this process and have not ended."),
    { "coll_calls",
      "Collective operations started, by kind in the order of the enumeration coll_kind: barrier, "
      "bcast, reduce, allreduce, gather, gatherv, scatter, scatterv, allgather, allgatherv, "
      "alltoall, alltoallv, alltoallw, reduce_scatter, reduce_scatter_block, scan, exscan.  Those "
      "that make communicators and persistent calls count too.",
      CLASS(COUNTER), BASIC, ALONE, PVAR_ULL, PVAR_OPEN, TOOL_ENUM_NONE, COLL_KINDS, CAT_COLL,
      STAT(coll), NULL },
    { "coll_algorithm",
      "Algorithm of the last collective operation; -1: none, or one that needed no messages.",
      CLASS(STATE), TUNER, ALONE, PVAR_INT, PVAR_FREE, TOOL_ENUM_COLL_ALG, 1, CAT_COLL, 0,
      last_alg },
    { "comm_coll_calls", "Collective operations started on a communicator.", CLASS(COUNTER), BASIC,
      MPI_T_BIND_MPI_COMM, PVAR_ULL, PVAR_RUNS, TOOL_ENUM_NONE, 1, CAT_COLL, 0, comm_calls },
    { "comm_size", "Processes in the local group of a communicator.", CLASS(SIZE), BASIC,
      MPI_T_BIND_MPI_COMM, PVAR_ULL, PVAR_FREE, TOOL_ENUM_NONE, 1, CAT_OBJECTS, 0, comm_size },
    COUNT("wait_sleeps", COUNTER, TUNER, CAT_WAIT, sleeps,
          "Times that a wait has put its thread to sleep."),
    COUNT("wait_rescues", COUNTER, TUNER, CAT_WAIT, rescues,
          "Sleeps that ended by their time limit and then found work: each is a lost notification, "
          "a defect of the library."),
    { "wait_sleep_time", "Time asleep in waits, seconds.", CLASS(TIMER), TUNER, ALONE, PVAR_SECONDS,
      PVAR_OPEN, TOOL_ENUM_NONE, 1, CAT_WAIT, STAT(sleep_ns), NULL },
    LOOK("lock_taken", COUNTER, TUNER, CAT_WAIT, lock_taken,
         "Times that a thread has taken the lock of the message path; 0 as long as there is one "
         "thread only."),
    LOOK("lock_waits", COUNTER, TUNER, CAT_WAIT, lock_waits,
         "Times that another thread held this lock then."),
    LOOK("objects_communicators", LEVEL, BASIC, CAT_OBJECTS, comms,
         "Communicators alive besides the predefined ones."),
    LOOK("objects_contexts", LEVEL, DEV, CAT_OBJECTS, contexts,
         "Contexts of communicators, windows and files that are taken; not those that are retired "
         "because their communicator was revoked, or messages of it may be left."),
    LOOK("objects_requests", LEVEL, BASIC, CAT_OBJECTS, requests,
         "Requests held, including a few that are kept ready for the next message."),
    LOOK("objects_datatypes", LEVEL, BASIC, CAT_OBJECTS, types, "Derived datatypes alive."),
};
#define NPVARS ((int)(sizeof table / sizeof table[0]))

int tool_pvar_num(void) { return NPVARS; }
enum tool_cat tool_pvar_cat(int index) { return table[index].cat; }

const struct pvar *tool_pvar(int index)
{
    return index >= 0 && index < NPVARS ? &table[index] : NULL;
}

uint64_t tool_pvar_now(const struct pvar *v, int i, const struct wm_comm *c)
{
    return v->read ? v->read(c) : stat(v->off + (size_t)i * sizeof(uint64_t));
}

static MPI_Datatype datatype(const struct pvar *v)
{
    return v->value == PVAR_INT       ? MPI_INT
           : v->value == PVAR_SECONDS ? MPI_DOUBLE
                                      : MPI_UNSIGNED_LONG_LONG;
}

int wm_api_t_pvar_get_num(int *num_pvar)
{
    int err = tool_enter();
    if (err)
        return err;
    tool_leave();
    if (!num_pvar)
        return MPI_T_ERR_INVALID;
    *num_pvar = NPVARS;
    return MPI_SUCCESS;
}

int wm_api_t_pvar_get_info(int pvar_index, char *name, int *name_len, int *verbosity,
                           int *var_class, MPI_Datatype *type, MPI_T_enum *enumtype, char *desc,
                           int *desc_len, int *bind, int *readonly, int *continuous, int *atomic)
{
    int err = tool_enter();
    if (err)
        return err;
    tool_leave(); /* the table is constant */
    const struct pvar *v = tool_pvar(pvar_index);
    if (!v)
        return MPI_T_ERR_INVALID_INDEX;
    tool_text(v->name, name, name_len);
    tool_text(v->desc, desc, desc_len);
    tool_int(verbosity, v->verbosity);
    tool_int(var_class, v->class);
    tool_int(bind, v->bind);
    tool_int(readonly, v->access != PVAR_OPEN);
    tool_int(continuous, v->access != PVAR_OPEN);
    tool_int(atomic, v->access == PVAR_OPEN);
    if (type)
        *type = datatype(v);
    if (enumtype)
        *enumtype = tool_enum_handle(v->enum_id);
    return MPI_SUCCESS;
}

int wm_api_t_pvar_get_index(const char *name, int var_class, int *pvar_index)
{
    int err = tool_enter();
    if (err)
        return err;
    tool_leave();
    if (!name || !pvar_index)
        return MPI_T_ERR_INVALID;
    for (int i = 0; i < NPVARS; i++)
        if (table[i].class == var_class && !strcmp(table[i].name, name)) {
            *pvar_index = i;
            return MPI_SUCCESS;
        }
    return MPI_T_ERR_INVALID_NAME;
}
