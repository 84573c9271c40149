# SPDX-License-Identifier: BSD-3-Clause
# MPI programs, linked as a user would link them: against libmpi_abi alone.
check_PROGRAMS += test/mpi/init test/mpi/p2p_modes test/mpi/p2p_persist test/mpi/p2p_sendrecv \
	test/mpi/p2p_probe test/mpi/p2p_wait test/mpi/p2p_cancel test/mpi/p2p_order test/mpi/p2p_traffic test/mpi/p2p_flow test/mpi/p2p_locked \
	test/mpi/p2p_huge test/mpi/p2p_late test/mpi/p2p_freed test/mpi/comm_make test/mpi/comm_group test/mpi/comm_attr \
	test/mpi/coll_move test/mpi/coll_reduce test/mpi/coll_nb test/mpi/coll_persist test/mpi/coll_hosts \
	test/mpi/thread_lanes \
	test/mpi/thread_multi \
	test/mpi/dyn_names test/mpi/dyn_spawn test/mpi/oversub test/mpi/fault_victim test/mpi/fault_deny test/mpi/fault_sample test/mpi/fault_stdio test/mpi/hang
EXTRA_DIST += test/mpi/mpitest.h test/mpi/mt_jobs.h test/mpi/hosts.h test/mpi/faultlib.py test/mpi/faultlib_test.py test/mpi/fault_ranks.py \
	test/mpi/fault_memory.py test/mpi/fault_calls.py test/mpi/hang.py test/mpi/hang_kinds.py test/mpi/hang_hosts.py test/mpi/hanglib.py test/mpi/hang_script.py test/mpi/apart.py test/mpi/fault_input.py test/mpi/fault_finalize.py test/mpi/fault_stdio.py

test_mpi_init_LDADD = libmpi_abi.la
test_mpi_dyn_names_LDADD = libmpi_abi.la
test_mpi_dyn_spawn_LDADD = libmpi_abi.la
test_mpi_p2p_modes_LDADD = libmpi_abi.la
test_mpi_p2p_persist_LDADD = libmpi_abi.la
test_mpi_p2p_sendrecv_LDADD = libmpi_abi.la
test_mpi_p2p_probe_LDADD = libmpi_abi.la
test_mpi_p2p_locked_SOURCES = test/mpi/p2p_locked.c test/mpi/locked.h test/mpi/mpitest.h
test_mpi_p2p_locked_LDADD = libmpi_abi.la
test_mpi_p2p_wait_LDADD = libmpi_abi.la
test_mpi_p2p_cancel_LDADD = libmpi_abi.la
test_mpi_p2p_order_LDADD = libmpi_abi.la
test_mpi_p2p_traffic_LDADD = libmpi_abi.la
test_mpi_p2p_flow_LDADD = libmpi_abi.la
test_mpi_p2p_huge_LDADD = libmpi_abi.la
test_mpi_p2p_late_LDADD = libmpi_abi.la
test_mpi_p2p_freed_LDADD = libmpi_abi.la
test_mpi_comm_make_LDADD = libmpi_abi.la
test_mpi_comm_group_LDADD = libmpi_abi.la
test_mpi_comm_attr_LDADD = libmpi_abi.la
test_mpi_coll_move_LDADD = libmpi_abi.la
test_mpi_coll_reduce_LDADD = libmpi_abi.la
test_mpi_coll_nb_LDADD = libmpi_abi.la
test_mpi_coll_persist_LDADD = libmpi_abi.la
test_mpi_coll_hosts_LDADD = libmpi_abi.la
test_mpi_thread_multi_LDADD = libmpi_abi.la -lpthread
test_mpi_thread_lanes_LDADD = libmpi_abi.la -lpthread
check_PROGRAMS += test/mpi/dyn_shared
test_mpi_dyn_shared_SOURCES = test/mpi/dyn_shared.c test/mpi/dyn_path.h test/mpi/dyn_start.h test/mpi/mpitest.h
test_mpi_dyn_shared_LDADD = libmpi_abi.la
check_PROGRAMS += test/mpi/dyn_leave
test_mpi_dyn_leave_SOURCES = test/mpi/dyn_leave.c test/mpi/dyn_path.h test/mpi/mpitest.h
test_mpi_dyn_leave_LDADD = libmpi_abi.la
check_PROGRAMS += test/mpi/dyn_unwatched
test_mpi_dyn_unwatched_SOURCES = test/mpi/dyn_unwatched.c test/mpi/dyn_meet.h test/mpi/dyn_path.h test/mpi/mpitest.h
test_mpi_dyn_unwatched_LDADD = libmpi_abi.la
check_PROGRAMS += test/mpi/dyn_join
test_mpi_dyn_join_LDADD = libmpi_abi.la
test_mpi_oversub_LDADD = libmpi_abi.la
test_mpi_fault_victim_LDADD = libmpi_abi.la
test_mpi_fault_sample_LDADD = libmpi_abi.la
test_mpi_hang_LDADD = libmpi_abi.la -lpthread
test_mpi_fault_stdio_LDADD = libmpi_abi.la -lpthread
# Every program over several hosts, which this one plays; its cores are shared, so ranks do not poll.
check-played: all
	$(AM_V_at)$(MAKE) $(AM_MAKEFLAGS) $(check_PROGRAMS) $(check_DATA)
	@set -f; $(run_tests) --launch='--rsh @srcdir@/test/launch/rsh_here -H n0:8,n1:8,n2:8 --map-by node --set spin_us=0' \
		$(RUNTESTS) $(or $(TESTS),mpi/*)
.PHONY: check-played
include test/mpi/ft.mk
include test/mpi/topo.mk
include test/mpi/inter.mk
include test/mpi/session.mk
include test/mpi/part.mk
include test/mpi/type.mk
include test/mpi/node.mk
include test/mpi/tool.mk
include test/mpi/check.mk
include test/mpi/conf.mk
include test/mpi/io.mk
include test/mpi/man.mk
include test/mpi/rma.mk

# Jobs that meet.
check_PROGRAMS += test/mpi/dyn_local test/mpi/dyn_victim
test_mpi_dyn_local_SOURCES = test/mpi/dyn_local.c test/mpi/dyn_meet.h test/mpi/mpitest.h
test_mpi_dyn_local_LDADD = libmpi_abi.la
test_mpi_dyn_victim_SOURCES = test/mpi/dyn_victim.c test/mpi/dyn_meet.h test/mpi/mpitest.h
test_mpi_dyn_victim_LDADD = libmpi_abi.la
EXTRA_DIST += test/mpi/dyn_meet.py test/mpi/dyn_alone.py
# Memory that runs out in a collective call.
check_PROGRAMS += test/mpi/nomem
test_mpi_nomem_SOURCES = test/mpi/nomem.c test/mpi/nomem_alloc.c test/mpi/nomem_alloc.h test/mpi/nomem_walk.h test/mpi/mpitest.h
test_mpi_nomem_LDADD = libmpi_abi.la
EXTRA_DIST += test/mpi/nomem.py
check_PROGRAMS += test/mpi/coll_nomem
test_mpi_coll_nomem_SOURCES = test/mpi/coll_nomem.c test/mpi/nomem_alloc.c test/mpi/nomem_alloc.h test/mpi/nomem_walk.h test/mpi/mpitest.h
test_mpi_coll_nomem_LDADD = libmpi_abi.la
