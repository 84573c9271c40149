# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += test/unit/assign_test
test_unit_assign_test_SOURCES = test/unit/assign_test.c launcher/hostlist.c launcher/hostfile.c launcher/hosts.c \
	launcher/alloc.c launcher/assign.c launcher/list.c launcher/options.c launcher/parse.c launcher/pingjob.c launcher/policy.c
test_unit_assign_test_LDADD = $(unit_ldadd)
check_PROGRAMS += test/unit/wire_test
test_unit_wire_test_SOURCES = test/unit/wire_test.c launcher/wire.c launcher/describe.c launcher/tree.c launcher/rsh.c \
	launcher/relay.c launcher/list.c
test_unit_wire_test_LDADD = $(unit_ldadd)
check_PROGRAMS += test/unit/end_test
test_unit_end_test_SOURCES = test/unit/end_test.c launcher/end.c
test_unit_end_test_LDADD = $(unit_ldadd)
check_PROGRAMS += test/unit/tree_test
test_unit_tree_test_SOURCES = test/unit/tree_test.c launcher/tree.c launcher/rsh.c launcher/wire.c launcher/list.c
test_unit_tree_test_LDADD = $(unit_ldadd)
