# SPDX-License-Identifier: BSD-3-Clause
core_sources += mpi/tool/tool.h mpi/tool/cvar.h mpi/tool/event.h mpi/tool/pvar.h
core_sources += mpi/tool/tool.c mpi/tool/enum.c mpi/tool/cvar.c mpi/tool/pvar.c mpi/tool/pvar_session.h mpi/tool/pvar_session.c \
	mpi/tool/category.c mpi/tool/event.c
