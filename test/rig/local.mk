# SPDX-License-Identifier: BSD-3-Clause
# Rigs: whole systems on one machine.
EXTRA_DIST += test/rig/hosts test/rig/hosts_rig.py test/rig/hosts_link.py test/rig/hosts_wire.py

check_PROGRAMS += test/unit/ping_test
test_unit_ping_test_SOURCES = test/unit/ping_test.c launcher/ping/report.c
test_unit_ping_test_LDADD = -lm
