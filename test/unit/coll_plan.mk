# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += test/unit/coll_gpu_plan_test test/unit/coll_gpu_links_test
test_unit_coll_gpu_plan_test_SOURCES = test/unit/coll_gpu_plan_test.c test/unit/coll_gpu_run.c test/unit/coll_gpu_run.h
test_unit_coll_gpu_plan_test_LDADD = $(unit_ldadd)
test_unit_coll_gpu_links_test_SOURCES = test/unit/coll_gpu_links_test.c
test_unit_coll_gpu_links_test_LDADD = $(unit_ldadd)
