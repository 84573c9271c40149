# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += test/unit/io_test test/unit/pieces_test
test_unit_io_test_LDADD = $(unit_ldadd) -lpthread
test_unit_pieces_test_LDADD = $(unit_ldadd)
