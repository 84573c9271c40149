/* SPDX-License-Identifier: BSD-3-Clause */
/* GPU memory between the processes of one host: declarations for the files of btl/cuda.
 *
 * The transport moves memory only; another transport carries messages.  An exporter describes each
 * allocation once, in a slot of a table that all local processes read (table.c); a key names slot
 * and generation.  An importer maps the allocation when a key first names it, and keeps the mapping
 * (cache.c).  If an allocation has a file descriptor, the importer's socket gets the descriptor
 * before the importer gets the key (fd.c).  runtime/gpu makes the copies, on the device of the
 * local buffer (cuda.c).
 *
 * A peer may be a process of another job that shares memory with this one (runtime/mem/others.h);
 * its table is in the segment of its job.  It is a peer from the first message of device memory
 * until the engine drops it, because its job is no longer connected or it has ended. */
#ifndef BTL_CUDA_CUDA_H
#define BTL_CUDA_CUDA_H

#include "btl/btl.h"
#include "runtime/base/atomic.h"
#include "runtime/base/list.h"
#include "runtime/gpu/gpu.h"
#include "runtime/mem/others.h"
#include "runtime/mem/segment.h"

/* Slots in a table's first chunk, 64 KiB; each further chunk has twice as many. */
#define CUDA_SLOTS 512u
#define CUDA_CHUNKS 24u /* enough for 32-bit slot numbers */
#define CUDA_UUIDS 32u  /* devices that a process uses */
#define CUDA_NO_SLOT UINT32_MAX
#define CUDA_RANK_WORDS 64u

struct cuda_slot { /* written by its rank, read by all */
    uint32_t gen;  /* 0: empty, or being written; stored last */
    uint32_t pad;
    struct rt_gpu_export e;
    uint64_t pad2[2];
};
_Static_assert(sizeof(struct cuda_slot) == 128, "a slot is two cache lines");

struct cuda_table { /* rank r's own pair region, at BTL_NODE_CUDA */
    uint32_t open;  /* the fields up to `name` are valid; stored last */
    uint32_t name_len;
    char name[16]; /* name of the rank's socket, abstract */
    /* Counters.  Other ranks add 1 after they have sent a descriptor to this rank, after they have
     * begun to use a device, and after they have found memory freed that this rank may have
     * mapped. */
    _Alignas(RT_CACHE_LINE) uint32_t fds_sent;
    uint32_t devices, freed;
    /* Bit r, set by local rank r: a descriptor is missing at r; send all descriptors again. */
    uint64_t again[CUDA_RANK_WORDS];
    uint32_t again_jobs; /* processes of other jobs add 1 for the same */
    uint32_t ended;      /* count of allocations found freed */
    uint32_t nuuids;
    uint8_t uuid[CUDA_UUIDS][16]; /* devices in use */
    /* offsets in the segment; 0: not there yet; the first is unused */
    uint64_t chunk[CUDA_CHUNKS];
    _Alignas(4096) struct cuda_slot slot[CUDA_SLOTS]; /* the first chunk */
};
#define CUDA_HEAD_NBYTES offsetof(struct cuda_table, slot)

/* Chunk of a slot; *slot becomes the slot's number within the chunk. */
static inline uint32_t cuda_chunk_of(uint32_t *slot)
{
    uint32_t k = 31u - (uint32_t)__builtin_clz(*slot / CUDA_SLOTS + 1);
    *slot -= CUDA_SLOTS * ((1u << k) - 1);
    return k;
}

/* A slot of a table in the segment at `base`.  NULL: the table has no such slot. */
static inline struct cuda_slot *cuda_slot_at(char *base, struct cuda_table *t, uint32_t slot)
{
    uint32_t k = cuda_chunk_of(&slot);
    if (k == 0)
        return &t->slot[slot];
    uint64_t off = rt_load_acquire(&t->chunk[k]);
    return off ? (struct cuda_slot *)(base + off) + slot : NULL;
}

struct cuda_key {
    uint32_t slot, gen;
    uint64_t off, len; /* within the export */
    uint64_t addr;     /* for this process itself */
};

struct btl_cuda_peer {
    struct btl_peer base;
    int number; /* index in btl_cuda.peers */
    bool self;
    struct rt_other *other;   /* of another job; NULL: of this one, or dropped */
    char *segment;            /* its job's */
    struct cuda_table *table; /* the peer's; NULL: dropped, but there are imports in use */
    struct rt_bell *bell;
    uint32_t ended_seen;          /* last seen table->ended */
    int sock;                     /* connected to the peer's socket, or -1 */
    bool table_there;             /* the head of the table is reserved */
    struct cuda_import **imports; /* lists by slot of the peer's table: cache.c */
    uint32_t nimports;            /* length of `imports` */
    uint32_t nleft;               /* imports */
};

struct cuda_exports;
struct cuda_socket;
struct cuda_op;
struct cuda_rmem;

struct btl_cuda {
    struct btl base;
    struct btl_cuda_peer **peers; /* by local rank, then of other jobs; NULL until needed */
    int npeers;                   /* length of `peers` */
    struct cuda_table *table;     /* this process's */
    /* last seen table->fds_sent, devices, freed, again_jobs */
    uint32_t fds_seen, devices_seen, freed_seen, again_seen;
    uint32_t era;                 /* rt_gpu_era for which table->uuid was written */
    uint32_t nlooks;              /* calls of progress() while there are exports */
    struct cuda_exports *exports; /* table.c */
    uint64_t nended;              /* imports dropped, or found stale while in use: cache.c */
    struct cuda_socket *socket;   /* fd.c */
    struct cuda_op *free_ops;
    struct cuda_rmem *free_rmems;
    struct btl_mem *free_mems;
    uint32_t nops; /* in use by runtime/gpu */
};

static inline struct cuda_table *cuda_table_of(int rank)
{
    return (struct cuda_table *)((char *)rt_node_pair(rank, rank) + BTL_NODE_CUDA);
}
static inline struct cuda_table *cuda_table_of_other(const struct rt_other *o)
{
    return (struct cuda_table *)((char *)o->own + BTL_NODE_CUDA);
}

/* cuda.c */
/* Whether p's process has ended (a system call). */
bool btl_cuda_gone(const struct btl_cuda_peer *p);
/* Makes the head of p's table accessible.  0, -RT_ENOSPC. */
int btl_cuda_table_reserve(struct btl_cuda_peer *p);
/* Frees a peer of another job that has been dropped, if it has no imports. */
void btl_cuda_peer_free(struct btl_cuda *b, struct btl_cuda_peer *p);

/* table.c */
void btl_cuda_exports_close(struct btl_cuda *b);
/* Forgets what has been sent to the peer, so that it is sent again; `fds`: only descriptors. */
void btl_cuda_exports_forget(struct btl_cuda *b, const struct btl_cuda_peer *p, bool fds);
/* Tests whether the memory of the next n exports, in turn, has been freed. */
void btl_cuda_exports_look(struct btl_cuda *b, uint32_t n);
int btl_cuda_mem_reg(struct btl *b, void *base, size_t len, const struct rt_gpu_ptr *at,
                     struct btl_mem **out);
void btl_cuda_mem_dereg(struct btl_mem *m);
int btl_cuda_mem_offer(struct btl_peer *p, struct btl_mem *m);
int btl_cuda_mem_key(const struct btl_mem *m, void *key);

/* cache.c */
struct cuda_import { /* another process's allocation, mapped for one device; or the error of the
                      * attempt */
    struct cuda_import *next; /* of the same slot */
    struct btl_cuda_peer *peer;
    const struct cuda_slot *slot;
    uint32_t gen;
    int refs;   /* attachments; unmapped only at 0 */
    bool ended; /* found stale while in use */
    struct rt_gpu *g;
    struct rt_gpu_import *m; /* NULL: see err */
    char *base;
    uint64_t len;
    int err;
    uint64_t tried; /* btl_cuda.nended at the failed attempt; a change shows that there may be
                     * memory now */
};
/* Changes when an import is dropped or found stale.  While it is unchanged, an import that had a
 * reference exists. */
static inline uint64_t btl_cuda_imports_ended(const struct btl_cuda *b) { return b->nended; }
/* Takes a new reference to an import that had one when btl_cuda_imports_ended() returned `ended`.
 * False: an import has been dropped since, or the context is lost; call btl_cuda_import_get(). */
bool btl_cuda_import_again(struct btl_cuda *b, struct cuda_import *i, uint64_t ended);
/* Finds or makes the mapping and takes a reference.  -RT_ENOTSUP, -RT_EUNREACH: the data must take
 * another path; -RT_EINVAL: the key exceeds the allocation; -RT_EPEER; -RT_EGPU; -RT_ENOMEM. */
int btl_cuda_import_get(struct btl_cuda *b, struct btl_cuda_peer *p, const struct cuda_key *k,
                        struct rt_gpu *g, struct cuda_import **out);
void btl_cuda_import_put(struct cuda_import *i);
/* Unmaps unused mappings of memory that their exporters have found freed.  `contexts`: contexts
 * have been destroyed; also unmaps their mappings. */
void btl_cuda_imports_look(struct btl_cuda *b, bool contexts);
/* Unmaps the unused mappings of a peer that is no longer needed.  Those of a peer without a table
 * that are in use are unmapped later, and the peer is freed then. */
void btl_cuda_imports_drop(struct btl_cuda *b, struct btl_cuda_peer *p);
/* Unmaps all mappings of a peer. */
void btl_cuda_imports_close(struct btl_cuda *b, struct btl_cuda_peer *p);

/* fd.c */
/* 0, even if there is no socket (logged): peers then map only memory without descriptors;
 * -RT_ENOMEM. */
int btl_cuda_socket_open(struct btl_cuda *b);
void btl_cuda_socket_close(struct btl_cuda *b);
/* Sends the descriptors of a slot; the caller keeps them.  -RT_ENOTSUP: the peer accepts no
 * descriptors, at least not now. */
int btl_cuda_fds_send(struct btl_cuda *b, struct btl_cuda_peer *p, uint32_t slot, uint32_t gen,
                      const struct rt_gpu_fds *fds);
/* Receives all descriptors that have arrived. */
void btl_cuda_fds_drain(struct btl_cuda *b);
/* Returns the descriptors of a slot, which the caller then owns; n 0: none. */
struct rt_gpu_fds btl_cuda_fds_take(struct btl_cuda *b, struct rt_proc from, uint32_t slot,
                                    uint32_t gen);
/* Returns descriptors for another attempt. */
void btl_cuda_fds_keep(struct btl_cuda *b, struct rt_proc from, uint32_t slot, uint32_t gen,
                       struct rt_gpu_fds *fds);

extern const struct btl_ops btl_cuda_ops;

#endif
