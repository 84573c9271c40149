/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators and groups as objects.  mpi/core/comm.h and mpi/core/group.h create and free them.
 */
#ifndef WM_BASE_COMM_H
#define WM_BASE_COMM_H

#include "coll/coll.h"
#include "mpi/base/mpi_int.h"
#include "runtime/boot/boot.h"

struct wm_peer; /* the engine's view of a process: mpi/p2p/domain.h */
struct wm_domain;
struct wm_attrs; /* cached attributes, mpi/base/attr.c */
struct wm_bbuf;
struct wm_topo; /* a virtual topology: mpi/topo/topo.h */
struct wm_win;
struct wm_check;
struct wm_session; /* mpi/base/session.h */
struct wm_ft_call; /* mpi/ft/agree.h */

struct wm_group { /* immutable once made; shared by reference */
    struct rt_obj obj;
    int size, rank; /* rank of this process, MPI_UNDEFINED if it is not a member */
    /* Members by rank, owned.  NULL: the consecutive processes from `first` on, as in
     * MPI_COMM_WORLD; such a group costs the same for any number of members. */
    struct rt_proc *procs;
    struct rt_proc first;
    struct wm_session *session; /* it was derived from this one, referenced; NULL: world model */
};

/* The process with rank i. */
static inline struct rt_proc wm_group_proc(const struct wm_group *g, int i)
{
    return g->procs ? g->procs[i] : (struct rt_proc){ g->first.ns, g->first.rank + (uint32_t)i };
}

/* The rank of a process, or MPI_UNDEFINED; a linear search if the group has a list. */
int wm_group_find(const struct wm_group *g, struct rt_proc p);

/* What mpi/core does with a topology, without knowing topologies. */
struct wm_topo_ops {
    int (*copy)(const struct wm_topo *t,
                struct wm_topo **out); /* MPI_SUCCESS or what wm_err() returned */
    void (*free)(struct wm_topo *t);
};

struct wm_comm {
    struct rt_obj obj;
    int rank, size; /* of the local group */
    uint32_t ctx;   /* even, agreed by all members; ctx: point-to-point, ctx + 1: collectives */
    bool inter;
    bool no_handle;          /* the user has no handle: freed, or the communicator is internal */
    bool near_unknown;       /* not complete, of several jobs: mpi/coll/team.c */
    struct wm_group *group;  /* local group */
    struct wm_group *remote; /* of an intercommunicator; else == group, without a reference */
    struct wm_domain *dom;
    struct wm_peer **peers; /* by rank of `remote`, owned; NULL until the rank is first addressed */
    struct wm_errh *errh;   /* referenced */
    struct wm_attrs *attrs;
    struct wm_info *info;
    uint32_t ncalls;      /* calls so far that create objects from it, the same on all ranks */
    struct wm_bbuf *bbuf; /* for buffered sends, mpi/p2p/buffered.c; NULL: the process's buffer */
    struct coll_team team;
    size_t team_off;       /* offset of the team's block in the node segment: mpi/coll/team.c */
    struct wm_comm *local; /* of an intercommunicator: its local group as a hidden
                              intracommunicator; owned */
    struct wm_topo *topo;  /* owned; NULL: none */
    const struct wm_topo_ops *topo_ops;
    struct wm_check *check;     /* WEFT_CHECK: mpi/coll/check.h; owned, NULL: not created yet */
    struct wm_session *session; /* it descends from this one, referenced; NULL: the world model */
    struct wm_file *file; /* of a file's own communicator: the file, whose error handler applies;
                           * else NULL */
    uint32_t notices;     /* of a file's own communicator and of those made from it: the context on
                           * which processes report a death (mpi/coll/alive.c); else 0 */
    struct wm_xstream_comm *stream; /* of a stream communicator: mpi/stream/stream.h; else NULL */
    void (*stream_left)(struct wm_comm *c); /* with `stream`: the user frees the handle */
    /* With `stream`: a window is created on c. */
    int (*stream_window)(struct wm_win *win, struct wm_comm *c);
    struct {              /* deaths, by their places in runtime/boot/dead.h: mpi/p2p/failed.h */
        uint32_t nacked;  /* the user has acknowledged this many */
        uint32_t nseen;   /* `unacked` is of these */
        bool unacked;     /* one of the others is of a process to receive from */
        bool revoked;     /* mpi/ft/revoke.c; then `peers` is empty */
        bool published;   /* as revoked: rt_activity_revoked() */
        uint64_t uid;     /* mpi/ft/ft.h; 0: not needed yet */
        uint32_t nagreed; /* agreements begun so far, the same on all ranks */
        struct wm_ft_call *calls; /* mpi/ft/agree.h: the first is in progress, the others wait */
    } ft;
    void (*destroy)(struct wm_comm *c); /* called by the last wm_comm_unref() */
    struct wm_comm *lane;               /* its part on another lane (mpi/p2p/lane.h); NULL: none */
    struct wm_comm *whole; /* of such a part: the communicator, referenced; else NULL */
    char name[MPI_MAX_OBJECT_NAME];
};

extern struct rt_slab wm_comm_slab, wm_group_slab;
extern struct wm_comm *wm_comm_world, *wm_comm_self; /* NULL outside init..finalize */
extern struct wm_comm *wm_comm_predefined[8];        /* index handle & 7: null, world, self */
extern struct wm_group wm_group_empty;
extern struct wm_group *wm_group_predefined[8]; /* null, empty */

/* The object behind a handle; NULL for MPI_COMM_NULL, stale or foreign handles. */
static inline struct wm_comm *wm_comm_get(MPI_Comm h)
{
    uintptr_t v = (uintptr_t)h;
    if (rt_likely(v < WM_PREDEFINED_MAX))
        return (v & ~7u) == 0x100 ? wm_comm_predefined[v & 7] : NULL;
    return rt_slab_get(&wm_comm_slab, v);
}
/* The same for a handle that is predefined. */
static inline struct wm_comm *wm_comm_known(MPI_Comm h)
{
    return wm_comm_predefined[(uintptr_t)h & 7];
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
static inline void wm_comm_unref(struct wm_comm *c)
{
    if (--c->obj.refs == 0)
        c->destroy(c);
}

/* Contexts are 2 * id and 2 * id + 1; as many ids as handles of communicators. */
#define WM_CTX_IDS (1u << 20)
/* The context ids in use from the start in every process. */
#define WM_CTX_WORLD 2u
#define WM_CTX_SELF 4u
#define WM_CTX_JOB 6u    /* of mpi/core/session_comm.c, for agreements without a communicator */
#define WM_CTX_BRIDGE 8u /* of mpi/dynamic/link.c, for the roots of two groups that meet */

/* Tags on a collective context.  Collectives use the tags below COLL_TAG_CALLS, persistent ones
 * those from COLL_TAG_PERSISTENT to COLL_TAG_END.  Each constant below is the first of a range. */
/* Partitioned communication: mpi/p2p/part.c. */
#define WM_TAG_PART 0x60000000
/* Creation of communicators. */
#define WM_TAG_COMM 0x70000000
/* Exchanges between the leaders of two groups over a third communicator; the range ends before
 * WM_TAG_CHECK. */
#define WM_TAG_INTER COLL_TAG_CALLS
/* The collective calls that create objects, each with a tag of its own: MPI_Comm_idup may run at
 * the same time as others, and a call that has failed may leave messages. */
#define WM_TAG_CALL 0x78000000
/* Two tags of WEFT_CHECK: mpi/coll/check.c. */
#define WM_TAG_CHECK 0x3ffffff0
/* The tag of the call in progress, which the binding has counted. */
static inline int wm_comm_call_tag(const struct wm_comm *c)
{
    return WM_TAG_CALL + (int)(rt_load_relaxed(&c->ncalls) % (0x7fffffff - WM_TAG_CALL));
}

#endif
