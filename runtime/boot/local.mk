# SPDX-License-Identifier: BSD-3-Clause
rt_sources += runtime/boot/boot.h runtime/boot/boot.c runtime/boot/nodes.c runtime/boot/cpus.c runtime/boot/dead.h runtime/boot/dead.c runtime/boot/store.h runtime/boot/store.c runtime/boot/pmi.h runtime/boot/pmi.c runtime/boot/launched.h runtime/boot/launched.c runtime/boot/spawn.c runtime/boot/jobs.h \
	runtime/boot/jobs.c runtime/boot/frame.h runtime/boot/frame.c runtime/boot/serve.h runtime/boot/serve.c
