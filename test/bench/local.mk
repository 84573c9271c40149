# SPDX-License-Identifier: BSD-3-Clause
# The benchmarks, linked against the library as a user's program is.  test/bench/compare builds the same sources with other
# MPI libraries.  They are installed, so libtool puts start scripts into the build tree; compare and selftest look behind
# those.
noinst_LTLIBRARIES += libweft_bench.la
libweft_bench_la_SOURCES = test/bench/bench.h test/bench/driver.c test/bench/opts.c \
	test/bench/data.c test/bench/device.h test/bench/device.c test/bench/table.c test/bench/limits.c test/bench/limits.h \
	test/bench/limits_gpu.c test/bench/report.c test/bench/plot.c test/bench/pair.c test/bench/coll.h \
	test/bench/coll.c test/bench/coll_kinds.c test/bench/icoll.c test/bench/pcoll.c test/bench/rma.h test/bench/rma.c test/bench/nccl.c test/bench/types.c test/bench/compute.h test/bench/compute.c
nodist_libweft_bench_la_SOURCES = test/bench/limits_image.c
if WITH_NVCC
bench_images = test/bench/limits.fatbin
else
bench_images =
endif
test/bench/limits.fatbin: test/bench/limits.h
test/bench/limits_image.c: runtime/gpu/embed.py $(bench_images)
	$(AM_V_GEN)$(MKDIR_P) $(@D) && $(PYTHON) $(top_srcdir)/runtime/gpu/embed.py $@ $(bench_images)
CLEANFILES += $(bench_images) test/bench/limits_image.c
EXTRA_DIST += test/bench/limits.cu
bench_ldadd = libweft_bench.la libmpi_abi.la -lpthread -lm -ldl $(WEFT_RPATH)

bench_PROGRAMS += test/bench/osu_latency
test_bench_osu_latency_SOURCES = test/bench/osu_latency.c
test_bench_osu_latency_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_bw
test_bench_osu_bw_SOURCES = test/bench/osu_bw.c
test_bench_osu_bw_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_bibw
test_bench_osu_bibw_SOURCES = test/bench/osu_bibw.c
test_bench_osu_bibw_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_mbw_mr
test_bench_osu_mbw_mr_SOURCES = test/bench/osu_mbw_mr.c
test_bench_osu_mbw_mr_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_multi_lat
test_bench_osu_multi_lat_SOURCES = test/bench/osu_multi_lat.c
test_bench_osu_multi_lat_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_latency_mt
test_bench_osu_latency_mt_SOURCES = test/bench/osu_latency_mt.c
test_bench_osu_latency_mt_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_partitioned
test_bench_osu_partitioned_SOURCES = test/bench/osu_partitioned.c
test_bench_osu_partitioned_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_init
test_bench_osu_init_SOURCES = test/bench/osu_init.c
test_bench_osu_init_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_hello
test_bench_osu_hello_SOURCES = test/bench/osu_hello.c
test_bench_osu_hello_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/weft_bench_meet
test_bench_weft_bench_meet_SOURCES = test/bench/weft_bench_meet.c
test_bench_weft_bench_meet_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/weft_bench_probe
test_bench_weft_bench_probe_SOURCES = test/bench/weft_bench_probe.c
test_bench_weft_bench_probe_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/weft_bench_pack
test_bench_weft_bench_pack_SOURCES = test/bench/weft_bench_pack.c
test_bench_weft_bench_pack_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/weft_bench_rma
test_bench_weft_bench_rma_SOURCES = test/bench/weft_bench_rma.c
test_bench_weft_bench_rma_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/weft_bench_io
test_bench_weft_bench_io_SOURCES = test/bench/weft_bench_io.c
test_bench_weft_bench_io_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_allreduce
test_bench_osu_allreduce_SOURCES = test/bench/osu_allreduce.c
test_bench_osu_allreduce_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_bcast
test_bench_osu_bcast_SOURCES = test/bench/osu_bcast.c
test_bench_osu_bcast_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_reduce
test_bench_osu_reduce_SOURCES = test/bench/osu_reduce.c
test_bench_osu_reduce_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_allgather
test_bench_osu_allgather_SOURCES = test/bench/osu_allgather.c
test_bench_osu_allgather_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_alltoall
test_bench_osu_alltoall_SOURCES = test/bench/osu_alltoall.c
test_bench_osu_alltoall_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_gather
test_bench_osu_gather_SOURCES = test/bench/osu_gather.c
test_bench_osu_gather_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_scatter
test_bench_osu_scatter_SOURCES = test/bench/osu_scatter.c
test_bench_osu_scatter_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_barrier
test_bench_osu_barrier_SOURCES = test/bench/osu_barrier.c
test_bench_osu_barrier_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_reduce_scatter
test_bench_osu_reduce_scatter_SOURCES = test/bench/osu_reduce_scatter.c
test_bench_osu_reduce_scatter_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_allgatherv
test_bench_osu_allgatherv_SOURCES = test/bench/osu_allgatherv.c
test_bench_osu_allgatherv_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_alltoallv
test_bench_osu_alltoallv_SOURCES = test/bench/osu_alltoallv.c
test_bench_osu_alltoallv_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_gatherv
test_bench_osu_gatherv_SOURCES = test/bench/osu_gatherv.c
test_bench_osu_gatherv_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_scatterv
test_bench_osu_scatterv_SOURCES = test/bench/osu_scatterv.c
test_bench_osu_scatterv_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_scan
test_bench_osu_scan_SOURCES = test/bench/osu_scan.c
test_bench_osu_scan_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_reduce_scatter_block
test_bench_osu_reduce_scatter_block_SOURCES = test/bench/osu_reduce_scatter_block.c
test_bench_osu_reduce_scatter_block_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_exscan
test_bench_osu_exscan_SOURCES = test/bench/osu_exscan.c
test_bench_osu_exscan_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_iallreduce
test_bench_osu_iallreduce_SOURCES = test/bench/osu_iallreduce.c
test_bench_osu_iallreduce_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_ibcast
test_bench_osu_ibcast_SOURCES = test/bench/osu_ibcast.c
test_bench_osu_ibcast_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_ireduce
test_bench_osu_ireduce_SOURCES = test/bench/osu_ireduce.c
test_bench_osu_ireduce_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_iallgather
test_bench_osu_iallgather_SOURCES = test/bench/osu_iallgather.c
test_bench_osu_iallgather_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_ialltoall
test_bench_osu_ialltoall_SOURCES = test/bench/osu_ialltoall.c
test_bench_osu_ialltoall_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_igather
test_bench_osu_igather_SOURCES = test/bench/osu_igather.c
test_bench_osu_igather_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_iscatter
test_bench_osu_iscatter_SOURCES = test/bench/osu_iscatter.c
test_bench_osu_iscatter_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_ibarrier
test_bench_osu_ibarrier_SOURCES = test/bench/osu_ibarrier.c
test_bench_osu_ibarrier_LDADD = $(bench_ldadd)

bench_PROGRAMS += test/bench/osu_ireduce_scatter
test_bench_osu_ireduce_scatter_SOURCES = test/bench/osu_ireduce_scatter.c
test_bench_osu_ireduce_scatter_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_iscan
test_bench_osu_iscan_SOURCES = test/bench/osu_iscan.c
test_bench_osu_iscan_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_iallgatherv
test_bench_osu_iallgatherv_SOURCES = test/bench/osu_iallgatherv.c
test_bench_osu_iallgatherv_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_ialltoallv
test_bench_osu_ialltoallv_SOURCES = test/bench/osu_ialltoallv.c
test_bench_osu_ialltoallv_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_allreduce_persistent
test_bench_osu_allreduce_persistent_SOURCES = test/bench/osu_allreduce_persistent.c
test_bench_osu_allreduce_persistent_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_reduce_persistent
test_bench_osu_reduce_persistent_SOURCES = test/bench/osu_reduce_persistent.c
test_bench_osu_reduce_persistent_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_bcast_persistent
test_bench_osu_bcast_persistent_SOURCES = test/bench/osu_bcast_persistent.c
test_bench_osu_bcast_persistent_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_allgather_persistent
test_bench_osu_allgather_persistent_SOURCES = test/bench/osu_allgather_persistent.c
test_bench_osu_allgather_persistent_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_alltoall_persistent
test_bench_osu_alltoall_persistent_SOURCES = test/bench/osu_alltoall_persistent.c
test_bench_osu_alltoall_persistent_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_gather_persistent
test_bench_osu_gather_persistent_SOURCES = test/bench/osu_gather_persistent.c
test_bench_osu_gather_persistent_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_scatter_persistent
test_bench_osu_scatter_persistent_SOURCES = test/bench/osu_scatter_persistent.c
test_bench_osu_scatter_persistent_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_reduce_scatter_persistent
test_bench_osu_reduce_scatter_persistent_SOURCES = test/bench/osu_reduce_scatter_persistent.c
test_bench_osu_reduce_scatter_persistent_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_barrier_persistent
test_bench_osu_barrier_persistent_SOURCES = test/bench/osu_barrier_persistent.c
test_bench_osu_barrier_persistent_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_put_latency
test_bench_osu_put_latency_SOURCES = test/bench/osu_put_latency.c
test_bench_osu_put_latency_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_get_latency
test_bench_osu_get_latency_SOURCES = test/bench/osu_get_latency.c
test_bench_osu_get_latency_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_put_bw
test_bench_osu_put_bw_SOURCES = test/bench/osu_put_bw.c
test_bench_osu_put_bw_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_get_bw
test_bench_osu_get_bw_SOURCES = test/bench/osu_get_bw.c
test_bench_osu_get_bw_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_put_bibw
test_bench_osu_put_bibw_SOURCES = test/bench/osu_put_bibw.c
test_bench_osu_put_bibw_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_acc_latency
test_bench_osu_acc_latency_SOURCES = test/bench/osu_acc_latency.c
test_bench_osu_acc_latency_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_get_acc_latency
test_bench_osu_get_acc_latency_SOURCES = test/bench/osu_get_acc_latency.c
test_bench_osu_get_acc_latency_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_fop_latency
test_bench_osu_fop_latency_SOURCES = test/bench/osu_fop_latency.c
test_bench_osu_fop_latency_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_cas_latency
test_bench_osu_cas_latency_SOURCES = test/bench/osu_cas_latency.c
test_bench_osu_cas_latency_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_nccl_allreduce
test_bench_osu_nccl_allreduce_SOURCES = test/bench/osu_nccl_allreduce.c
test_bench_osu_nccl_allreduce_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_nccl_reduce
test_bench_osu_nccl_reduce_SOURCES = test/bench/osu_nccl_reduce.c
test_bench_osu_nccl_reduce_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_nccl_bcast
test_bench_osu_nccl_bcast_SOURCES = test/bench/osu_nccl_bcast.c
test_bench_osu_nccl_bcast_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_nccl_allgather
test_bench_osu_nccl_allgather_SOURCES = test/bench/osu_nccl_allgather.c
test_bench_osu_nccl_allgather_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_nccl_alltoall
test_bench_osu_nccl_alltoall_SOURCES = test/bench/osu_nccl_alltoall.c
test_bench_osu_nccl_alltoall_LDADD = $(bench_ldadd)
bench_PROGRAMS += test/bench/osu_nccl_reduce_scatter
test_bench_osu_nccl_reduce_scatter_SOURCES = test/bench/osu_nccl_reduce_scatter.c
test_bench_osu_nccl_reduce_scatter_LDADD = $(bench_ldadd)

# Compiled and linked as mpifort does, for the compiler's size of INTEGER, with the run-time path of an installed program.
if WITH_FC
bench_PROGRAMS += test/bench/osu_latency_fortran
test_bench_osu_latency_fortran_SOURCES =
test_bench_osu_latency_fortran_DEPENDENCIES = test/bench/osu_latency_fortran.o mpi/fortran/start4.o mpi/fortran/start8.o \
	libmpifort_abi.la libmpifort_abi_i8.la libmpi_abi.la
test_bench_osu_latency_fortran_LDADD = libmpi_abi.la $(WEFT_RPATH)
test_bench_osu_latency_fortran_LINK = mod=`./weft-mod --find '$(FC)'` && \
	case $$mod in *-i8-*) width=8 lib=libmpifort_abi_i8.la ;; *) width=4 lib=libmpifort_abi.la ;; esac && \
	$(LIBTOOL) $(AM_V_lt) --tag=CC --mode=link $(FC) $(AM_LDFLAGS) $(LDFLAGS) -o $@ \
		test/bench/osu_latency_fortran.o mpi/fortran/start$$width.o $$mod/kinds.o $$lib
test/bench/osu_latency_fortran.o: test/bench/osu_latency_fortran.f90 mpi/fortran/mod/stamp mpifort
	$(AM_V_GEN)$(MKDIR_P) $(@D) && ./mpifort -fc='$(FC)' -O2 -c $(srcdir)/test/bench/osu_latency_fortran.f90 -o $@
CLEANFILES += test/bench/osu_latency_fortran.o
endif
EXTRA_DIST += test/bench/osu_latency_fortran.f90

EXTRA_DIST += test/bench/compare test/bench/cores test/bench/gpu test/bench/selftest test/bench/bench_peers.py test/bench/bench_cores.py test/bench/bench_pypi.py test/bench/bench_oversub.py test/bench/bench_rma.py test/bench/bench_io.py test/bench/bench_gpu_table.py \
	test/bench/bench_gpu_p2p.py test/bench/bench_gpu_coll.py
dist_man_MANS += test/bench/weft-bench.7

# An archive for machines on which nothing can be installed.
bench-cores: all
	@$(run_python) $(srcdir)/test/bench/cores --builddir=$(abs_top_builddir) $(BENCH)
.PHONY: bench-cores

# 77: no GPU here, said by the script.
bench-gpu: all
	@$(run_python) $(srcdir)/test/bench/gpu --builddir=$(abs_top_builddir) $(BENCH) || test $$? = 77
.PHONY: bench-gpu

# weft-tune forces algorithms and asks for choices, so it is linked with the library's inside.
bin_PROGRAMS += weft-tune
weft_tune_SOURCES = test/bench/tune/tune.h test/bench/tune/main.c test/bench/tune/calls.c test/bench/tune/table.c
weft_tune_LDADD = libweft_bench.la libweft_core.la libweft_rt.la -lpthread -lm -ldl
dist_man_MANS += test/bench/weft-tune.1
# A ping-pong of a cache line, for test/bench/compare: not installed.
noinst_PROGRAMS = test/bench/core_pair test/bench/thread_rate
test_bench_thread_rate_SOURCES = test/bench/thread_rate.c
test_bench_thread_rate_LDADD = libmpi_abi.la -lpthread
test_bench_core_pair_SOURCES = test/bench/core_pair.c
# A ping-pong with epoll alone, for test/rig/net: not installed.
EXTRA_PROGRAMS += test/bench/tcp_raw
test_bench_tcp_raw_SOURCES = test/bench/tcp_raw.c
# TCP between two network namespaces, beside iperf3, epoll alone and other MPI libraries.
EXTRA_PROGRAMS += test/bench/job_cost
test_bench_job_cost_SOURCES = test/bench/job_cost.c
test_bench_job_cost_LDADD = libmpi_abi.la
bench-net: all test/bench/tcp_raw test/bench/job_cost
	$(PYTHON) $(srcdir)/test/rig/net --builddir=. $(BENCHFLAGS)
.PHONY: bench-net
