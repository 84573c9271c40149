# SPDX-License-Identifier: BSD-3-Clause
# runtime/ib and the cache of registrations.
check_PROGRAMS += test/unit/regcache_test
test_unit_regcache_test_SOURCES = test/unit/regcache_test.c
test_unit_regcache_test_LDADD = libweft_rt.la
