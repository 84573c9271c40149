# SPDX-License-Identifier: BSD-3-Clause
core_sources += mpi/io/hints.h mpi/io/hints.c mpi/io/datarep.h mpi/io/datarep.c mpi/io/calls.h mpi/io/calls.c mpi/io/file.h mpi/io/file.c \
	mpi/io/shared.h mpi/io/shared.c mpi/io/view.h mpi/io/view.c mpi/io/iop.h mpi/io/iop.c \
	mpi/io/device.h mpi/io/device.c mpi/io/convert.h mpi/io/convert.c mpi/io/indep.h mpi/io/indep.c \
	mpi/io/plan.h mpi/io/plan.c mpi/io/window.h mpi/io/window.c mpi/io/cop.h mpi/io/cop.c \
	mpi/io/onehost.h mpi/io/onehost.c mpi/io/twophase.h mpi/io/twophase.c \
	mpi/io/open.h mpi/io/open.c mpi/io/size.c mpi/io/info.c mpi/io/op.h mpi/io/op.c mpi/io/api_read.c mpi/io/api_write.c
dist_man_MANS += mpi/io/weft_file_hints.7
