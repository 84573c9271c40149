# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += test/unit/abi_test
nodist_test_unit_abi_test_SOURCES = test/unit/abi_test.c
test_unit_abi_test_LDADD =
EXTRA_DIST += test/unit/abi_gen.py test/unit/abi_lib_test
CLEANFILES += test/unit/abi_test.c

test/unit/abi_test.c: test/unit/abi_gen.py mpi/api/constants.tsv mpi/api/types.tsv mpi/api/functions.tsv
	$(AM_V_GEN)$(MKDIR_P) test/unit && \
	$(PYTHON) $(top_srcdir)/test/unit/abi_gen.py $(top_srcdir)/mpi/api $@

# Wrong arguments, in calls that come from the table: compiled without optimisation, because there are thousands.
check_PROGRAMS += test/mpi/args_test
test_mpi_args_test_SOURCES = test/mpi/args_test.c test/mpi/args_test.h
nodist_test_mpi_args_test_SOURCES = test/mpi/args_cases.c
test_mpi_args_test_CFLAGS = $(AM_CFLAGS) -O0
test_mpi_args_test_LDADD = $(unit_ldadd)
EXTRA_DIST += test/mpi/args_gen.py
CLEANFILES += test/mpi/args_cases.c

test/mpi/args_cases.c: test/mpi/args_gen.py mpi/api/functions.tsv
	$(AM_V_GEN)$(MKDIR_P) test/mpi && \
	$(PYTHON) $(top_srcdir)/test/mpi/args_gen.py $(top_srcdir)/mpi/api $@

check_PROGRAMS += test/mpi/args_phase_test
test_mpi_args_phase_test_SOURCES = test/mpi/args_phase_test.c
test_mpi_args_phase_test_LDADD = $(mpi_ldadd)
test_mpi_args_phase_test_LDFLAGS = $(mpi_ldflags)
check_PROGRAMS += test/mpi/abi_misc_test
test_mpi_abi_misc_test_SOURCES = test/mpi/abi_misc_test.c
test_mpi_abi_misc_test_LDADD = $(mpi_ldadd)
test_mpi_abi_misc_test_LDFLAGS = $(mpi_ldflags)
