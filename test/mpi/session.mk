# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += test/mpi/session_life test/mpi/session_comm test/mpi/session_env \
	test/mpi/session_threads test/mpi/session_victim test/mpi/env_world test/mpi/gpu_query test/mpi/from_store
test_mpi_session_life_LDADD = libmpi_abi.la
test_mpi_session_comm_LDADD = libmpi_abi.la
test_mpi_session_env_LDADD = libmpi_abi.la
test_mpi_session_threads_LDADD = libmpi_abi.la -lpthread
test_mpi_session_victim_LDADD = libmpi_abi.la
test_mpi_env_world_LDADD = libmpi_abi.la
test_mpi_gpu_query_LDADD = libmpi_abi.la
test_mpi_from_store_LDADD = libmpi_abi.la
EXTRA_DIST += test/mpi/session.h test/mpi/session_fault.py
