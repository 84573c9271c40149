/* SPDX-License-Identifier: BSD-3-Clause */
/* The CUDA driver's binary interface, as far as this library calls it, and the table of its
 * functions, filled from libcuda.so.1 at run time.  Values and layouts are those of CUDA 11.2 to
 * 13; nothing here needs CUDA's headers.  Private to runtime/gpu, runtime/layout and tests. */
#ifndef RT_GPU_DRIVER_H
#define RT_GPU_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int cu_result; /* 0 is success */
typedef int cu_device;
typedef uint64_t cu_ptr;    /* device pointer, in the one address space of host and devices */
typedef uint64_t cu_handle; /* handle of an allocation made by the VMM calls */
typedef struct cu_ctx_st *cu_ctx;
typedef struct cu_stream_st *cu_stream;
typedef struct cu_event_st *cu_event;
typedef struct cu_module_st *cu_module;
typedef struct cu_function_st *cu_function;
typedef struct cu_pool_st *cu_pool;
typedef struct cu_graph_st *cu_graph;
typedef struct cu_graph_node_st *cu_graph_node;
typedef struct cu_graph_exec_st *cu_graph_exec;

#define CU_OK 0
#define CU_ERROR_INVALID_VALUE 1
#define CU_ERROR_OUT_OF_MEMORY 2
#define CU_ERROR_NOT_INITIALIZED 3
#define CU_ERROR_DEINITIALIZED 4
#define CU_ERROR_NO_DEVICE 100
#define CU_ERROR_INVALID_CONTEXT 201
#define CU_ERROR_ALREADY_MAPPED 208
#define CU_ERROR_NOT_FOUND 500
#define CU_ERROR_NOT_READY 600
#define CU_ERROR_PEER_ACCESS_ALREADY_ENABLED 704
#define CU_ERROR_CONTEXT_IS_DESTROYED 709
#define CU_ERROR_NOT_SUPPORTED 801
#define CU_ERROR_CAPTURE_FIRST 900 /* first of the errors about captures */
#define CU_ERROR_CAPTURE_LAST 907

/* cuPointerGetAttributes */
#define CU_PTR_CONTEXT 1
#define CU_PTR_MEMORY_TYPE 2 /* of type uint32_t: CU_MEMORY_... */
#define CU_PTR_BUFFER_ID 7
#define CU_PTR_IS_MANAGED 8
#define CU_PTR_DEVICE_ORDINAL 9
#define CU_PTR_IS_LEGACY_IPC_CAPABLE 10
#define CU_PTR_RANGE_START 11
#define CU_PTR_RANGE_SIZE 12
#define CU_PTR_MAPPED 13
#define CU_PTR_ALLOWED_HANDLE_TYPES 14
#define CU_PTR_MEMPOOL_HANDLE 17
#define CU_PTR_MAPPING_SIZE 18
#define CU_PTR_MAPPING_BASE 19
#define CU_PTR_MEMORY_BLOCK_ID 20
#define CU_MEMORY_HOST 1u
#define CU_MEMORY_DEVICE 2u

#define CU_PTR_SYNC_MEMOPS 6 /* cuPointerSetAttribute: of type unsigned */

/* cuDeviceGetAttribute */
#define CU_P2P_PERFORMANCE_RANK 1
#define CU_P2P_NATIVE_ATOMICS 3
#define CU_DEV_MULTIPROCESSORS 16
#define CU_DEV_COMPUTE_MODE 20 /* CU_COMPUTE_... */
#define CU_COMPUTE_EXCLUSIVE_PROCESS 3
#define CU_DEV_UNIFIED_ADDRESSING 41
#define CU_DEV_ASYNC_ENGINES 40
#define CU_DEV_MAJOR 75
#define CU_DEV_MINOR 76
#define CU_DEV_MANAGED_MEMORY 83
#define CU_DEV_CONCURRENT_MANAGED 89
#define CU_DEV_CAN_STREAM_MEM_OPS 92
#define CU_DEV_VMM 102
#define CU_DEV_POSIX_FD 103
#define CU_DEV_MEMORY_POOLS 115
#define CU_DEV_RDMA 116
#define CU_DEV_RDMA_FLUSH 117 /* bits: CU_RDMA_FLUSH_... */
#define CU_DEV_RDMA_ORDER 118 /* CU_RDMA_ORDER_... */
#define CU_DEV_DMABUF 124
#define CU_DEV_MPS 133 /* CUDA 12.3 */

#define CU_CTX_SCHED_AUTO 0u
#define CU_STREAM_NON_BLOCKING 1u
#define CU_EVENT_DISABLE_TIMING 2u
#define CU_CAPTURE_NONE 0    /* cuStreamIsCapturing */
#define CU_CAPTURE_RELAXED 2 /* a mode: no call is forbidden while a stream is captured */
#define CU_HOST_PORTABLE 1u
#define CU_HOST_DEVICEMAP 2u
#define CU_IPC_LAZY_PEER_ACCESS 1u
#define CU_HANDLE_POSIX_FD 1
#define CU_RANGE_DMABUF_FD 1    /* cuMemGetHandleForAddressRange */
#define CU_RDMA_FLUSH_HOST 1    /* cuFlushGPUDirectRDMAWrites works */
#define CU_RDMA_ORDER_OWNER 100 /* the GPU that has the memory sees writes in order */
#define CU_RDMA_TO_CTX 0
#define CU_RDMA_FOR_OWNER 100
#define CU_LOCATION_DEVICE 1
#define CU_ACCESS_READWRITE 3
#define CU_ALLOCATION_PINNED 1

struct cu_uuid {
    uint8_t bytes[16];
};
struct cu_ipc {
    uint8_t bytes[64];
};
struct cu_location {
    int type, id;
};
struct cu_access {
    struct cu_location location;
    int flags;
};
struct cu_alloc_prop {
    int type, handle_types;
    struct cu_location location;
    void *win32;
    struct {
        uint8_t compression, gpudirect;
        uint16_t usage;
        uint8_t reserved[4];
    } flags;
};
struct cu_copy2d {
    size_t src_x, src_y;
    unsigned src_type; /* CU_MEMORY_UNIFIED */
    const void *src_host;
    cu_ptr src_device;
    void *src_array;
    size_t src_pitch;
    size_t dst_x, dst_y;
    unsigned dst_type;
    void *dst_host;
    cu_ptr dst_device;
    void *dst_array;
    size_t dst_pitch;
    size_t width, height;
};
#define CU_MEMORY_UNIFIED 4u
struct cu_copy_attr {            /* of the copies of a batch */
    int order;                   /* when the source is read */
    struct cu_location src, dst; /* for managed memory */
    unsigned flags;
};
#define CU_COPY_ORDER_STREAM 1
struct cu_kernel_node { /* a launch as a node of a graph */
    cu_function f;
    unsigned gx, gy, gz, bx, by, bz, shared_nbytes;
    void **params, **extra;
};

/* The functions of the driver that this library calls.  A row is
 * X(must, class, field, exported name, parameters, arguments); must: CU, or OPT for a function that
 * old drivers may lack (NULL).  The exported name is the version with the parameters given here.
 * Classes, measured (H200, driver 580) or, for rare calls, assumed:
 *   FREE     never waits, and is allowed while a stream is captured in any mode;
 *   GUARDED  never waits for more than its own stream; a capture in global mode forbids it to every
 *            thread, one in thread-local mode to its own, unless the thread has relaxed its mode;
 *   WAITS    waits until the device is idle, the application's kernels included, and holds locks of
 *            the driver meanwhile, so that another thread of this process cannot copy either.
 *            Not to be called inside a message: rt_gpu_defer() (gpu_int.h) is for that.
 * func_load does not wait if the function was loaded with its module (no lazy loading). */
#define CU_LIST(X, CU, OPT) \
    X(CU, FREE, init, cuInit, (unsigned flags), (flags)) \
    X(CU, FREE, driver_get_version, cuDriverGetVersion, (int *version), (version)) \
    X(CU, FREE, get_error_name, cuGetErrorName, (cu_result err, const char **name), (err, name)) \
    X(CU, FREE, get_error_string, cuGetErrorString, (cu_result err, const char **text), \
      (err, text)) \
    X(CU, FREE, device_get_count, cuDeviceGetCount, (int *n), (n)) \
    X(CU, FREE, device_get, cuDeviceGet, (cu_device * d, int ordinal), (d, ordinal)) \
    X(CU, FREE, device_get_name, cuDeviceGetName, (char *name, int len, cu_device d), \
      (name, len, d)) \
    X(OPT, FREE, device_get_uuid, cuDeviceGetUuid_v2, (struct cu_uuid * uuid, cu_device d), \
      (uuid, d)) \
    X(CU, FREE, device_get_attribute, cuDeviceGetAttribute, \
      (int *value, int attribute, cu_device d), (value, attribute, d)) \
    X(CU, FREE, device_total_mem, cuDeviceTotalMem_v2, (size_t * nbytes, cu_device d), \
      (nbytes, d)) \
    X(CU, FREE, device_get_pci_bus_id, cuDeviceGetPCIBusId, (char *id, int len, cu_device d), \
      (id, len, d)) \
    X(CU, FREE, device_can_access_peer, cuDeviceCanAccessPeer, \
      (int *can, cu_device d, cu_device peer), (can, d, peer)) \
    X(OPT, FREE, device_get_p2p_attribute, cuDeviceGetP2PAttribute, \
      (int *value, int attribute, cu_device d, cu_device peer), (value, attribute, d, peer)) \
    X(CU, FREE, primary_ctx_get_state, cuDevicePrimaryCtxGetState, \
      (cu_device d, unsigned *flags, int *active), (d, flags, active)) \
    X(CU, FREE, primary_ctx_retain, cuDevicePrimaryCtxRetain, (cu_ctx * c, cu_device d), (c, d)) \
    X(CU, WAITS, primary_ctx_release, cuDevicePrimaryCtxRelease_v2, (cu_device d), (d)) \
    X(CU, FREE, ctx_get_current, cuCtxGetCurrent, (cu_ctx * c), (c)) \
    X(CU, FREE, ctx_push_current, cuCtxPushCurrent_v2, (cu_ctx c), (c)) \
    X(CU, FREE, ctx_pop_current, cuCtxPopCurrent_v2, (cu_ctx * c), (c)) \
    X(CU, FREE, ctx_get_device, cuCtxGetDevice, (cu_device * d), (d)) \
    X(CU, GUARDED, ctx_enable_peer_access, cuCtxEnablePeerAccess, (cu_ctx peer, unsigned flags), \
      (peer, flags)) \
    X(CU, FREE, ctx_get_stream_priority_range, cuCtxGetStreamPriorityRange, \
      (int *least, int *greatest), (least, greatest)) \
    X(CU, FREE, pointer_get_attributes, cuPointerGetAttributes, \
      (unsigned n, int *attributes, void **values, cu_ptr p), (n, attributes, values, p)) \
    X(CU, FREE, mem_get_address_range, cuMemGetAddressRange_v2, \
      (cu_ptr * base, size_t * len, cu_ptr p), (base, len, p)) \
    X(CU, FREE, mem_get_info, cuMemGetInfo_v2, (size_t * free_nbytes, size_t * total), \
      (free_nbytes, total)) \
    X(CU, GUARDED, mem_alloc, cuMemAlloc_v2, (cu_ptr * p, size_t nbytes), (p, nbytes)) \
    X(CU, WAITS, mem_free, cuMemFree_v2, (cu_ptr p), (p)) \
    X(CU, GUARDED, mem_host_alloc, cuMemHostAlloc, (void **p, size_t nbytes, unsigned flags), \
      (p, nbytes, flags)) \
    X(CU, WAITS, mem_free_host, cuMemFreeHost, (void *p), (p)) \
    X(OPT, GUARDED, mem_host_register, cuMemHostRegister_v2, \
      (void *p, size_t nbytes, unsigned flags), (p, nbytes, flags)) \
    X(OPT, WAITS, mem_host_unregister, cuMemHostUnregister, (void *p), (p)) \
    X(CU, GUARDED, stream_create_with_priority, cuStreamCreateWithPriority, \
      (cu_stream * s, unsigned flags, int priority), (s, flags, priority)) \
    X(CU, GUARDED, stream_destroy, cuStreamDestroy_v2, (cu_stream s), (s)) \
    X(CU, GUARDED, stream_query, cuStreamQuery, (cu_stream s), (s)) \
    X(CU, GUARDED, stream_synchronize, cuStreamSynchronize, (cu_stream s), (s)) \
    X(OPT, FREE, stream_write_value32, cuStreamWriteValue32_v2, \
      (cu_stream s, cu_ptr addr, uint32_t value, unsigned flags), (s, addr, value, flags)) \
    X(OPT, FREE, stream_get_ctx, cuStreamGetCtx, (cu_stream s, cu_ctx * c), (s, c)) \
    X(OPT, FREE, stream_is_capturing, cuStreamIsCapturing, (cu_stream s, int *status), \
      (s, status)) \
    X(OPT, FREE, thread_exchange_capture_mode, cuThreadExchangeStreamCaptureMode, (int *mode), \
      (mode)) \
    X(CU, GUARDED, event_create, cuEventCreate, (cu_event * e, unsigned flags), (e, flags)) \
    X(CU, FREE, event_record, cuEventRecord, (cu_event e, cu_stream s), (e, s)) \
    X(CU, GUARDED, event_query, cuEventQuery, (cu_event e), (e)) \
    X(CU, GUARDED, event_destroy, cuEventDestroy_v2, (cu_event e), (e)) \
    X(CU, FREE, memcpy_async, cuMemcpyAsync, (cu_ptr dst, cu_ptr src, size_t nbytes, cu_stream s), \
      (dst, src, nbytes, s)) \
    X(CU, FREE, memcpy_2d_async, cuMemcpy2DAsync_v2, (const struct cu_copy2d *c, cu_stream s), \
      (c, s)) \
    X(OPT, FREE, memcpy_batch_async, cuMemcpyBatchAsync, \
      (cu_ptr * dst, cu_ptr * src, size_t * nbytes, size_t n, struct cu_copy_attr * attrs, \
       size_t * first_of_attr, size_t nattrs, size_t * failed, cu_stream s), \
      (dst, src, nbytes, n, attrs, first_of_attr, nattrs, failed, s)) \
    X(CU, FREE, memset_d8_async, cuMemsetD8Async, \
      (cu_ptr p, unsigned char c, size_t n, cu_stream s), (p, c, n, s)) \
    X(CU, WAITS, module_load_data, cuModuleLoadData, (cu_module * m, const void *image), \
      (m, image)) \
    X(CU, WAITS, module_unload, cuModuleUnload, (cu_module m), (m)) \
    X(CU, GUARDED, module_get_function, cuModuleGetFunction, \
      (cu_function * f, cu_module m, const char *name), (f, m, name)) \
    X(OPT, WAITS, func_load, cuFuncLoad, (cu_function f), (f)) \
    X(CU, FREE, launch_kernel, cuLaunchKernel, \
      (cu_function f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, \
       unsigned bz, unsigned shared_nbytes, cu_stream s, void **params, void **extra), \
      (f, gx, gy, gz, bx, by, bz, shared_nbytes, s, params, extra)) \
    X(OPT, GUARDED, graph_create, cuGraphCreate, (cu_graph * graph, unsigned flags), \
      (graph, flags)) \
    X(OPT, GUARDED, graph_add_kernel, cuGraphAddKernelNode, \
      (cu_graph_node * node, cu_graph graph, const cu_graph_node *after, size_t nafter, \
       const struct cu_kernel_node *k), \
      (node, graph, after, nafter, k)) \
    X(OPT, GUARDED, graph_instantiate, cuGraphInstantiateWithFlags, \
      (cu_graph_exec * exec, cu_graph graph, unsigned long long flags), (exec, graph, flags)) \
    X(OPT, GUARDED, graph_upload, cuGraphUpload, (cu_graph_exec exec, cu_stream s), (exec, s)) \
    X(OPT, GUARDED, graph_set_kernel, cuGraphExecKernelNodeSetParams, \
      (cu_graph_exec exec, cu_graph_node node, const struct cu_kernel_node *k), (exec, node, k)) \
    X(OPT, GUARDED, graph_launch, cuGraphLaunch, (cu_graph_exec exec, cu_stream s), (exec, s)) \
    X(OPT, GUARDED, graph_exec_destroy, cuGraphExecDestroy, (cu_graph_exec exec), (exec)) \
    X(OPT, GUARDED, graph_destroy, cuGraphDestroy, (cu_graph graph), (graph)) \
    X(CU, GUARDED, ipc_get_mem_handle, cuIpcGetMemHandle, (struct cu_ipc * h, cu_ptr p), (h, p)) \
    X(CU, GUARDED, ipc_open_mem_handle, cuIpcOpenMemHandle_v2, \
      (cu_ptr * p, struct cu_ipc h, unsigned flags), (p, h, flags)) \
    X(CU, WAITS, ipc_close_mem_handle, cuIpcCloseMemHandle, (cu_ptr p), (p)) \
    X(OPT, GUARDED, mem_retain_allocation_handle, cuMemRetainAllocationHandle, \
      (cu_handle * h, void *p), (h, p)) \
    X(OPT, GUARDED, mem_release, cuMemRelease, (cu_handle h), (h)) \
    X(OPT, GUARDED, mem_create, cuMemCreate, \
      (cu_handle * h, size_t nbytes, const struct cu_alloc_prop *prop, unsigned long long flags), \
      (h, nbytes, prop, flags)) \
    X(OPT, GUARDED, mem_get_allocation_granularity, cuMemGetAllocationGranularity, \
      (size_t * nbytes, const struct cu_alloc_prop *prop, int option), (nbytes, prop, option)) \
    X(OPT, GUARDED, mem_export_to_shareable_handle, cuMemExportToShareableHandle, \
      (void *fd, cu_handle h, int type, unsigned long long flags), (fd, h, type, flags)) \
    X(OPT, GUARDED, mem_import_from_shareable_handle, cuMemImportFromShareableHandle, \
      (cu_handle * h, void *fd, int type), (h, fd, type)) \
    X(OPT, GUARDED, mem_address_reserve, cuMemAddressReserve, \
      (cu_ptr * p, size_t nbytes, size_t align, cu_ptr at, unsigned long long flags), \
      (p, nbytes, align, at, flags)) \
    X(OPT, GUARDED, mem_address_free, cuMemAddressFree, (cu_ptr p, size_t nbytes), (p, nbytes)) \
    X(OPT, GUARDED, mem_map, cuMemMap, \
      (cu_ptr p, size_t nbytes, size_t off, cu_handle h, unsigned long long flags), \
      (p, nbytes, off, h, flags)) \
    X(OPT, GUARDED, mem_unmap, cuMemUnmap, (cu_ptr p, size_t nbytes), (p, nbytes)) \
    X(OPT, GUARDED, mem_set_access, cuMemSetAccess, \
      (cu_ptr p, size_t nbytes, const struct cu_access *a, size_t n), (p, nbytes, a, n)) \
    X(OPT, GUARDED, mem_get_handle_for_address_range, cuMemGetHandleForAddressRange, \
      (void *handle, cu_ptr p, size_t nbytes, int type, unsigned long long flags), \
      (handle, p, nbytes, type, flags)) \
    X(OPT, GUARDED, pointer_set_attribute, cuPointerSetAttribute, \
      (const void *value, int attribute, cu_ptr p), (value, attribute, p)) \
    X(OPT, FREE, flush_rdma_writes, cuFlushGPUDirectRDMAWrites, (int target, int scope), \
      (target, scope))

/* The same list without classes: CU(field, exported name, parameters), OPT(...). */
#define CU_PLAIN(must, class, field, symbol, params, args) must(field, symbol, params)
#define CU_FUNCTIONS(CU, OPT) CU_LIST(CU_PLAIN, CU, OPT)

#define CU_FIELD(field, symbol, params) cu_result(*field) params;
struct rt_cuda {
    CU_FUNCTIONS(CU_FIELD, CU_FIELD)
};
#undef CU_FIELD
/* For use after rt_cuda_open() has returned 0.  A call that is not FREE is here a function of
 * driver.c that puts the thread into relaxed capture mode for the length of the call: a query that
 * a capture forbids does not only fail, it makes the capture fail, too (measured). */
extern struct rt_cuda rt_cuda;

/* Fills the table from a libcuda that this process has loaded already, or, with `load`, loads it.
 * 0, or -RT_ENOENT; a repeated call is cheap.  Initialises nothing. */
int rt_cuda_open(bool load);
/* Logs the failed call with the driver's name and text of the error; returns -RT_EGPU, or
 * -RT_ENOMEM for the device's memory. */
int rt_cuda_error(cu_result r, const char *what);

/* What an error of the driver is about.  Every decision about errors starts here. */
enum rt_cuda_fault {
    RT_CUDA_FINE,    /* none, or a stream or event that is not ready */
    RT_CUDA_CALL,    /* this call alone, or an error of a kernel, which later calls return, too */
    RT_CUDA_CAPTURE, /* a capture of any stream: never a failure of the context */
    RT_CUDA_GONE     /* the context does not exist any more */
};
enum rt_cuda_fault rt_cuda_fault(cu_result r);

#endif
