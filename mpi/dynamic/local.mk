# SPDX-License-Identifier: BSD-3-Clause
core_sources += mpi/dynamic/names.c
