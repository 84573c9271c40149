# SPDX-License-Identifier: BSD-3-Clause
core_sources += mpi/p2p/domain.h mpi/p2p/p2p.h mpi/p2p/engine.h mpi/p2p/stats.h
core_sources += mpi/p2p/arrive.h mpi/p2p/arrive.c mpi/p2p/api_probe.c mpi/p2p/api_recv.c mpi/p2p/api_send.c mpi/p2p/api_sendrecv.c mpi/p2p/api_wait.h mpi/p2p/api_wait.c
core_sources += mpi/p2p/buffered.h mpi/p2p/buffered.c mpi/p2p/cancel.h mpi/p2p/cancel.c mpi/p2p/checks.h mpi/p2p/choose.h mpi/p2p/choose.c \
	mpi/p2p/chunks.h mpi/p2p/chunks.c mpi/p2p/control.h mpi/p2p/control.c mpi/p2p/create.h mpi/p2p/create.c mpi/p2p/describe.h mpi/p2p/describe.c mpi/p2p/device.h mpi/p2p/device.c mpi/p2p/domain.c mpi/p2p/ended.h mpi/p2p/ended.c mpi/p2p/failed.h mpi/p2p/failed.c mpi/p2p/flow.h mpi/p2p/flow.c mpi/p2p/lane.h mpi/p2p/lane.c mpi/p2p/left.h mpi/p2p/left.c \
	mpi/p2p/malformed.h mpi/p2p/malformed.c mpi/p2p/match.h mpi/p2p/match.c mpi/p2p/pack_any.h mpi/p2p/pack_any.c mpi/p2p/part.h mpi/p2p/part.c mpi/p2p/part_describe.c mpi/p2p/part_api.c \
	mpi/p2p/persistent.h mpi/p2p/persistent.c mpi/p2p/pieces.h mpi/p2p/pieces.c mpi/p2p/pipe.h mpi/p2p/pipe.c mpi/p2p/progress.h mpi/p2p/progress.c mpi/p2p/recv.h mpi/p2p/recv.c mpi/p2p/request.h mpi/p2p/request.c mpi/p2p/resolve.h mpi/p2p/resolve.c mpi/p2p/revoke.h mpi/p2p/revoke.c \
	mpi/p2p/rndv.h mpi/p2p/rndv.c mpi/p2p/scattered.h mpi/p2p/scattered.c mpi/p2p/send.h mpi/p2p/send.c mpi/p2p/staging.h mpi/p2p/staging.c mpi/p2p/transfer.h mpi/p2p/transfer.c mpi/p2p/wait.h mpi/p2p/wait_int.h mpi/p2p/wait.c mpi/p2p/wait_note.c mpi/p2p/wait_sleep.c mpi/p2p/wait_lanes.c mpi/p2p/polled.c
