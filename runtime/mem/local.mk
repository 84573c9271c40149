# SPDX-License-Identifier: BSD-3-Clause
rt_sources += runtime/mem/segment.h runtime/mem/segment_int.h
rt_sources += runtime/mem/segment.c runtime/mem/segment_alloc.c runtime/mem/segment_apart.c runtime/mem/bell.c \
	runtime/mem/peer.h runtime/mem/peer.c
rt_sources += runtime/mem/activity.h runtime/mem/activity.c
rt_sources += runtime/mem/others.h runtime/mem/others.c
rt_sources += runtime/mem/deaths.h runtime/mem/deaths.c
rt_sources += runtime/mem/share.h runtime/mem/share.c runtime/mem/room.h runtime/mem/room.c
rt_sources += runtime/mem/watch.h runtime/mem/watch.c runtime/mem/maps.c runtime/mem/regcache.h runtime/mem/regcache.c
