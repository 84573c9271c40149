/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of the CUDA driver's functions that this library calls, filled from libcuda.so.1 at run
 * time (driver.c).  Private to runtime/gpu and tests. */
#ifndef RT_GPU_CU_H
#define RT_GPU_CU_H

#include "runtime/gpu/cu_types.h"

/* The functions of the driver that this library calls.  A row is
 * X(must, class, field, exported name, parameters, arguments); must: CU, or OPT for a function that
 * old drivers may lack (NULL).  The exported name is the version with the parameters given here.
 * Classes, measured (H200, driver 580) or, for rare calls, assumed:
 *   FREE     never waits, and is allowed while a stream is captured in any mode;
 *   GUARDED  never waits for more than its own stream; a capture in global mode forbids it to every
 *            thread, one in thread-local mode to its own, unless the thread has relaxed its mode;
 *   WAITS    waits until the device is idle, the application's kernels included, and holds locks of
 *            the driver meanwhile, so that another thread of this process cannot copy either.
 *            Not to be called inside a message: rt_gpu_defer() (context.h) is for that.
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
    X(OPT, FREE, stream_wait_value32, cuStreamWaitValue32_v2, \
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

#endif
