/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of runtime/gpu: one context in use, how to enter it, and which file makes
 * which part.  Private to runtime/gpu and its unit tests.
 *
 * Life.  MPI_Init calls rt_gpu_init() after the settings are read and before the first buffer can
 * be classified.  MPI_Finalize (the last user of the library, when no operation of the engine is
 * left and every import has been released) calls rt_gpu_fini(), also from atexit.  rt_gpu_init()
 * may follow again.  Everything except rt_gpu_is_device() runs under the domain's lock.
 *
 * rt_gpu_of() makes a struct rt_gpu when the first address of its context is queried, in this
 * order: streams, images (images.c), move_state (copy.c).  Its address stays valid until
 * rt_gpu_fini(), even if the application destroys the context.  Then it is `lost`: every call on it
 * returns -RT_EGPU, and the next query makes another one for the context that has replaced it.  The
 * loss is noticed by a failed call or, at most 1 ms late, by the next query.  A context that was
 * destroyed and made again may have the same address, so the query checks that an allocation of the
 * library still exists. */
#ifndef RT_GPU_GPU_INT_H
#define RT_GPU_GPU_INT_H

#include "runtime/gpu/driver.h"
#include "runtime/gpu/gpu.h"

#define RT_GPU_MODULES 6 /* room for the images, one a .cu file */
#define RT_GPU_ENGINES 4 /* streams for the copy engines: enough for all engines of an H200 */

struct rt_gpu_block; /* stage.c: memory from which buffers of one length are cut */
struct move_state;   /* copy.c: waiting and running operations, flags, ring */

#define RT_GPU_STAGE_CLASSES 32 /* lengths of staging buffers: small, 4 MiB, 8 MiB ... */

/* Staging memory in one place. */
struct rt_gpu_pool {
    struct rt_list blocks[RT_GPU_STAGE_CLASSES]; /* those with a free buffer come first */
    struct rt_list idle; /* blocks of which no buffer is in use, the longest idle first, */
    size_t nidle;        /* and their bytes */
    bool host;
    bool reported; /* a lack of memory has been reported */
};

struct rt_gpu {
    struct rt_list link; /* in the list of all, dev.c */
    cu_ctx ctx;
    cu_device device;
    struct rt_gpu_info info;
    /* `ctx` is the device's primary context, and this struct holds a reference to it. */
    bool retained;
    bool lost;          /* the context has gone, and with it everything made in it */
    bool shared;        /* other processes use the device: no polling kernel, */
    bool in_turns;      /* and its compute engine works for one process at a time */
    bool stream_writes; /* cuStreamWriteValue32 works here */
    bool links_asked;   /* links.c's */
    enum rt_gpu_links links;
    bool near_fence; /* a copy or reduction that is `near` may end with a fence of device scope */

    /* A small allocation of the library.  The context is unchanged as long as the driver knows this
     * address by this id. */
    cu_ptr mark;
    bool mark_host; /* is pinned host memory */
    uint64_t mark_id;
    uint64_t looked; /* time of the last check, in rt_ticks() */

    /* All non-blocking and of the highest priority. */
    cu_stream kernels;                /* rt_gpu_launch(), batches, the polling kernel */
    cu_stream engine[RT_GPU_ENGINES]; /* copies by the copy engines */
    cu_stream now;                    /* rt_gpu_copy_now() */

    struct move_state *move;          /* copy.c's; NULL before rt_gpu_move_init() */
    cu_module module[RT_GPU_MODULES]; /* images.c's; NULL without kernels */
    cu_function fn[RT_GPU_KERNELS];

    struct rt_gpu_pool host, dev; /* stage.c's; host memory ends with its context, too */
    struct rt_list deferred;      /* rt_gpu_defer(), */
    size_t deferred_nbytes;       /* and the bytes that they hold */
};

/* The struct rt_gpu of a context, prepared when first needed.  ctx NULL: a context of device
 * `ordinal`, for memory that belongs to a device and to no context.  -RT_EGPU, -RT_ENOMEM,
 * logged. */
int rt_gpu_of(cu_ctx ctx, int ordinal, struct rt_gpu **out);

/* Calls of class WAITS (driver.h) wait for the application's kernels, which may wait for what this
 * process does next; so none is made inside a message.  An object that needs such a call embeds a
 * struct rt_gpu_deferred; fn(d) is called once, later:
 *   - from rt_gpu_fini();
 *   - when the driver has answered CU_ERROR_OUT_OF_MEMORY: driver.c calls rt_gpu_run_deferred() and
 *     repeats the call, because waiting is better than failing;
 *   - when a caller that has no other way calls rt_gpu_run_deferred();
 *   - when deferred calls hold more than 1/16 of the device's memory: unused memory is missing
 *     elsewhere, most of all in the process that has freed it.  Then all deferred calls are made,
 *     so that there is one wait for many.
 *
 * Only the first happens while rt_gpu_must_not_wait() holds.  rt_gpu_undefer(): d is in use again.
 *
 * fn is called with g's context current.  With g->lost it is called without a context, at once, and
 * makes no call of the driver.
 *
 * Why the calls do not wait for an idle device instead: the driver cannot be asked for that.  A
 * query of the default stream does not see non-blocking streams, and cuCtxRecordEvent, which does,
 * spoils every capture that is under way in the context, whatever the thread's mode (measured:
 * H200, driver 580).  A thread of its own does not help: while such a call waits, copies of other
 * threads wait for it.
 *
 * Calls that do not wait need none of this: unmapping and releasing VMM memory, destroying streams,
 * events and graphs, opening handles, registering and allocating memory (measured). */
struct rt_gpu_deferred {
    struct rt_list link;
    size_t nbytes; /* of memory, anywhere, that is free after fn() */
    void (*fn)(struct rt_gpu_deferred *d);
};
void rt_gpu_defer(struct rt_gpu *g, struct rt_gpu_deferred *d, size_t nbytes,
                  void (*fn)(struct rt_gpu_deferred *d));
void rt_gpu_undefer(struct rt_gpu *g, struct rt_gpu_deferred *d);
/* Whether a wait for the device could last for ever: the application's stream waits for a peer. */
static inline bool rt_gpu_must_not_wait(void) { return rt_gpu_awaits && rt_gpu_awaits(); }

/* Logs that g is lost, where it matters; returns -RT_EGPU. */
int rt_gpu_gone(const struct rt_gpu *g);

/* Reports that a call on g has returned r; if r means that the context has gone, g becomes lost.
 * True when it is lost. */
bool rt_gpu_check_lost(struct rt_gpu *g, cu_result r);

/* ---- called by dev.c, owned by others ---- */

/* copy.c.  init: g's context is current, streams and images exist; 0, -RT_ENOMEM, -RT_EGPU.  When
 * g->lost is seen, the next rt_gpu_progress() ends all operations of g with -RT_EGPU.  fini, from
 * rt_gpu_fini() only: waits for running operations, ends waiting ones, and frees; with g->lost it
 * makes no call of the driver.  Tolerates g->move NULL. */
int rt_gpu_move_init(struct rt_gpu *g);
void rt_gpu_move_fini(struct rt_gpu *g);
/* images.c.  load: g's context is current; loads all modules and finds all functions.  Without
 * kernels (not built, or no image for this device) it logs this once at level info, leaves
 * g->module[0] NULL and returns 0.  unload: makes no call with g->lost. */
int rt_gpu_images_load(struct rt_gpu *g);
void rt_gpu_images_unload(struct rt_gpu *g);
/* classify.c: forgets all answers. */
void rt_gpu_classify_init(void);
/* ipc.c: unmaps what is left of other processes' memory; makes no call with g->lost. */
void rt_gpu_ipc_fini(struct rt_gpu *g);
/* pinned.c.  take: g's context is current; `p` is NULL after an error.  give: with `lost` it makes
 * no call of the driver; does nothing when `p` is NULL. */
struct rt_gpu_pinned {
    void *p;
    size_t len;  /* bytes */
    bool mapped; /* by this process, not by the driver */
};
cu_result rt_gpu_pinned_take(struct rt_gpu_pinned *m, size_t len);
void rt_gpu_pinned_give(struct rt_gpu_pinned *m, bool lost);
/* stage.c.  release: defers the free of all idle blocks. */
void rt_gpu_stage_init(struct rt_gpu *g);
void rt_gpu_stage_release(struct rt_gpu *g);
void rt_gpu_stage_fini(struct rt_gpu *g);

/* ---- driver.c ---- */

void rt_cuda_forget(void); /* for tests: the table is empty, the next open starts again */

#endif
