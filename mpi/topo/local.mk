# SPDX-License-Identifier: BSD-3-Clause
core_sources += mpi/topo/topo.h mpi/topo/topo.c mpi/topo/make.h mpi/topo/make.c mpi/topo/order.h \
	mpi/topo/order.c mpi/topo/cart.c mpi/topo/dims.c mpi/topo/graph.c mpi/topo/dist.c mpi/topo/neighbor.c
