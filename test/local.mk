# SPDX-License-Identifier: BSD-3-Clause
include test/unit/local.mk
include test/fake/local.mk
include test/mpi/local.mk
include test/launch/local.mk
include test/bench/local.mk
include test/tool/local.mk
include test/gpu/local.mk
include test/rig/local.mk
include test/fortran/local.mk
include test/foreign/local.mk
include test/torch/local.mk
