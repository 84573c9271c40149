# SPDX-License-Identifier: BSD-3-Clause
# RDMA.  Only headers are needed, at build time: runtime/ib opens the library.
verbs_sources = btl/verbs/rail.c btl/verbs/dgram.c btl/verbs/peer.c btl/verbs/lane.c btl/verbs/alive.c btl/verbs/handshake.c \
	btl/verbs/msg.c btl/verbs/rma.c btl/verbs/poll.c btl/verbs/verbs.c
core_sources += btl/verbs/ops.h
dist_noinst_HEADERS += btl/verbs/format.h btl/verbs/rail.h btl/verbs/dgram.h btl/verbs/peer.h btl/verbs/lane.h btl/verbs/alive.h \
	btl/verbs/handshake.h btl/verbs/msg.h btl/verbs/rma.h btl/verbs/poll.h btl/verbs/cm.h btl/verbs/verbs.h
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
