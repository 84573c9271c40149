# SPDX-License-Identifier: BSD-3-Clause
core_sources += mpi/pack/pack.c mpi/pack/external.c
