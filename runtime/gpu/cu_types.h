/* SPDX-License-Identifier: BSD-3-Clause */
/* The CUDA driver's binary interface: types and constants, with the values and layouts of CUDA 11.2
 * to 13; nothing here needs CUDA's headers. */
#ifndef RT_GPU_CU_TYPES_H
#define RT_GPU_CU_TYPES_H

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
#define CU_WAIT_VALUE_GEQ 0u /* of cuStreamWaitValue32 */
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

#endif
