# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += test/unit/node_test
test_unit_node_test_SOURCES = test/unit/node_test.c
test_unit_node_test_LDADD = $(unit_ldadd)
