# SPDX-License-Identifier: BSD-3-Clause
core_sources += btl/btl.h btl/btl.c btl/all/all.h btl/all/all.c btl/region.h btl/region.c
core_sources += btl/self/self.h btl/self/self.c
core_sources += btl/shm/shm.h btl/shm/ring.h btl/shm/ring.c btl/shm/shm.c btl/shm/rma.c btl/shm/guest.c
core_sources += btl/tcp/format.h btl/tcp/tcp.h btl/tcp/addr.h btl/tcp/addr.c btl/tcp/conn.h btl/tcp/conn.c \
	btl/tcp/handshake.h btl/tcp/handshake.c btl/tcp/out.h btl/tcp/out.c btl/tcp/rma.h btl/tcp/rma.c btl/tcp/disconnect.h btl/tcp/disconnect.c \
	btl/tcp/connect.h btl/tcp/connect.c btl/tcp/accept.h btl/tcp/accept.c btl/tcp/in.h btl/tcp/in.c btl/tcp/send.h btl/tcp/send.c \
	btl/tcp/timers.h btl/tcp/timers.c btl/tcp/tcp.c
include btl/cuda/local.mk
include btl/verbs/local.mk
