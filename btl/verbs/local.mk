# SPDX-License-Identifier: BSD-3-Clause
# RDMA.  Only headers are needed, at build time: runtime/ib opens the library.
verbs_sources = btl/verbs/verbs.c btl/verbs/dev.c btl/verbs/lane.c btl/verbs/handshake.c \
	btl/verbs/dgram.c btl/verbs/alive.c btl/verbs/msg.c btl/verbs/rma.c
core_sources += btl/verbs/ops.h
dist_noinst_HEADERS += btl/verbs/verbs.h btl/verbs/dgram.h
if WITH_VERBS
core_sources += $(verbs_sources)
EXTRA_DIST += btl/verbs/none.c
if WITH_RDMACM
core_sources += btl/verbs/cm.c
EXTRA_DIST += btl/verbs/cm_none.c
else
core_sources += btl/verbs/cm_none.c
EXTRA_DIST += btl/verbs/cm.c
endif
else
core_sources += btl/verbs/none.c
EXTRA_DIST += $(verbs_sources) btl/verbs/cm.c btl/verbs/cm_none.c
endif
