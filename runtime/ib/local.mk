# SPDX-License-Identifier: BSD-3-Clause
# RDMA devices.  Only headers are needed, at build time: libibverbs is opened when MPI_Init finds a device.
ib_sources = runtime/ib/driver.c runtime/ib/hca.c runtime/ib/location.c runtime/ib/gid.c runtime/ib/dev.c runtime/ib/rail.c \
	runtime/ib/reg.c runtime/ib/flush.c runtime/ib/discover.c
# rdma_cm, for iWARP; likewise opened at run time.
cm_sources = runtime/ib/cm.c
dist_noinst_HEADERS += runtime/ib/cm.h runtime/ib/driver.h runtime/ib/dev.h runtime/ib/rail.h runtime/ib/ib.h
rt_sources += runtime/ib/discover.h
if WITH_VERBS
rt_sources += $(ib_sources)
EXTRA_DIST += runtime/ib/discover_none.c
if WITH_RDMACM
rt_sources += $(cm_sources)
EXTRA_DIST += runtime/ib/cm_none.c
else
rt_sources += runtime/ib/cm_none.c
EXTRA_DIST += $(cm_sources)
endif
else
rt_sources += runtime/ib/discover_none.c
EXTRA_DIST += $(ib_sources) $(cm_sources) runtime/ib/cm_none.c
endif
