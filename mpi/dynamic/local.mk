# SPDX-License-Identifier: BSD-3-Clause
core_sources += mpi/dynamic/link.h mpi/dynamic/link.c mpi/dynamic/port.h mpi/dynamic/port.c \
	mpi/dynamic/api.c mpi/dynamic/names.c mpi/dynamic/spawn.c mpi/dynamic/part.c
core_sources += mpi/dynamic/join.c
