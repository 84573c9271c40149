/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators and groups as objects. */
#ifndef WM_CORE_COMM_H
#define WM_CORE_COMM_H

#include "coll/coll.h"
#include "mpi/core/mpi_int.h"
#include "runtime/boot/boot.h"

struct wm_peer; /* the engine's view of a process: mpi/p2p/domain.h */
struct wm_domain;
struct wm_attrs; /* cached attributes, mpi/core/attr.c */
struct wm_bbuf;
struct wm_topo; /* a virtual topology: mpi/topo/topo.h */
struct wm_check;
struct wm_session; /* mpi/core/session.h */

struct wm_group { /* immutable once made; shared by reference */
    struct rt_obj obj;
    int size, rank; /* rank of this process, MPI_UNDEFINED if it is not a member */
    /* Members by rank, owned.  NULL: the consecutive processes from `first` on, as in
     * MPI_COMM_WORLD; such a group costs the same for any number of members. */
    struct rt_proc *procs;
    struct rt_proc first;
    struct wm_session *session; /* of which it was derived, referenced; NULL: the world model */
};

/* The process with rank i. */
static inline struct rt_proc wm_group_proc(const struct wm_group *g, int i)
{
    return g->procs ? g->procs[i] : (struct rt_proc){ g->first.ns, g->first.rank + (uint32_t)i };
}

struct wm_comm {
    struct rt_obj obj;
    int rank, size; /* of the local group */
    uint32_t ctx;   /* even, agreed by all members; ctx: point-to-point, ctx + 1: collectives */
    bool inter;
    bool no_handle;          /* the user has no handle: freed, or the communicator is internal */
    struct wm_group *group;  /* local group */
    struct wm_group *remote; /* of an intercommunicator; else == group, without a reference */
    struct wm_domain *dom;
    struct wm_peer **peers; /* by rank of `remote`, owned; NULL until the rank is first addressed */
    struct wm_errh *errh;   /* referenced */
    struct wm_attrs *attrs;
    struct wm_info *info;
    uint32_t idups;       /* nonblocking duplications started so far, the same on all ranks */
    struct wm_bbuf *bbuf; /* for buffered sends, mpi/p2p/buffered.c; NULL: the process's buffer */
    struct coll_team team;
    size_t team_off;        /* offset of the team's block in the node segment: mpi/coll/team.c */
    struct wm_comm *local;  /* of an intercommunicator: its local group as a hidden
                               intracommunicator; owned */
    struct wm_topo *topo;   /* owned; NULL: none */
    struct wm_check *check; /* WEFT_CHECK: mpi/coll/check.h; owned, NULL: not created yet */
    struct wm_session *session;     /* of which it descends, referenced; NULL: the world model */
    struct wm_xstream_comm *stream; /* of a stream communicator: mpi/stream/stream.h; else NULL */
    char name[MPI_MAX_OBJECT_NAME];
};

extern struct rt_slab wm_comm_slab, wm_group_slab;
extern struct wm_comm *wm_comm_world, *wm_comm_self; /* NULL outside init..finalize */
extern struct wm_comm *wm_comm_predefined[8];        /* index handle & 7: null, world, self */
extern struct wm_group *wm_group_predefined[8];      /* null, empty */

/* The object behind a handle; NULL for MPI_COMM_NULL, stale or foreign handles. */
static inline struct wm_comm *wm_comm_get(MPI_Comm h)
{
    uintptr_t v = (uintptr_t)h;
    if (rt_likely(v < WM_PREDEFINED_MAX))
        return (v & ~7u) == 0x100 ? wm_comm_predefined[v & 7] : NULL;
    return rt_slab_get(&wm_comm_slab, v);
}
static inline struct wm_group *wm_group_get(MPI_Group h)
{
    uintptr_t v = (uintptr_t)h;
    if (v < WM_PREDEFINED_MAX)
        return (v & ~7u) == 0x108 ? wm_group_predefined[v & 7] : NULL;
    return rt_slab_get(&wm_group_slab, v);
}
/* Handles of objects; obj.handle of a predefined object is its ABI value.  NULL gives the null
 * handle. */
MPI_Comm wm_comm_handle(const struct wm_comm *c);
MPI_Group wm_group_handle(const struct wm_group *g);

/* A pending operation keeps its communicator: MPI_Comm_free only drops the handle's reference. */
static inline void wm_comm_ref(struct wm_comm *c) { c->obj.refs++; }
void wm_comm_destroy(struct wm_comm *c); /* called by the last wm_comm_unref() */
static inline void wm_comm_unref(struct wm_comm *c)
{
    if (--c->obj.refs == 0)
        wm_comm_destroy(c);
}

/* Creates MPI_COMM_WORLD and MPI_COMM_SELF; called by MPI_Init after boot, node segment and domain
 * are up. */
int wm_comm_init(struct wm_domain *dom);
void wm_comm_fini(void);
void wm_comm_rest(void); /* once no message is in flight */
/* A new intracommunicator of `group` (reference taken) with context `ctx`; no communication. */
int wm_comm_create_local(struct wm_group *group, uint32_t ctx, struct wm_domain *dom,
                         struct wm_comm **out);
/* A new intercommunicator between `group` and `remote` (references taken) with context `ctx`, on
 * which both groups have agreed.  It is complete, including its collectives; no communication.
 * `local` is an intracommunicator of `group` with its own context (wm_comm_create_local() and
 * wm_coll_team_plain()). On success the new communicator owns `local`, on failure the caller
 * does. */
int wm_comm_create_inter(struct wm_group *group, struct wm_group *remote, uint32_t ctx,
                         struct wm_comm *local, struct wm_domain *dom, struct wm_comm **out);
/* Collective over the intracommunicator `parent`, blocking: creates a communicator for each of the
 * disjoint groups that its members name, with the parent's error handler.  NULL if this process is
 * in no group (`group` is NULL, or does not contain this process). */
int wm_comm_create_from(struct wm_comm *parent, struct wm_group *group, struct wm_comm **out);
/* Deletes a communicator's attributes, then drops its handle.  Bodies also call it when creation
 * fails half-way. */
int wm_comm_free(struct wm_comm *comm);
/* Detaches a buffer for buffered sends after its messages have left, for freeing and finalizing. */
void wm_comm_detach_buffer(struct wm_comm *comm);
/* Stores the hints of `info` (NULL: none) that Weft knows. */
int wm_comm_set_info(struct wm_comm *comm, const struct wm_info *info);
/* Waits for duplications that failed in this process but that other processes still need; called by
 * MPI_Finalize. */
void wm_comm_finish_dropped(struct wm_domain *dom);
/* Releases a context id that wm_comm_find_ctx() reserved in this process.  Called under the
 * domain's lock. */
void wm_comm_release_ctx(uint32_t ctx);

/* Tags on a collective context.  Collectives use tags 0 and up, and 0x40000000 to COLL_TAG_END.
 * Partitioned communication (mpi/p2p/part.c) uses the tags from here on. */
#define WM_TAG_PART 0x60000000
/* Creation of communicators uses the tags from here on. */
#define WM_TAG_COMM 0x70000000
/* Tags from here up to WM_TAG_CHECK, which collectives do not use: exchanges between the leaders of
 * two groups over a third communicator. */
#define WM_TAG_INTER COLL_TAG_CALLS
/* Tags of MPI_Comm_idup, which may run at the same time as blocking calls, from here on. */
#define WM_TAG_IDUP 0x78000000
/* Two tags. */
#define WM_TAG_CHECK 0x3ffffff0

/* The collective side of a communicator (mpi/coll/team.c).  All members call init at the end of the
 * creation of a communicator, without the domain's lock; it may communicate.  For MPI_COMM_WORLD
 * and MPI_COMM_SELF in MPI_Init it must not wait for other processes.  Fini tolerates a team that
 * was never set up.  Returns MPI_SUCCESS or what wm_err() returned. */
int wm_coll_team_init(struct wm_comm *c);
/* The same without communication and without shared memory.  The caller may add shared memory later
 * if it has its own way to send the offset: rank 0 allocates a block and sends its offset + 1
 * (other ranks, or no block: 0).  Then all ranks attach the block (0 or -RT_E), or rank 0 frees it.
 * Under the domain's lock. */
void wm_coll_team_plain(struct wm_comm *c);
/* Called after wm_coll_team_plain() for a team that gets shared memory later: sets up the teams of
 * the ranks on each host, if the ranks are on several hosts; the block then belongs to
 * coll_team_local().  Returns MPI_SUCCESS or what wm_err() returned. */
int wm_coll_team_split(struct wm_comm *c);
uint64_t wm_coll_team_block(struct wm_comm *c);
int wm_coll_team_attach(struct wm_comm *c, uint64_t block);
void wm_coll_team_unblock(struct wm_comm *c, uint64_t block);
void wm_coll_team_fini(struct wm_comm *c);

#endif
