# SPDX-License-Identifier: BSD-3-Clause
# runtime/ib and the cache of registrations.
check_PROGRAMS += test/unit/regcache_test test/unit/ib_test test/unit/ib_dev_test
test_unit_regcache_test_SOURCES = test/unit/regcache_test.c
test_unit_regcache_test_LDADD = libweft_rt.la
test_unit_ib_test_LDADD = libweft_rt.la
test_unit_ib_dev_test_LDADD = libweft_rt.la
if WITH_VERBS
test_unit_ib_test_SOURCES = test/unit/ib_test.c
test_unit_ib_dev_test_SOURCES = test/unit/ib_dev_test.c
EXTRA_DIST += test/unit/ib_skip.c
else
test_unit_ib_test_SOURCES = test/unit/ib_skip.c
test_unit_ib_dev_test_SOURCES = test/unit/ib_skip.c
EXTRA_DIST += test/unit/ib_test.c test/unit/ib_dev_test.c
endif
