# SPDX-License-Identifier: BSD-3-Clause
core_sources += mpi/ft/ft.h mpi/ft/ft.c mpi/ft/revoke.h mpi/ft/revoke.c mpi/ft/agree.h mpi/ft/agree.c
