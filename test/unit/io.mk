# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += test/unit/io_test
test_unit_io_test_LDADD = $(unit_ldadd) -lpthread
