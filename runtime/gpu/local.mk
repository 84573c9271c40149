# SPDX-License-Identifier: BSD-3-Clause
# Kernels are built by nvcc, if configure has found one.
rt_sources += runtime/gpu/cost.def runtime/gpu/address.h runtime/gpu/atomic.h runtime/gpu/bounce.h runtime/gpu/classify.h \
	runtime/gpu/context.h runtime/gpu/copy.h runtime/gpu/cu.h runtime/gpu/cu_types.h runtime/gpu/dev.h runtime/gpu/devices.h \
	runtime/gpu/driver.h runtime/gpu/flight.h runtime/gpu/fold.h runtime/gpu/fold_kernels.h runtime/gpu/gpu.h \
	runtime/gpu/gpu_int.h runtime/gpu/images.h runtime/gpu/ipc.h runtime/gpu/kernel.h runtime/gpu/launch.h runtime/gpu/life.h \
	runtime/gpu/linger.h runtime/gpu/links.h runtime/gpu/model.h runtime/gpu/move.h runtime/gpu/move_kernels.h runtime/gpu/move_state.h \
	runtime/gpu/op.h runtime/gpu/pieces.h runtime/gpu/pinned.h runtime/gpu/place.h runtime/gpu/ptx.h runtime/gpu/push.h runtime/gpu/push_kernels.h runtime/gpu/rdma.h \
	runtime/gpu/recall.h runtime/gpu/stage.h runtime/gpu/stream_ops.h runtime/gpu/atomic.c runtime/gpu/bounce.c \
	runtime/gpu/classify.c runtime/gpu/context.c runtime/gpu/copy.c runtime/gpu/dev.c runtime/gpu/devices.c \
	runtime/gpu/driver.c runtime/gpu/flight.c runtime/gpu/fold.c runtime/gpu/images.c runtime/gpu/ipc.c runtime/gpu/launch.c \
	runtime/gpu/life.c runtime/gpu/linger.c runtime/gpu/links.c runtime/gpu/model.c runtime/gpu/move.c runtime/gpu/pieces.c \
	runtime/gpu/pinned.c runtime/gpu/place.c runtime/gpu/push.c runtime/gpu/rdma.c runtime/gpu/recall.c runtime/gpu/stage.c \
	runtime/gpu/stream_ops.c

# Kernels: each .cu file becomes an image (fatbin), and all images one C file of the build tree.
gpu_kernels = runtime/gpu/pack.cu runtime/gpu/move.cu runtime/gpu/fold.cu runtime/gpu/fold_rare.cu \
	runtime/gpu/meet.cu runtime/gpu/atomic.cu runtime/gpu/push.cu
gpu_kernel_headers = runtime/gpu/kernel.h runtime/gpu/move_kernels.h runtime/gpu/push_kernels.h runtime/gpu/ptx.h runtime/gpu/completion.h \
	runtime/gpu/fold_kernels.h runtime/gpu/fold_loop.h runtime/gpu/fold_int.h runtime/gpu/fold_kinds.h runtime/gpu/fold_rare_kinds.h runtime/gpu/fold_ring.h runtime/gpu/atomic_kernel.h
EXTRA_DIST += $(gpu_kernels) runtime/gpu/fold_loop.h runtime/gpu/fold_int.h runtime/gpu/fold_kinds.h runtime/gpu/fold_rare_kinds.h runtime/gpu/fold_ring.h runtime/gpu/atomic_kernel.h runtime/gpu/completion.h runtime/gpu/embed.py
if WITH_NVCC
gpu_images = $(gpu_kernels:.cu=.fatbin)
$(gpu_images): $(gpu_kernel_headers)
else
gpu_images =
endif
rt_built += runtime/gpu/embedded.c
CLEANFILES += $(gpu_images) runtime/gpu/embedded.c
SUFFIXES = .cu .fatbin
.cu.fatbin:
	$(AM_V_GEN)$(MKDIR_P) $(@D) && \
	$(NVCC) $(NVCC_TARGET) -std=c++17 -O3 -I$(top_srcdir) $(NVCCFLAGS) --fatbin -o $@ $<
runtime/gpu/embedded.c: runtime/gpu/embed.py $(gpu_images)
	$(AM_V_GEN)$(MKDIR_P) $(@D) && $(PYTHON) $(top_srcdir)/runtime/gpu/embed.py $@ $(gpu_images)
