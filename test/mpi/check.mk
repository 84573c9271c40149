# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += test/mpi/check_wrong
EXTRA_DIST += test/mpi/check.py
test_mpi_check_wrong_LDADD = libmpi_abi.la
