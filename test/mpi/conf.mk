# SPDX-License-Identifier: BSD-3-Clause
# What programs of others found.
check_PROGRAMS += test/mpi/conf_found test/mpi/env_errors test/mpi/type_iov
test_mpi_conf_found_LDADD = libmpi_abi.la
test_mpi_env_errors_LDADD = libmpi_abi.la
test_mpi_type_iov_LDADD = libmpi_abi.la
