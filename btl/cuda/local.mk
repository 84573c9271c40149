# SPDX-License-Identifier: BSD-3-Clause
core_sources += btl/cuda/cuda.h btl/cuda/cuda.c btl/cuda/table.c btl/cuda/cache.c btl/cuda/fd.c
