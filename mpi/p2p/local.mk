# SPDX-License-Identifier: BSD-3-Clause
core_sources += mpi/p2p/domain.h mpi/p2p/p2p.h mpi/p2p/match.h
