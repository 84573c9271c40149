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
typedef uint64_t cu_handle; /* generic allocation */
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
#define CU_ERROR_NOT_FOUND 500
#define CU_ERROR_NOT_READY 600
#define CU_ERROR_PEER_ACCESS_ALREADY_ENABLED 704
#define CU_ERROR_CONTEXT_IS_DESTROYED 709
#define CU_ERROR_NOT_SUPPORTED 801

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
#define CU_DEV_MULTIPROCESSORS 16
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

#define CU_CTX_SCHED_AUTO 0u
#define CU_STREAM_NON_BLOCKING 1u
#define CU_EVENT_DISABLE_TIMING 2u
#define CU_CAPTURE_NONE 0   /* cuStreamIsCapturing */
#define CU_CAPTURE_RELAXED 2 /* a mode: no call is forbidden while a stream is captured */
#define CU_HOST_PORTABLE 1u
#define CU_HOST_DEVICEMAP 2u
#define CU_IPC_LAZY_PEER_ACCESS 1u
#define CU_HANDLE_POSIX_FD 1
#define CU_RANGE_DMABUF_FD 1  /* cuMemGetHandleForAddressRange */
#define CU_RDMA_FLUSH_HOST 1  /* cuFlushGPUDirectRDMAWrites works */
#define CU_RDMA_ORDER_OWNER 100 /* the GPU that has the memory sees writes in order */
#define CU_RDMA_TO_CTX 0
#define CU_RDMA_FOR_OWNER 100
#define CU_LOCATION_DEVICE 1
#define CU_ACCESS_READWRITE 3
#define CU_ALLOCATION_PINNED 1

struct cu_uuid { uint8_t bytes[16]; };
struct cu_ipc { uint8_t bytes[64]; };
struct cu_pool_ptr { uint8_t bytes[64]; };
struct cu_location { int type, id; };
struct cu_access { struct cu_location location; int flags; };
struct cu_alloc_prop {
    int type, handle_types;
    struct cu_location location;
    void *win32;
    struct { uint8_t compression, gpudirect; uint16_t usage; uint8_t reserved[4]; } flags;
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
struct cu_copy_attr { /* of the copies of a batch */
    int order; /* when the source is read */
    struct cu_location src, dst; /* for managed memory */
    unsigned flags;
};
#define CU_COPY_ORDER_STREAM 1
struct cu_kernel_node { /* a launch as a node of a graph */
    cu_function f;
    unsigned gx, gy, gz, bx, by, bz, shared_nbytes;
    void **params, **extra;
};

/* CU(field, exported name, parameters): must exist, and OPT: may be missing (NULL) in old drivers.
 * The versioned name is the one whose parameters are given here. */
#define CU_FUNCTIONS(CU, OPT) \
    CU(init, cuInit, (unsigned flags)) \
    CU(driver_get_version, cuDriverGetVersion, (int *version)) \
    CU(get_error_name, cuGetErrorName, (cu_result err, const char **name)) \
    CU(get_error_string, cuGetErrorString, (cu_result err, const char **text)) \
    CU(device_get_count, cuDeviceGetCount, (int *n)) \
    CU(device_get, cuDeviceGet, (cu_device *d, int ordinal)) \
    CU(device_get_name, cuDeviceGetName, (char *name, int len, cu_device d)) \
    OPT(device_get_uuid, cuDeviceGetUuid_v2, (struct cu_uuid *uuid, cu_device d)) \
    CU(device_get_attribute, cuDeviceGetAttribute, (int *value, int attribute, cu_device d)) \
    CU(device_total_mem, cuDeviceTotalMem_v2, (size_t *nbytes, cu_device d)) \
    CU(device_get_pci_bus_id, cuDeviceGetPCIBusId, (char *id, int len, cu_device d)) \
    CU(device_can_access_peer, cuDeviceCanAccessPeer, (int *can, cu_device d, cu_device peer)) \
    CU(primary_ctx_get_state, cuDevicePrimaryCtxGetState, \
       (cu_device d, unsigned *flags, int *active)) \
    CU(primary_ctx_retain, cuDevicePrimaryCtxRetain, (cu_ctx *c, cu_device d)) \
    CU(primary_ctx_release, cuDevicePrimaryCtxRelease_v2, (cu_device d)) \
    CU(ctx_get_current, cuCtxGetCurrent, (cu_ctx *c)) \
    CU(ctx_push_current, cuCtxPushCurrent_v2, (cu_ctx c)) \
    CU(ctx_pop_current, cuCtxPopCurrent_v2, (cu_ctx *c)) \
    CU(ctx_get_device, cuCtxGetDevice, (cu_device *d)) \
    CU(ctx_enable_peer_access, cuCtxEnablePeerAccess, (cu_ctx peer, unsigned flags)) \
    CU(ctx_synchronize, cuCtxSynchronize, (void)) \
    CU(ctx_get_stream_priority_range, cuCtxGetStreamPriorityRange, (int *least, int *greatest)) \
    CU(pointer_get_attributes, cuPointerGetAttributes, \
       (unsigned n, int *attributes, void **values, cu_ptr p)) \
    CU(mem_get_address_range, cuMemGetAddressRange_v2, (cu_ptr *base, size_t *len, cu_ptr p)) \
    CU(mem_get_info, cuMemGetInfo_v2, (size_t *free_nbytes, size_t *total)) \
    CU(mem_alloc, cuMemAlloc_v2, (cu_ptr *p, size_t nbytes)) \
    CU(mem_free, cuMemFree_v2, (cu_ptr p)) \
    CU(mem_host_alloc, cuMemHostAlloc, (void **p, size_t nbytes, unsigned flags)) \
    CU(mem_free_host, cuMemFreeHost, (void *p)) \
    OPT(mem_host_register, cuMemHostRegister_v2, (void *p, size_t nbytes, unsigned flags)) \
    OPT(mem_host_unregister, cuMemHostUnregister, (void *p)) \
    CU(stream_create_with_priority, cuStreamCreateWithPriority, \
       (cu_stream *s, unsigned flags, int priority)) \
    CU(stream_destroy, cuStreamDestroy_v2, (cu_stream s)) \
    CU(stream_query, cuStreamQuery, (cu_stream s)) \
    CU(stream_synchronize, cuStreamSynchronize, (cu_stream s)) \
    OPT(stream_write_value32, cuStreamWriteValue32_v2, \
        (cu_stream s, cu_ptr addr, uint32_t value, unsigned flags)) \
    OPT(stream_get_ctx, cuStreamGetCtx, (cu_stream s, cu_ctx *c)) \
    OPT(stream_is_capturing, cuStreamIsCapturing, (cu_stream s, int *status)) \
    OPT(thread_exchange_capture_mode, cuThreadExchangeStreamCaptureMode, (int *mode)) \
    CU(event_create, cuEventCreate, (cu_event *e, unsigned flags)) \
    CU(event_record, cuEventRecord, (cu_event e, cu_stream s)) \
    CU(event_query, cuEventQuery, (cu_event e)) \
    CU(event_destroy, cuEventDestroy_v2, (cu_event e)) \
    CU(memcpy_async, cuMemcpyAsync, (cu_ptr dst, cu_ptr src, size_t nbytes, cu_stream s)) \
    CU(memcpy_2d_async, cuMemcpy2DAsync_v2, (const struct cu_copy2d *c, cu_stream s)) \
    OPT(memcpy_batch_async, cuMemcpyBatchAsync, \
        (cu_ptr *dst, cu_ptr *src, size_t *nbytes, size_t n, struct cu_copy_attr *attrs, \
         size_t *first_of_attr, size_t nattrs, size_t *failed, cu_stream s)) \
    CU(memset_d8_async, cuMemsetD8Async, (cu_ptr p, unsigned char c, size_t n, cu_stream s)) \
    CU(module_load_data, cuModuleLoadData, (cu_module *m, const void *image)) \
    CU(module_unload, cuModuleUnload, (cu_module m)) \
    CU(module_get_function, cuModuleGetFunction, (cu_function *f, cu_module m, const char *name)) \
    OPT(func_load, cuFuncLoad, (cu_function f)) \
    CU(launch_kernel, cuLaunchKernel, \
       (cu_function f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, \
        unsigned bz, unsigned shared_nbytes, cu_stream s, void **params, void **extra)) \
    OPT(graph_create, cuGraphCreate, (cu_graph *graph, unsigned flags)) \
    OPT(graph_add_kernel, cuGraphAddKernelNode, \
        (cu_graph_node *node, cu_graph graph, const cu_graph_node *after, size_t nafter, \
         const struct cu_kernel_node *k)) \
    OPT(graph_instantiate, cuGraphInstantiateWithFlags, \
        (cu_graph_exec *exec, cu_graph graph, unsigned long long flags)) \
    OPT(graph_upload, cuGraphUpload, (cu_graph_exec exec, cu_stream s)) \
    OPT(graph_set_kernel, cuGraphExecKernelNodeSetParams, \
        (cu_graph_exec exec, cu_graph_node node, const struct cu_kernel_node *k)) \
    OPT(graph_launch, cuGraphLaunch, (cu_graph_exec exec, cu_stream s)) \
    OPT(graph_exec_destroy, cuGraphExecDestroy, (cu_graph_exec exec)) \
    OPT(graph_destroy, cuGraphDestroy, (cu_graph graph)) \
    CU(ipc_get_mem_handle, cuIpcGetMemHandle, (struct cu_ipc *h, cu_ptr p)) \
    CU(ipc_open_mem_handle, cuIpcOpenMemHandle_v2, (cu_ptr *p, struct cu_ipc h, unsigned flags)) \
    CU(ipc_close_mem_handle, cuIpcCloseMemHandle, (cu_ptr p)) \
    OPT(mem_retain_allocation_handle, cuMemRetainAllocationHandle, (cu_handle *h, void *p)) \
    OPT(mem_release, cuMemRelease, (cu_handle h)) \
    OPT(mem_create, cuMemCreate, \
        (cu_handle *h, size_t nbytes, const struct cu_alloc_prop *prop, unsigned long long flags)) \
    OPT(mem_get_allocation_granularity, cuMemGetAllocationGranularity, \
        (size_t *nbytes, const struct cu_alloc_prop *prop, int option)) \
    OPT(mem_export_to_shareable_handle, cuMemExportToShareableHandle, \
        (void *fd, cu_handle h, int type, unsigned long long flags)) \
    OPT(mem_import_from_shareable_handle, cuMemImportFromShareableHandle, \
        (cu_handle *h, void *fd, int type)) \
    OPT(mem_address_reserve, cuMemAddressReserve, \
        (cu_ptr *p, size_t nbytes, size_t align, cu_ptr at, unsigned long long flags)) \
    OPT(mem_address_free, cuMemAddressFree, (cu_ptr p, size_t nbytes)) \
    OPT(mem_map, cuMemMap, \
        (cu_ptr p, size_t nbytes, size_t off, cu_handle h, unsigned long long flags)) \
    OPT(mem_unmap, cuMemUnmap, (cu_ptr p, size_t nbytes)) \
    OPT(mem_set_access, cuMemSetAccess, \
        (cu_ptr p, size_t nbytes, const struct cu_access *a, size_t n)) \
    OPT(mem_pool_export_to_shareable_handle, cuMemPoolExportToShareableHandle, \
        (void *fd, cu_pool pool, int type, unsigned long long flags)) \
    OPT(mem_pool_import_from_shareable_handle, cuMemPoolImportFromShareableHandle, \
        (cu_pool *pool, void *fd, int type, unsigned long long flags)) \
    OPT(mem_pool_export_pointer, cuMemPoolExportPointer, (struct cu_pool_ptr *out, cu_ptr p)) \
    OPT(mem_pool_import_pointer, cuMemPoolImportPointer, \
        (cu_ptr *p, cu_pool pool, struct cu_pool_ptr *data)) \
    OPT(mem_pool_set_access, cuMemPoolSetAccess, \
        (cu_pool pool, const struct cu_access *map, size_t n)) \
    OPT(mem_pool_destroy, cuMemPoolDestroy, (cu_pool pool)) \
    OPT(mem_get_handle_for_address_range, cuMemGetHandleForAddressRange, \
        (void *handle, cu_ptr p, size_t nbytes, int type, unsigned long long flags)) \
    OPT(pointer_set_attribute, cuPointerSetAttribute, \
        (const void *value, int attribute, cu_ptr p)) \
    OPT(flush_rdma_writes, cuFlushGPUDirectRDMAWrites, (int target, int scope))

#define CU_FIELD(field, symbol, params) cu_result(*field) params;
struct rt_cuda {
    CU_FUNCTIONS(CU_FIELD, CU_FIELD)
};
#undef CU_FIELD
extern struct rt_cuda rt_cuda; /* to be used once rt_cuda_open() has answered 0 */

/* Fills the table from a libcuda that this process has loaded already, or, with `load`, loads it.
 * 0, or -RT_ENOENT; repeating it is cheap.  Initialises nothing. */
int rt_cuda_open(bool load);
/* Logs what failed with the driver's name and text for it; returns -RT_EGPU, or -RT_ENOMEM for the
 * device's memory. */
int rt_cuda_error(cu_result r, const char *what);

#endif
