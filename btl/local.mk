# SPDX-License-Identifier: BSD-3-Clause
core_sources += btl/btl.h btl/btl.c
core_sources += btl/self/self.h btl/self/self.c
core_sources += btl/shm/shm.h btl/shm/ring.h btl/shm/ring.c btl/shm/shm.c btl/shm/rma.c
include btl/cuda/local.mk
