# SPDX-License-Identifier: BSD-3-Clause
core_sources += mpi/datatype/type.h
