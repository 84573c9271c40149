# SPDX-License-Identifier: BSD-3-Clause
dist_man_MANS += mpi/rma/weft_device_windows.7
exampledir = $(docdir)/examples
dist_example_DATA = docs/examples/device_window.cu docs/examples/notified_puts.cu
core_sources += mpi/rma/acc.h mpi/rma/acc_device.h mpi/rma/api.h \
	mpi/rma/checked.h mpi/rma/cma.h mpi/rma/create.h mpi/rma/ctl.h mpi/rma/direct.h mpi/rma/element.h mpi/rma/epoch.h mpi/rma/flush.h mpi/rma/format.h \
	mpi/rma/info.h mpi/rma/lock.h mpi/rma/map.h mpi/rma/message.h mpi/rma/net.h mpi/rma/notify.h mpi/rma/op.h \
	mpi/rma/origin.h mpi/rma/path.h mpi/rma/progress.h mpi/rma/queue.h mpi/rma/quick.h mpi/rma/quick_calls.h mpi/rma/range.h mpi/rma/rma.h \
	mpi/rma/sync.h mpi/rma/target.h mpi/rma/type.h mpi/rma/windows.h \
	mpi/rma/acc.c mpi/rma/acc_bulk.c mpi/rma/acc_device.c mpi/rma/acc_origin.c mpi/rma/alloc.c mpi/rma/am.c mpi/rma/answer.c \
	mpi/rma/api.c mpi/rma/checked.c mpi/rma/cma.c mpi/rma/create.c mpi/rma/direct.c mpi/rma/element.c mpi/rma/epoch.c mpi/rma/flush.c \
	mpi/rma/info.c mpi/rma/lock.c mpi/rma/map.c mpi/rma/message.c mpi/rma/net.c mpi/rma/notify.c mpi/rma/op.c mpi/rma/origin.c \
	mpi/rma/path.c mpi/rma/progress.c mpi/rma/queue.c mpi/rma/quick.c mpi/rma/range.c mpi/rma/serve.c mpi/rma/sync.c mpi/rma/target.c \
	mpi/rma/type.c mpi/rma/windows.c
