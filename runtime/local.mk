# SPDX-License-Identifier: BSD-3-Clause
include runtime/base/local.mk
include runtime/boot/local.mk
include runtime/topo/local.mk
include runtime/gpu/local.mk
include runtime/mem/local.mk
include runtime/ib/local.mk
include runtime/layout/local.mk
include runtime/reduce/local.mk
include runtime/io/local.mk
