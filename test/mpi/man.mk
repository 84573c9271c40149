# SPDX-License-Identifier: BSD-3-Clause
# The manual pages, and the programs that are examples in them.
EXTRA_DIST += test/mpi/man_pages.py test/mpi/man_examples.py test/mpi/man_errors.py
check_PROGRAMS += test/mpi/man_ring test/mpi/man_any_length test/mpi/man_persistent test/mpi/man_sums test/mpi/man_column \
	test/mpi/man_grid test/mpi/man_hosts test/mpi/man_window test/mpi/man_file test/mpi/man_session
test_mpi_man_ring_SOURCES = docs/examples/calls/ring.c
test_mpi_man_ring_LDADD = libmpi_abi.la
test_mpi_man_any_length_SOURCES = docs/examples/calls/any_length.c
test_mpi_man_any_length_LDADD = libmpi_abi.la
test_mpi_man_persistent_SOURCES = docs/examples/calls/persistent.c
test_mpi_man_persistent_LDADD = libmpi_abi.la
test_mpi_man_sums_SOURCES = docs/examples/calls/sums.c
test_mpi_man_sums_LDADD = libmpi_abi.la
test_mpi_man_column_SOURCES = docs/examples/calls/column.c
test_mpi_man_column_LDADD = libmpi_abi.la
test_mpi_man_grid_SOURCES = docs/examples/calls/grid.c
test_mpi_man_grid_LDADD = libmpi_abi.la
test_mpi_man_hosts_SOURCES = docs/examples/calls/hosts.c
test_mpi_man_hosts_LDADD = libmpi_abi.la
test_mpi_man_window_SOURCES = docs/examples/calls/window.c
test_mpi_man_window_LDADD = libmpi_abi.la
test_mpi_man_file_SOURCES = docs/examples/calls/file.c
test_mpi_man_file_LDADD = libmpi_abi.la
test_mpi_man_session_SOURCES = docs/examples/calls/session.c
test_mpi_man_session_LDADD = libmpi_abi.la
