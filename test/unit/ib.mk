# SPDX-License-Identifier: BSD-3-Clause
# runtime/ib and the cache of registrations.
check_PROGRAMS += test/unit/regcache_test
test_unit_regcache_test_SOURCES = test/unit/regcache_test.c
test_unit_regcache_test_LDADD = libweft_rt.la
if WITH_VERBS
check_PROGRAMS += test/unit/ib_test test/unit/ib_dev_test
endif
test_unit_ib_test_SOURCES = test/unit/ib_test.c
test_unit_ib_test_LDADD = libweft_rt.la
test_unit_ib_dev_test_SOURCES = test/unit/ib_dev_test.c
test_unit_ib_dev_test_LDADD = libweft_rt.la
