# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += test/mpi/node_mix
test_mpi_node_mix_LDADD = libmpi_abi.la
