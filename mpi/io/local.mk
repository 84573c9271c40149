# SPDX-License-Identifier: BSD-3-Clause
core_sources += mpi/io/file.h mpi/io/file.c mpi/io/open.c mpi/io/hints.h mpi/io/hints.c mpi/io/size.c \
	mpi/io/view.h mpi/io/view.c mpi/io/op.h mpi/io/op.c mpi/io/indep.c mpi/io/device.c \
	mpi/io/datarep.h mpi/io/datarep_int.h mpi/io/datarep.c mpi/io/convert.c \
	mpi/io/plan.h mpi/io/plan.c mpi/io/window.h mpi/io/window.c mpi/io/twophase.h mpi/io/twophase.c \
	mpi/io/refuse.h mpi/io/shared.h mpi/io/shared.c mpi/io/split.c \
	mpi/io/api_read.c mpi/io/api_write.c
