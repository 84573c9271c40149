# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += test/mpi/topo_cart test/mpi/topo_graph test/mpi/topo_neighbor
test_mpi_topo_cart_LDADD = libmpi_abi.la
test_mpi_topo_graph_LDADD = libmpi_abi.la
test_mpi_topo_neighbor_LDADD = libmpi_abi.la
