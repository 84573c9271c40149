# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += test/unit/gpu_pack_test
test_unit_gpu_pack_test_SOURCES = test/unit/gpu_pack_test.c
test_unit_gpu_pack_test_LDADD = libweft_rt.la -ldl
EXTRA_DIST += test/unit/gpu_kernel.cc test/unit/gpu_kernel_test
