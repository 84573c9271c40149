# SPDX-License-Identifier: BSD-3-Clause
core_sources += mpi/stream/stream.h mpi/stream/stream.c mpi/stream/comm.c mpi/stream/coll.c mpi/stream/push.c mpi/stream/eager.c mpi/stream/turn.c \
	mpi/stream/proxy.c mpi/stream/p2p.c mpi/stream/window.c mpi/stream/api.c mpi/stream/api_coll.c mpi/stream/api_window.c
dist_man_MANS += mpi/stream/MPIX_Stream_create.3 mpi/stream/MPIX_Send_enqueue.3 mpi/stream/MPIX_Allreduce_enqueue.3 mpi/stream/MPIX_Put_enqueue.3
