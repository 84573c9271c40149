# SPDX-License-Identifier: BSD-3-Clause
EXTRA_DIST += test/mpi/type_map.h
check_PROGRAMS += test/mpi/type_make test/mpi/type_external test/mpi/type_large test/mpi/type_half
test_mpi_type_make_LDADD = libmpi_abi.la
test_mpi_type_external_LDADD = libmpi_abi.la
test_mpi_type_large_LDADD = libmpi_abi.la
test_mpi_type_half_LDADD = libmpi_abi.la -lm
