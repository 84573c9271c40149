# SPDX-License-Identifier: BSD-3-Clause
core_sources += mpi/stream/stream.h mpi/stream/stream.c mpi/stream/comm.c mpi/stream/coll.c mpi/stream/p2p.c \
	mpi/stream/api.c
