# SPDX-License-Identifier: BSD-3-Clause
# Each engineer adds his lines; kernels are built by nvcc where configure found one.
rt_sources += runtime/gpu/gpu.h runtime/gpu/kernel.h runtime/gpu/driver.h runtime/gpu/gpu_int.h
rt_sources += runtime/gpu/copy.c runtime/gpu/copy.h runtime/gpu/model.c runtime/gpu/cost.def
