# SPDX-License-Identifier: BSD-3-Clause
# Fault tolerance: ranks die and the job continues.
check_PROGRAMS += test/mpi/ft_p2p test/mpi/ft_revoke test/mpi/ft_shrink test/mpi/ft_coll test/mpi/ft_win
EXTRA_DIST += test/mpi/ft_test.h test/mpi/ft_program.py test/mpi/ft_agent.py
test_mpi_ft_revoke_LDADD = libmpi_abi.la
test_mpi_ft_shrink_LDADD = libmpi_abi.la
test_mpi_ft_coll_LDADD = libmpi_abi.la
test_mpi_ft_win_LDADD = libmpi_abi.la
check_PROGRAMS += test/mpi/ft_example
test_mpi_ft_example_SOURCES = docs/examples/shrink.c
test_mpi_ft_example_LDADD = libmpi_abi.la -lm
test_mpi_ft_p2p_LDADD = libmpi_abi.la
check_PROGRAMS += test/mpi/ft_again test/mpi/ft_leak test/mpi/ft_order test/mpi/ft_start \
	test/mpi/ft_spawn test/mpi/ft_random test/mpi/ft_dup test/mpi/ft_family test/mpi/ft_look test/mpi/ft_file
EXTRA_DIST += test/mpi/ft_start.py test/mpi/ft_random.py test/mpi/ft_look.py
test_mpi_ft_again_LDADD = libmpi_abi.la
test_mpi_ft_leak_LDADD = libmpi_abi.la
test_mpi_ft_order_LDADD = libmpi_abi.la
test_mpi_ft_spawn_LDADD = libmpi_abi.la
test_mpi_ft_random_LDADD = libmpi_abi.la
test_mpi_ft_dup_LDADD = libmpi_abi.la
test_mpi_ft_family_LDADD = libmpi_abi.la
test_mpi_ft_look_LDADD = libmpi_abi.la
test_mpi_ft_file_LDADD = libmpi_abi.la
test_mpi_ft_file_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
test_mpi_ft_start_LDADD = libmpi_abi.la -ldl
test_mpi_ft_start_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
