# SPDX-License-Identifier: BSD-3-Clause
core_sources += mpi/check/made.h mpi/check/made.c mpi/check/memory.h mpi/check/memory.c mpi/check/variable.h mpi/check/variable.c mpi/check/report.h mpi/check/report.c mpi/check/uses.h mpi/check/uses.c mpi/check/messages.h mpi/check/messages.c mpi/check/accesses.h mpi/check/accesses.c mpi/check/left.h mpi/check/left.c
