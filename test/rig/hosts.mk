# SPDX-License-Identifier: BSD-3-Clause
# Several hosts as network namespaces: the rig, its tests (make check-hosts), mpirun --ping.  A part, or a test, by hand:
#     make check-hosts TESTS=hosts_fail
#     TEST_BUILDDIR=$PWD test/rig/hosts_fail test_agent_killed
EXTRA_DIST += test/rig/hosts test/rig/hosts_rig.py test/rig/hosts_link.py test/rig/hosts_wire.py test/rig/hosts_test.py \
	test/rig/hosts_start test/rig/hosts_mpi test/rig/hosts_net test/rig/hosts_fail test/rig/hosts_ping test/rig/hosts_startup test/rig/hosts.list
check_PROGRAMS += test/rig/hostrank test/unit/ping_test
test_rig_hostrank_SOURCES = test/rig/hostrank.c
test_rig_hostrank_LDADD = libmpi_abi.la
test_rig_hostrank_LDFLAGS = $(mpi_ldflags)
test_unit_ping_test_SOURCES = test/unit/ping_test.c launcher/ping/report.c
test_unit_ping_test_LDADD = -lm
check-hosts: all
	$(AM_V_at)$(MAKE) $(AM_MAKEFLAGS) $(check_PROGRAMS)
	@set -f; $(run_tests) $(run_beside) --list=$(abs_top_srcdir)/test/rig/hosts.list $(RUNTESTS) $(TESTS)
.PHONY: check-hosts
