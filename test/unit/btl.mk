# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += test/unit/activity_test
test_unit_activity_test_SOURCES = test/unit/activity_test.c
test_unit_activity_test_LDADD = $(unit_ldadd)
check_PROGRAMS += test/unit/deaths_test
test_unit_deaths_test_SOURCES = test/unit/deaths_test.c
test_unit_deaths_test_LDADD = $(unit_ldadd)
check_PROGRAMS += test/unit/segment_test
test_unit_segment_test_SOURCES = test/unit/segment_test.c
test_unit_segment_test_LDADD = $(unit_ldadd)
check_PROGRAMS += test/unit/share_test
test_unit_share_test_SOURCES = test/unit/share_test.c
test_unit_share_test_LDADD = $(unit_ldadd)
check_PROGRAMS += test/unit/ring_test
test_unit_ring_test_SOURCES = test/unit/ring_test.c
test_unit_ring_test_LDADD = $(unit_ldadd)
# The ring without the engine: not a test, not installed; make test/bench/raw_shm
EXTRA_PROGRAMS = test/bench/raw_shm
test_bench_raw_shm_SOURCES = test/bench/raw_shm.c test/fake/btl_pair.c
test_bench_raw_shm_LDADD = $(unit_ldadd)
check_PROGRAMS += test/unit/shm_test
test_unit_shm_test_SOURCES = test/unit/shm_test.c test/fake/btl_pair.c
test_unit_shm_test_LDADD = $(unit_ldadd)
check_PROGRAMS += test/unit/region_test
test_unit_region_test_SOURCES = test/unit/region_test.c
test_unit_region_test_LDADD = $(unit_ldadd)
