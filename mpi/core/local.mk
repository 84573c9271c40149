# SPDX-License-Identifier: BSD-3-Clause
core_sources += mpi/core/comm.h mpi/core/errh.h mpi/core/errcode.h mpi/core/status.c mpi/core/alloc.h mpi/core/alloc.c
core_sources += mpi/core/attr.c mpi/core/ctx.h mpi/core/group.h mpi/core/info.h mpi/core/idup.h mpi/core/split.h
core_sources += mpi/core/abi.c mpi/core/comm.c mpi/core/commnew.c mpi/core/ctx.c mpi/core/errcode.c \
	mpi/core/errh.c mpi/core/group.c mpi/core/info.c mpi/core/init.h mpi/core/init.c mpi/core/idup.c mpi/core/grequest.c
core_sources += mpi/core/commnew.h mpi/core/split.c mpi/core/inter.h mpi/core/inter.c
core_sources += mpi/core/life.h mpi/core/life.c mpi/core/session.h mpi/core/session.c \
	mpi/core/session_comm.h mpi/core/session_comm.c mpi/core/win.h mpi/core/win.c
core_sources += mpi/core/file.h mpi/core/file.c
