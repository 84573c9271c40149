# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += test/fake/btl_conformance
test_fake_btl_conformance_SOURCES = test/fake/btl_conformance.c test/fake/btl_pair.c
test_fake_btl_conformance_LDADD = $(unit_ldadd)
