# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += test/mpi/topo_cart test/mpi/topo_graph test/mpi/topo_neighbor
test_mpi_topo_cart_LDADD = libmpi_abi.la
test_mpi_topo_graph_LDADD = libmpi_abi.la
test_mpi_topo_neighbor_LDADD = libmpi_abi.la
check_PROGRAMS += test/unit/order_test
test_unit_order_test_SOURCES = test/unit/order_test.c
test_unit_order_test_LDADD = $(unit_ldadd)
EXTRA_DIST += test/mpi/topo_bind.h
