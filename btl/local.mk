# SPDX-License-Identifier: BSD-3-Clause
core_sources += btl/btl.h btl/btl.c btl/all/all.h btl/all/all.c btl/region.h btl/region.c
core_sources += btl/self/self.h btl/self/self.c
core_sources += btl/shm/shm.h btl/shm/ring.h btl/shm/ring.c btl/shm/shm.c btl/shm/rma.c
core_sources += btl/tcp/tcp.h btl/tcp/frames.h btl/tcp/tcp.c btl/tcp/addr.c btl/tcp/conn.c btl/tcp/accept.c btl/tcp/timers.c btl/tcp/handshake.c \
	btl/tcp/frames.c btl/tcp/rma.c
include btl/cuda/local.mk
include btl/verbs/local.mk
