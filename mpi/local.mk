# SPDX-License-Identifier: BSD-3-Clause
include mpi/api/local.mk
include mpi/base/local.mk
include mpi/core/local.mk
include mpi/check/local.mk
include mpi/coll/local.mk
include mpi/ft/local.mk
include mpi/datatype/local.mk
include mpi/p2p/local.mk
include mpi/pack/local.mk
include mpi/topo/local.mk
include mpi/tool/local.mk
include mpi/stream/local.mk
include mpi/io/local.mk
include mpi/fortran/local.mk
include mpi/rma/local.mk
include mpi/foreign/local.mk
include mpi/dynamic/local.mk
