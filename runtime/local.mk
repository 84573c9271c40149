# SPDX-License-Identifier: BSD-3-Clause
rt_sources += runtime/base/err.h
