# SPDX-License-Identifier: BSD-3-Clause
core_sources += btl/btl.h
