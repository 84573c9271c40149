# SPDX-License-Identifier: BSD-3-Clause
dist_man_MANS += mpi/rma/weft_device_windows.7
exampledir = $(docdir)/examples
dist_example_DATA = docs/examples/device_window.cu docs/examples/notified_puts.cu
core_sources += mpi/rma/rma.h mpi/rma/ctl.h mpi/rma/format.h mpi/rma/cma.h mpi/rma/create.h mpi/rma/path.h mpi/rma/quick.h \
	mpi/rma/acc.c mpi/rma/acc_bulk.c mpi/rma/acc_device.c mpi/rma/acc_origin.c mpi/rma/alloc.c mpi/rma/am.c mpi/rma/cma.c mpi/rma/create.c mpi/rma/direct.c mpi/rma/element.c mpi/rma/epoch.c \
	mpi/rma/flush.c mpi/rma/helper.c mpi/rma/info.c mpi/rma/lock.c mpi/rma/map.c mpi/rma/net.c mpi/rma/notify.c mpi/rma/op.c mpi/rma/path.c mpi/rma/progress.c mpi/rma/quick.c mpi/rma/serve.c \
	mpi/rma/sync.c mpi/rma/target.c mpi/rma/type.c
