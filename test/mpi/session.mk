# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += test/mpi/session_life test/mpi/session_comm
test_mpi_session_life_LDADD = libmpi_abi.la
EXTRA_DIST += test/mpi/session.h
test_mpi_session_comm_LDADD = libmpi_abi.la
