# SPDX-License-Identifier: BSD-3-Clause
# MPI programs that use GPUs.  check runs them over the fake driver (rows with gpu=fake in test/tests.list), check-gpu
# over the real one, with the GPUs of the machine.
EXTRA_DIST += test/gpu/probe.cu test/gpu/links.cu test/gpu/legs.cu test/gpu/pack_check.cu test/gpu/pack_case.h test/gpu/fold_check.cu test/gpu/map_again.cu test/gpu/fold_case.h test/gpu/tests.list test/gpu/p2p_dead.py \
	test/gpu/coll_dead.py test/gpu/stream_dead.py test/gpu/dyn_dead.py test/gpu/sanitize test/gpu/examples
gputest = test/gpu/exchange.h test/gpu/gputest.h test/gpu/gputest.c test/gpu/cuda_more.h
gputest_ldadd = libmpi_abi.la -ldl
gpu_programs = test/gpu/border test/gpu/p2p_kinds test/gpu/p2p_types test/gpu/p2p_calls test/gpu/p2p_random test/gpu/p2p_fault test/gpu/p2p_devices \
	test/gpu/p2p_rdma test/gpu/p2p_capture test/gpu/p2p_busy test/gpu/p2p_turns test/gpu/p2p_nccl test/gpu/p2p_stalls test/gpu/p2p_victim test/gpu/p2p_huge test/gpu/p2p_threads test/gpu/p2p_leaks test/gpu/pack_kinds \
	test/gpu/coll_device test/gpu/coll_random test/gpu/coll_bits test/gpu/coll_huge test/gpu/rma_enqueue \
	test/gpu/coll_types test/gpu/coll_bounce test/gpu/coll_capture test/gpu/coll_many test/gpu/queries \
	test/gpu/coll_faults test/gpu/coll_nomem test/gpu/coll_void test/gpu/coll_late test/gpu/coll_turns test/gpu/coll_victim \
	test/gpu/stream_order test/gpu/stream_random test/gpu/stream_stuck test/gpu/stream_faults test/gpu/stream_proxy test/gpu/io_device test/gpu/io_storage test/gpu/rma_device \
	test/gpu/rma_atomic_device test/gpu/dyn_device
check_PROGRAMS += $(gpu_programs)
test_gpu_border_SOURCES = test/gpu/border.c test/gpu/capture.h $(gputest)
test_gpu_border_LDADD = $(gputest_ldadd) -lpthread
test_gpu_border_LDFLAGS = $(mpi_ldflags)
test_gpu_p2p_kinds_SOURCES = test/gpu/p2p_kinds.c $(gputest)
test_gpu_p2p_kinds_LDADD = $(gputest_ldadd)
test_gpu_p2p_kinds_LDFLAGS = $(mpi_ldflags)
test_gpu_p2p_types_SOURCES = test/gpu/p2p_types.c $(gputest)
test_gpu_p2p_types_LDADD = $(gputest_ldadd)
test_gpu_p2p_types_LDFLAGS = $(mpi_ldflags)
test_gpu_p2p_calls_SOURCES = test/gpu/p2p_calls.c $(gputest)
test_gpu_p2p_calls_LDADD = $(gputest_ldadd)
test_gpu_p2p_calls_LDFLAGS = $(mpi_ldflags)
test_gpu_io_storage_SOURCES = test/gpu/io_storage.c test/mpi/iotest.h $(gputest)
test_gpu_io_storage_LDADD = $(gputest_ldadd) -ldl
test_gpu_io_storage_LDFLAGS = $(mpi_ldflags)
test_gpu_io_device_SOURCES = test/gpu/io_device.c test/mpi/iotest.h $(gputest)
test_gpu_io_device_LDADD = $(gputest_ldadd)
test_gpu_io_device_LDFLAGS = $(mpi_ldflags)
test_gpu_rma_device_SOURCES = test/gpu/rma_device.c test/mpi/rma_random.h test/mpi/rma_model.h test/mpi/mpitest.h $(gputest)
test_gpu_rma_device_LDADD = $(gputest_ldadd)
test_gpu_rma_device_LDFLAGS = $(mpi_ldflags)
test_gpu_rma_atomic_device_SOURCES = test/gpu/rma_atomic_device.c test/mpi/mpitest.h $(gputest)
test_gpu_rma_atomic_device_LDADD = $(gputest_ldadd)
test_gpu_rma_atomic_device_LDFLAGS = $(mpi_ldflags)
test_gpu_dyn_device_SOURCES = test/gpu/dyn_device.c test/descriptors.h test/mpi/mpitest.h $(gputest)
test_gpu_dyn_device_LDADD = $(gputest_ldadd)
test_gpu_dyn_device_LDFLAGS = $(mpi_ldflags)
test_gpu_p2p_rdma_SOURCES = test/gpu/p2p_rdma.c $(gputest)
test_gpu_p2p_rdma_LDADD = $(gputest_ldadd)
test_gpu_p2p_rdma_LDFLAGS = $(mpi_ldflags)
test_gpu_p2p_capture_SOURCES = test/gpu/p2p_capture.c test/gpu/capture.h $(gputest)
test_gpu_p2p_capture_LDADD = $(gputest_ldadd) -lpthread
test_gpu_p2p_capture_LDFLAGS = $(mpi_ldflags)
test_gpu_p2p_turns_SOURCES = test/gpu/p2p_turns.c test/mpi/mpitest.h $(gputest)
test_gpu_p2p_turns_LDADD = $(gputest_ldadd)
test_gpu_p2p_turns_LDFLAGS = $(mpi_ldflags)
test_gpu_p2p_busy_SOURCES = test/gpu/p2p_busy.c test/bench/limits.h $(gputest)
nodist_test_gpu_p2p_busy_SOURCES = test/bench/limits_image.c
test_gpu_p2p_busy_CFLAGS = $(AM_CFLAGS) # objects of its own, apart from libtool's
test_gpu_p2p_busy_LDADD = $(gputest_ldadd)
test_gpu_p2p_busy_LDFLAGS = $(mpi_ldflags)
test_gpu_p2p_nccl_SOURCES = test/gpu/p2p_nccl.c $(gputest)
test_gpu_p2p_nccl_LDADD = $(gputest_ldadd)
test_gpu_p2p_nccl_LDFLAGS = $(mpi_ldflags)
test_gpu_p2p_stalls_SOURCES = test/gpu/p2p_stalls.c $(gputest)
test_gpu_p2p_stalls_LDADD = $(gputest_ldadd)
test_gpu_p2p_stalls_LDFLAGS = $(mpi_ldflags)
test_gpu_p2p_random_SOURCES = test/gpu/p2p_random.c $(gputest)
test_gpu_p2p_random_LDADD = $(gputest_ldadd)
test_gpu_p2p_random_LDFLAGS = $(mpi_ldflags)
test_gpu_p2p_fault_SOURCES = test/gpu/p2p_fault.c $(gputest)
test_gpu_p2p_fault_LDADD = $(gputest_ldadd)
test_gpu_p2p_fault_LDFLAGS = $(mpi_ldflags)
test_gpu_p2p_devices_SOURCES = test/gpu/p2p_devices.c $(gputest)
test_gpu_p2p_devices_LDADD = $(gputest_ldadd)
test_gpu_p2p_devices_LDFLAGS = $(mpi_ldflags)
test_gpu_p2p_victim_SOURCES = test/gpu/p2p_victim.c test/gpu/victim.h $(gputest)
test_gpu_p2p_victim_LDADD = $(gputest_ldadd)
test_gpu_p2p_victim_LDFLAGS = $(mpi_ldflags)
test_gpu_p2p_huge_SOURCES = test/gpu/p2p_huge.c $(gputest)
test_gpu_p2p_huge_LDADD = $(gputest_ldadd)
test_gpu_p2p_huge_LDFLAGS = $(mpi_ldflags)
test_gpu_p2p_threads_SOURCES = test/gpu/p2p_threads.c $(gputest)
test_gpu_p2p_threads_LDADD = $(gputest_ldadd) -lpthread
test_gpu_p2p_threads_LDFLAGS = $(mpi_ldflags)
test_gpu_pack_kinds_SOURCES = test/gpu/pack_kinds.c $(gputest)
test_gpu_pack_kinds_LDADD = $(gputest_ldadd)
test_gpu_pack_kinds_LDFLAGS = $(mpi_ldflags)
test_gpu_coll_device_SOURCES = test/gpu/coll_device.c $(gputest)
test_gpu_coll_device_LDADD = $(gputest_ldadd)
test_gpu_coll_device_LDFLAGS = $(mpi_ldflags)
test_gpu_p2p_leaks_SOURCES = test/gpu/p2p_leaks.c $(gputest)
test_gpu_p2p_leaks_LDADD = $(gputest_ldadd)
test_gpu_p2p_leaks_LDFLAGS = $(mpi_ldflags)
collcall = test/gpu/collcall.h test/gpu/collcall.c test/gpu/collpost.c test/gpu/collref.h test/gpu/collref.c
test_gpu_coll_random_SOURCES = test/gpu/coll_random.c $(collcall) $(gputest)
test_gpu_coll_random_LDADD = $(gputest_ldadd) -lm
test_gpu_coll_random_LDFLAGS = $(mpi_ldflags)
test_gpu_coll_bits_SOURCES = test/gpu/coll_bits.c test/gpu/collref.h test/gpu/collref.c $(gputest)
test_gpu_coll_bits_LDADD = $(gputest_ldadd) -lm
test_gpu_coll_bits_LDFLAGS = $(mpi_ldflags)
test_gpu_coll_types_SOURCES = test/gpu/coll_types.c test/gpu/collref.h test/gpu/collref.c $(gputest)
test_gpu_coll_types_LDADD = $(gputest_ldadd) -lm
test_gpu_coll_types_LDFLAGS = $(mpi_ldflags)
test_gpu_coll_huge_SOURCES = test/gpu/coll_huge.c $(gputest)
test_gpu_coll_huge_LDADD = $(gputest_ldadd)
test_gpu_coll_huge_LDFLAGS = $(mpi_ldflags)
test_gpu_coll_bounce_SOURCES = test/gpu/coll_bounce.c $(gputest)
test_gpu_coll_bounce_LDADD = $(gputest_ldadd)
test_gpu_coll_bounce_LDFLAGS = $(mpi_ldflags)
test_gpu_coll_capture_SOURCES = test/gpu/coll_capture.c test/gpu/capture.h $(gputest)
test_gpu_coll_capture_LDADD = $(gputest_ldadd) -lpthread
test_gpu_coll_capture_LDFLAGS = $(mpi_ldflags)
test_gpu_rma_enqueue_SOURCES = test/gpu/rma_enqueue.c test/mpi/mpitest.h $(gputest)
test_gpu_rma_enqueue_LDADD = $(gputest_ldadd)
test_gpu_rma_enqueue_LDFLAGS = $(mpi_ldflags)
test_gpu_coll_many_SOURCES = test/gpu/coll_many.c test/gpu/collsum.h $(gputest)
test_gpu_coll_many_LDADD = $(gputest_ldadd)
test_gpu_coll_many_LDFLAGS = $(mpi_ldflags)
test_gpu_queries_SOURCES = test/gpu/queries.c $(gputest)
test_gpu_queries_LDADD = $(gputest_ldadd)
test_gpu_queries_LDFLAGS = $(mpi_ldflags)
test_gpu_coll_nomem_SOURCES = test/gpu/coll_nomem.c test/mpi/nomem_alloc.c test/mpi/nomem_alloc.h $(gputest)
test_gpu_coll_nomem_LDADD = $(gputest_ldadd)
test_gpu_coll_nomem_LDFLAGS = $(mpi_ldflags)
test_gpu_coll_faults_SOURCES = test/gpu/coll_faults.c test/gpu/collsum.h $(gputest)
test_gpu_coll_faults_LDADD = $(gputest_ldadd) -lpthread
test_gpu_coll_faults_LDFLAGS = $(mpi_ldflags)
test_gpu_coll_void_SOURCES = test/gpu/coll_void.c test/gpu/collsum.h $(gputest)
test_gpu_coll_void_LDADD = $(gputest_ldadd) -ldl
test_gpu_coll_void_LDFLAGS = $(mpi_ldflags)
test_gpu_coll_turns_SOURCES = test/gpu/coll_turns.c test/mpi/mpitest.h $(gputest)
test_gpu_coll_turns_LDADD = $(gputest_ldadd)
test_gpu_coll_turns_LDFLAGS = $(mpi_ldflags)
test_gpu_coll_late_SOURCES = test/gpu/coll_late.c test/gpu/collsum.h test/bench/limits.h $(gputest)
nodist_test_gpu_coll_late_SOURCES = test/bench/limits_image.c
test_gpu_coll_late_CFLAGS = $(AM_CFLAGS) # objects of its own, apart from libtool's
test_gpu_coll_late_LDADD = $(gputest_ldadd) -lpthread
test_gpu_coll_late_LDFLAGS = $(mpi_ldflags)
test_gpu_coll_victim_SOURCES = test/gpu/coll_victim.c test/gpu/victim.h $(gputest)
test_gpu_coll_victim_LDADD = $(gputest_ldadd)
test_gpu_coll_victim_LDFLAGS = $(mpi_ldflags)
test_gpu_stream_stuck_SOURCES = test/gpu/stream_stuck.c $(gputest)
test_gpu_stream_stuck_LDADD = $(gputest_ldadd)
test_gpu_stream_stuck_LDFLAGS = $(mpi_ldflags)
test_gpu_stream_order_SOURCES = test/gpu/stream_order.c $(gputest)
test_gpu_stream_order_LDADD = $(gputest_ldadd)
test_gpu_stream_order_LDFLAGS = $(mpi_ldflags)
test_gpu_stream_random_SOURCES = test/gpu/stream_random.c $(collcall) $(gputest)
test_gpu_stream_random_LDADD = $(gputest_ldadd) -lm
test_gpu_stream_random_LDFLAGS = $(mpi_ldflags)
test_gpu_stream_proxy_SOURCES = test/gpu/stream_proxy.c test/gpu/victim.h $(gputest)
test_gpu_stream_proxy_LDADD = $(gputest_ldadd) -lpthread
test_gpu_stream_proxy_LDFLAGS = $(mpi_ldflags)
test_gpu_stream_faults_SOURCES = test/gpu/stream_faults.c $(gputest)
test_gpu_stream_faults_LDADD = $(gputest_ldadd) -lpthread
test_gpu_stream_faults_LDFLAGS = $(mpi_ldflags)
check-gpu: all test/unit/gpu_kinds_test test/unit/gpu_fold_test $(gpu_programs)
	$(srcdir)/test/tool/runtests --list $(srcdir)/test/gpu/tests.list $(RUNTESTS)
# compute-sanitizer over the kernels.
check-gpu-sanitize: all $(gpu_programs)
	$(srcdir)/test/gpu/sanitize --srcdir=$(srcdir) --builddir=. --nvcc="$(NVCC)" || test $$? = 77
.PHONY: check-gpu check-gpu-sanitize
