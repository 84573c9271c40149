# SPDX-License-Identifier: BSD-3-Clause
rt_sources += runtime/layout/layout.h runtime/layout/layout.c runtime/layout/pack.c \
	runtime/layout/copy.h runtime/layout/copy.c runtime/layout/pack_gpu.h runtime/layout/pack_gpu.c \
	runtime/layout/gpu_table.h runtime/layout/gpu_table.c \
	runtime/layout/runs.h runtime/layout/runs.c runtime/layout/serialize.h runtime/layout/serialize.c
