/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions of the CUDA driver that tests call in addition to those of runtime/gpu/cu.h, in the
 * role of an application.  The fake driver defines them, the test programs look them up. */
#ifndef TEST_GPU_CUDA_MORE_H
#define TEST_GPU_CUDA_MORE_H

#include "runtime/gpu/cu.h"

#define CU_ERROR_INVALID_DEVICE 101
#define CU_ERROR_INVALID_IMAGE 200
#define CU_ERROR_PEER_ACCESS_UNSUPPORTED 217
#define CU_ERROR_INVALID_HANDLE 400
#define CU_ERROR_ILLEGAL_ADDRESS 700
#define CU_ERROR_PEER_ACCESS_NOT_ENABLED 705
#define CU_ERROR_PRIMARY_CONTEXT_ACTIVE 708
#define CU_ERROR_HOST_MEMORY_ALREADY_REGISTERED 712
#define CU_ERROR_HOST_MEMORY_NOT_REGISTERED 713
#define CU_ERROR_MISALIGNED_ADDRESS 716
#define CU_ERROR_STREAM_CAPTURE_UNSUPPORTED 900
#define CU_ERROR_STREAM_CAPTURE_INVALIDATED 901
#define CU_ERROR_STREAM_CAPTURE_UNMATCHED 903
#define CU_ERROR_UNKNOWN 999
#define CU_CAPTURE_GLOBAL 0 /* capture modes, like CU_CAPTURE_RELAXED */
#define CU_CAPTURE_THREAD_LOCAL 1
#define CU_MEM_ATTACH_GLOBAL 1u

struct cu_pool_props {
    int type, handle_types;
    struct cu_location location;
    void *win32;
    size_t max_nbytes;
    unsigned short usage;
    unsigned char reserved[54];
};

#define CU_MORE_FUNCTIONS(CU) \
    CU(ctx_create, cuCtxCreate_v2, (cu_ctx * c, unsigned flags, cu_device d)) \
    CU(ctx_destroy, cuCtxDestroy_v2, (cu_ctx c)) \
    CU(ctx_set_current, cuCtxSetCurrent, (cu_ctx c)) \
    CU(ctx_synchronize, cuCtxSynchronize, (void)) \
    CU(ctx_disable_peer_access, cuCtxDisablePeerAccess, (cu_ctx peer)) \
    CU(primary_ctx_reset, cuDevicePrimaryCtxReset_v2, (cu_device d)) \
    CU(mem_alloc_managed, cuMemAllocManaged, (cu_ptr * p, size_t nbytes, unsigned flags)) \
    CU(mem_host_get_device_pointer, cuMemHostGetDevicePointer_v2, \
       (cu_ptr * p, void *host, unsigned flags)) \
    CU(pointer_get_attribute, cuPointerGetAttribute, (void *value, int attribute, cu_ptr p)) \
    CU(memcpy_now, cuMemcpy, (cu_ptr dst, cu_ptr src, size_t nbytes)) \
    CU(memset_d8, cuMemsetD8_v2, (cu_ptr p, unsigned char c, size_t n)) \
    CU(stream_create, cuStreamCreate, (cu_stream * s, unsigned flags)) \
    CU(stream_wait_event, cuStreamWaitEvent, (cu_stream s, cu_event e, unsigned flags)) \
    CU(stream_begin_capture, cuStreamBeginCapture_v2, (cu_stream s, int mode)) \
    CU(stream_end_capture, cuStreamEndCapture, (cu_stream s, cu_graph * graph)) \
    CU(event_synchronize, cuEventSynchronize, (cu_event e)) \
    CU(device_get_default_pool, cuDeviceGetDefaultMemPool, (cu_pool * pool, cu_device d)) \
    CU(device_get_pool, cuDeviceGetMemPool, (cu_pool * pool, cu_device d)) \
    CU(device_set_pool, cuDeviceSetMemPool, (cu_device d, cu_pool pool)) \
    CU(pool_create, cuMemPoolCreate, (cu_pool * pool, const struct cu_pool_props *props)) \
    CU(mem_pool_destroy, cuMemPoolDestroy, (cu_pool pool)) \
    CU(mem_alloc_from_pool_async, cuMemAllocFromPoolAsync, \
       (cu_ptr * p, size_t nbytes, cu_pool pool, cu_stream s)) \
    CU(mem_alloc_async, cuMemAllocAsync, (cu_ptr * p, size_t nbytes, cu_stream s)) \
    CU(mem_free_async, cuMemFreeAsync, (cu_ptr p, cu_stream s))

/* Of the fake driver only: how many of these exist, in all contexts together. */
enum fake_thing {
    FAKE_MEMORY, /* allocations, mappings, imports */
    FAKE_STREAMS,
    FAKE_EVENTS,
    FAKE_RETAINED, /* references to primary contexts */
    FAKE_HANDLES,  /* of virtual memory management */
    FAKE_MODULES,
    FAKE_THINGS
};
typedef int fake_cuda_alive_fn(enum fake_thing what);
/* How often this process has called cuStreamSynchronize. */
typedef int fake_cuda_nwaits_fn(void);
/* An application's kernel on a stream with normal priority: it ends at the next release, or after
 * max_ms. */
typedef cu_result fake_cuda_hold_fn(cu_stream s, unsigned max_ms);
typedef void fake_cuda_release_fn(void);
/* How many calls of this process have waited until the device was idle while work of the
 * application was running, that is, work on streams of normal priority, of which the library has
 * none. */
typedef int fake_cuda_nstalls_fn(void);
/* The most bytes of host memory that were pinned at the same time since the previous call. */
typedef size_t fake_cuda_pinned_fn(void);
/* Adds rules as in FAKE_CUDA_FAIL; while nothing is running. */
typedef void fake_cuda_fail_fn(const char *rules);
typedef long fake_cuda_seen_fn(const char *what); /* calls that met the first rule for it */

/* A field in a table of these functions. */
#define CU_FIELD_OF_TEST(field, symbol, params) cu_result(*field) params;

#endif
