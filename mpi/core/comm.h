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
struct wm_topo;    /* a virtual topology: mpi/topo/topo.h */
struct wm_check;
struct wm_session; /* mpi/core/session.h */

struct wm_group { /* immutable once made; shared by reference */
    struct rt_obj obj;
    int size, rank;        /* rank of this process, MPI_UNDEFINED when not a member */
    /* Members by rank, owned; NULL: the processes from `first` on, in order, as in MPI_COMM_WORLD:
     * such a group costs the same for any number of members. */
    struct rt_proc *procs;
    struct rt_proc first;
    struct wm_session *session; /* from which it was derived, referenced; NULL: the world model */
};

/* The process of rank i. */
static inline struct rt_proc wm_group_proc(const struct wm_group *g, int i)
{
    return g->procs ? g->procs[i]
                    : (struct rt_proc){ g->first.ns, g->first.rank + (uint32_t)i };
}

struct wm_comm {
    struct rt_obj obj;
    int rank, size; /* of the local group */
    uint32_t ctx;   /* even, agreed by all members; ctx is point-to-point, ctx + 1 collectives */
    bool inter;
    bool no_handle; /* the user has none: freed, or the library's own */
    struct wm_group *group;  /* local group */
    struct wm_group *remote; /* of an intercommunicator; else == group, without a reference */
    struct wm_domain *dom;
    struct wm_peer **peers; /* by rank of `remote`, owned; NULL until the rank is first addressed */
    struct wm_errh *errh;   /* referenced */
    struct wm_attrs *attrs;
    struct wm_info *info;
    uint32_t idups;       /* nonblocking duplications so far, the same on all ranks */
    struct wm_bbuf *bbuf; /* attached for buffered sends, mpi/p2p/buffered.c; NULL: the process's */
    struct coll_team team;
    size_t team_off;       /* of its block in the node segment: mpi/coll/team.c */
    struct wm_comm *local; /* of an intercommunicator: its local group as an intracommunicator that
                              no user sees; owned */
    struct wm_topo *topo;  /* owned; NULL: none */
    struct wm_check *check; /* WEFT_CHECK: mpi/coll/check.h; owned, NULL: none yet */
    struct wm_session *session; /* from which it descends, referenced; NULL: the world model */
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
/* Handles of objects; predefined objects carry their ABI value in obj.handle.  NULL gives the null
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

/* Makes world and self; called by MPI_Init once boot, node segment and domain stand. */
int wm_comm_init(struct wm_domain *dom);
void wm_comm_fini(void);
void wm_comm_rest(void); /* when no message is under way any more */
/* A new intracommunicator of `group` (reference taken) with context `ctx`; no communication. */
int wm_comm_create_local(struct wm_group *group, uint32_t ctx, struct wm_domain *dom,
                         struct wm_comm **out);
/* A new intercommunicator between `group` and `remote` (references taken) with context `ctx`, which
 * both groups have agreed on; complete, its collectives too; no communication.  `local` is an
 * intracommunicator of `group` with a context of its own (wm_comm_create_local() and
 * wm_coll_team_plain()); it is the new one's from here, on failure it stays the caller's. */
int wm_comm_create_inter(struct wm_group *group, struct wm_group *remote, uint32_t ctx,
                         struct wm_comm *local, struct wm_domain *dom, struct wm_comm **out);
/* Collective over the intracommunicator `parent`, blocking: a communicator of each of the disjoint
 * groups that its members name, with the parent's error handler; NULL where this process is in
 * none (`group` NULL, or without this process). */
int wm_comm_create_from(struct wm_comm *parent, struct wm_group *group, struct wm_comm **out);
/* Drops the handle of a communicator after its attributes; a body's way out when creation fails
 * half-way, too. */
int wm_comm_free(struct wm_comm *comm);
/* Detaches a buffer for buffered sends, once its messages have left, as freeing and finalizing do.
 */
void wm_comm_detach_buffer(struct wm_comm *comm);
/* Takes over the hints that Weft knows from `info` (NULL: none). */
int wm_comm_set_info(struct wm_comm *comm, const struct wm_info *info);
/* Waits for the duplications that failed here but that others still need; MPI_Finalize. */
void wm_comm_finish_dropped(struct wm_domain *dom);
/* Gives a context id back that wm_comm_find_ctx() reserved in this process.  Called under the
 * domain's lock. */
void wm_comm_release_ctx(uint32_t ctx);

/* Tags on a collective context.  Collectives use those from 0 and from 0x40000000 to COLL_TAG_END;
 * from there on those of partitioned communication (mpi/p2p/part.c). */
#define WM_TAG_PART 0x60000000
/* From here up those of the making of communicators. */
#define WM_TAG_COMM 0x70000000
/* From here up to WM_TAG_CHECK, where collectives have none: meetings of the leaders of two groups
 * over a third communicator. */
#define WM_TAG_INTER COLL_TAG_CALLS
/* From here up to those of MPI_Comm_idup, which runs beside blocking calls. */
#define WM_TAG_IDUP 0x78000000
/* Two tags. */
#define WM_TAG_CHECK 0x3ffffff0

/* The collective side of a communicator (mpi/coll/team.c).  Init is called by all members at
 * the end of the creation of a communicator, without the domain's lock, and may communicate; for
 * MPI_COMM_WORLD and MPI_COMM_SELF in MPI_Init it must not wait for other processes.  Fini
 * tolerates a team that was never set up.  MPI_SUCCESS or what wm_err() returned. */
int wm_coll_team_init(struct wm_comm *c);
/* The same without communication and without shared memory.  With the caller's own way to announce
 * the block that rank 0 takes, the memory may follow: its offset + 1, 0 elsewhere and when there is
 * none; attached on all ranks (0 or -RT_E), or given back by rank 0.  Under the domain's lock. */
void wm_coll_team_plain(struct wm_comm *c);
/* Behind it for a team whose memory follows: what the ranks on each host have together, if they are
 * on several; the block is then that of coll_team_local().  MPI_SUCCESS or what wm_err() returned.
 */
int wm_coll_team_split(struct wm_comm *c);
uint64_t wm_coll_team_block(struct wm_comm *c);
int wm_coll_team_attach(struct wm_comm *c, uint64_t block);
void wm_coll_team_unblock(struct wm_comm *c, uint64_t block);
void wm_coll_team_fini(struct wm_comm *c);

#endif
