# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += test/unit/abi_test
nodist_test_unit_abi_test_SOURCES = test/unit/abi_test.c
test_unit_abi_test_LDADD =
EXTRA_DIST += test/unit/abi_gen.py test/unit/abi_lib_test
CLEANFILES += test/unit/abi_test.c

test/unit/abi_test.c: test/unit/abi_gen.py mpi/api/constants.tsv mpi/api/types.tsv mpi/api/functions.tsv
	$(AM_V_GEN)$(MKDIR_P) test/unit && \
	$(PYTHON) $(top_srcdir)/test/unit/abi_gen.py $(top_srcdir)/mpi/api $@
