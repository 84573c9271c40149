# SPDX-License-Identifier: BSD-3-Clause
rt_sources += runtime/reduce/reduce.h runtime/reduce/kernel.h runtime/reduce/reduce.c runtime/reduce/kernel_int.c \
	runtime/reduce/kernel_float.c runtime/reduce/kernel_pair.c \
	runtime/reduce/kernel_wide.c runtime/reduce/gpu_codes.h runtime/reduce/gpu_codes.c
