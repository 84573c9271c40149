# SPDX-License-Identifier: BSD-3-Clause
rt_sources += runtime/base/err.h
rt_sources += runtime/base/copy.h
include runtime/boot/local.mk
