# SPDX-License-Identifier: BSD-3-Clause
# A CUDA driver that runs on the CPU.  Tests find it as libcuda.so.1 (tests.list: gpu=fake); built without sanitizers,
# because it is not under test, and never installed.
fake_cuda = test/fake/gpu/libcuda.so.1
fake_cuda_c = test/fake/gpu/init.c test/fake/gpu/ctx.c test/fake/gpu/space.c test/fake/gpu/mem.c test/fake/gpu/vmm.c \
	test/fake/gpu/pool.c test/fake/gpu/ipc.c test/fake/gpu/stream.c test/fake/gpu/copy.c test/fake/gpu/kernel.c \
	test/fake/gpu/bench.c test/fake/gpu/fold.c test/fake/gpu/atomic.c test/fake/gpu/meet.c test/fake/gpu/push.c test/fake/gpu/graph.c
fake_cuda_h = test/fake/gpu/fake.h test/gpu/cuda_more.h runtime/gpu/cu.h runtime/gpu/cu_types.h runtime/gpu/kernel.h runtime/gpu/move_kernels.h runtime/gpu/push_kernels.h test/bench/limits.h
check_DATA = $(fake_cuda)
# Kernels of an older build know another kernel.h and corrupt data, so `make` refreshes a driver that is there.
all-local: $(wildcard $(fake_cuda))
CLEANFILES += $(fake_cuda)
EXTRA_DIST += $(fake_cuda_c) test/fake/gpu/fake.h test/gpu/cuda_more.h
$(fake_cuda): $(fake_cuda_c) $(fake_cuda_h)
	$(AM_V_CCLD)$(MKDIR_P) test/fake/gpu && sources= && for f in $(fake_cuda_c); do sources="$$sources $(srcdir)/$$f"; done && \
	  $(CC) -include config.h -I$(srcdir) -I. $(filter-out -fsanitize% -fno-sanitize%,$(WEFT_CFLAGS) $(CFLAGS)) -fPIC -shared \
	  -Wl,-soname,libcuda.so.1 -Wl,-z,defs -o $@.tmp $$sources -ldl -lpthread && mv $@.tmp $@
check_PROGRAMS += test/fake/gpu/fake_test
test_fake_gpu_fake_test_SOURCES = test/fake/gpu/fake_test.c
test_fake_gpu_fake_test_LDADD = -ldl -lpthread
# A management library that reports the links of its devices.
fake_nvml = test/fake/gpu/libnvidia-ml.so.1
check_DATA += $(fake_nvml)
CLEANFILES += $(fake_nvml)
EXTRA_DIST += test/fake/gpu/nvml.c
$(fake_nvml): test/fake/gpu/nvml.c
	$(AM_V_CCLD)$(MKDIR_P) $(@D) && $(CC) $(filter-out -fsanitize% -fno-sanitize%,$(WEFT_CFLAGS) $(CFLAGS)) -fPIC -shared \
	  -Wl,-soname,libnvidia-ml.so.1 -Wl,-z,defs -o $@.tmp $(srcdir)/test/fake/gpu/nvml.c && mv $@.tmp $@
# A libcufile that moves data through host memory.
fake_cufile = test/fake/gpu/libcufile.so.0
check_DATA += $(fake_cufile)
CLEANFILES += $(fake_cufile)
EXTRA_DIST += test/fake/gpu/cufile.c
$(fake_cufile): test/fake/gpu/cufile.c $(fake_cuda)
	$(AM_V_CCLD)$(CC) $(filter-out -fsanitize% -fno-sanitize%,$(WEFT_CFLAGS) $(CFLAGS)) -fPIC -shared \
	  -Wl,-soname,libcufile.so.0 -Wl,-z,defs -o $@.tmp $(srcdir)/test/fake/gpu/cufile.c $(fake_cuda) && mv $@.tmp $@
# An NCCL that moves no data, for the benchmarks that compare with NCCL.
fake_nccl = test/fake/nccl/libnccl.so.2
check_DATA += $(fake_nccl)
CLEANFILES += $(fake_nccl)
EXTRA_DIST += test/fake/nccl/nccl.c
$(fake_nccl): test/fake/nccl/nccl.c
	$(AM_V_CCLD)$(MKDIR_P) $(@D) && $(CC) $(filter-out -fsanitize% -fno-sanitize%,$(WEFT_CFLAGS) $(CFLAGS)) -fPIC -shared \
	  -Wl,-soname,libnccl.so.2 -Wl,-z,defs -o $@.tmp $(srcdir)/test/fake/nccl/nccl.c && mv $@.tmp $@
