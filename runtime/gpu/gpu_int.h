/* SPDX-License-Identifier: BSD-3-Clause */
/* One context in use.  Private to runtime/gpu and its unit tests.
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

#include "runtime/base/list.h"
#include "runtime/gpu/cu.h"
#include "runtime/gpu/devices.h"
#include "runtime/gpu/kernel.h"
#include "runtime/gpu/model.h"

#define RT_GPU_MODULES 7 /* room for the images, one a .cu file */
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
    bool stream_writes; /* copy engines report their ends by cuStreamWriteValue32 */
    bool near_fence; /* a copy or reduction that is `near` may end with a fence of device scope */

    /* A small allocation of the library.  The context is unchanged as long as the driver knows this
     * address by this id. */
    struct {
        cu_ptr p;
        bool host; /* is pinned host memory */
        uint64_t id;
        uint64_t looked; /* time of the last check, in rt_ticks() */
    } mark;

    /* All non-blocking and of the highest priority. */
    cu_stream kernels;                /* rt_gpu_launch(), batches, the polling kernel */
    cu_stream engine[RT_GPU_ENGINES]; /* copies by the copy engines */
    cu_stream now;                    /* rt_gpu_copy_now() */

    struct move_state *move;          /* copy.c's; NULL before rt_gpu_move_init() */
    cu_module module[RT_GPU_MODULES]; /* images.c's; NULL without kernels */
    cu_function fn[RT_GPU_KERNELS];

    struct rt_gpu_pool host, dev; /* stage.c's; host memory ends with its context, too */
    size_t held;                  /* bytes of device memory that the library has allocated */
    struct {                      /* rt_gpu_defer() */
        struct rt_list calls;
        size_t nbytes; /* that they hold */
    } deferred;
    struct {
        bool asked;
        enum rt_gpu_links kind;
    } links; /* links.c's */
};

#endif
