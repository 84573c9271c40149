# SPDX-License-Identifier: BSD-3-Clause
# runtime/gpu.
dist_noinst_HEADERS += test/unit/gpu_table.h
gpu_table_ldflags = $(AM_LDFLAGS) -Wl,--wrap=access,--wrap=dlopen,--wrap=dlsym,--wrap=rt_gpu_move_init,--wrap=rt_gpu_move_fini,--wrap=rt_gpu_images_load,--wrap=rt_gpu_images_unload
check_PROGRAMS += test/unit/gpu_driver_test
test_unit_gpu_driver_test_SOURCES = test/unit/gpu_driver_test.c test/unit/gpu_table.c
test_unit_gpu_driver_test_LDADD = libweft_rt.la
test_unit_gpu_driver_test_LDFLAGS = $(gpu_table_ldflags)
check_PROGRAMS += test/unit/gpu_classify_test
test_unit_gpu_classify_test_SOURCES = test/unit/gpu_classify_test.c test/unit/gpu_table.c
test_unit_gpu_classify_test_LDADD = libweft_rt.la
test_unit_gpu_classify_test_LDFLAGS = $(gpu_table_ldflags)
check_PROGRAMS += test/unit/gpu_dev_test
test_unit_gpu_dev_test_SOURCES = test/unit/gpu_dev_test.c test/unit/gpu_table.c
test_unit_gpu_dev_test_LDADD = libweft_rt.la
test_unit_gpu_dev_test_LDFLAGS = $(gpu_table_ldflags)
check_PROGRAMS += test/unit/gpu_stage_test
test_unit_gpu_stage_test_SOURCES = test/unit/gpu_stage_test.c test/unit/gpu_table.c
test_unit_gpu_stage_test_LDADD = libweft_rt.la
test_unit_gpu_stage_test_LDFLAGS = $(gpu_table_ldflags)
check_PROGRAMS += test/unit/gpu_links_test
test_unit_gpu_links_test_SOURCES = test/unit/gpu_links_test.c
test_unit_gpu_links_test_LDADD = libweft_rt.la
check_PROGRAMS += test/unit/gpu_kinds_test
test_unit_gpu_kinds_test_SOURCES = test/unit/gpu_kinds_test.c
test_unit_gpu_kinds_test_LDADD = libweft_rt.la
check_PROGRAMS += test/unit/gpu_fold_test
test_unit_gpu_fold_test_SOURCES = test/unit/gpu_fold_test.c
test_unit_gpu_fold_test_LDADD = libweft_rt.la -lm
EXTRA_DIST += test/unit/gpu_fold_kernel.cc test/unit/gpu_fold_kernel_test test/unit/gpu_push_kernel.cc test/unit/gpu_push_kernel_test \
	test/unit/gpu_registers_test
