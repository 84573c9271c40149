# SPDX-License-Identifier: BSD-3-Clause
dist_noinst_HEADERS += test/unit/gpu_copy_dev.h
check_PROGRAMS += test/unit/gpu_copy_test
test_unit_gpu_copy_test_SOURCES = test/unit/gpu_copy_test.c test/unit/gpu_copy_dev.c
test_unit_gpu_copy_test_LDADD = libweft_rt.la
check_PROGRAMS += test/unit/gpu_launch_test
test_unit_gpu_launch_test_SOURCES = test/unit/gpu_launch_test.c test/unit/gpu_copy_dev.c
test_unit_gpu_launch_test_LDADD = libweft_rt.la
EXTRA_DIST += test/unit/gpu_move_kernel.cc test/unit/gpu_move_kernel_test
