# SPDX-License-Identifier: BSD-3-Clause
core_sources += mpi/core/errcode.h mpi/core/errcode.c mpi/core/state.h mpi/core/state.c mpi/core/errh.h mpi/core/errh.c \
	mpi/core/session.h mpi/core/session.c mpi/core/info.h mpi/core/info.c mpi/core/lanes.h mpi/core/lanes.c mpi/core/group.h mpi/core/group.c
core_sources += mpi/core/ctx.h mpi/core/ctx.c mpi/core/comm.h mpi/core/comm.c mpi/core/win.h mpi/core/win.c \
	mpi/core/file.h mpi/core/file.c mpi/core/raise.h mpi/core/raise.c mpi/core/alloc.h mpi/core/alloc.c
core_sources += mpi/core/attr.c mpi/core/abi.c mpi/core/status.c mpi/core/grequest.c
core_sources += mpi/core/commnew.h mpi/core/commnew.c mpi/core/shrink.h mpi/core/shrink.c mpi/core/split.h mpi/core/split.c mpi/core/api_create.c \
	mpi/core/idup.h mpi/core/idup.c mpi/core/inter.h mpi/core/inter.c mpi/core/session_comm.h mpi/core/session_comm.c
core_sources += mpi/core/life.h mpi/core/life.c mpi/core/helper.h mpi/core/helper.c mpi/core/init.h mpi/core/init.c mpi/core/api_session.c
