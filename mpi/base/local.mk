# SPDX-License-Identifier: BSD-3-Clause
core_sources += mpi/base/mpi_int.h mpi/base/err.h mpi/base/err.c mpi/base/status.h mpi/base/caller.h mpi/base/caller.c mpi/base/event.h mpi/base/event.c
core_sources += mpi/base/comm.h mpi/base/comm.c mpi/base/session.h mpi/base/session.c mpi/base/attr.h mpi/base/attr.c
