# SPDX-License-Identifier: BSD-3-Clause
core_sources += mpi/core/mpi_int.h mpi/core/comm.h mpi/core/errh.h
core_sources += mpi/core/status.h
