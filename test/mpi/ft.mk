# SPDX-License-Identifier: BSD-3-Clause
# Fault tolerance: ranks die and the job continues.
check_PROGRAMS += test/mpi/ft_p2p test/mpi/ft_revoke test/mpi/ft_shrink
EXTRA_DIST += test/mpi/ft_test.h
test_mpi_ft_revoke_LDADD = libmpi_abi.la
test_mpi_ft_shrink_LDADD = libmpi_abi.la
test_mpi_ft_p2p_LDADD = libmpi_abi.la
