# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += test/mpi/check_wrong test/mpi/check_local test/mpi/check_variable test/mpi/leaks
EXTRA_DIST += test/mpi/check.py test/mpi/check_local.py test/mpi/check_variable.py test/mpi/leaks.py
test_mpi_check_wrong_LDADD = libmpi_abi.la
test_mpi_check_local_LDADD = libmpi_abi.la
test_mpi_check_variable_LDADD = libmpi_abi.la
test_mpi_leaks_LDADD = libmpi_abi.la
