# SPDX-License-Identifier: BSD-3-Clause
# MPI programs that use GPUs.  check runs them over the fake driver (rows with gpu=fake in test/tests.list), check-gpu
# over the real one, with as many GPUs as there are.
EXTRA_DIST += test/gpu/probe.cu test/gpu/pack_check.cu test/gpu/tests.list
gputest = test/gpu/gputest.h test/gpu/gputest.c test/gpu/cuda_more.h runtime/gpu/driver.h
gpu_programs = test/gpu/p2p_kinds
check_PROGRAMS += $(gpu_programs)
test_gpu_p2p_kinds_SOURCES = test/gpu/p2p_kinds.c test/gpu/exchange.h $(gputest)
test_gpu_p2p_kinds_LDADD = libmpi_abi.la -ldl
test_gpu_p2p_kinds_LDFLAGS = $(mpi_ldflags)
check-gpu: all $(gpu_programs)
	$(srcdir)/test/tool/runtests --list $(srcdir)/test/gpu/tests.list $(RUNTESTS)
.PHONY: check-gpu
