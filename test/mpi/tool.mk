# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += test/mpi/tool_vars test/mpi/tool_pvars test/mpi/tool_events
test_mpi_tool_vars_LDADD = libmpi_abi.la
test_mpi_tool_pvars_LDADD = libmpi_abi.la
test_mpi_tool_events_LDADD = libmpi_abi.la
check_PROGRAMS += test/mpi/tool_threads
test_mpi_tool_threads_LDADD = libmpi_abi.la -lpthread
