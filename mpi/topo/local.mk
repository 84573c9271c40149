# SPDX-License-Identifier: BSD-3-Clause
core_sources += mpi/topo/topo.h mpi/topo/topo.c
