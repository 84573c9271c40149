# SPDX-License-Identifier: BSD-3-Clause
core_sources += mpi/tool/tool.h mpi/tool/pvar.h
core_sources += mpi/tool/tool.c mpi/tool/enum.c mpi/tool/cvar.c mpi/tool/pvar.c mpi/tool/session.c \
	mpi/tool/category.c mpi/tool/event.c
