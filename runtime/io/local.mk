# SPDX-License-Identifier: BSD-3-Clause
rt_sources += runtime/io/io.h runtime/io/posix.c runtime/io/pieces.c runtime/io/pool.c runtime/io/fs.c runtime/io/lustre.c runtime/io/gds.c
