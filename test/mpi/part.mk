# SPDX-License-Identifier: BSD-3-Clause
# Requests, partitioned communication, large counts, threads, fork.
check_PROGRAMS += test/mpi/greq
test_mpi_greq_LDADD = libmpi_abi.la -lpthread
check_PROGRAMS += test/mpi/part_basic
test_mpi_part_basic_LDADD = libmpi_abi.la -lpthread
check_PROGRAMS += test/mpi/thread_stress
test_mpi_thread_stress_LDADD = libmpi_abi.la -lpthread
check_PROGRAMS += test/mpi/fork_child
test_mpi_fork_child_LDADD = libmpi_abi.la
check_PROGRAMS += test/mpi/thread_sleep
test_mpi_thread_sleep_LDADD = libmpi_abi.la -lpthread
check_PROGRAMS += test/mpi/part_large
test_mpi_part_large_LDADD = libmpi_abi.la
check_PROGRAMS += test/mpi/p2p_status
test_mpi_p2p_status_LDADD = libmpi_abi.la
check_PROGRAMS += test/mpi/thread_none
test_mpi_thread_none_LDADD = libmpi_abi.la -ldl -lpthread
